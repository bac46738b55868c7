"""Work that goes on for as long as the daemon runs: where it ends by a fault, that is told and it is begun anew.

Rule: nothing that is done beside the requests ends in silence.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final

import structlog

_PAUSE: Final = 1.0
_LONGEST: Final = 300.0
"""Seconds until work that failed is begun anew, at first and at most: it may fail each time, and is told each time.

What went on for longer than it was waited for fails for the first time again.
"""
log = structlog.get_logger("daemon")


async def lasting(name: str, work: Callable[[], Awaitable[None]], longest: float = _LONGEST) -> None:
    """Does `work`, which may be begun at any time, until it ends of itself; it is told by this `name`.

    Where it fails it is begun anew after `longest` seconds at most.
    """
    pause = min(_PAUSE, longest)
    while True:
        begun = monotonic()
        try:
            await work()
        except Exception:
            with contextlib.suppress(Exception):  # whatever can be said of it
                log.exception("work beside the requests failed and is begun anew", work=name)
        else:
            return
        if monotonic() - begun > pause:
            pause = min(_PAUSE, longest)
        await rested(pause)
        pause = min(2 * pause, longest)


async def rested(seconds: float) -> None:
    """Waits before something is tried again. A fault in that is no reason not to."""
    with contextlib.suppress(Exception):
        await asyncio.sleep(seconds)
