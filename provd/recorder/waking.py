"""When the pump looks what has happened: at once for who waits, else after a while, with all that came meanwhile.

Rule: what the system has to tell is read soon, so that its queue stays short; recording it can wait where nobody asks.
What is recorded together costs less than what is recorded alone, so a burst waits longer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final

REARM: Final = 0.005
"""Seconds after a wake-up until the next one: what comes in between is taken together."""
PACE: Final = 0.02
"""Seconds for which what happened may wait for more of its kind, where nobody asks."""
BURST: Final = 0.1
"""The same while much happens: most files are at rest then, and their digest needs no record of its own."""


class Waking:
    """Watches descriptors. `wake` reads, and says whether the rest cannot wait; `kick` has the rest done.

    `presses` says whether there is a reason not to wait in a burst.
    """

    def __init__(self, wake: Callable[[], bool], kick: Callable[[], None], presses: Callable[[], bool]) -> None:
        self._wake = wake
        self._kick = kick
        self._presses = presses
        self.burst = False
        """Whether much happens at the moment."""
        self._hurry = asyncio.Event()
        self._descriptors: list[int] = []
        self._arming: asyncio.TimerHandle | None = None
        self._pacing: asyncio.TimerHandle | None = None
        self._stirring: asyncio.Handle | None = None
        self._closed = False

    def start(self, loop: asyncio.AbstractEventLoop, descriptors: Sequence[int]) -> None:
        """Begins; the first wake-up is answered at once, the next one a little later."""
        self._descriptors = [fd for fd in descriptors if fd >= 0]
        self._arm(loop)

    def stir(self) -> None:
        """Something was read, so that the descriptors may tell of it no more: this is as good as a wake-up.

        It comes in the loop's next turn: who reads is mostly a question, and is answered before.
        """
        if self._stirring is None and not self._closed:
            self._stirring = asyncio.get_running_loop().call_soon(self._stirred)

    def soon(self) -> None:
        """Something was read: it is done after a while, unless somebody has it done before."""
        if self._pacing is None and not self._closed:
            loop = asyncio.get_running_loop()
            self._pacing = loop.call_later(BURST if self.burst else PACE, self._due)

    def taken(self) -> None:
        """All that was read is being done: nobody needs to be told of it."""
        if self._pacing is not None:
            self._pacing.cancel()
            self._pacing = None

    def hurry(self) -> None:
        """Ends `pause` and `ripen`."""
        self._hurry.set()

    async def pause(self) -> None:
        """In a burst: waits for more of it."""
        if self.burst and not self._presses():
            self._hurry.clear()
            self.soon()
            await self._hurry.wait()

    async def ripen(self, seconds: float, *, burst: bool) -> None:
        """In a `burst`, as it is known from here on: waits `seconds`, until what was taken is at rest."""
        self.burst = burst
        if burst and not self._presses():
            self._hurry.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._hurry.wait()

    def close(self) -> None:
        """Ends."""
        self._closed = True
        loop = asyncio.get_running_loop()
        for fd in self._descriptors:
            loop.remove_reader(fd)
        for handle in (self._arming, self._pacing, self._stirring):
            if handle is not None:
                handle.cancel()

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        for fd in self._descriptors:
            loop.add_reader(fd, self._woken, loop)

    def _woken(self, loop: asyncio.AbstractEventLoop) -> None:
        for fd in self._descriptors:
            loop.remove_reader(fd)
        self._arming = loop.call_later(REARM, self._arm, loop)
        self._look()

    def _stirred(self) -> None:
        self._stirring = None
        self._look()

    def _look(self) -> None:
        if self._wake():
            self._kick()
        else:
            self.soon()

    def _due(self) -> None:
        self._pacing = None
        self._kick()
