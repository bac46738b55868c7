"""Every precedent of a store in one order, and what came from other stores.

Rule: an entry's active precedent comes first, then its archive, oldest first; the order stands still while others
write, so that whoever reads page by page meets everything that is there all the while.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import msgspec

from provd.core import clock
from provd.core.entry import Entry, EntryId, check_scope
from provd.core.portable import Origin, Position, Precedent
from provd.store import keys
from provd.store.declared import is_json
from provd.store.decoding import Damaged, decoder
from provd.store.keys import Archived, Waits
from provd.store.reads import View
from provd.store.writes import Writer

_MAX_ROW: Final = 500
"""Bytes of a row's key; LMDB takes some more."""


class After(msgspec.Struct, frozen=True, array_like=True):
    """What was read last: the row of an entry, and the position of the precedent in its archive (0: the active one).

    `orphans` says that all entries were read, and that `row` is one of the archive. `began` is the head at which the
    first page was read: who has a newer version may have been passed when he had none.
    """

    row: Annotated[bytes, msgspec.Meta(max_length=_MAX_ROW)] = b""
    position: Annotated[int, msgspec.Meta(ge=0, lt=clock.MAX_POSITION)] = 0
    orphans: bool = False
    began: int = clock.MAX_POSITION


class Imported(msgspec.Struct, frozen=True, array_like=True):
    """What an imported precedent is here: its version, and the newest record of it whose evidence was taken.

    That is the position `renewed` (-1: none) in the run `source` (log and run), and `identity` is that of its value.
    """

    version: Position
    renewed: int
    source: str = ""
    identity: bytes = b""


_PAST: Final = b"\xff" * 8
"""After every position: the archive of a key was passed over."""

_encode: Final = msgspec.msgpack.Encoder().encode
_imported: Final = decoder(Imported, "what an import is here")
_origin: Final = decoder(Origin, "where an import comes from")
_waiter: Final = decoder(EntryId, "who waits for an import", lambda there: check_scope(there.scope))
_waits: Final = decoder(Waits, "what an import waits for")


class Harmed(msgspec.Struct, frozen=True):
    """A precedent that cannot be told: its key as far as that is known, why, and its entry where that can be read."""

    key: str
    why: str
    entry: Entry | None = None


Told = Precedent | Harmed
_DAMAGED: Final = "it is damaged in the store"


def _whole(told: Precedent) -> Told:
    if is_json(told.value) and is_json(told.meta):
        return told
    return Harmed(told.entry.id.key, _DAMAGED, told.entry)


def _archived(old: Archived | Damaged, key: str) -> Told:
    if isinstance(old, Damaged):
        return Harmed(key, _DAMAGED)
    return _whole(Precedent(old.entry, old.value, old.meta, old.reason))


