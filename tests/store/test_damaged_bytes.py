"""A few bytes of one row are others than were written: whatever reads it has what it can hold, or is told of damage."""

from __future__ import annotations

import os
import random
import shutil
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import pytest
from damaging import KEYS, TABLES, harmed, stopped_home, variants
from storing import opened

from provd.core import errors, records
from provd.core.entry import EntryId
from provd.core.facts import Question
from provd.core.verdict import triage
from provd.recorder.applying import Forget
from provd.store.decoding import Damaged
from provd.store.files import Files
from provd.store.precedents import After, Precedents
from provd.store.reads import View
from provd.store.writes import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import lmdb

    from provd.core.entry import Entry
    from provd.store import Store

CASES = 400
MANY = 10_000
"""More than there is of anything here."""


class Row(NamedTuple):
    table: str
    key: bytes
    value: bytes


class Using:
    """Everything that reads rows, and what changes them."""

    def __init__(self, store: Store) -> None:
        with store.view() as view:
            self._entries = [entry.id for entry in view.all_entries()]
            self._root = view.roots()[0].path
        assert {entry_id.key for entry_id in self._entries} == {*KEYS, "other"}

    def reads(self, view: View) -> Iterator[Callable[[], object]]:
        yield from (view.gap_all, view.runs, view.roots, view.actions, view.any_on_entries)
        yield lambda: [records.to_wire(at, record) for at, record in view.all_records()]
        yield lambda: [records.shown_scope(entry.id.scope) for entry in view.all_entries()]
        yield lambda: list(islice(Precedents(view).after(None, After(began=view.head())), MANY))
        for op in ("b", "changed", "whole"):
            yield from (
                lambda op=op, about=about: view.answered(about, op) for about in (b"entry.put", b"action.begin")
            )
        for entry_id in self._entries:
            yield from self._of_entry(view, entry_id)
        for name in (b"x", b"y"):
            yield from (lambda name=name: view.object_state(name), lambda name=name: view._object_now(name))
        for path in (self._root, *(self._root + b"/" + name for name in (b"set/one", b"changed", b"set"))):
            yield from self._of_path(view, path)

    def _of_entry(self, view: View, entry_id: EntryId) -> Iterator[Callable[[], object]]:
        question = Question()

        def judged() -> None:
            targets: dict[EntryId, Entry | None] = {entry_id: view.entry_or_ruin(entry_id)}
            triage(targets, view.facts(targets, question), question)

        def looked_up() -> None:
            there = view.entry(entry_id)
            for index, kept in enumerate(there.deps or () if there else ()):
                yields = (view.touch(kept), view.newest_mutation(kept, 0), view.members(entry_id, index))
                assert len(yields) == 3

        yield from (judged, looked_up, lambda: view.stored(entry_id), lambda: list(view.archived(entry_id)))
        yield from (lambda: view.on_entry(entry_id), lambda: view.entries(entry_id.scope, "", None, 100, []))
        precedents = Precedents(view)
        yield lambda: precedents.origin(entry_id, 1)
        yield lambda: [precedents.imported(entry_id, made) for made in ("", "c:")]

    def _of_path(self, view: View, path: bytes) -> Iterator[Callable[[], object]]:
        yield from (lambda: view.path_state(path), lambda: view.touch_of(path, structural=True))
        yield from (lambda: view.newest_gap(path), lambda: view.on_path(path))
        yield lambda: view.touched([b"x", b"y"], [path], MANY)
        yield lambda: Files(view).get(path)
        yield lambda: Files(view).children(path)

        def walked() -> None:
            assert len(list(islice(Files(view).below(path), MANY))) < MANY

        yield walked

    def changes(self, writer: Writer) -> Iterator[Callable[[], object]]:
        yield from (lambda there=there: self._put_again(writer, there) for there in self._entries)
        yield from (lambda there=there: writer.forget(there) for there in self._entries)
        yield lambda: Forget(self._root, [])(writer)
        yield lambda: writer.trim(1, 0)
        yield writer.finish

    @staticmethod
    def _put_again(writer: Writer, entry_id: EntryId) -> None:
        if (there := writer.entry(entry_id)) is not None:
            writer.archive(there, "test", writer.stored(entry_id))
            writer.put_entry(there, writer.stored(entry_id), {})


def rows_of(store: Store) -> list[Row]:
    with store.environment.env.begin() as txn:
        return [
            Row(table, key, value) for table in TABLES for key, value in txn.cursor(db=store.environment.tables[table])
        ]


def faults(store: Store, using: Using, row: Row, value: bytes) -> list[str]:
    """What goes wrong with other bytes in a row, but for damage that is told; the store stays as it was."""
    found: list[str] = []

    def attempt(work: Callable[[], object]) -> None:
        try:
            work()
        except (Damaged, errors.ProvdError):
            pass
        except Exception as e:  # noqa: BLE001  each is a fault
            found.append(f"{row.table}: {row.value!r} as {value!r}: {e!r} at {e.__traceback__ and _where(e)}")

    with store.environment.env.begin(write=True) as txn:
        _replace(txn, store, row, value)
        for work in using.reads(View(store.environment, txn)):
            attempt(work)
        writer = Writer(store.environment, txn, 1)
        for work in using.changes(writer):
            attempt(work)
        txn.abort()
    return found


def _where(error: BaseException) -> str:
    at = error.__traceback__
    assert at is not None
    while at.tb_next is not None:
        at = at.tb_next
    return f"{os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno}"


def _replace(txn: lmdb.Transaction, store: Store, row: Row, value: bytes) -> None:
    db = store.environment.tables[row.table]
    if row.table in {"paths", "others"}:
        txn.delete(row.key, row.value, db=db)
        value = value or b"\0"
    txn.put(row.key, value, db=db)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    directory = str(tmp_path_factory.mktemp("home") / "store")
    with stopped_home() as home:
        shutil.copytree(os.path.join(home.state, "store"), directory)
    with opened(directory) as store:
        yield store


@pytest.mark.parametrize("table", TABLES)
def test_another_number_or_name_in_a_row_is_damage_or_another_row(store: Store, table: str) -> None:
    using = Using(store)
    for row in rows_of(store):
        if row.table == table:
            for value in variants(row.value):
                assert faults(store, using, row, value) == []


@pytest.mark.parametrize("seed", range(4))
def test_a_few_other_bytes_are_damage_or_another_row(store: Store, seed: int) -> None:
    chance, using, rows = random.Random(seed), Using(store), rows_of(store)
    for _ in range(CASES // 4):
        table = chance.choice(TABLES)  # else most were of the log
        row = chance.choice([row for row in rows if row.table == table])
        assert faults(store, using, row, harmed(chance, row.value)) == []
