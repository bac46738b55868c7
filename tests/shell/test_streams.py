"""Streams of the log with what each record touched."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from desk import Desk, Scripted, run

from provd.core import errors, params, records
from provd.core.records import DigestState, Hashed, MutationKind
from provd.subscriptions import touched_by


class Listener:
    """A connection that keeps what it is told."""

    streaming = False

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        self.closed = asyncio.Event()
        self._news = asyncio.Event()

    async def notify(self, line: bytes) -> None:
        for note in map(json.loads, line.splitlines()):
            self.told.append((note["method"], note["params"]))
        self._news.set()

    def close(self) -> None:
        self.closed.set()

    async def until(self, seq: int) -> list[tuple[str, Any]]:
        """What was told up to and with the record `seq`, without it."""
        while not any(method == "log.record" and told["seq"] == seq for method, told in self.told):
            self._news.clear()
            await self._news.wait()
        return [(m, t) for m, t in self.told if t.get("seq") != seq]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    watch = Scripted(os.fsencode(tmp_path / "root"))
    made = Desk(tmp_path, watch)
    watch.store = made.store
    (made.root / "d").mkdir()
    (made.root / "d" / "f").write_text("one")
    yield made
    made.close()


def test_each_record_is_followed_by_what_it_touched(desk: Desk) -> None:
    async def work() -> None:
        await desk.put("file", deps=["file:d/f"], as_of="put")
        await desk.put("dir", deps=["dir:d"], as_of="put")
        await desk.put("above", deps=["entry:file"], fetched_at=await desk.clock())
        listener = Listener()
        first = desk.store.head
        told = await desk.subscriptions.subscribe(listener, params.Subscribe(entries=True))  # type: ignore[arg-type]
        assert told["complete"]
        await desk.log(
            desk.mutation("d/f"),
            Hashed(1, first + 1, desk.path("d/f"), None, DigestState.SUPERSEDED),
            desk.mutation("d/g", MutationKind.CREATED),
            desk.mutation("elsewhere", MutationKind.MOVED, "d/f"),
            desk.mutation("other"),
            desk.gap(),
        )
        notes = await listener.until(first + 6)
        desk.subscriptions.closed(listener)  # type: ignore[arg-type]

        shown = [(m, t["seq"] - first, t.get("key")) for m, t in notes]
        changed = [(seq, key) for method, seq, key in shown if method == "entry.changed"]
        assert sorted(changed) == [(1, "above"), (1, "file"), (3, "dir"), (4, "above"), (4, "dir"), (4, "file")]
        order = [seq for _, seq, _ in shown]
        assert order == sorted(order), "what a record touched comes before the next one"
        firsts = [method for seq in (1, 3, 4) for method, at, _ in shown if at == seq]
        assert firsts[0] == "log.record"

    run(desk, work)


def test_a_stream_begins_after_all_that_had_happened(desk: Desk) -> None:
    async def work() -> None:
        assert isinstance(desk.watch, Scripted)
        desk.watch.told = [desk.mutation("d/f")]
        listener = Listener()
        told = await desk.subscriptions.subscribe(listener, params.Subscribe())  # type: ignore[arg-type]
        assert desk.clocks.since(told["clock"]).position == desk.store.head
        assert desk.watch.told == []
        desk.subscriptions.closed(listener)  # type: ignore[arg-type]

    run(desk, work)


def test_others_have_their_turn_while_many_entries_are_told(desk: Desk) -> None:
    count = 300

    async def work() -> None:
        for number in range(count):
            await desk.put(f"k{number}", deps=["file:d/f"], as_of="put")
        assert isinstance(desk.watch, Scripted)
        listener = Listener()
        await desk.subscriptions.subscribe(listener, params.Subscribe(entries=True))  # type: ignore[arg-type]
        await desk.store.submit(lambda writer: writer.append(desk.mutation("d/f")))
        seen: set[int] = set()
        while len(changed := [told for method, told in listener.told if method == "entry.changed"]) < count:
            seen.add(len(changed))
            await asyncio.sleep(0)
        assert {told["key"] for told in changed} == {f"k{number}" for number in range(count)}
        assert max(b - a for a, b in itertools.pairwise([*sorted(seen), count])) <= 128
        desk.subscriptions.closed(listener)  # type: ignore[arg-type]

    run(desk, work)


def test_a_stream_outlives_a_store_that_is_opened_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        listener = Listener()
        await desk.put("k", deps=["file:d/f"], as_of="put")
        await desk.subscriptions.subscribe(listener, params.Subscribe(entries=True))  # type: ignore[arg-type]
        real, failed = desk.store.view, asyncio.Event()
        views = 0

        def view() -> Any:
            nonlocal views
            views += 1
            if views % 2 == 0:  # so that each use of a view meets it once: the records, and what they touched
                return real()
            failed.set()
            raise errors.StoreUnusable("a commit has failed", "")

        monkeypatch.setattr(desk.store, "view", view)
        await failed.wait()
        [seq] = await desk.store.submit(lambda writer: [writer.append(desk.mutation("d/f"))])
        last = await desk.store.submit(lambda writer: writer.append(desk.mutation("other")))
        await listener.until(last)
        assert [(method, told["seq"]) for method, told in listener.told] == [
            ("log.record", seq),
            ("entry.changed", seq),
            ("log.record", last),
        ]
        assert not listener.closed.is_set()
        assert views > 4
        desk.subscriptions.closed(listener)  # type: ignore[arg-type]

    run(desk, work)


def test_what_was_imported_into_the_archive_touches_no_entry(desk: Desk) -> None:
    async def work() -> None:
        await desk.put("k", deps=[])
        with desk.store.view() as view:
            (entry,) = view.all_entries()
            came = records.EntryChange(1, records.EntryEvent.IMPORTED, entry.id.scope, "k", entry.version)
            touching = touched_by(came)
            assert touching is not None
            assert touching.take(view, 10)[0] == [entry.id]
            assert touching.done
        assert touched_by(msgspec.structs.replace(came, archived=True)) is None

    run(desk, work)


def test_a_stream_that_cannot_go_on_ends_its_connection(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        listener = Listener()
        monkeypatch.setattr(records, "to_wire", None)
        await desk.subscriptions.subscribe(listener, params.Subscribe(clock=desk.clocks.token(1)))  # type: ignore[arg-type]
        await desk.store.submit(lambda writer: [writer.append(desk.mutation("d/f"))])
        await listener.closed.wait()
        desk.subscriptions.closed(listener)  # type: ignore[arg-type]

    run(desk, work)
