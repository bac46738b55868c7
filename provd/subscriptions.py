"""Streams of the log: every record, numbers contiguous, at the pace of who reads.

Rule: a stream reads from the store what is durable, so it needs no memory of its own and loses nothing while its
client is slow.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar, assert_never

import structlog

from provd.clocks import Clocks
from provd.core import errors, params, records, wire
from provd.core.entry import EntryId
from provd.server import Connection
from provd.store import Store, Touching, View
from provd.watching import PATIENCE, Watching

T = TypeVar("T")
_SLICE: Final = 256
_STEPS: Final = 128
"""Places in which touched entries are looked for in one go: then questions have their turn."""
_AGAIN: Final = 0.05
MAX_TOUCHED: Final = 10_000
"""Entries told of for one record."""
log = structlog.get_logger("subscriptions")


class Subscriptions:
    """The streams of all connections. `committed` is to be called when the log has grown."""

    def __init__(self, store: Store, clocks: Clocks, watch: Watching) -> None:
        self._store = store
        self._watch = watch
        self._clocks = clocks
        self._numbers = itertools.count(1)
        self._streams: dict[Connection, dict[int, asyncio.Task[None]]] = {}
        self._grown = asyncio.Event()

    def committed(self) -> None:
        """Wakes the streams."""
        self._grown.set()
        self._grown = asyncio.Event()

    async def subscribe(self, connection: Connection, asked: params.Subscribe) -> dict[str, Any]:
        """`log.subscribe`: records after `clock` (default: from now on) as notifications."""
        await self._watch.recorded(PATIENCE)
        since = None if asked.clock is None else self._clocks.since(asked.clock)
        start = self._store.head if since is None else since.position if since.exact else self._clocks.started - 1
        number = next(self._numbers)
        task = asyncio.ensure_future(self._run(connection, start, entries=asked.entries))
        self._streams.setdefault(connection, {})[number] = task
        connection.streaming = True
        return {
            "subscription": number,
            "clock": self._clocks.token(max(start, 1)),
            "complete": since is None or since.exact,
        }

    def unsubscribe(self, connection: Connection, asked: params.Unsubscribe) -> dict[str, Any]:
        """`log.unsubscribe`: ends one stream of the connection, or all."""
        streams = self._streams.get(connection, {})
        if asked.subscription is not None and asked.subscription not in streams:
            raise errors.InvalidParams(
                f"there is no subscription {asked.subscription} here", "log.subscribe tells its number"
            )
        ended = list(streams) if asked.subscription is None else [asked.subscription]
        for number in ended:
            streams.pop(number).cancel()
        connection.streaming = bool(streams)
        return {"ended": ended}

    def closed(self, connection: Connection) -> None:
        """Ends the streams of a connection that is gone."""
        for task in self._streams.pop(connection, {}).values():
            task.cancel()

    async def _run(self, connection: Connection, after: int, *, entries: bool) -> None:
        """A stream that cannot go on ends its connection: silence would say that nothing happens."""
        try:
            await self._stream(connection, after, entries=entries)
        except Exception:
            log.exception("a stream failed")
            connection.close()

    async def _stream(self, connection: Connection, after: int, *, entries: bool) -> None:
        left = _STEPS
        while True:
            grown = self._grown
            batch = await self._viewed(partial(View.records, after=after, limit=_SLICE))
            if batch and batch[0][0] != after + 1:
                lost = {"from": after + 1, "to": batch[0][0] - 1, "reason": "trimmed"}
                await connection.notify(wire.notification("log.lost", lost))
            for seq, record in batch:
                await connection.notify(wire.notification("log.record", records.to_wire(seq, record)))
                if entries:
                    left = await self._tell_touched(connection, seq, record, left)
                after = seq
            if not batch:
                await grown.wait()

    async def _tell_touched(self, connection: Connection, seq: int, record: records.Record, left: int) -> int:
        """Tells which entries a record touched; others have their turn after each `_STEPS`, of which `left` are left.

        Returns how many are left then.
        """
        touching = touched_by(record)
        while touching is not None and not touching.done:
            found, left = await self._viewed(partial(touching.take, steps=left))
            if found:
                await connection.notify(_changed(seq, found))
            if left <= 0:
                await asyncio.sleep(0)
                left = _STEPS
        return left

    async def _viewed(self, look: Callable[[View], T]) -> T:
        """What `look` takes from a view."""
        while True:
            try:
                with self._store.view() as view:
                    return look(view)
            except errors.StoreUnusable:  # a commit has failed: it is opened again, or the daemon ends
                await asyncio.sleep(_AGAIN)


def _changed(seq: int, found: list[EntryId]) -> bytes:
    """The lines that tell that entries were touched."""
    keys: dict[bytes, list[str]] = {}
    for entry_id in found:
        keys.setdefault(entry_id.scope, []).append(entry_id.key)
    lines = (
        wire.notifications("entry.changed", {"seq": seq} | records.wire_scope(scope), "key", some)
        for scope, some in keys.items()
    )
    return b"".join(lines)


def touched_by(record: records.Record) -> Touching | None:
    """What finds the entries that a record touched, with all that rest on them; None where it touches none."""
    match record:
        case records.EntryChange(event=records.EntryEvent.LATE) | records.EntryChange(archived=True):
            return None
        case records.EntryChange():
            return Touching(first=[EntryId(record.scope, record.key)], limit=MAX_TOUCHED)
        case records.Action():
            return Touching(record.objects, record.paths, limit=MAX_TOUCHED)
        case records.Mutation():
            named = [record.path] if record.source is None else [record.path, record.source]
            return Touching(paths=named, limit=MAX_TOUCHED, structural=record.kind in records.STRUCTURAL)
        case records.Gap() | records.RootChange() | records.Coverage() | records.Hashed():
            return None
        case _:
            assert_never(record)
