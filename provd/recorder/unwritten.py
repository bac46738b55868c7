"""Writes to objects that were declared and refused: whoever declared them may write all the same.

Rule: until it is durable that they may have been written, each question takes them for written just now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Final

import msgspec

from provd.core import misread
from provd.core.params import MAX_WRITES
from provd.core.records import ALL, Action, ActionEvent, Gap
from provd.recorder.owing import Owed, Owing
from provd.store import Store, Writer
from provd.store.keys import EVERY

_MANY: Final = 2000
"""Writes that are looked through in some milliseconds: of more others would have to wait."""
_MOST: Final = 10_000
"""Objects that are told apart; of more, nothing is known of any."""
_MOST_SAID: Final = 300
"""Characters of why something was refused that are recorded."""


class Unwritten:
    """The objects of what was refused, each with why."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.owing = Owing(store, self._paid, _write, _MOST, EVERY)

    async def refused(self, writes: Sequence[object], method: str, error: Exception) -> None:
        """A begin or a record of these writes was refused."""
        asked = {"writes": msgspec.to_builtins(writes)}
        if len(writes) > _MANY:
            objects = await asyncio.to_thread(misread.declared, asked)
        else:
            objects = misread.declared(asked)
        await self._take_any(objects, method, error)

    async def misread(self, method: str, raw: bytes, error: Exception) -> None:
        """The same where the parameters do not fit: what they may declare counts, as far as it can be told."""
        await self._take_any(await asyncio.to_thread(misread.of_params, raw), method, error)

    async def misread_line(self, line: bytes, error: Exception) -> None:
        """The same of a line that is no request, and may have been meant for one."""
        await self._take_any(await asyncio.to_thread(misread.of_line, line), "a line that may declare writes", error)

    async def _take_any(self, objects: Iterable[bytes] | None, what: str, error: Exception) -> None:
        await self.take((EVERY,) if objects is None else objects, f"{what} was refused: {error}")

    async def take(self, objects: Iterable[bytes], why: str) -> None:
        """Nobody vouches for these from here on. When this returns that is durable, or it is owed."""
        names: dict[bytes, str] = {}
        for name in objects:
            names[name] = why[:_MOST_SAID]
            if len(names) > _MOST:
                names = {EVERY: why[:_MOST_SAID]}
                break
        if not names:
            return
        try:
            await self._store.submit(partial(_write, names))
        except Exception:  # noqa: BLE001  the store takes no records now
            self.owing.owe(names, why[:_MOST_SAID])
            self._tell(self._store.environment.unwritten)  # with those that are being written at this moment

    def close(self) -> None:
        """Gives up what is owed: the gap for all of the next run tells of it."""
        self.owing.close()

    def _paid(self, _: Collection[bytes]) -> None:
        """Those that were added meanwhile stay: another write may have come after what is durable."""
        self._tell(frozenset())

    def _tell(self, beside: frozenset[bytes]) -> None:
        names = self.owing.names
        self._store.environment.unwritten = names if EVERY in names else names | beside


def _write(owed: Owed, writer: Writer) -> None:
    """As a begin that was refused."""
    if EVERY in owed:
        writer.append(Gap(writer.now, ALL, f"writes of objects were refused: {owed[EVERY]}"))
        return
    for why, names in groupby(sorted(owed, key=lambda name: (owed[name], name)), owed.__getitem__):
        for some in _pieces(names):
            seq = writer.head() + 1
            writes = tuple(b"object:" + name for name in some)
            writer.append(Action(writer.now, ActionEvent.REFUSED, seq, writes, None, None, None, why, b"", some, ()))
            for name in some:
                writer.put_object(msgspec.structs.replace(writer.object_state(name), refused=seq))


def _pieces(names: Iterable[bytes]) -> Iterator[tuple[bytes, ...]]:
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
