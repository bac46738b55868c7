"""Reading what puts rest on: those that came before a reading began share it.

Rule: a put keeps what was read after it came. Clients that were answered together ask together, and where they rest on
the same, one reading is true for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from provd.core.reading import Found, Reading
from provd.disk import base_of
from provd.reader import Reader
from provd.resolver import Resolver

PATIENCE: Final = 30.0
"""Seconds that is read for: a put keeps a digest of all that it names, and is no question."""
_MANY: Final = 2000
"""Readings whose bases are found in a thread."""


class Read(NamedTuple):
    """What readings gave, and the real paths of their bases as far as they could be told in time."""

    found: Mapping[Reading, Found]
    reals: Mapping[bytes, bytes]


class Together:
    """Reads for many."""

    def __init__(self, reader: Reader, resolver: Resolver) -> None:
        self._reader = reader
        self._resolver = resolver
        self._waiting: dict[frozenset[Reading], asyncio.Task[Read]] = {}

    async def read(self, readings: frozenset[Reading]) -> Read:
        """What is there now, read after this was called."""
        if not readings:
            return Read({}, {})
        task = self._waiting.get(readings)
        if task is None:
            task = self._waiting[readings] = asyncio.ensure_future(self._read(readings))
        return await asyncio.shield(task)  # one of those that share it may go

    async def _read(self, readings: frozenset[Reading]) -> Read:
        del self._waiting[readings]  # it begins, and from now on it is too early for whoever comes
        found = await self._reader.read(readings, PATIENCE)
        bases = await asyncio.to_thread(_bases, readings) if len(readings) > _MANY else _bases(readings)
        return Read(found, await self._resolver.real_paths(bases))


def _bases(readings: frozenset[Reading]) -> set[bytes]:
    return set(map(base_of, readings))
