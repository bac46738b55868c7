"""The pump where something hangs or fails, how it is woken, and that it rests."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from pumping import C, M, Scene, ScriptedWatcher, digest, on_disk, play, same

from provd.core import errors
from provd.core.notice import Touched
from provd.core.records import Coverage, Gap, Mutation, Origin
from provd.disk import states
from provd.recorder import lister, looking, mutations, waking

if TYPE_CHECKING:
    from pathlib import Path


# places that may hang


def test_a_directory_that_hangs_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lister, "listing_at_once", hangs := Hanging())

    async def body(scene: Scene) -> None:
        await scene.begin("far/a", "b")
        mounts = scene.workers.mounts.now()
        far = type(mounts)(False, {b"/": False, scene.path("far"): True}, mounts.names, mounts.kinds)
        monkeypatch.setattr(scene.workers.mounts, "now", lambda: far)
        scan = asyncio.ensure_future(scene.pump.scan(scene.root))
        await asyncio.to_thread(hangs.begun.wait, 60)
        scene.write("b", b"meanwhile")
        scene.write("far/new")
        scene.touch("b")
        scene.touch("far/new", C)
        assert await scene.pump.recorded()
        assert scene.mutations() == [("modified", "b"), ("created", "far/new")]
        assert not scan.done()
        hangs.free.set()
        await scan
        await scene.pump.settled()
        assert scene.mutations() == [("modified", "b"), ("created", "far/new")]
        assert hangs.calls == 2  # it was touched meanwhile
        assert same(scene.table(), on_disk(scene.root))
        assert {r.digest for r in scene.hashed()} == {digest(b"meanwhile"), digest(b"x")}

    play(tmp_path, body)


class Hanging:
    """Listing that does not come back until it may."""

    def __init__(self) -> None:
        import threading

        self.begun, self.free = threading.Event(), threading.Event()
        self.calls = 0
        self._real = states.listing_at_once

    def __call__(self, path: bytes, mounts: Any) -> Any:
        self.calls += 1
        found = self._real(path, mounts)
        self.begun.set()
        assert self.free.wait(60)
        return found


# faults


def test_records_that_the_store_refused_are_a_gap_as_soon_as_it_takes_one(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("a")
        real = scene.store.submit
        refusals: list[Any] = []

        def full(command: Any) -> Any:
            if len(refusals) < 4:
                refusals.append(command)
                future = asyncio.get_running_loop().create_future()
                future.set_exception(errors.StoreFull("full", "free space"))
                return future
            return real(command)

        scene.write("a", b"unlogged")
        scene.touch("a")
        with mock.patch.object(scene.store, "submit", full):
            assert not await scene.pump.recorded()
            await scene.pump.settled()
        first, *rest = [r for _, r in scene.records(head)]
        assert first == Gap(first.at, scene.root, "records could not be written: store full")
        assert isinstance(rest[0], Mutation)
        assert (rest[0].path, rest[0].origin) == (scene.path("a"), Origin.SCAN)
        assert await scene.pump.recorded()

    play(tmp_path, body)


@pytest.mark.parametrize("at", ["fold", "look_and_sum", "step", "read"])
def test_a_fault_of_its_own_is_a_gap_and_the_work_goes_on(tmp_path: Path, at: str) -> None:
    async def body(scene: Scene) -> None:
        head = await scene.begin("a")
        scene.write("a", b"new")
        scene.touch("a")
        place = {"fold": mutations, "look_and_sum": looking, "step": scene.pump.scanning, "read": scene.pump.hashing}[
            at
        ]
        with mock.patch.object(place, at, side_effect=ZeroDivisionError("oh")):
            await scene.pump.recorded()
        await scene.pump.settled()
        assert (scene.name(scene.root), "internal: ZeroDivisionError('oh')") in scene.gaps()
        assert ("modified", "a") in scene.mutations(head)
        assert same(scene.table(), on_disk(scene.root))

    play(tmp_path, body)


def test_a_first_scan_that_failed_is_made_again(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        scene.write("a")
        real, calls = states.listing, []

        def listing(path: bytes, _mounts: Any) -> Any:
            calls.append(path)
            if len(calls) == 1:
                raise ZeroDivisionError
            return real(path)

        with mock.patch.object(lister, "listing", listing):
            await scene.pump.scan(scene.root, first=True)
        assert any(isinstance(r, Coverage) for _, r in scene.records())
        assert same(scene.table(), on_disk(scene.root))

    play(tmp_path, body)


# waking and waiting


def test_the_barrier_tells_whether_it_was_in_time(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("a")
        taking = scene.watcher.take
        scene.watcher.take = lambda limit: [Touched(scene.path("a"), M)]  # it never ends
        scene.touch("a")
        assert not await scene.pump.recorded(0.01)
        scene.watcher.take = taking
        assert await scene.pump.recorded()

    play(tmp_path, body)


def test_an_idle_pump_has_nothing_to_do_and_nothing_to_wait_for(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("a")
        scene.pump.rest = 0.001
        scene.touch("a")
        await scene.pump.settled()
        takes = scene.watcher.takes
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert [h for h in asyncio.get_running_loop()._scheduled if not h.cancelled()] == []  # type: ignore[attr-defined]
        assert await scene.pump.recorded()
        assert scene.watcher.takes == takes

    play(tmp_path, body)


def test_the_descriptor_wakes_the_pump_and_is_left_alone_for_a_moment(tmp_path: Path) -> None:
    class Told(ScriptedWatcher):
        def __init__(self) -> None:
            super().__init__()
            self.there, self.here = os.pipe()
            os.set_blocking(self.there, False)
            self.read_at: list[float] = []
            self.was_read = asyncio.Event()

        def fileno(self) -> int:
            return self.there

        def read(self) -> int:
            if self.kernel:
                os.read(self.there, 4096)
                self.read_at.append(asyncio.get_running_loop().time())
                self.was_read.set()
            return super().read()

    watcher = Told()

    async def body(scene: Scene) -> None:
        await scene.begin("a")
        loop = asyncio.get_running_loop()
        scene.pump.start(loop)
        for _ in range(2):
            scene.touch("a")
            os.write(watcher.here, b"x")
            await watcher.was_read.wait()
            watcher.was_read.clear()
            await scene.pump.settled()
        first, second = watcher.read_at
        assert second - first >= waking.REARM * 0.9
        assert len(scene.mutations()) == 2

    play(tmp_path, body, watcher=watcher)
    os.close(watcher.there)
    os.close(watcher.here)


def test_closing_lets_go_of_all_who_wait(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("a")
        scene.pump.rest = 3600
        scene.touch("a")
        waiting = [asyncio.ensure_future(one) for one in (scene.pump.settled(), scene.pump.forget(b"/none"))]
        barrier = asyncio.ensure_future(scene.pump.recorded())
        await asyncio.sleep(0)
        scene.pump.close()
        assert not await barrier
        await asyncio.gather(*waiting)
        scene.touch("a")
        assert not await scene.pump.recorded(), "who asks afterwards waits for nothing"

    play(tmp_path, body)
