"""Reading the store: a view is one moment of it, and what is taken from it is copied out."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar, cast

import msgspec

from provd.core import clock, packing, records
from provd.core.dependency import PATH_KINDS, SET_KINDS, Kind, Member, base, is_under, touches
from provd.core.entry import Entry, EntryId, Kept
from provd.core.facts import Facts, ObjectState, Question, Touch
from provd.core.verdict import MAX_DEPTH
from provd.store import keys
from provd.store.environment import EVERY
from provd.store.history import PATH_MAX, History
from provd.store.keys import Answered, Archived, OpenAction, PathState, Root, Stored
from provd.store.touching import ALL, Touching

_entries: Final = msgspec.msgpack.Decoder(Entry)
_stored: Final = msgspec.msgpack.Decoder(Stored)
_archived: Final = msgspec.msgpack.Decoder(Archived)
_members: Final = msgspec.msgpack.Decoder(tuple[Member, ...])
_objects: Final = msgspec.msgpack.Decoder(ObjectState)
_paths: Final = msgspec.msgpack.Decoder(PathState)
_actions: Final = msgspec.msgpack.Decoder(OpenAction)
_answers: Final = msgspec.msgpack.Decoder(Answered)
_roots: Final = msgspec.msgpack.Decoder(Root)


T = TypeVar("T")
MAX_BATCH: Final = 2 * 1024 * 1024
"""Bytes of records that are read at once: as JSON they still fit a line."""


class Damaged(msgspec.MsgspecError):
    """A row that cannot be read, in place of what it held."""


def _read(decoder: msgspec.msgpack.Decoder[T], value: bytes) -> T | Damaged:
    try:
        return decoder.decode(value)
    except (msgspec.MsgspecError, ValueError) as e:
        return Damaged(str(e))


def is_json(raw: bytes | None) -> bool:
    """Whether a value or meta of the store is one JSON value in UTF-8 still, or nothing."""
    try:
        return raw is None or bool(raw.decode() and msgspec.json.decode(raw, type=msgspec.Raw))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False


class View(History):
    """One moment of the store, inside one transaction."""

    # the log

    def head(self) -> int:
        """The position of the newest record; 0 in an empty log."""
        return int(self._get("meta", b"head") or 0)

    def oldest(self) -> int:
        """The position of the oldest record that is still held; 0 in an empty log."""
        return next((clock.position(key) for key, _ in self._rows("log")), 0)

    def record(self, position: int) -> records.Record | None:
        """The record at `position`, None where it is trimmed or never was."""
        data = self._get("log", clock.key(position))
        return None if data is None else packing.decode(data)

    def all_records(self) -> Iterator[tuple[int, records.Record]]:
        """Every record that is held, in order."""
        for key, value in self._rows("log"):
            yield clock.position(key), packing.decode(value)

    def records(self, after: int, limit: int, most: int = MAX_BATCH) -> list[tuple[int, records.Record]]:
        """Up to `limit` records with positions above `after`, in order; fewer where they are over `most` bytes."""
        out: list[tuple[int, records.Record]] = []
        size = 0
        for key, value in islice(self._rows("log", clock.key(after + 1)), limit):
            size += len(value)
            if size > most and out:
                break
            out.append((clock.position(key), packing.decode(value)))
        return out

    def runs(self) -> dict[str, clock.Span]:
        """What each run of this log told: its spans of positions."""
        begun = sorted((int(first), run.decode()) for run, first in self._rows("runs"))
        ends = [first - 1 for first, _ in begun[1:]] + [self.head()]
        return {run: clock.Span(first, last) for (first, run), last in zip(begun, ends, strict=True)}

    def roots(self) -> list[Root]:
        """The roots, in order of path."""
        return [_roots.decode(value) for _, value in self._rows("roots")]

    def root(self, path: bytes) -> Root | None:
        """The root at `path`, None where it is none."""
        data = self._get("roots", keys.short_hash(path))
        return None if data is None else _roots.decode(data)

    # entries

    def scope_number(self, scope: bytes) -> bytes | None:
        """The four bytes that stand for a scope, None where nothing was ever put in it."""
        return self._get("scopes", keys.short_hash(scope))

    def entry_key(self, entry_id: EntryId) -> bytes | None:
        """The key of an entry's rows, None where nothing was ever put in its scope."""
        number = self.scope_number(entry_id.scope)
        return None if number is None else keys.entry_key(number, entry_id.key.encode())

    def has_run(self, run: str) -> bool:
        """Whether a run began in this store."""
        return self._get("runs", run.encode()) is not None

    def entry_at(self, key: bytes) -> bytes | None:
        """The row of an active entry by its key."""
        return self._get("entries", key)

    def _entry_at(self, key: bytes) -> Entry | None:
        data = self.entry_at(key)
        return None if data is None else _entries.decode(data)

    def entry(self, entry_id: EntryId) -> Entry | None:
        """The active entry, None where there is none."""
        key = self.entry_key(entry_id)
        try:
            return None if key is None else self._entry_at(key)
        except (msgspec.MsgspecError, ValueError) as e:
            raise Damaged(f"the entry {entry_id.key!r} cannot be read: {e}") from None

    def entry_row(self, entry_id: EntryId) -> bytes | None:
        """The row of the active entry as it lies in the store: equal rows are the same entry, put or renewed once."""
        key = self.entry_key(entry_id)
        return None if key is None else self._get("entries", key)

    def stored(self, entry_id: EntryId) -> Stored:
        """The value and meta of an active entry."""
        key = self.entry_key(entry_id)
        data = None if key is None else self._get("values", key)
        try:
            return Stored(None, None) if data is None else _stored.decode(data)
        except (msgspec.MsgspecError, ValueError) as e:
            raise Damaged(f"the value of {entry_id.key!r} cannot be read: {e}") from None

    def members(self, entry_id: EntryId, index: int) -> tuple[Member, ...] | None:
        """What the entry's set number `index` held when it was kept, None where that is not known."""
        key = self.entry_key(entry_id)
        data = None if key is None else self._get("members", keys.short_hash(key) + index.to_bytes(4, "big"))
        return None if data is None else _members.decode(data)

    def archived(self, entry_id: EntryId, since: int = 0) -> Iterator[Archived]:
        """The precedents of a key that are not active, oldest first; those whose newest record is `since` a position.

        A precedent's newest record is none before its version.
        """
        key = self.entry_key(entry_id)
        if key is not None:
            prefix = keys.short_hash(key)
            for _, value in self._rows("archive", prefix + clock.key(since), prefix):
                yield _archived.decode(value)

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
            if isinstance(entry := _read(_entries, value), Damaged):
                if damaged is None:
                    raise entry
                damaged.append(keys.shown(key))
            elif entry.id.key.startswith(prefix):
                found.append(entry)
            if len(found) == limit:
                break
        return found

    def all_entries(self) -> Iterator[Entry]:
        """Every active entry."""
        for _, value in self._rows("entries"):
            yield _entries.decode(value)

    def entry_rows(self, low: bytes, prefix: bytes) -> Iterator[tuple[bytes, Entry | Damaged]]:
        """The rows of active entries from `low` on whose keys start with `prefix`."""
        for key, value in self._rows("entries", low, prefix):
            entry = _read(_entries, value)
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

    # what actions declared

    def object_state(self, name: bytes) -> ObjectState:
        """What actions declared of an object."""
        data = self._get("objects", keys.object_key(name))
        return ObjectState(name) if data is None else _objects.decode(data)

    def _object_now(self, name: bytes) -> ObjectState:
        """The same for judging: with what could not be recorded, which is newer than all clocks."""
        state, unwritten = self.object_state(name), self._environment.unwritten
        if unwritten and not unwritten.isdisjoint((name, EVERY)):
            return msgspec.structs.replace(state, refused=clock.MAX_POSITION)
        return state

    def path_state(self, path: bytes) -> PathState:
        """What actions declared of a path."""
        data = self._get("written", keys.written_key(path))
        return PathState(path) if data is None else _paths.decode(data)

    def touch_of(self, path: bytes, *, structural: bool) -> Touch:
        """What may last have touched what lies at `path`: a declared write to it, a mutation that names it.

        With `structural` only those count that change what there is and of what type.
        """
        return _touch([self.path_state(path)], self.last_named(path, structural=structural))

    def touch(self, kept: Kept, after: int = 0) -> Touch | None:
        """What may last have touched a path dependency: a declared write (an open one is the newest), a mutation.

        Of mutations only those `after` a position are looked for.
        """
        states: list[PathState] = []
        for literal in {base(kept.dep), kept.real or base(kept.dep)}:
            if len(literal) > PATH_MAX:
                continue  # the system takes no such path, so nobody writes to it
            at = literal
            while True:
                states.append(self.path_state(at))
                if at == b"/":
                    break
                at = at.rpartition(b"/")[0] or b"/"
            if kept.dep.kind in SET_KINDS:
                states += [s for s in self._written_below(literal) if touches(kept.dep, kept.real, s.path)]
        touch = _touch(states, self.newest_mutation(kept, after) or 0)
        return touch if touch.end != 0 or touch.mutation else None

    def _written_below(self, directory: bytes) -> Iterator[PathState]:
        prefix = keys.path_key(directory.rstrip(b"/") + b"/")
        states = (_paths.decode(value) for _, value in self._rows("written", prefix, prefix))
        return (state for state in states if is_under(state.path, directory))

    def action(self, action_id: int) -> OpenAction | None:
        """The open action of that id, None where it has ended or never was."""
        if not 0 <= action_id <= clock.MAX_POSITION:
            return None
        data = self._get("actions", clock.key(action_id))
        return None if data is None else _actions.decode(data)

    def actions(self) -> list[OpenAction]:
        """The open actions, oldest first."""
        return [_actions.decode(value) for _, value in self._rows("actions")]

    def answered(self, about: bytes, op: str) -> Answered | None:
        """The first answer to an op."""
        data = self._get("ops", keys.op_key(about, op))
        if data is None:
            return None
        told = _answers.decode(data)
        if not is_json(told.answer):
            raise Damaged(f"the first answer to the op {op!r} is no JSON")
        return told

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
                    known[entry_id] = self.entry(entry_id)
                    below = known[entry_id]
                    if below is not None and entry_id not in seen:
                        seen.add(entry_id)
                        level.append(below)
        return Facts(self.head(), self.gap_all(), known, objects, touched)


def _touch(states: Sequence[PathState], mutation: int) -> Touch:
    """The newest write that any of these paths had declared, an open one before all, beside this mutation."""
    opened = [s for s in states if s.open]
    if opened:
        return Touch(None, max(s.open[-1] for s in opened), mutation)
    newest = max(states, key=lambda s: s.last_end, default=None)
    if newest is not None and newest.last_end:
        return Touch(newest.last_end, newest.last_action, mutation)
    return Touch(0, None, mutation)
