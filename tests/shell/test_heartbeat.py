"""The sign of life: sent when all has shown that it works, not sent while anything is stuck, sent where it is slow.

That nothing is sent is seen after the heartbeat has asked again and again: it counts its questions, no clock does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from beating import Asked, Ears, a_writer_that_hangs, alive, beating, stuck, touched
from pumping import Scene, ScriptedWatcher, play

from provd import faults
from provd.core import errors

if TYPE_CHECKING:
    from pathlib import Path

    from provd.core.notice import Notice


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
