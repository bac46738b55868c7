"""SIGHUP: a reload of the configuration, or the end of the terminal that the daemon was started in.

Rule: the signal means both, and the terminal tells which. A process whose controlling terminal is gone hangs up, as
everything else that was started there does; one that still has it, or never had one (a service), reloads, and makes its
socket anew where that is gone (`running`). Where SIGHUP was ignored at the start (`nohup`) the end of the terminal ends
nothing. One that comes while the daemon starts is kept by the kernel until the daemon can heed it (`terminal`).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from provd.terminal import has_terminal, take_hangups

_LATER: Final = 1.0
"""Seconds after which the terminal is looked at again: a shell that exits tells its jobs before the terminal goes."""
log = structlog.get_logger("daemon")


class Hangup:
    """What SIGHUP does: `reload`, or `stop` where the process was `bound` to a terminal that is gone."""

    def __init__(self, reload: Callable[[], Awaitable[None]], stop: Callable[[], None], *, bound: bool) -> None:
        self._reload = reload
        self._stop = stop
        self._bound = bound
        self._reloads: set[asyncio.Future[None]] = set()

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begins to heed the signal; one that came while the daemon started is heeded now."""
        loop.add_signal_handler(signal.SIGHUP, self._hung_up)
        take_hangups()

    def _hung_up(self) -> None:
        if self._end():
            return
        if self._bound:
            asyncio.get_running_loop().call_later(_LATER, self._end)
        task = asyncio.ensure_future(self._heed())
        self._reloads.add(task)  # the loop itself keeps no task alive
        task.add_done_callback(self._reloads.discard)

    async def _heed(self) -> None:
        try:
            await self._reload()
        except Exception:
            log.exception("the signal was not heeded, all stays as it was", next="send SIGHUP again")

    def _end(self) -> bool:
        """Ends the daemon where its terminal is gone; whether it does."""
        if not self._bound or has_terminal():
            return False
        log.info("the terminal is gone")
        self._stop()
        return True
