"""The sign of life: sent when all has shown that it works, not sent while anything is stuck, sent where it is slow.

That nothing is sent is seen after the heartbeat has asked again and again: it counts its questions, no clock does.
"""

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
from pumping import Scene, ScriptedWatcher, play

from provd import faults
from provd.core import errors
from provd.core.notice import Touched, What
from provd.disk import states
from provd.heartbeat import Heartbeat
from provd.notify import Notifier
from provd.recorder import lister

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from provd.core.notice import Notice
    from provd.disk.states import Listing

ENOUGH = 20
"""Questions in vain after which it is plain that nothing is sent."""
LONG = 60.0
"""Seconds after which a test gives up."""


class Ears(Notifier):
    """Hears the signs. The watchdog's time is short, so that questions come quickly one after the other."""

    def __init__(self, watchdog: float | None = 0.03) -> None:
        super().__init__("/nobody/listens", watchdog)
        self.signs = 0

    def ping(self) -> None:
        self.signs += 1


class Asked:
    """Counts how often something was asked, and tells when that was often enough."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer
        self.times = 0
        self.enough = asyncio.Event()

    def __call__(self) -> Any:
        self.times += 1
        if self.times >= ENOUGH:
            self.enough.set()
        return self.answer()


def beating(scene: Scene, ears: Ears, read: Callable[[], None] | None = None) -> Heartbeat:
    return Heartbeat(ears, scene.store, scene.pump, read or scene.pump.read)


@contextlib.asynccontextmanager
async def stuck(scene: Scene, asked: Asked, read: Callable[[], None] | None = None) -> AsyncIterator[None]:
    """Nothing is sent, however often it is asked; after the body, which ends what is stuck, it is."""
    ears = Ears()
    beat = asyncio.ensure_future(beating(scene, ears, read).beat())
    async with asyncio.timeout(LONG):
        await asked.enough.wait()
        assert (ears.signs, beat.done()) == (0, False)
        yield
        await beat
    assert ears.signs == 1


async def alive(scene: Scene, times: int = 3) -> None:
    """The signs come, one after the other."""
    ears = Ears()
    heart = beating(scene, ears)
    async with asyncio.timeout(LONG):
        for _ in range(times):
            await heart.beat()
    assert ears.signs == times


def touched(scene: Scene, name: str = "f") -> None:
    scene.write(name)
    scene.touch(name)


@contextlib.contextmanager
def a_writer_that_hangs(scene: Scene) -> Iterator[threading.Event]:
    """The writer's thread waits in a command, outside of the kernel's disk, until the event is set."""
    begun, free = threading.Event(), threading.Event()

    def hang(_writer: object) -> None:
        begun.set()
        free.wait()

    scene.store.submit(hang)
    assert begun.wait(LONG)
    try:
        yield free
    finally:
        free.set()


# what works


def test_an_idle_daemon_is_alive(tmp_path: Path) -> None:
    play(tmp_path, alive)


def test_a_sign_comes_after_the_kernels_queue_was_read_and_taken(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        await scene.begin("f")
        touched(scene)
        assert scene.watcher.kernel
        await alive(scene, 1)
        assert not scene.watcher.kernel
        assert scene.pump.turns > 1

    play(tmp_path, body)


def test_a_sign_comes_each_third_of_the_time_and_no_sooner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise asyncio.CancelledError

    async def body(scene: Scene) -> None:
        ears = Ears(30.0)
        with mock.patch("provd.heartbeat.asyncio.sleep", sleep), pytest.raises(asyncio.CancelledError):
            await beating(scene, ears).run()
        assert (ears.signs, slept) == (3, [10.0, 10.0, 10.0])

    play(tmp_path, body)


def test_without_a_watchdog_there_is_no_timer(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        ears = Ears(None)
        with mock.patch("provd.heartbeat.asyncio.sleep", side_effect=AssertionError):
            await beating(scene, ears).run()
        assert ears.signs == 0

    play(tmp_path, body)


# what is stuck


def test_a_pump_that_does_not_take_gives_no_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flag = tmp_path / "hang"
    flag.touch()
    monkeypatch.setattr(faults, "_hangs", "pump.take")
    monkeypatch.setattr(faults, "_sign", str(flag))

    async def body(scene: Scene) -> None:
        monkeypatch.setattr(scene.store, "waits_for_disk", lambda: False)  # however slow it is here
        monkeypatch.setattr(scene.pump, "kick", asked := Asked(scene.pump.kick))
        touched(scene)
        async with stuck(scene, asked):
            assert not flag.exists()  # it hangs there
            assert scene.pump._task is not None
            scene.pump._task.cancel()

    play(tmp_path, body)


def test_a_pump_that_fails_each_time_gives_no_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(ScriptedWatcher):
        broken = True

        def take(self, limit: int) -> list[Notice]:
            if self.broken:
                raise RuntimeError("broken")
            return super().take(limit)

    async def body(scene: Scene) -> None:
        monkeypatch.setattr(scene.store, "waits_for_disk", lambda: False)  # however slow it is here
        monkeypatch.setattr(scene.pump, "kick", asked := Asked(scene.pump.kick))
        touched(scene)
        async with stuck(scene, asked):
            scene.watcher.broken = False

    play(tmp_path, body, watcher=Broken())


def test_a_pump_that_waits_for_ever_gives_no_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took what was read, and will never come back for more."""

    async def body(scene: Scene) -> None:
        await scene.begin("f")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        submitted = asyncio.Event()

        def submit(_command: object) -> asyncio.Future[Any]:
            submitted.set()
            return future

        touched(scene)
        with mock.patch.object(scene.store, "submit", submit):
            scene.pump.wake()
            await submitted.wait()
        monkeypatch.setattr(scene.store, "waits_for_disk", lambda: False)  # however slow it is here
        monkeypatch.setattr(scene.pump, "kick", asked := Asked(scene.pump.kick))
        async with stuck(scene, asked):
            future.set_exception(errors.StoreFull("full", "free space"))

    play(tmp_path, body)


def test_a_writer_that_hangs_gives_no_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(scene: Scene) -> None:
        monkeypatch.setattr(scene.store, "waits_for_disk", asked := Asked(scene.store.waits_for_disk))
        with a_writer_that_hangs(scene) as free:
            async with stuck(scene, asked):
                free.set()

    play(tmp_path, body)


def test_the_writer_is_asked_once_however_long_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(scene: Scene) -> None:
        monkeypatch.setattr(scene.store, "waits_for_disk", asked := Asked(lambda: False))
        with a_writer_that_hangs(scene) as free:
            with mock.patch.object(scene.store, "submit", wraps=scene.store.submit) as submit:
                async with stuck(scene, asked):
                    free.set()
            assert submit.call_count == 1

    play(tmp_path, body)


def test_a_store_that_cannot_be_read_gives_no_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(scene: Scene) -> None:
        view = scene.store.view

        def broken() -> Any:
            raise errors.StoreUnusable("broken", "look at the disk")

        monkeypatch.setattr(scene.store, "view", asked := Asked(broken))
        async with stuck(scene, asked):
            monkeypatch.setattr(scene.store, "view", view)

    play(tmp_path, body)


def test_a_queue_that_cannot_be_read_gives_no_sign(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        broken = True

        def read() -> None:
            if broken:
                raise OSError("broken")

        async with stuck(scene, asked := Asked(read), asked):
            broken = False

    play(tmp_path, body)


# what is slow, refused or far away


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
            assert bool(scene.pump.owing), number
        assert not await scene.pump.recorded(0)  # nothing was recorded

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
