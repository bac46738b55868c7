"""The sign of life where things are slow, refused or far away: no daemon is ended for that."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from beating import LONG, Ears, a_writer_that_hangs, alive, beating, touched
from pumping import Scene, ScriptedWatcher, play

from provd import faults
from provd.core import errors
from provd.core.notice import Touched, What
from provd.disk import states
from provd.recorder import following, lister
from provd.recorder.applying import Apply, Forget

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from provd.core.notice import Notice
    from provd.disk.states import Listing


def test_a_burst_that_does_not_end_is_no_death(tmp_path: Path) -> None:
    class Endless(ScriptedWatcher):
        """There is always more than was taken."""

        def take(self, limit: int) -> list[Notice]:
            if self.root:
                self.memory = deque(Touched(b"%b/f%d" % (self.root, n), What.MODIFIED, False) for n in range(2 * limit))
            return super().take(limit)

        root = b""

    async def body(scene: Scene) -> None:
        await scene.begin("f1")
        scene.watcher.root = scene.root
        touched(scene, "f1")
        await alive(scene)
        assert scene.watcher.memory
        assert not scene.pump.idle

    play(tmp_path, body, watcher=Endless())


class Held:
    """Holds the pump's commands, each until it is let go; what the heart itself asks goes on, and is seen."""

    def __init__(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting: asyncio.Queue[asyncio.Event] = asyncio.Queue()
        self.heart_asked = asyncio.Event()
        self._submit = scene.store.submit
        monkeypatch.setattr(scene.store, "submit", self._submitted)
        monkeypatch.setattr(scene.store, "waits_for_disk", lambda: False)  # however slow it is here

    def _submitted(self, command: Any) -> Any:
        if not isinstance(command, Apply | Forget):
            self.heart_asked.set()
            return self._submit(command)
        return asyncio.ensure_future(self._later(command))

    async def _later(self, command: Any) -> Any:
        gate = asyncio.Event()
        self.waiting.put_nowait(gate)
        await gate.wait()
        return await self._submit(command)


async def alive_within(scene: Scene, held: Held) -> None:
    """A sign comes with each command that is answered, while the next one still waits."""
    ears = Ears()
    async with asyncio.timeout(LONG):
        gate = await held.waiting.get()
        for number in range(1, 4):
            held.heart_asked.clear()
            beat = asyncio.ensure_future(beating(scene, ears).beat())
            await held.heart_asked.wait()  # from here on it waits for the pump
            assert not beat.done()
            gate.set()
            gate = await held.waiting.get()
            await beat
            assert ears.signs == number
            assert not scene.pump.idle
        while not scene.pump.idle:
            gate.set()
            with contextlib.suppress(TimeoutError):
                gate = await asyncio.wait_for(held.waiting.get(), 0.01)


def test_a_batch_of_many_commands_is_no_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that came with 100,000 files is one batch, and takes the writer longer than the watchdog waits."""

    async def body(scene: Scene) -> None:
        await scene.begin("f")
        monkeypatch.setattr(following, "BUDGET", 1)
        held = Held(scene, monkeypatch)
        for number in range(8):
            touched(scene, f"f{number}")
        scene.pump.wake()
        await alive_within(scene, held)
        assert scene.mutations()

    play(tmp_path, body)


def test_a_root_of_many_rows_that_is_forgotten_is_no_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin(*(f"f{number}" for number in range(8)))
        monkeypatch.setattr(following, "BUDGET", 1)
        held = Held(scene, monkeypatch)
        forgotten = asyncio.ensure_future(scene.pump.forget(scene.root))
        await alive_within(scene, held)
        await forgotten
        assert scene.table() == {}

    play(tmp_path, body)


def test_a_full_disk_is_no_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be recorded, and a refusal is an answer."""

    async def body(scene: Scene) -> None:
        await scene.begin("f")

        def full(_command: object) -> asyncio.Future[Any]:
            future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            future.set_exception(errors.StoreFull("full", "free space"))
            return future

        monkeypatch.setattr(scene.store, "submit", full)
        for number in range(5):
            touched(scene)
            await alive(scene, 1)
            assert not await scene.pump.recorded(LONG), number  # nothing was recorded
            assert bool(scene.pump.owing), number

    play(tmp_path, body)


def test_a_directory_that_hangs_is_no_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, free = threading.Event(), threading.Event()

    def hanging(_path: bytes, _mounts: object) -> Listing:
        begun.set()
        free.wait()
        raise OSError("gone")

    monkeypatch.setattr(lister, "listing_at_once", hanging)

    async def body(scene: Scene) -> None:
        monkeypatch.setattr(scene.pump.scanning.lister, "may_hang", lambda _path: True)
        scan = asyncio.ensure_future(scene.pump.scan(scene.root, first=True))
        await asyncio.to_thread(begun.wait, LONG)
        try:
            await alive(scene)
            assert not scan.done()
        finally:
            free.set()
        await scan

    play(tmp_path, body)


def test_a_directory_that_takes_long_to_list_is_no_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, ready = states.listing, threading.Event()

    def endless(directory: bytes, _mounts: object) -> Iterator[Any]:
        while not ready.is_set():
            yield None
        yield from real(directory)

    monkeypatch.setattr(lister, "listing", endless)

    async def body(scene: Scene) -> None:
        scan = asyncio.ensure_future(scene.pump.scan(scene.root, first=True))
        await asyncio.sleep(0)
        await alive(scene)
        assert not scan.done()
        assert not scene.pump.idle
        ready.set()
        await scan

    play(tmp_path, body)


def test_a_writer_that_waits_for_the_disk_is_no_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(scene: Scene) -> None:
        with a_writer_that_hangs(scene):
            monkeypatch.setattr(scene.store, "waits_for_disk", lambda: True)
            await alive(scene)

    play(tmp_path, body)


def test_a_sync_that_takes_its_time_excuses_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a writer that owes its answer for a third of the watchdog's time does."""

    async def body(scene: Scene) -> None:
        ears, loop = Ears(3.0), asyncio.get_running_loop()
        with a_writer_that_hangs(scene):
            monkeypatch.setattr(scene.store, "waits_for_disk", lambda: True)
            begun = loop.time()
            await beating(scene, ears).beat()
        assert ears.signs == 1
        assert loop.time() - begun >= 1.0

    play(tmp_path, body)


def test_a_pump_that_waits_for_such_a_writer_is_no_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("f")
        with a_writer_that_hangs(scene):
            monkeypatch.setattr(scene.store, "waits_for_disk", lambda: True)
            submit, submitted = scene.store.submit, asyncio.Event()

            def watched(command: Any) -> asyncio.Future[Any]:
                submitted.set()
                return submit(command)

            touched(scene)
            with mock.patch.object(scene.store, "submit", watched):
                scene.pump.wake()
                await submitted.wait()
            await alive(scene)
            assert not scene.pump.idle

    play(tmp_path, body)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of its threads' states in /proc")
def test_the_store_knows_whether_its_writer_waits_inside_the_kernel(tmp_path: Path) -> None:
    """A thread that started a child by vfork waits as one does for a disk, until the child is a program."""
    libc = ctypes.CDLL(None, use_errno=True)
    gate = os.fsencode(tmp_path / "gate")
    os.mkfifo(gate)
    children: list[int] = []

    def wait(_writer: object) -> None:
        actions, pid = ctypes.create_string_buffer(512), ctypes.c_int()
        assert libc.posix_spawn_file_actions_init(actions) == 0
        assert libc.posix_spawn_file_actions_addopen(actions, 0, gate, os.O_RDONLY, 0) == 0
        program = (ctypes.c_char_p * 2)(b"true", None)
        assert libc.posix_spawnp(ctypes.byref(pid), b"true", actions, None, program, None) == 0
        children.append(pid.value)

    async def body(scene: Scene) -> None:
        assert not scene.store.waits_for_disk()
        waiting = scene.store.submit(wait)
        async with asyncio.timeout(LONG):
            while not scene.store.waits_for_disk():  # noqa: ASYNC110  the kernel sets no event
                await asyncio.sleep(0)
            await alive(scene)
            await asyncio.to_thread(lambda: os.close(os.open(gate, os.O_WRONLY)))
            await waiting
        assert not scene.store.waits_for_disk()

    play(tmp_path, body)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0


def test_no_wall_clock_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that slept, or whose clock was set, has a daemon that lives."""
    import time

    async def body(scene: Scene) -> None:
        ears, jump = Ears(30.0), iter(range(10**6))
        monkeypatch.setattr(time, "time", lambda: next(jump) * 86400.0)
        monkeypatch.setattr(time, "time_ns", lambda: next(jump) * 86400 * 10**9)
        async with asyncio.timeout(LONG):
            for _ in range(3):
                await beating(scene, ears).beat()
        assert ears.signs == 3

    play(tmp_path, body)


def test_the_hook_hangs_a_thread_and_removes_its_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flag = tmp_path / "hang"
    monkeypatch.setattr(faults, "_hangs", "here")
    monkeypatch.setattr(faults, "_sign", str(flag))
    faults.point("here")
    flag.touch()
    faults.point("there")
    assert flag.exists()
    begun = threading.Event()
    monkeypatch.setattr("provd.faults.threading.Event", lambda: mock.Mock(wait=begun.set))
    faults.point("here")
    assert begun.is_set()
    assert not flag.exists()
