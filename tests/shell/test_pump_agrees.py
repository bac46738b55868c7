"""The pump where the disk is ahead of the notices: in the end the records alone tell the disk."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from pumping import Scene, play
from story import Story

from provd.core.notice import Appeared, Moved, Notice, Touched, What
from provd.core.records import DigestState, Hashed, Mutation
from provd.disk import states
from provd.disk.states import Sum, Summed
from provd.recorder import doubts, hashing, mutations

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

C, M, D = What.CREATED, What.MODIFIED, What.DELETED


def made(scene: Scene, name: str) -> list[Notice]:
    """What tells of a new directory."""
    return [Touched(scene.path(name), C, True), Appeared(scene.path(name))]


def check(tmp_path: Path, do: Callable[[Scene], list[Notice]], *there: str, batch: int = 512) -> None:
    """`do` changes the disk and gives what is told of it, all of it afterwards; `there` is what was there before."""

    async def body(scene: Scene) -> None:
        head = await scene.begin(*there)
        before = list(scene.table())
        scene.watcher.tell(*do(scene))
        with mock.patch.object(mutations, "BATCH", batch):
            assert await scene.pump.recorded()
            assert Story(before).follow(scene.records(head)).differs(scene.root, digests=False) == []
            await scene.pump.settled()
        records = scene.records(head)
        assert Story(before).follow(records).differs(scene.root) == []
        pending = [at for at, r in records if isinstance(r, Mutation) and r.digest_state is DigestState.PENDING]
        assert sorted(r.of for _, r in records if isinstance(r, Hashed)) == sorted(pending)

    play(tmp_path, body)


def test_a_file_whose_directory_was_renamed_has_size_and_digest(tmp_path: Path) -> None:
    for batch in (1, 2, 3, 512):

        def do(scene: Scene) -> list[Notice]:
            scene.write("d/f", b"content")
            os.rename(scene.path("d"), scene.path("e"))
            f = scene.path("d/f")
            return [*made(scene, "d"), Touched(f, C), Touched(f, M), Moved(scene.path("d"), scene.path("e"), True)]

        check(tmp_path / str(batch), do, batch=batch)


@pytest.mark.parametrize("written", [False, True], ids=["as it was", "written"])
def test_what_was_touched_before_its_directory_was_renamed_is_read_again(tmp_path: Path, written: bool) -> None:
    def do(scene: Scene) -> list[Notice]:
        if written:
            scene.write("d/f", b"other content")
        os.rename(scene.path("d"), scene.path("e"))
        return [Touched(scene.path("d/f"), M), Moved(scene.path("d"), scene.path("e"), True)]

    for batch in (1, 512):
        check(tmp_path / str(batch), do, "d/f", batch=batch)


def test_directories_of_a_tree_that_was_renamed_at_once_are_all_told(tmp_path: Path) -> None:
    def do(scene: Scene) -> list[Notice]:
        for number in range(8):
            scene.write(f"staging/lib/part{number % 4}/f{number}")
        os.rename(scene.path("staging"), scene.path("final"))
        inside = [notice for part in range(4) for notice in made(scene, f"staging/lib/part{part}")]
        moved = Moved(scene.path("staging"), scene.path("final"), True)
        late = [Appeared(scene.path(f"final/lib/part{part}")) for part in (2, 0)]  # before the ones above are told
        return [*made(scene, "staging"), *made(scene, "staging/lib"), *inside, moved, *late]

    for batch in (1, 3, 5, 512):
        check(tmp_path / str(batch), do, batch=batch)


def test_what_is_listed_before_the_directories_above_are_told_leaves_none_of_them_out(tmp_path: Path) -> None:
    def do(scene: Scene) -> list[Notice]:
        scene.write("staging/lib/part/f")
        os.rename(scene.path("staging"), scene.path("final"))
        move = Moved(scene.path("staging"), scene.path("final"), True)
        below = [
            Appeared(scene.path("final/lib/part")),
            Appeared(scene.path("final/lib")),
            Appeared(scene.path("final")),
        ]
        return [*made(scene, "staging"), move, *below]

    for batch in (1, 2, 512):
        check(tmp_path / str(batch), do, batch=batch)


def test_a_directory_that_nobody_knew_is_told_wholly_though_it_is_moved_on(tmp_path: Path) -> None:
    def do(scene: Scene) -> list[Notice]:
        scene.write("d/e/f")
        os.rename(scene.path("d"), scene.path("e"))
        return [Touched(scene.path("d"), M, True), Moved(scene.path("d"), scene.path("e"), True)]

    for batch in (1, 512):
        check(tmp_path / str(batch), do, batch=batch)


def test_two_directories_that_changed_places_keep_apart(tmp_path: Path) -> None:
    def do(scene: Scene) -> list[Notice]:
        scene.write("a/f", b"written in a")
        os.rename(scene.path("a"), scene.path("t"))
        os.rename(scene.path("b"), scene.path("a"))
        os.rename(scene.path("t"), scene.path("b"))
        moves = [("a", "t"), ("b", "a"), ("t", "b")]
        return [Touched(scene.path("a/f"), M), *(Moved(scene.path(s), scene.path(p), True) for s, p in moves)]

    for batch in (1, 2, 512):
        check(tmp_path / str(batch), do, "a/f", "a/only", "b/f", batch=batch)


def test_a_move_before_the_look_does_not_take_its_doubt_away(tmp_path: Path) -> None:
    """The name of a directory that was moved is given to another one, which is moved on in the next batch."""

    def do(scene: Scene) -> list[Notice]:
        scene.write("z/x/new")  # before anybody watched it: it is found by listing
        for source, path in (("a", "b"), ("z", "a"), ("a", "c")):
            os.rename(scene.path(source), scene.path(path))
        moves = [Moved(scene.path(s), scene.path(p), True) for s, p in (("a", "b"), ("z", "a"), ("a", "c"))]
        return [*moves[:2], Appeared(scene.path("a/x")), moves[2]]

    check(tmp_path, do, "a/x/f", "z/x/f", batch=3)


def test_what_a_listing_found_before_its_move_was_told_is_told_in_its_new_place(tmp_path: Path) -> None:
    def do(scene: Scene) -> list[Notice]:
        os.mkdir(scene.path("to"))
        scene.write("from/sub/new")
        os.rename(scene.path("from"), scene.path("to/d"))
        move = Moved(scene.path("from"), scene.path("to/d"), True)
        early = [Appeared(scene.path("to/d")), Appeared(scene.path("to/d/sub"))]
        return [*made(scene, "to"), *early, Touched(scene.path("from/sub/new"), C), move]

    for batch in (1, 2, 4, 512):
        check(tmp_path / str(batch), do, "from/f", "from/sub/f", batch=batch)


def test_what_was_told_and_is_gone_without_another_word_is_told_as_deleted(tmp_path: Path) -> None:
    def do(scene: Scene) -> list[Notice]:
        shutil.rmtree(scene.path("d"))
        return [Touched(scene.path("never"), C), Touched(scene.path("d/f"), M), Touched(scene.path("d"), M, True)]

    check(tmp_path, do, "d/f", "d/g")


def test_what_a_listing_told_is_not_told_as_created_again(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin()
        scene.write("d/e/f")
        d = made(scene, "d")
        late = [*made(scene, "d/e"), Touched(scene.path("d/e/f"), C), Touched(scene.path("d/e/f"), M)]
        scene.watcher.tell(*d, *late)
        with mock.patch.object(mutations, "BATCH", 2):
            await scene.pump.settled()
        found = scene.mutations(head)
        assert found == [("created", "d"), ("created", "d/e"), ("created", "d/e/f"), ("modified", "d/e/f")]
        scene.watcher.tell(Touched(scene.path("d/e"), C, True))  # nothing waited: that is another one
        await scene.pump.settled()
        assert scene.mutations(head)[4:] == [("created", "d/e")]

    play(tmp_path, body)


def test_a_file_that_is_gone_when_it_is_read_is_looked_for(tmp_path: Path) -> None:
    """Its directory was moved, and nothing of that has come yet."""

    async def body(scene: Scene) -> None:
        head = await scene.begin("f")
        scene.write("f", b"new")
        scene.touch("f")
        real, tries = states.summed, []

        def summed(path: bytes, most: int, tick: float) -> Summed:
            tries.append(path)
            return Summed(Sum.GONE) if len(tries) == 1 else real(path, most, tick)

        with mock.patch.object(hashing, "summed", summed):
            await scene.pump.settled()
        found = [r.digest_state for r in scene.hashed()]
        assert found == [DigestState.UNREADABLE, DigestState.DONE]
        assert Story([scene.path("f")]).follow(scene.records(head)).differs(scene.root) == []

    play(tmp_path, body)


def test_where_directories_are_moved_all_the_time_a_gap_lets_the_barrier_pass(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("a/f")
        scene.write("a/g")
        take = scene.watcher.take
        here = ["a", "b"]

        def moving(limit: int) -> list[Notice]:
            """Whenever somebody has asked, the directory gets another name."""
            notices: list[Notice] = take(limit)
            if not scene.gaps():
                os.rename(scene.path(here[0]), scene.path(here[1]))
                scene.watcher.tell(Moved(scene.path(here[0]), scene.path(here[1]), True))
                here.reverse()
            return notices

        scene.touch("a/h", C)
        scene.watcher.tell(Appeared(scene.path("a")))
        with (
            mock.patch.object(scene.watcher, "take", moving),
            mock.patch.object(doubts, "ROUNDS", 2),
        ):
            assert await scene.pump.recorded(30)
            [(place, why), *_] = scene.gaps()
            assert place in {"a", "b", "a/h", "b/h"}
            assert why == "it was moved each time it was looked at"
        await scene.pump.settled()
        assert scene.row(f"{here[0]}/g") is not None

    play(tmp_path, body)
