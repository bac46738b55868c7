"""Who waits for what was not imported yet: as long as the entry is as it was, and no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from storing import SCOPE, entry, kept, put, scratch

from provd.core.entry import EntryId
from provd.store.precedents import Imported, note_imported, note_waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from provd.store import Writer

BELOW = EntryId(SCOPE, "below")
TOP = EntryId(SCOPE, "top")


def waits(writer: Writer) -> None:
    put(writer, entry("top", kept(b"entry:below")), entry("other", kept(b"entry:below")))
    there = writer.entry(TOP)
    assert there is not None
    note_waiting(writer, there, [(0, "below", "made")])


@pytest.mark.parametrize(
    ("then", "rows"),
    [
        (lambda writer: put(writer, entry("top", version=11)), 0),
        (lambda writer: put(writer, entry("top", kept(b"entry:below"))), 0),
        (lambda writer: writer.forget(TOP), 0),
        (lambda writer: put(writer, entry("other")), 2),
        (lambda writer: writer.forget(EntryId(SCOPE, "other")), 2),
        (lambda writer: writer.forget(BELOW), 2),
    ],
)
def test_the_rows_go_with_what_waits(then: Callable[[Writer], None], rows: int) -> None:
    with scratch() as store:
        store.run(waits)
        store.run(then)
        with store.view() as view:
            assert view.count("imports") == rows
        told = store.run(lambda writer: note_imported(writer, BELOW, "made", Imported(7, 7)))
        assert [(one.id, waits.grounds) for one, waits in told] == [(TOP, ((0, "below", "made"),))] * (rows // 2)


def test_who_is_another_than_who_came_waits_no_more() -> None:
    with scratch() as store:
        store.run(waits)
        store.run(lambda writer: writer.renew_entry(entry("top", kept(b"entry:below"), version=11)))
        assert store.run(lambda writer: note_imported(writer, BELOW, "made", Imported(7, 7))) == []


def test_another_name_of_the_same_ground_wakes_nobody() -> None:
    with scratch() as store:
        store.run(waits)
        assert store.run(lambda writer: note_imported(writer, BELOW, "other", Imported(7, 7))) == []
