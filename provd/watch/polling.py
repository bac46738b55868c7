"""Polling: looking at the roots that the system tells nothing certain of, and scanning those that are polled.

Rule: every root goes at its own pace. One that hangs or takes long delays no other, and a scan that takes long is
not begun again before it has rested for as many times as long.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, Protocol

import structlog

from provd.disk import Workers
from provd.watch.presence import Found, identity_of

REST: Final = 20
"""A scan is followed by a rest of so many times its duration: polling takes a twentieth of the time at most."""
_PATIENCE: Final = 2.0
log = structlog.get_logger("polling")

Scan = Callable[[bytes], Awaitable[None]]
"""Compares the tree at a root with what is known of it, and returns when that is done."""


class Polled(Protocol):
    """Who knows the roots: the fleet."""

    def looked_at(self) -> list[bytes]:
        """The roots whose presence is to be found out by looking."""

    def is_polled(self, root: bytes) -> bool:
        """Whether such a root is to be scanned as well."""

    def looked(self, root: bytes, found: Found) -> bool:
        """Takes what looking gave; whether the root is there."""


class Polling:
    """Looks and scans. `scan` does the scanning, `wake` is called when notices may wait.

    `seconds` is the time between two looks at a root, and the shortest between two scans; `patience` how long a look
    may take.
    """

    def __init__(
        self,
        fleet: Polled,
        workers: Workers,
        scan: Scan,
        wake: Callable[[], None],
        *,
        seconds: float,
        now: Callable[[], float] = time.monotonic,
        patience: float = _PATIENCE,
    ) -> None:
        self._fleet = fleet
        self._workers = workers
        self._scan = scan
        self._wake = wake
        self._seconds = seconds
        self._now = now
        self._patience = patience
        self._next: dict[bytes, float] = {}  # when each root is due; absent: it was scanned when it was added
        self._scanning: dict[bytes, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    def due(self) -> float | None:
        """In how many seconds the next round has something to do; None where nothing is polled."""
        roots = [root for root in self._fleet.looked_at() if root not in self._scanning]
        if not roots:
            return None
        now = self._now()
        return max(0.0, min(self._when(root, now) for root in roots) - now)

    def changed(self) -> None:
        """There are other roots than before."""
        self._changed.set()

    def pace(self, seconds: float) -> None:
        """From now on a root is looked at so often; one that would be due later is due then."""
        self._seconds = seconds
        latest = self._now() + seconds
        self._next = {root: min(at, latest) for root, at in self._next.items()}
        self.changed()

    async def run(self) -> None:
        """Polls for ever, whatever happens in one round."""
        while True:
            self._changed.clear()
            due = self.due()
            try:
                async with asyncio.timeout(due):
                    await self._changed.wait()
            except TimeoutError:
                await self._round()

    async def _round(self) -> None:
        try:
            await self.round()
        except Exception as e:  # noqa: BLE001  the roots are looked at again when they are due
            log.warning("roots were not polled", reason=repr(e))

    async def round(self) -> None:
        """Looks at the roots that are due, and begins to scan those that are there; scans go on afterwards."""
        roots = self._fleet.looked_at()
        known = set(roots)
        self._next = {root: at for root, at in self._next.items() if root in known}
        now = self._now()
        due = [root for root in roots if root not in self._scanning and self._when(root, now) <= now]
        for root in due:
            self._next[root] = now + self._seconds
        for root in await self._look(due):
            self._begin(root)
        self._wake()

    async def scan_now(self, roots: Iterable[bytes] | None = None) -> None:
        """Scans the polled roots (of these), each by a scan that begins after this call, and returns when it is done.

        A root that does not answer is not waited for.
        """
        wanted = [r for r in (self._fleet.looked_at() if roots is None else roots) if self._fleet.is_polled(r)]
        there = await self._look(wanted)
        running = [self._scanning[root] for root in there if root in self._scanning]
        if running:
            await asyncio.wait(running)
        tasks = [self._begin(root) for root in there]
        if tasks:
            await asyncio.wait(tasks)
        self._wake()

    async def settled(self) -> None:
        """Waits for the scans that run."""
        while self._scanning:
            await asyncio.wait(list(self._scanning.values()))

    async def close(self) -> None:
        """Ends the scans that run."""
        for task in list(self._scanning.values()):
            task.cancel()
        await self.settled()

    def _when(self, root: bytes, now: float) -> float:
        return self._next.setdefault(root, now + self._seconds)

    async def _look(self, roots: list[bytes]) -> list[bytes]:
        """Looks at roots; those that are there and polled."""
        if not roots:
            return []
        found = await self._workers.each(identity_of, roots, self._patience, apart=True)
        there = [root for root in roots if self._fleet.looked(root, found.get(root))]
        return [root for root in there if self._fleet.is_polled(root)]

    def _begin(self, root: bytes) -> asyncio.Task[None]:
        """Begins to scan a root, unless it is being scanned."""
        task = self._scanning.get(root)
        if task is None:
            task = self._scanning[root] = asyncio.ensure_future(self._scan_one(root))
            task.add_done_callback(partial(self._ended, root))
        return task

    async def _scan_one(self, root: bytes) -> None:
        began = self._now()
        try:
            await self._scan(root)
        except Exception as e:  # noqa: BLE001  it is scanned again when it is due
            log.warning("a polled root was not scanned", root=os.fsdecode(root), reason=repr(e))
        ended = self._now()
        self._next[root] = ended + max(self._seconds, REST * (ended - began))

    def _ended(self, root: bytes, _: asyncio.Task[None]) -> None:
        """Called for a task that was cancelled before it began, too."""
        del self._scanning[root]
        self._changed.set()
