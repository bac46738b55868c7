"""What is owed to the log: what could not be recorded is told as soon as the store takes records again.

Rule: loss is data. Until it is durable nobody is told that everything is recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final

from provd.core import errors
from provd.core.records import ALL, Gap
from provd.lasting import lasting
from provd.store import Store, Writer

_MOST: Final = 256
"""Scopes that are told apart; of more a gap for all is made."""
_LONGEST: Final = 30.0
_CALM: Final = 2.0
"""Seconds without a new debt after which the next one is paid at once."""

Owed = Mapping[bytes, str]
"""Names, and why each is owed."""


def write_gaps(owed: Owed, writer: Writer) -> None:
    """A gap for each of these scopes."""
    for scope, reason in owed.items():
        writer.append(Gap(writer.now, scope, reason))


class Owing:
    """Names that are owed a record, and why, with the task that tries until each has it, ever more seldom.

    `write` records them, of up to `most` names; of more it is the name `every`. `paid` is called with those that are
    durable.
    """

    def __init__(
        self,
        store: Store,
        paid: Callable[[Collection[bytes]], None],
        write: Callable[[Owed, Writer], None] = write_gaps,
        most: int = _MOST,
        every: bytes = ALL,
    ) -> None:
        self.retry = 0.25
        self._store = store
        self._paid = paid
        self._record = write
        self._most = most
        self._every = every
        self._owed: dict[bytes, str] = {}
        self._paying: asyncio.Task[None] | None = None
        self._delay = 0.0
        self._calm_from = 0.0
        self._hurry = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._owed) or self._paying is not None

    @property
    def names(self) -> frozenset[bytes]:
        """What is owed, but for what is being written at this moment."""
        return frozenset(self._owed)

    def owe(self, names: Iterable[bytes], reason: str) -> None:
        """Nothing vouches for these (for `every` where there are none) from here on."""
        for name in list(names) or [self._every]:
            self._owed.setdefault(name, reason)
        if len(self._owed) > self._most or self._every in self._owed:
            self._owed = {self._every: self._owed.get(self._every, reason)}
        if self._paying is None:
            self._paying = asyncio.ensure_future(lasting("owing", self._pay))

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
                await self._store.submit(partial(self._record, owed))
            except Exception:  # noqa: BLE001  later again: it is owed until it is durable
                self._owed = owed | self._owed
                self._later()
                continue
            self._calm_from = clock() + max(2 * self._delay, _CALM)
            if not self._owed:
                self._paying = None
            self._paid(owed.keys())

    async def _wait(self) -> None:
        self._hurry.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._delay):
                await self._hurry.wait()

    def _later(self) -> None:
        self._delay = min(max(2 * self._delay, self.retry), _LONGEST)


def unwritten(error: Exception) -> str:
    """The reason of the gap for what the store refused."""
    if isinstance(error, errors.StoreFull):
        return "records could not be written: store full"
    return f"records could not be written: {error}"
