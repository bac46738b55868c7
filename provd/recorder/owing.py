"""Gaps that are owed: what could not be recorded is told as soon as the store takes records again.

Rule: loss is data. Until its gap is durable nobody is told that everything is recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from provd.core import errors
from provd.core.records import ALL, Gap
from provd.store import Store, Writer

_MOST: Final = 256
"""Scopes that are told apart; of more a gap for all is made."""
_LONGEST: Final = 30.0
_CALM: Final = 2.0
"""Seconds without a new debt after which the next one is paid at once."""


class Owing:
    """The scopes that are owed a gap, and why. `paid` is called with each scope when its gap is durable."""

    def __init__(self, store: Store, paid: Callable[[bytes], None]) -> None:
        self.retry = 0.25
        self._store = store
        self._paid = paid
        self._owed: dict[bytes, str] = {}
        self._paying: asyncio.Task[None] | None = None
        self._delay = 0.0
        self._calm_from = 0.0
        self._hurry = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._owed) or self._paying is not None

    def owe(self, scopes: Iterable[bytes], reason: str) -> None:
        """Nothing vouches for these trees (for ALL where there are none) from here on."""
        for scope in list(scopes) or [ALL]:
            self._owed.setdefault(scope, reason)
        if len(self._owed) > _MOST:
            self._owed = {ALL: reason}
        if self._paying is None:
            self._paying = asyncio.ensure_future(self._pay())

    def hasten(self) -> None:
        """Somebody waits for it: tries now."""
        self._hurry.set()

    def close(self) -> None:
        """Gives up."""
        if self._paying is not None:
            self._paying.cancel()

    async def _pay(self) -> None:
        clock = asyncio.get_running_loop().time
        if clock() > self._calm_from:
            self._delay = 0.0
        else:  # on an almost full disk there is room for gaps and for nothing else, and each brings a scan
            self._later()
        while self._owed:
            await self._wait()
            owed, self._owed = self._owed, {}
            try:
                await self._store.submit(partial(_write, owed))
            except Exception:  # noqa: BLE001  later again: it is owed until it is durable
                self._owed = owed | self._owed
                self._later()
                continue
            self._calm_from = clock() + max(2 * self._delay, _CALM)
            if not self._owed:
                self._paying = None
            for scope in owed:
                self._paid(scope)

    async def _wait(self) -> None:
        self._hurry.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._delay):
                await self._hurry.wait()

    def _later(self) -> None:
        self._delay = min(max(2 * self._delay, self.retry), _LONGEST)


def _write(owed: dict[bytes, str], writer: Writer) -> None:
    for scope, reason in owed.items():
        writer.append(Gap(writer.now, scope, reason))


def unwritten(error: Exception) -> str:
    """The reason of the gap for what the store refused."""
    if isinstance(error, errors.StoreFull):
        return "records could not be written: store full"
    return f"records could not be written: {error}"
