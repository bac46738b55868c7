"""Trimming: the log is kept as long as the settings say, for as long as the daemon runs.

Rule: it goes a slice at a time, so that nothing waits for it, and goes on whatever happened to one slice.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial
from typing import Final

import structlog

from provd.store import Store, Writer

_EVERY: Final = 60.0
"""Seconds of rest when there is nothing to trim."""
log = structlog.get_logger("trimming")


class Trimming:
    """Keeps at most `max_records` records, none older than `max_age` seconds."""

    def __init__(self, store: Store, max_records: int, max_age: int) -> None:
        self._store = store
        self._max_records = max_records
        self._max_age = max_age
        self._grown = asyncio.Event()
        self._other_limits = asyncio.Event()

    def limits(self, max_records: int, max_age: int) -> None:
        """Keeps so much from now on; what is too much goes at once."""
        if (max_records, max_age) != (self._max_records, self._max_age):
            self._max_records, self._max_age = max_records, max_age
            self._other_limits.set()
            self._grown.set()

    def committed(self) -> None:
        """The log has grown: there may be something to trim."""
        self._grown.set()

    async def run(self) -> None:
        """Trims for ever."""
        while True:
            self._other_limits.clear()
            if not await self._slice():
                self._grown.clear()
                if not self._other_limits.is_set():  # they may have come while nothing was found to trim
                    await self._grown.wait()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._other_limits.wait(), _EVERY)

    async def _slice(self) -> int:
        """Trims one slice; how many records went."""
        try:
            oldest = time.time_ns() - self._max_age * 10**9
            return await self._store.submit(partial(Writer.trim, keep_records=self._max_records, oldest_at=oldest))
        except Exception as e:  # noqa: BLE001  see the rule
            log.warning("the log was not trimmed", reason=str(e))
            return 0
