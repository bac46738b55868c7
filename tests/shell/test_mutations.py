"""The pump on a real directory and a real store: what is told becomes records and rows."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from pumping import DONE, SUPERSEDED, A, C, D, M, Scene, on_disk, play, same

from provd.core.notice import Appeared, Moved, Touched
from provd.core.records import Actor, Hashed, Mutation, Origin
from provd.recorder import following, looking
from provd.store.keys import OpenAction

if TYPE_CHECKING:
    from pathlib import Path

    from provd.core.notice import What
    from provd.store import Writer


# kinds against the table


def test_a_rename_over_a_file_supersedes_both(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("a")
        scene.pump.rest = 3600
        scene.write("tmp", b"new")
        scene.touch("tmp", C)
        scene.touch("a")
        await scene.pump.recorded()
        head = scene.store.head
        os.rename(scene.path("tmp"), scene.path("a"))
        scene.watcher.tell(Moved(scene.path("tmp"), scene.path("a")))
        await scene.pump.recorded()
        moved, *superseded = [r for _, r in scene.records(head)]
        assert isinstance(moved, Mutation)
        assert (moved.kind, moved.path, moved.source) == ("moved", scene.path("a"), scene.path("tmp"))
        assert {(r.of, r.digest_state) for r in superseded if isinstance(r, Hashed)} == {
            (head - 1, SUPERSEDED),
            (head, SUPERSEDED),
        }
        assert same(scene.table(), on_disk(scene.root))

    play(tmp_path, body)


def test_rows_below_a_directory_that_is_gone_stay_until_its_own_notice(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("d/a", "d/b")
        scene.touch("d/a")
        shutil.rmtree(scene.path("d"))
        await scene.pump.recorded()
        assert scene.mutations(head) == [("modified", "d/a"), ("deleted", "d/a")]  # what was named was looked for
        assert scene.row("d/b") is not None
        scene.touch("d", D, is_dir=True)
        await scene.pump.recorded()
        assert scene.mutations(head)[2:] == [("deleted", "d/b"), ("deleted", "d")]
        assert scene.table() == {}

    play(tmp_path, body)


def test_a_directory_goes_in_slices_and_the_barrier_waits_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "BUDGET", 10)

    async def body(scene: Scene) -> None:
        names = [f"d/{n % 3}/{n}" for n in range(50)]
        head = await scene.begin(*names, "e")
        shutil.rmtree(scene.path("d"))
        scene.touch("d", D, is_dir=True)
        scene.touch("e")
        with mock.patch.object(scene.store, "submit", wraps=scene.store.submit) as submit:
            assert await scene.pump.recorded()
        assert submit.call_count > 5
        told = scene.mutations(head)
        assert sorted(told[:-2]) == sorted(("deleted", name) for name in (*names, "d/0", "d/1", "d/2"))
        assert told[-2:] == [("deleted", "d"), ("modified", "e")]
        for below in ("0", "1", "2"):
            assert told.index(("deleted", f"d/{below}")) > max(
                told.index(("deleted", n)) for n in names if n.startswith(f"d/{below}/")
            )

    play(tmp_path, body)


def test_a_moved_directory_is_one_record_and_what_waits_below_is_hashed_there(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("d/e/a")
        scene.pump.rest = 3600
        scene.touch("d/e/a")
        await scene.pump.recorded()
        head = scene.store.head
        os.rename(scene.path("d"), scene.path("z"))
        scene.watcher.tell(Moved(scene.path("d"), scene.path("z"), True))
        await scene.pump.recorded()
        waiting = scene.pump.hashing._waiting
        waiting.update({of: one._replace(due=0) for of, one in waiting.items()})
        await scene.pump.settled()
        assert scene.mutations(head) == [("moved", "z")]
        assert [(r.path, r.digest_state) for r in scene.hashed()] == [(scene.path("z/e/a"), DONE)]

    play(tmp_path, body)


def test_a_directory_that_appeared_is_listed_with_one_record_a_path(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("old")
        for name in ("d/a", "d/b"):
            scene.write(name)
        scene.watcher.tell(Touched(scene.path("d"), C, True), Appeared(scene.path("d"), "it was empty and had changed"))
        scene.touch("d/b", C)
        scene.touch("d/b")
        scene.touch("d/gone", C)
        scene.touch("d/gone", D)
        await scene.pump.settled()
        assert scene.mutations(head) == [
            ("created", "d"),
            ("created", "d/a"),
            ("created", "d/b"),
            ("deleted", "d/gone"),
        ]
        assert scene.gaps() == [("d", f"{looking.MISSED}: it was empty and had changed")]
        head = scene.store.head
        os.unlink(scene.path("d/a"))
        scene.write("d/b", b"other")
        scene.watcher.tell(Appeared(scene.path("d")))
        await scene.pump.settled()
        assert scene.mutations(head) == [("modified", "d/b"), ("deleted", "d/a")]

    play(tmp_path, body)


@pytest.mark.parametrize("what", [M, A])
def test_the_first_that_is_told_of_a_name_is_that_it_was_made(tmp_path: Path, what: What) -> None:
    """Its directory was not watched yet when it was made: that it changed after is all that the system tells."""

    async def body(scene: Scene) -> None:
        head = await scene.begin("old")
        scene.write("d/g")
        scene.touch("d", C, is_dir=True)
        scene.touch("d/g", what)
        scene.touch("old", what)
        scene.watcher.tell(Appeared(scene.path("d")))
        await scene.pump.recorded()
        told = scene.mutations(head)
        assert told[:2] == [("created", "d"), ("created", "d/g")]
        assert [kind for kind, name in told if name == "old"] == [what]
        assert same(scene.table(), on_disk(scene.root))

    play(tmp_path, body)


def test_names_that_are_exchanged_are_both_known(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("a/x", "b/y")
        for one, two in ((b"a", b"t"), (b"b", b"a"), (b"t", b"b")):
            os.rename(scene.root + b"/" + one, scene.root + b"/" + two)
        a, b = scene.path("a"), scene.path("b")
        scene.watcher.tell(Moved(a, b, True), Moved(b, a, True))
        await scene.pump.settled()
        assert same(scene.table(), on_disk(scene.root))

    play(tmp_path, body)


def test_what_comes_from_a_place_that_was_not_known_is_told(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("a")
        scene.write("d/e/x")
        scene.watcher.tell(Moved(scene.path("unknown"), scene.path("d"), True))
        await scene.pump.settled()
        assert scene.mutations(head) == [("moved", "d"), ("created", "d/e"), ("created", "d/e/x")]
        assert same(scene.table(), on_disk(scene.root))

    play(tmp_path, body)


def test_what_is_there_though_it_was_deleted_is_looked_at_again(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("a")
        scene.touch("a", D)
        await scene.pump.settled()
        assert scene.mutations(head) == [("deleted", "a"), ("created", "a")]
        assert same(scene.table(), on_disk(scene.root))

    play(tmp_path, body)


# own places, attribution


def test_the_daemons_own_places_are_never_told(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        scene.pump = scene.new_pump(own=(scene.path("state"), scene.path("sock")))
        scene.write("state/log")
        scene.write("sock")
        await scene.begin("a")
        scene.watcher.tell(Touched(scene.path("state/log"), M), Appeared(scene.root))
        await scene.pump.settled()
        assert scene.mutations() == []
        assert set(scene.table()) == {scene.path("a")}
        os.unlink(scene.path("sock"))
        scene.watcher.tell(Touched(scene.path("sock"), D))
        await scene.pump.settled()
        assert scene.mutations() == [("deleted", "sock")], "its name is in a listing"

    play(tmp_path, body)


def test_a_mutation_belongs_to_the_newest_action_that_names_it(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("d/a", "d/e/b", "c")

        def command(writer: Writer) -> None:
            for at, who, name in ((5, "old", "d"), (6, "new", "d/e"), (7, "other", "x/y")):
                writer.put_action(OpenAction(at, 1, (), (), (scene.path(name),), session=who, turn=at))

        await scene.store.submit(command)
        for name in ("d/a", "d/e/b", "c", "d/e", "d"):
            scene.touch(name, A, is_dir=name in {"d", "d/e"})
        scene.watcher.tell(Moved(scene.path("x"), scene.path("z"), True), Moved(scene.path("d/a"), scene.path("q")))
        await scene.pump.recorded()
        told = [r for _, r in scene.records() if isinstance(r, Mutation) and r.origin is Origin.WATCH]
        found = {scene.name(r.path): r.actor for r in told}
        old, new, other = Actor("old", 5, 5), Actor("new", 6, 6), Actor("other", 7, 7)
        assert found == {"d/a": old, "d/e/b": new, "c": Actor(), "d/e": new, "d": new, "z": other, "q": old}

    play(tmp_path, body)