class Precedents:
    """The precedents of one view."""

    def __init__(self, view: View) -> None:
        self._view = view

    def after(self, scope: bytes | None, last: After) -> Iterator[tuple[After, Told | int]]:
        """All precedents (None: of every scope) after `last`, each with what says that it was read.

        A number in place of one tells the bytes of what was read and is none of these.
        """
        if not last.orphans:
            yield from self._of_entries(scope, last)
            last = After(orphans=True, began=last.began)
        yield from self._orphans(scope, last.row, last.began)

    def _of_entries(self, scope: bytes | None, last: After) -> Iterator[tuple[After, Told]]:
        view = self._view
        prefix = b"" if scope is None else view.scope_number(scope)
        if prefix is None:
            return
        for row, entry in view.entry_rows(last.row or prefix, prefix):
            after = 0
            if row == last.row:
                after = last.position
            else:
                yield After(row, began=last.began), self._active(row, entry)
            for key, old in view.archive_rows(keys.short_hash(row) + clock.key(after + 1), keys.short_hash(row)):
                at = After(row, clock.position(key[16:]), began=last.began)
                yield at, _archived(old, keys.shown(row))

    def _active(self, row: bytes, entry: Entry | Damaged) -> Told:
        if isinstance(entry, Damaged):
            return Harmed(keys.shown(row), _DAMAGED)
        try:
            stored = self._view.stored(entry.id)
        except Damaged:
            return Harmed(entry.id.key, _DAMAGED, entry)
        return _whole(Precedent(entry, stored.value, stored.meta))

    def _orphans(self, scope: bytes | None, last: bytes, began: int) -> Iterator[tuple[After, Told | int]]:
        """What is archived under keys that had nothing active at `began`: of each other key only one row is read."""
        while (row := next(self._view.archive_rows(last + b"\0", b""), None)) is not None:
            last, old = row
            if isinstance(old, Damaged):
                yield After(last, orphans=True, began=began), Harmed("", _DAMAGED)
                continue
            there = old.entry.id
            active = self._view.entry_or_ruin(there)
            if scope in {None, there.scope} and (active is None or active.version > began):
                yield After(last, orphans=True, began=began), _archived(old, there.key)
            else:
                last = last[:16] + _PAST
                yield After(last, orphans=True, began=began), len(old.value or b"") + len(old.meta or b"")

    # what was imported

    def imported(self, entry_id: EntryId, made: str) -> Imported | None:
        """What the precedent with that token is here, None where it was never imported."""
        row = self._view.import_row(entry_id, keys.IMPORTED + keys.short_hash(made.encode()))
        return None if row is None else _imported(row)

    def origin(self, entry_id: EntryId, version: int) -> Origin | None:
        """How the store called the precedent of that version that it came from, None where it was put here."""
        row = self._view.import_row(entry_id, keys.ORIGIN + clock.key(version))
        return None if row is None else _origin(row)

    def held(self, entry_id: EntryId, version: int, renewed: int | None = None) -> Entry | None:
        """A key's precedent of that version, or the one in the archive whose newest record is at `renewed`."""
        there = self._view.entry(entry_id)
        if there is not None and there.version == version:
            return there
        old = None if renewed is None else next(self._view.archived(entry_id, renewed), None)
        if old is not None and old.entry.renewed == renewed:  # so that a long archive is not read
            return old.entry
        return next((old.entry for old in self._view.archived(entry_id, version) if old.entry.version == version), None)


def note_origin(writer: Writer, entry_id: EntryId, version: int, origin: Origin) -> None:
    """Keeps how the store called the precedent of that version that it comes from."""
    writer.put_import(entry_id, keys.ORIGIN + clock.key(version), _encode(origin))


def note_imported(writer: Writer, entry_id: EntryId, made: str, here: Imported) -> list[tuple[Entry, Waits]]:
    """Keeps what an imported precedent is here; returns the entries that waited for it, with what they waited for.

    Only those that are as they were when they came: of who was put anew nobody knows what was seen.
    """
    writer.put_import(entry_id, keys.IMPORTED + keys.short_hash(made.encode()), _encode(here))
    out = []
    for name, row in writer.import_rows(entry_id, keys.wanted_name(made)):
        writer.put_import(entry_id, name, None)
        there = writer.entry(_waiter(row))
        waits = None if there is None else writer.import_row(there.id, keys.WAITING)
        if there is not None and waits is not None and (known := _waits(waits)).renewed == there.renewed:
            out.append((there, known))
    return out


def note_waiting(writer: Writer, entry: Entry, grounds: Sequence[tuple[int, str, str]]) -> None:
    """Keeps what an entry as it is now waits for, None of it where there are no grounds."""
    for _, key, made in grounds:
        name = keys.wanted_name(made) + keys.waiting_name(entry.id)
        writer.put_import(EntryId(entry.id.scope, key), name, _encode(entry.id))
    waits = _encode(Waits(entry.renewed, tuple(grounds))) if grounds else None
    writer.put_import(entry.id, keys.WAITING, waits)
