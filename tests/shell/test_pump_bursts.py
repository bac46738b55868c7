"""The pump in a burst: what happens together is recorded together, with the digests that can be had by then."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import xxhash
from msgspec import structs
from pumping import DONE, PENDING, SUPERSEDED, Scene, digest, play

from provd.core.mutation import State
from provd.core.notice import Appeared, What
from provd.core.records import Hashed, Mutation, Origin
from provd.disk import states
from provd.recorder import hashing, mutations, waking

if TYPE_CHECKING:
    from pathlib import Path

_OLD = states.TICK * 2


async def unasked(scene: Scene, age: float = _OLD) -> None:
    """Has the pump record what was told while nobody waits for it, when the newest file is `age` seconds old."""
    newest = max(entry.stat().st_ctime_ns for entry in os.scandir(scene.root))
    with mock.patch.object(states, "coarse_clock", return_value=newest + int(age * 1e9)):
        scene.pump.kick()
        assert scene.pump._task is not None
        await scene.pump._task


def states_told(scene: Scene, head: int) -> dict[str, Any]:
    return {scene.name(r.path): r.digest_state for _, r in scene.records(head) if isinstance(r, Mutation)}


def test_a_small_file_at_rest_is_recorded_with_its_digest(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("a", "big")
        scene.pump.rest = 3600
        path = scene.write("a", b"new")
        scene.write("big", b"x" * (mutations.AT_ONCE + 1))
        scene.touch("a")
        scene.touch("big")
        await unasked(scene)
        assert states_told(scene, head) == {"a": DONE, "big": PENDING}
        [told] = [r for _, r in scene.records(head) if isinstance(r, Mutation) and r.path == path]
        assert told.digest == digest(b"new")
        row = scene.row("a")
        assert row is not None
        assert (row.pending, row.digest, row.state) == (False, xxhash.xxh3_128_digest(b"new"), states.look(path))
        assert scene.pump.behind == 1

    play(tmp_path, body)


def test_a_file_that_was_just_written_is_hashed_later(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("a")
        scene.pump.rest = 3600
        scene.write("a", b"new")
        scene.touch("a")
        await unasked(scene, states.TICK / 2)
        assert states_told(scene, head) == {"a": PENDING}

    play(tmp_path, body)


def test_who_waits_for_the_record_does_not_wait_for_the_digest(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("a")
        scene.write("a", b"new")
        scene.touch("a")
        assert await scene.pump.recorded()
        assert states_told(scene, head) == {"a": PENDING}

    play(tmp_path, body)


def test_a_file_that_changes_while_it_is_read_has_no_digest_yet(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("a")
        scene.pump.rest = 3600
        path = scene.write("a", b"new")
        scene.touch("a")
        real = states._digest

        def reading(*arguments: Any) -> Any:
            found = real(*arguments)
            scene.write("a", b"newer")
            return found

        with mock.patch.object(states, "_digest", reading):
            await unasked(scene)
        assert states_told(scene, head) == {"a": PENDING}
        row = scene.row("a")
        assert row is not None
        assert (row.pending, row.digest) == (True, b"")
        assert row.state.size == len(b"new") != os.stat(path).st_size, "as it was looked at; the next notice tells more"

    play(tmp_path, body)


def test_what_a_new_directory_holds_is_recorded_with_its_digests(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin()
        scene.write("d/a", b"new")
        scene.touch("d", What.CREATED, is_dir=True)
        scene.watcher.tell(Appeared(scene.path("d")))
        await unasked(scene, 0.9)
        assert states_told(scene, head) == {"d": None, "d/a": DONE}
        assert scene.of("d/a")[0].digest == digest(b"new")

    play(tmp_path, body)


def test_a_file_that_is_just_being_cut_short_is_read_again(tmp_path: Path) -> None:
    """Its size is new and its times are old: that is no state, and what comes next is told by its notice."""

    async def body(scene: Scene) -> None:
        head = await scene.begin("a")
        path = scene.write("a", b"new")
        real, reads = states.summed, []

        def summing(*arguments: Any) -> states.Summed:
            found = real(*arguments)
            reads.append(found)
            assert found.state is not None
            cut = structs.replace(found.state, size=0)
            return found if len(reads) > 1 else structs.replace(found, state=cut, digest=xxhash.xxh3_128_digest(b""))

        with mock.patch.object(hashing, "summed", summing):
            scene.touch("a")
            await scene.pump.settled()
        assert len(reads) == 2
        [(of, told), (_, hashed)] = scene.records(head)
        assert isinstance(told, Mutation)
        assert hashed == Hashed(hashed.at, of, path, digest(b"new"), DONE)

    play(tmp_path, body)


@pytest.mark.parametrize("most", [states.SMALL, states.BIGGEST], ids=["small", "big"])
def test_a_file_that_stays_cut_short_is_read_once_more_and_then_told_as_it_was_read(tmp_path: Path, most: int) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("a")
        path = scene.write("a", b"new")
        real = states.summed
        cut: list[State] = []

        def summing(path: bytes, allowed: int, tick: float) -> states.Summed:
            if allowed != most:
                return states.Summed(states.Sum.BIG)
            found = real(path, allowed, tick)
            if len(cut) == 2:  # it would be read for ever
                return found
            assert found.state is not None
            cut.append(structs.replace(found.state, size=0))
            return structs.replace(found, state=cut[-1], digest=xxhash.xxh3_128_digest(b""))

        with mock.patch.object(hashing, "summed", summing):
            scene.touch("a")
            await scene.pump.settled()
        [(of, _), (_, hashed), (_, unseen), *_] = scene.records(head)
        assert isinstance(hashed, Hashed)
        assert (hashed.of, hashed.path, hashed.digest_state) == (of, path, SUPERSEDED)
        assert isinstance(unseen, Mutation)
        assert (unseen.size, unseen.digest, unseen.origin) == (0, digest(b""), Origin.SCAN)
        assert scene.of("a")[-1].size == len(b"new"), "it was looked at again, since nobody had told of this"

    play(tmp_path, body)


# waiting for more


class Rhythm:
    """A Waking whose kicks are counted."""

    def __init__(self, *, presses: bool = False) -> None:
        self.kicks = 0
        self.waking = waking.Waking(lambda: False, self.kick, lambda: presses)

    def kick(self) -> None:
        self.kicks += 1
        self.waking.hurry()


def test_a_burst_is_waited_for_and_a_single_change_is_not() -> None:
    async def body() -> None:
        rhythm = Rhythm()
        await rhythm.waking.ripen(3600, burst=False)
        await rhythm.waking.pause()
        assert rhythm.kicks == 0
        await rhythm.waking.ripen(0, burst=True)
        await rhythm.waking.pause()
        assert rhythm.kicks == 1, "its own timer ended it"

    asyncio.run(body())


@pytest.mark.parametrize("how", ["pause", "ripen"])
def test_who_asks_ends_the_waiting(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "BURST", 3600)

    async def body() -> None:
        rhythm = Rhythm()
        await rhythm.waking.ripen(0, burst=True)
        waits = rhythm.waking.pause() if how == "pause" else rhythm.waking.ripen(3600, burst=True)
        task = asyncio.ensure_future(waits)
        await asyncio.sleep(0)
        assert not task.done()
        rhythm.kick()
        await task
        rhythm.waking.close()

    asyncio.run(body())


def test_nothing_is_waited_for_where_something_presses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "BURST", 3600)

    async def body() -> None:
        rhythm = Rhythm(presses=True)
        await rhythm.waking.ripen(3600, burst=True)
        await rhythm.waking.pause()

    asyncio.run(body())


def test_much_at_once_is_recorded_though_nobody_asks(tmp_path: Path) -> None:
    """More than one batch, and all of it is in the log when the pump comes to rest."""

    async def body(scene: Scene) -> None:
        names = [f"f{number}" for number in range(3 * mutations._MANY)]
        head = await scene.begin(*names)
        for name in names:
            scene.touch(name)
        with mock.patch.object(mutations, "BATCH", mutations._MANY):
            await unasked(scene)
        assert [scene.name(r.path) for _, r in scene.records(head) if isinstance(r, Mutation)] == names

    play(tmp_path, body)
