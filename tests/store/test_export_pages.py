"""What is archived where nothing is active: found without reading all archives, and never at one go."""

from __future__ import annotations

import msgspec
import pytest
from storing import scratch

from provd import exporting
from provd.clocks import Clocks
from provd.core import records
from provd.core.entry import Entry, EntryId
from provd.exporting import Exporting
from provd.store import Store, Writer
from provd.store.keys import Stored
from provd.store.precedents import After, Precedents

RUN = "0123456789abcdef"
VALUE = b'"' + b"v" * 1000 + b'"'


def filled(writer: Writer) -> None:
    """Forty keys with something active and ten precedents each, in two scopes; ten with an archive alone."""
    position = writer.append(records.Gap(1, records.ALL, "started", RUN))
    for number in range(50):
        scope = b"/one" if number % 2 else b"/two"
        there = EntryId(scope, f"k{number}")
        for _ in range(10):
            position += 1
            writer.archive(Entry(there, position, position, 1, (), 0), "superseded", Stored(VALUE, None))
        if number < 40:
            writer.put_entry(Entry(there, 1, 1, 1, (), 0), Stored(b"1", None), {})


def test_of_a_key_that_has_something_active_one_row_is_read() -> None:
    with scratch() as store:
        store.run(filled)
        with store.view() as view:
            told = [what for _, what in Precedents(view).after(None, After(orphans=True))]
            one = [what for _, what in Precedents(view).after(b"/one", After(orphans=True))]
    assert sum(isinstance(what, int) for what in told) == 40
    assert sum(not isinstance(what, int) for what in told) == 10 * 10
    assert sum(isinstance(what, int) for what in one) == 45
    assert sum(not isinstance(what, int) for what in one) == 5 * 10


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_pages_that_pass_over_much_go_on_and_tell_everything_once(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_PAGE", 3000)
    with scratch() as store:
        store.run(filled)
        told, pages = exported(store, b"/one", limit)
    assert len(told) == 20 + 250
    assert len(set(told)) == len(told)
    assert pages > 10, "none of them reads much"


def exported(store: Store, scope: bytes, limit: int) -> tuple[list[tuple[str, str, int]], int]:
    """The standing, key and version of what is told, and in how many pages."""
    nobody: object = None
    export = Exporting(store, nobody, Clocks(store, RUN))  # type: ignore[arg-type]
    told: list[tuple[str, str, int]] = []
    last, pages = After(), 0
    while True:
        page = export._page(scope, last, limit)
        pages += 1
        for raw in page["entries"]:
            line = msgspec.json.decode(raw)
            told.append((line["standing"], line["key"], line["version"]))
        if "after" not in page:
            return told, pages
        last = exporting._after(page["after"])
