"""Writes to objects that were declared and that the store did not take: whoever declared them may write all the same.

Rule: until it is durable that they may have been written, each question takes them for written just now.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

import msgspec

from provd.core.params import MAX_WRITES
from provd.core.records import ALL, Action, ActionEvent, Gap
from provd.store import Store, Writer

_MOST: Final = 10_000
"""Objects that are told apart; of more, nothing is known of any."""
_SOON: Final = 0.25
_LONGEST: Final = 30.0
"""Seconds until it is tried again, at first and at most."""


class Unwritten:
    """The objects of what was refused, and the task that records them when the store takes records again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._added = 0
        self._paying: asyncio.Task[None] | None = None

    def add(self, objects: Iterable[bytes]) -> None:
        """From here on nobody vouches for these."""
        if not (names := frozenset(objects)):
            return
        self._added += 1
        known = self._store.environment.unwritten | names
        self._store.environment.unwritten = frozenset((ALL,)) if len(known) > _MOST else known
        if self._paying is None:
            self._paying = asyncio.ensure_future(self._pay())

    async def _pay(self) -> None:
        environment, delay = self._store.environment, _SOON
        while owed := environment.unwritten:
            await asyncio.sleep(delay)
            delay, added = min(2 * delay, _LONGEST), self._added
            with contextlib.suppress(Exception):  # later again
                await self._store.submit(partial(_write, owed))
                if self._added == added:  # else another write may have come after this
                    environment.unwritten = frozenset()
        self._paying = None


def _write(names: frozenset[bytes], writer: Writer) -> None:
    """As a begin that was refused."""
    if ALL in names:
        writer.append(Gap(writer.now, ALL, "writes of objects could not be recorded"))
        return
    for some in _pieces(sorted(names)):
        seq = writer.head() + 1
        writes = tuple(b"object:" + name for name in some)
        writer.append(Action(writer.now, ActionEvent.REFUSED, seq, writes, None, None, None, None, b"", some, ()))
        for name in some:
            writer.put_object(msgspec.structs.replace(writer.object_state(name), refused=seq))


def _pieces(names: list[bytes]) -> Iterator[tuple[bytes, ...]]:
    """The names in order, as many at once as one record may have."""
    some: list[bytes] = []
    size = 0
    for name in names:
        if some and size + len(name) > MAX_WRITES:
            yield tuple(some)
            some, size = [], 0
        some.append(name)
        size += len(name)
    yield tuple(some)
