"""Which entries a write may touch, and all that rests on those: they may be thousands, so a slice at a time.

Rule: each slice may be taken of another moment of the store, so that no view stays open while others have their turn.
What is put between two slices has a record of its own. Where the index says it all, no entry is read.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from provd.core.dependency import above
from provd.core.entry import Entry, EntryId
from provd.store import keys
from provd.store.decoding import Damaged, decoder, reader
from provd.store.resting import Resting

if TYPE_CHECKING:
    from provd.store.reads import View


class _Id(msgspec.Struct, array_like=True):
    """The beginning of an `Entry`."""

    id: EntryId


_parted: Final = reader(keys.parted, "the key of an entry")


class _Place(NamedTuple):
    """Where the index is looked at: under `key`, or with `below` under all keys that start with it.

    `rests` says of an entry's row whether it is touched; None where all are that lie there.
    """

    table: str
    key: bytes
    below: bool = False
    rests: Callable[[bytes], bool] | None = None


ALL: Final = sys.maxsize
"""More steps than there are: all is found in one go."""
_STEP: Final = 128
"""Bytes of a row that are decoded and looked through in about a step."""
_ids: Final = decoder(_Id, "an entry")


class Touching:
    """Up to `limit` entries that a write to objects and absolute paths may touch, with `deep` also what rests on them.

    A write that is not `structural` leaves what there is and of what type; `leaves` are those of the paths that are no
    directories and become none. `first` are touched whatever is written.
    """

    def __init__(
        self,
        objects: Iterable[bytes] = (),
        paths: Iterable[bytes] = (),
        first: Iterable[EntryId] = (),
        *,
        limit: int = ALL,
        structural: bool = True,
        leaves: Container[bytes] = (),
        deep: bool = True,
    ) -> None:
        self._first = deque(first)
        self._places = deque(_Place("others", keys.object_key(name)) for name in objects)
        self._places.extend(_places(tuple(dict.fromkeys(paths)), structural=structural, leaves=leaves))
        self._after: tuple[bytes, bytes] | None = None
        self._seen: set[bytes] = set()
        self._scopes: dict[bytes, bytes] = {}
        self._limit = limit
        self._deep = deep

    @property
    def done(self) -> bool:
        """Whether all were found."""
        return self._full or not (self._first or self._places)

    @property
    def _full(self) -> bool:
        return len(self._seen) >= self._limit

    def take(self, view: View, steps: int) -> tuple[list[EntryId], int]:
        """The next entries, none of them twice, found in about so many `steps`; and how many of those are left.

        A step is a row, or a place of the index where one may lie; a row that must be decoded is as many as it is long.
        """
        found: list[EntryId] = []
        deep = self._deep and view.any_on_entries()
        while self._first and steps > 0 and not self.done:
            steps -= 1
            entry_id = self._first.popleft()
            row = view.entry_key(entry_id)
            if row is None:  # nothing was ever put in its scope, so nothing rests on it
                found.append(entry_id)
            elif row not in self._seen:
                self._add(row, entry_id, found, deep=deep)
        while steps > 0 and not self.done:
            place = self._places[0]
            rows = view.indexed(place.table, place.key, self._after, steps, below=place.below)
            left = len(rows)
            ended = left < steps
            for self._after in rows:
                row = self._after[1]
                left, steps = left - 1, steps - 1
                if row not in self._seen and not self._full:
                    touched, more = self._is_touched(view, place, row)
                    steps -= more
                    if touched and (named := self._named(view, row)) is not None:
                        self._add(row, named, found, deep=deep)
                if steps <= 0:
                    break
            steps -= 1
            if ended and not left:
                self._places.popleft()
                self._after = None
        return found, steps

    def _add(self, row: bytes, entry_id: EntryId, found: list[EntryId], *, deep: bool) -> None:
        self._seen.add(row)
        found.append(entry_id)
        if deep:
            self._places.append(_Place("others", keys.dependent_key(row)))

    def _is_touched(self, view: View, place: _Place, row: bytes) -> tuple[bool, int]:
        """Whether a write to a place touches the entry of a row; and how many steps more than one that took."""
        if place.rests is None:
            return True, 0
        entry = view.entry_at(row)
        return (False, 0) if entry is None else (place.rests(entry), len(entry) // _STEP)

    def _named(self, view: View, row: bytes) -> EntryId | None:
        """The entry of a row's key. The key says it, but for the scope's name and what of a long name did not fit.

        None where that cannot be read, as of an index that is damaged.
        """
        try:
            number, key = _parted(row)
        except Damaged:
            return None
        scope = self._scopes.get(number)
        if scope is not None and key is not None:
            return EntryId(scope, key)
        there: EntryId | None = None
        with contextlib.suppress(Damaged):
            if (entry := view.entry_at(row)) is not None:
                there = _ids(entry).id
        if there is None and key is not None:  # another one of the scope may say what it is called
            named = next((one.id for _, one in view.entry_rows(number, number) if isinstance(one, Entry)), None)
            there = None if named is None else EntryId(named.scope, key)
        if there is not None:
            self._scopes[number] = there.scope
        return there


def _places(paths: tuple[bytes, ...], *, structural: bool, leaves: Container[bytes]) -> list[_Place]:
    """Where what rests on paths lies in the index: at them, below them, and, where a set may hold them, above."""
    rests = Resting(paths, structural=structural, leaves=leaves)
    places: list[_Place] = []
    for path in paths:
        below = path.rstrip(b"/") + b"/"
        # A key that was cut may be another path's: then the row of the entry tells.
        places.append(_Place("paths", keys.path_key(path), rests=None if len(path) < keys.ORDERED else rests))
        whole = len(below) <= keys.ORDERED
        places.append(_Place("paths", keys.path_key(below), below=True, rests=None if whole else rests))
    ups = dict.fromkeys(up for path in paths for up in above(path))
    return places + [_Place("paths", key, rests=rests) for key in dict.fromkeys(map(keys.path_key, ups))]
