"""Who waits for what was not imported yet: as long as the entry is as it was, and no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from storing import SCOPE, entry, kept, put, scratch

from provd.core.entry import EntryId
from provd.store.precedents import Imported, note_imported, note_wanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from provd.store import Writer

BELOW = EntryId(SCOPE, "below")
TOP = EntryId(SCOPE, "top")


def waits(writer: Writer) -> None:
    put(writer, entry("top", kept(b"entry:below")), entry("other", kept(b"entry:below")))
    note_wanted(writer, BELOW, "made", TOP, 5)


@pytest.mark.parametrize(
    ("then", "rows"),
    [
        (lambda writer: put(writer, entry("top", version=6)), 0),
        (lambda writer: put(writer, entry("top", kept(b"entry:below"))), 0),
        (lambda writer: writer.forget(TOP), 0),
        (lambda writer: put(writer, entry("other")), 1),
        (lambda writer: writer.forget(EntryId(SCOPE, "other")), 1),
        (lambda writer: writer.forget(BELOW), 1),
        (lambda writer: writer.renew_entry(entry("top", kept(b"entry:below"))), 1),
    ],
)
def test_the_row_goes_with_what_waits(then: Callable[[Writer], None], rows: int) -> None:
    with scratch() as store:
        store.run(waits)
        store.run(then)
        with store.view() as view:
            assert view.count("imports") == rows
        assert store.run(lambda writer: note_imported(writer, BELOW, "made", Imported(7, 7))) == [TOP] * rows
