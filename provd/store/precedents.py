"""Every precedent of a store in one order, and what came from other stores.

Rule: an entry's active precedent comes first, then its archive, oldest first; the order stands still while others
write, so that whoever reads page by page meets everything that is there all the while.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from provd.core import clock
from provd.core.entry import EntryId
from provd.core.portable import Precedent
from provd.store import keys
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
    """What an imported precedent is here: its version, and its newest record there, as a position."""

    version: int
    renewed: int


_PAST: Final = b"\xff" * 8
"""After every position: the archive of a key was passed over."""

_encode: Final = msgspec.msgpack.Encoder().encode
_imported: Final = msgspec.msgpack.Decoder(Imported).decode
_waiting: Final = msgspec.msgpack.Decoder(tuple[EntryId, int]).decode


class Precedents:
    """The precedents of one view."""

    def __init__(self, view: View) -> None:
        self._view = view

    def after(self, scope: bytes | None, last: After) -> Iterator[tuple[After, Precedent | int]]:
        """All precedents (None: of every scope) after `last`, each with what says that it was read.

        A number in place of one tells the bytes of what was read and is none of these.
        """
        if not last.orphans:
            yield from self._of_entries(scope, last)
            last = After(orphans=True, began=last.began)
        yield from self._orphans(scope, last.row, last.began)

    def _of_entries(self, scope: bytes | None, last: After) -> Iterator[tuple[After, Precedent]]:
        view = self._view
        prefix = b"" if scope is None else view.scope_number(scope)
        if prefix is None:
            return
        for row, entry in view.entry_rows(last.row or prefix, prefix):
            after = 0
            if row == last.row:
                after = last.position
            else:
                stored = view.stored(entry.id)
                yield After(row, began=last.began), Precedent(entry, stored.value, stored.meta)
            for key, old in view.archive_rows(keys.short_hash(row) + clock.key(after + 1), keys.short_hash(row)):
                at = After(row, clock.position(key[16:]), began=last.began)
                yield at, Precedent(old.entry, old.value, old.meta, old.reason)

    def _orphans(self, scope: bytes | None, last: bytes, began: int) -> Iterator[tuple[After, Precedent | int]]:
        """What is archived under keys that had nothing active at `began`: of each other key only one row is read."""
        while (row := next(self._view.archive_rows(last + b"\0", b""), None)) is not None:
            last, old = row
            there = old.entry.id
            active = self._view.entry(there)
            if scope in {None, there.scope} and (active is None or active.version > began):
                yield After(last, orphans=True, began=began), Precedent(old.entry, old.value, old.meta, old.reason)
            else:
                last = last[:16] + _PAST
                yield After(last, orphans=True, began=began), len(old.value or b"") + len(old.meta or b"")

    # what was imported

    def imported(self, entry_id: EntryId, made: str) -> Imported | None:
        """What the precedent with that token is here, None where it was never imported."""
        row = self._view.import_row(entry_id, keys.IMPORTED + keys.short_hash(made.encode()))
        return None if row is None else _imported(row)

    def holds(self, entry_id: EntryId, version: int, renewed: int | None = None) -> bool:
        """Whether a key has a precedent of that version, whose newest record was at `renewed` once."""
        there = self._view.entry(entry_id)
        if there is not None and there.version == version:
            return True
        if renewed is not None and self._view.is_archived(entry_id, renewed):  # so that a long archive is not read
            return True
        return any(old.entry.version == version for old in self._view.archived(entry_id, version))


def note_imported(writer: Writer, entry_id: EntryId, made: str, here: Imported) -> list[EntryId]:
    """Keeps what an imported precedent is here; returns the entries that waited for it and are as they were then."""
    writer.put_import(entry_id, keys.IMPORTED + keys.short_hash(made.encode()), _encode(here))
    out = []
    for name, row in writer.import_rows(entry_id, keys.wanted_name(made)):
        writer.put_import(entry_id, name, None)
        waiting, version = _waiting(row)
        there = writer.entry(waiting)
        if there is not None and there.version == version:
            out.append(waiting)
    return out


def note_wanted(writer: Writer, entry_id: EntryId, made: str, waiting: EntryId, version: int) -> None:
    """Keeps that version `version` of `waiting` rests on a precedent of `entry_id` that is not here yet."""
    name = keys.wanted_name(made) + keys.waiting_name(waiting)
    writer.put_import(entry_id, name, _encode((waiting, version)))
