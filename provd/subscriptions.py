"""Streams of the log: every record, numbers contiguous, at the pace of who reads.

Rule: a stream reads from the store what is durable, so it needs no memory of its own and loses nothing while its
client is slow.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any, Final, assert_never

import structlog

from provd.clocks import Clocks
from provd.core import errors, params, records, wire
from provd.core.entry import EntryId
from provd.server import Connection
from provd.store import Store, View
from provd.watching import PATIENCE, Watching

_SLICE: Final = 256
_LINES: Final = 128
"""Entries that are told of in one go: then questions have their turn."""
_AGAIN: Final = 0.05
_TOUCHING: Final = records.EntryChange | records.Action | records.Mutation
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

    async def _batch(self, after: int) -> list[tuple[int, records.Record]]:
        while True:
            try:
                with self._store.view() as view:
                    return view.records(after, _SLICE)
            except errors.StoreUnusable:  # a commit has failed: it is opened again, or the daemon ends
                await asyncio.sleep(_AGAIN)

    async def _stream(self, connection: Connection, after: int, *, entries: bool) -> None:
        while True:
            grown = self._grown
            batch = await self._batch(after)
            if batch and batch[0][0] != after + 1:
                lost = {"from": after + 1, "to": batch[0][0] - 1, "reason": "trimmed"}
                await connection.notify(wire.notification("log.lost", lost))
            touched = await self._touched(batch) if entries else {}
            for seq, record in batch:
                await connection.notify(wire.notification("log.record", records.to_wire(seq, record)))
                changed = touched.get(seq, [])
                for at in range(0, len(changed), _LINES):
                    for line in _changed(seq, changed[at : at + _LINES]):
                        await connection.notify(line)
                    await asyncio.sleep(0)
                after = seq
            if not batch:
                await grown.wait()

    async def _touched(self, batch: list[tuple[int, records.Record]]) -> dict[int, list[EntryId]]:
        """The entries that each record touched; in a thread, since they may be thousands, and once for all."""
        touching = [(seq, record) for seq, record in batch if isinstance(record, _TOUCHING)]
        return await asyncio.to_thread(self._look_up, touching) if touching else {}

    def _look_up(self, batch: list[tuple[int, records.Record]]) -> dict[int, list[EntryId]]:
        with self._store.thread_view() as view:
            return {seq: touched_entries(view, record) for seq, record in batch}


def _changed(seq: int, entry_ids: list[EntryId]) -> Iterator[bytes]:
    """The lines that tell that entries were touched."""
    scopes = {scope: records.wire_scope(scope) for scope in {entry_id.scope for entry_id in entry_ids}}
    told = ({"key": entry_id.key, "seq": seq} | scopes[entry_id.scope] for entry_id in entry_ids)
    return (wire.notification("entry.changed", one) for one in told)


def touched_entries(view: View, record: records.Record) -> list[EntryId]:
    """The entries that a record touched, with all that rest on them."""
    match record:
        case records.EntryChange(event=records.EntryEvent.LATE) | records.EntryChange(archived=True):
            return []
        case records.EntryChange():
            return view.with_dependents([EntryId(record.scope, record.key)], MAX_TOUCHED)
        case records.Action():
            return view.touched(record.objects, record.paths, MAX_TOUCHED)
        case records.Mutation():
            named = [record.path] if record.source is None else [record.path, record.source]
            return view.touched((), named, MAX_TOUCHED, structural=record.kind in records.STRUCTURAL)
        case records.Gap() | records.RootChange() | records.Coverage() | records.Hashed():
            return []
        case _:
            assert_never(record)
