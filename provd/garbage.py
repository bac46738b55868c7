"""Python's collector of cycles, which rests while one piece of work makes very many objects.

Rule: a look of the collector holds all threads while it goes through what is young, and a young table of 100,000 things
is gone through two or three times. Nothing of that is garbage: it is let go of when the work is done, or soon after. So
the collector rests until then, but no longer than LONGEST at a time, since others may make cycles meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Iterator
from typing import Final

LONGEST: Final = 60.0
"""Seconds."""
_SOON: Final = 1.0
"""Seconds after which what the work made is let go of."""


class _Collector:
    """For how many works it rests, and until when at most: a time of the event loop."""

    def __init__(self) -> None:
        self._works = 0
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def rest(self) -> None:
        """A work begins."""
        self._works += 1
        if gc.isenabled():
            gc.disable()
            self._until = asyncio.get_running_loop().time() + LONGEST
        self._go_on_at(self._until)

    def go_on(self) -> None:
        """A work ended; once the last one has."""
        self._works -= 1
        if not self._works:
            self._go_on_at(min(self._until, asyncio.get_running_loop().time() + _SOON))

    def _go_on_at(self, time: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(time, gc.enable)


_collector: Final = _Collector()


@contextlib.contextmanager
def resting(*, when: bool = True) -> Iterator[None]:
    """While this is entered the collector rests, `when` so much is made; in the event loop's thread only."""
    if not when:
        yield
        return
    _collector.rest()
    try:
        yield
    finally:
        _collector.go_on()
