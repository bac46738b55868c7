"""Reading the store: a view is one moment of it, and what is taken from it is copied out."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeVar, cast

from provd import quoting
from provd.core import clock, records
from provd.core import entry as entries
from provd.core.dependency import PATH_KINDS, Kind, Member
from provd.core.entry import Entry, EntryId, Ruin
from provd.core.facts import Facts, ObjectState, Question, Touch
from provd.core.verdict import MAX_DEPTH
from provd.store import decoding, keys
from provd.store.declared import Declared
from provd.store.decoding import Damaged, decoder, reader
from provd.store.keys import Archived, Root, Stored
from provd.store.touching import ALL, Touching

decode_entry: Final = decoder(Entry, "an entry", entries.check)
_stored: Final = decoder(Stored, "a value")
_archived: Final = decoder(Archived, "a precedent", lambda old: entries.check(old.entry))
_members: Final = decoder(tuple[Member, ...], "what a set held")
_roots: Final = decoder(Root, "a root", lambda root: entries.check_path(root.path))
_runs: Final = reader(bytes.decode, "a run")
_scopes: Final = reader(decoding.whole(4), "the number of a scope")
_LOST: Final = records.Gap(0, records.ALL, "a record is damaged in the store")
"""Stands in the place of a record that cannot be read."""

_LONG: Final = 256 * 1024
"""Bytes of rows, of some 2,000 dependencies."""

T = TypeVar("T")
MAX_BATCH: Final = 2 * 1024 * 1024
"""Bytes of records that are read at once: as JSON they still fit a line."""


def _read(decode: Callable[[bytes], T], row: bytes) -> T | Damaged:
    try:
        return decode(row)
    except Damaged as e:
        return e


def _forgetting(key: str) -> str:
    """How to get rid of an entry, which need not be the one that was asked about."""
    dashes = "-- " if key.startswith("-") else ""
    return f"provd forget {dashes}{quoting.typed(key)}  # then put it anew"


class View(Declared):
    """One moment of the store, inside one transaction."""

    # the log

    def oldest(self) -> int:
        """The position of the oldest record that is still held; 0 in an empty log."""
        return next((clock.position(key) for key, _ in self._rows("log")), 0)

    def look_at_needs(self) -> None:
        """Reads what each start needs; raises Damaged where that is damaged, or the log does not end at its head."""
        cursor = self._txn.cursor(db=self._tables["log"])
        last = clock.position(bytes(cursor.key())) if cursor.last() else self._before_first()
        if last != self.head():
            raise Damaged(f"the log ends at record {last}, its head says {self.head()}")
        self.runs()
        self.roots()
        self.actions()

    def _before_first(self) -> int:
        """The position before the first record of a log that has none yet."""
        row = self._get("meta", keys.BEGINS)
        return 0 if row is None else decoding.number(row)

    def _record(self, row: bytes) -> records.Record:
        return self._or(decoding.record, row, _LOST)

    def record(self, position: int) -> records.Record | None:
        """The record at `position`, None where it is trimmed or never was, a gap where it is damaged."""
        data = self._get("log", clock.key(position))
        return None if data is None else self._record(data)

    def all_records(self) -> Iterator[tuple[int, records.Record]]:
        """Every record that is held, in order."""
        for key, value in self._rows("log"):
            yield clock.position(key), self._record(value)

    def records(self, after: int, limit: int, most: int = MAX_BATCH) -> list[tuple[int, records.Record]]:
        """Up to `limit` records with positions above `after`, in order; fewer where they are over `most` bytes."""
        out: list[tuple[int, records.Record]] = []
        size = 0
        for key, value in islice(self._rows("log", clock.key(after + 1)), limit):
            size += len(value)
            if size > most and out:
                break
            out.append((clock.position(key), self._record(value)))
        return out

    def runs(self) -> dict[str, clock.Span]:
        """What each run of this log told: its spans of positions."""
        begun = sorted((decoding.number(first), _runs(run)) for run, first in self._rows("runs"))
        ends = [*[first - 1 for first, _ in begun[1:]], self.head()][: len(begun)]
        return {run: clock.Span(first, last) for (first, run), last in zip(begun, ends, strict=True)}

    def roots(self) -> list[Root]:
        """The roots, in order of path."""
        return [_roots(value) for _, value in self._rows("roots")]

    def root(self, path: bytes) -> Root | None:
        """The root at `path`, None where it is none."""
        data = self._get("roots", keys.short_hash(path))
        return None if data is None else _roots(data)

    # entries

    def scope_number(self, scope: bytes) -> bytes | None:
        """The four bytes that stand for a scope, None where nothing was ever put in it."""
        row = self._get("scopes", keys.short_hash(scope))
        return None if row is None else _scopes(row)

    def entry_key(self, entry_id: EntryId) -> bytes | None:
        """The key of an entry's rows, None where nothing was ever put in its scope."""
        number = self.scope_number(entry_id.scope)
        return None if number is None else keys.entry_key(number, entry_id.key.encode())

    def has_run(self, run: str) -> bool:
        """Whether a run began in this store."""
        return self._get("runs", run.encode()) is not None

    def entry_at(self, key: bytes) -> bytes | None:
        """The row of an active entry by its key."""
        return self._get("entries", key) if key else None

    def _entry_at(self, key: bytes) -> Entry | None:
        data = self.entry_at(key)
        return None if data is None else decode_entry(data)

    def entry(self, entry_id: EntryId) -> Entry | None:
        """The active entry, None where there is none; raises Damaged."""
        key = self.entry_key(entry_id)
        try:
            there = None if key is None else self._entry_at(key)
        except Damaged as e:
            raise Damaged(f"the entry {entry_id.key!r}: {e}", _forgetting(entry_id.key)) from None
        if there is not None and there.id != entry_id:
            raise Damaged(f"the entry {entry_id.key!r} is another one", _forgetting(entry_id.key))
        return there

    def entry_or_ruin(self, entry_id: EntryId) -> Entry | None:
        """The same for judging: what is damaged is a Ruin, of which nothing is known."""
        try:
            return self.entry(entry_id)
        except Damaged as e:
            self._met(e)
            return Ruin(entry_id, 0, 0, 0, None, 0)

    def are_long(self, entry_ids: Iterable[EntryId]) -> bool:
        """Whether active entries take longer to decode than others can wait."""
        try:
            return sum(len(self.entry_row(entry_id) or b"") for entry_id in entry_ids) > _LONG
        except Damaged:  # who judges them tells of it
            return False

    def entry_row(self, entry_id: EntryId) -> bytes | None:
        """The row of the active entry as it lies in the store: equal rows are the same entry, put or renewed once."""
        key = self.entry_key(entry_id)
        return None if key is None else self._get("entries", key)

    def stored(self, entry_id: EntryId) -> Stored:
        """The value and meta of an active entry."""
        key = self.entry_key(entry_id)
        data = None if key is None else self._get("values", key)
        try:
            return Stored(None, None) if data is None else _stored(data)
        except Damaged as e:
            raise Damaged(f"the value of {entry_id.key!r}: {e}", _forgetting(entry_id.key)) from None

    def members(self, entry_id: EntryId, index: int) -> tuple[Member, ...] | None:
        """What the entry's set number `index` held when it was kept, None where that is not known."""
        key = self.entry_key(entry_id)
        data = None if key is None else self._get("members", keys.short_hash(key) + index.to_bytes(4, "big"))
        return None if data is None else self._or(_members, data, None)

    def archived(self, entry_id: EntryId, since: int = 0) -> Iterator[Archived]:
        """The precedents of a key that are not active, oldest first; those whose newest record is `since` a position.

        A precedent's newest record is none before its version.
        """
        key = self.entry_key(entry_id)
        if key is not None:
            prefix = keys.short_hash(key)
            for _, value in self._rows("archive", prefix + clock.key(since), prefix):
                yield _archived(value)

    def entries(
        self, scope: bytes, prefix: str, after: str | None, limit: int, damaged: list[str] | None = None
    ) -> list[Entry]:
        """Up to `limit` active entries of a scope, in order, whose keys start with `prefix` and come after `after`.

        The keys of rows that cannot be read are added to `damaged`.
        """
        number = self.scope_number(scope)
        if number is None:
            return []
        low = keys.entry_key(number, prefix.encode())[: 4 + 470]
        past = None if after is None else keys.entry_key(number, after.encode())
        rows = self._rows("entries", max(low, past or b""), low)
        found: list[Entry] = []
        for key, value in rows:
            if key == past:
                continue
            if isinstance(entry := _read(decode_entry, value), Damaged):
                if damaged is None:
                    raise entry
                damaged.append(keys.shown(key))
            elif entry.id.key.startswith(prefix):
                found.append(entry)
            if len(found) == limit:
                break
        return found

    def scopes_of(self, key: str) -> Iterator[bytes]:
        """The scopes in which a key has an active entry that can be read; each scope takes a look, some µs."""
        for number in range(self.count("scopes")):
            row = self.entry_at(keys.entry_key(keys.nth_scope(number), key.encode()))
            there = None if row is None else self._or(decode_entry, row, None)
            if there is not None and there.id.key == key:
                yield there.id.scope

    def all_entries(self) -> Iterator[Entry]:
        """Every active entry that can be read."""
        for _, value in self._rows("entries"):
            if (entry := self._or(decode_entry, value, None)) is not None:
                yield entry

    def entry_rows(self, low: bytes, prefix: bytes) -> Iterator[tuple[bytes, Entry | Damaged]]:
        """The rows of active entries from `low` on whose keys start with `prefix`."""
        for key, value in self._rows("entries", low, prefix):
            entry = _read(decode_entry, value)
            yield key, entry

    def archive_rows(self, low: bytes, prefix: bytes) -> Iterator[tuple[bytes, Archived | Damaged]]:
        """The rows of the archive from `low` on whose keys start with `prefix`."""
        for key, value in self._rows("archive", low, prefix):
            old = _read(_archived, value)
            yield key, old

    def import_row(self, entry_id: EntryId, name: bytes) -> bytes | None:
        """What is kept under that name of what was imported for a key."""
        key = self.entry_key(entry_id)
        return None if key is None else self._get("imports", keys.short_hash(key) + name)

    def import_rows(self, entry_id: EntryId, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """The same of all names that start with `prefix`, with their names."""
        key = self.entry_key(entry_id)
        if key is None:
            return []
        start = keys.short_hash(key)
        return [(row[len(start) :], value) for row, value in self._rows("imports", start + prefix, start + prefix)]

    # what rests on what

    def _duplicates(self, table: str, key: bytes) -> list[bytes]:
        cursor = self._txn.cursor(db=self._tables[table])
        return cast("list[bytes]", list(cursor.iternext_dup())) if cursor.set_key(key) else []

    def any_on_entries(self) -> bool:
        """Whether any entry at all rests on another one."""
        return next(self._rows("others", keys.DEPENDENTS, keys.DEPENDENTS), None) is not None

    def on_entry(self, entry_id: EntryId) -> bool:
        """Whether any entry rests on this one."""
        key = self.entry_key(entry_id)
        return key is not None and self._get("others", keys.dependent_key(key)) is not None

    def on_path(self, path: bytes, *, leaf: bool = False) -> list[EntryId]:
        """The entries that a write to `path` may touch, each once: on it, on a set that holds it, on anything below.

        A write of a `leaf` makes no directory.
        """
        return Touching(paths=[path], deep=False, leaves={path} if leaf else ()).take(self, ALL)[0]

    def touched(
        self, objects: Iterable[bytes], paths: Iterable[bytes], limit: int, *, leaves: Container[bytes] = ()
    ) -> list[EntryId]:
        """Up to `limit` entries that a write to these may touch, and those that rest on them.

        `leaves` are those of the paths that are no directories and become none.
        """
        return Touching(objects, paths, limit=limit, leaves=leaves).take(self, ALL)[0]

    # judging

    def facts(self, targets: Mapping[EntryId, Entry | None], question: Question) -> Facts:
        """What the log knows of the entries asked about and of all that they rest on."""
        known: dict[EntryId, Entry | None] = {}
        objects: dict[bytes, ObjectState] = {}
        touched: dict[tuple[EntryId, int], Touch] = {}
        level = [entry for entry in targets.values() if entry is not None]
        seen = {entry.id for entry in level}
        depth = 0
        while level:
            wanted: list[EntryId] = []
            for entry in level:
                for index, kept in enumerate(entry.deps or ()):
                    if kept.dep.kind is Kind.OBJECT:
                        objects[kept.dep.name] = self._object_now(kept.dep.name)
                    elif kept.dep.kind in PATH_KINDS and (kept.digest is None or question.needs_log):
                        touch = self.touch(kept, entry.clock)
                        if touch is not None:
                            touched[entry.id, index] = touch
                wanted += entry.entry_ids()
            depth += 1
            if depth > MAX_DEPTH:
                break
            level = []
            for entry_id in wanted:
                if entry_id not in known:
                    known[entry_id] = self.entry_or_ruin(entry_id)
                    below = known[entry_id]
                    if below is not None and entry_id not in seen:
                        seen.add(entry_id)
                        level.append(below)
        return Facts(self.head(), self.gap_all(), known, objects, touched)
