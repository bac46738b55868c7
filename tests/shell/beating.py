"""What the tests of the heartbeat share: ears that hear its signs, and a pump or a writer that is stuck."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any

from pumping import Scene

from provd.heartbeat import Heartbeat
from provd.notify import Notifier

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


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
