"""Changing the store: what a command may do inside one write transaction.

Rule: a command checks first and writes afterwards, so that a refused command leaves nothing behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import lmdb
import msgspec

from provd import faults
from provd.core import clock, packing, records
from provd.core.dependency import PATH_KINDS, PATTERN_KINDS, Dependency, Kind, Member, above, base, touches
from provd.core.entry import Entry, EntryId, Kept
from provd.core.facts import ObjectState
from provd.store import keys
from provd.store.decoding import Damaged, decoder
from provd.store.history import Mention, names
from provd.store.keys import Answered, Archived, OpenAction, PathState, Root, Stored
from provd.store.reads import View, decode_entry

if TYPE_CHECKING:
    from provd.store.environment import Environment

_encode: Final = msgspec.msgpack.Encoder().encode
_waits: Final = decoder(keys.Waits, "what an import waits for")
_TRIM_SLICE: Final = 1000
"""Records trimmed in one transaction: so many are no pause that anybody sees."""


class Writer(View):
    """A view in a write transaction; it sees what it wrote. `wrote` counts its changes, `gaps` has its new gaps."""

    def __init__(self, environment: Environment, txn: lmdb.Transaction, now: int) -> None:
        super().__init__(environment, txn)
        self.going_on = environment.going_on
        self._head = self._written_head = super().head()
        self._numbers: dict[bytes, bytes] = {}  # of scopes
        self.now = now
        self.wrote = 0
        self.gaps: list[tuple[int, records.Gap]] = []
        # What this transaction says of paths and is not written yet; and the ones above what is in a directory.
        self._mentions: dict[str, dict[bytes, Mention]] = {"touched": {}, "gaps": {}}
        self._chains: dict[tuple[str, bytes], tuple[Mention, ...]] = {}
        # For trimming: which paths verdicts need, and the patterns by their bases.
        self._needed: dict[bytes, bool] = {}
        self._patterns: dict[bytes, list[Kept]] = {}

    def head(self) -> int:
        """The position of the newest record."""
        return self._head

    def _put(self, table: str, key: bytes, value: bytes) -> None:
        self.wrote += 1
        self._txn.put(key, value, db=self._tables[table])

    def _delete(self, table: str, key: bytes, value: bytes = b"") -> None:
        self.wrote += 1
        self._txn.delete(key, value, db=self._tables[table])

    def put_meta(self, name: bytes, value: bytes | None) -> None:
        """Keeps a small value by its name, or drops it."""
        if value is None:
            self._delete("meta", name)
        else:
            self._put("meta", name, value)

    # the log

    def append(self, record: records.Record) -> int:
        """Appends a record and returns its position: the next number, always."""
        position = self._head + 1
        self.wrote += 1
        if not self._txn.put(clock.key(position), packing.encode(record), append=True, db=self._tables["log"]):
            raise RuntimeError(f"record {position} would not be the newest one")
        self._head = position
        if isinstance(record, records.Gap):
            self.gaps.append((position, record))
            if record.scope == records.ALL:
                self._put("meta", b"gap_all", b"%d" % position)
            if record.run:
                self._put("runs", record.run.encode(), b"%d" % position)
        self._note(position, record)
        return position

    def finish(self) -> None:
        """Writes what waits to be written; to be called before the transaction is committed, and harmless before."""
        if self._head != self._written_head:
            self._put("meta", b"head", b"%d" % self._head)
            self._written_head = self._head
        for name, mentions in self._mentions.items():
            table = self._tables[name]
            for path, there in mentions.items():
                row = there.row(path)
                if row == there.was:  # trimmed was what it says nothing of: another page would be written for nothing
                    continue
                if row:
                    self._txn.put(keys.place_key(path), row, db=table)
                else:
                    self._txn.delete(keys.place_key(path), db=table)
            mentions.clear()
        self._chains.clear()

    def _mention(self, path: bytes, table: str = "touched") -> Mention:
        return self._mentions[table].get(path) or super()._mention(path, table)

    def _newest_matching(self, dep: Dependency, at: bytes, newest: int, last: int) -> int:
        self.finish()
        return super()._newest_matching(dep, at, newest, last)

    def _changing(self, path: bytes, table: str = "touched") -> Mention:
        there = self._mentions[table].get(path)
        if there is None:
            there = self._mentions[table][path] = super()._mention(path, table)
            there.was = there.row(path)
        return there

    def index_again(self, position: int, record: records.Record) -> None:
        """Keeps what a record says of paths, of one that is in the log; to be called in order of position."""
        self.wrote += 1
        self._note(position, record)

    def _note(self, position: int, record: records.Record) -> None:
        """Keeps when each path was last named: a burst names the same directories again and again."""
        match record:
            case records.Mutation():
                structural = record.kind in records.STRUCTURAL
                for path in names(record):
                    self._note_path(position, path, structural=structural)
            case records.Hashed(digest_state=records.DigestState.DONE):
                there = self._changing(record.path)
                if there.newest == record.of:
                    there.hashed = position
            case records.Gap() if record.scope != records.ALL:
                self._note_path(position, record.scope, structural=True, table="gaps")
            case records.Coverage():  # what is watched from here on only was not watched before
                self._note_path(position, record.path, structural=True, table="gaps")
            case _:
                pass

    def _note_path(self, position: int, path: bytes, *, structural: bool, table: str = "touched") -> None:
        there = self._changing(path, table)
        there.newest, there.hashed = position, 0
        if structural:
            there.structural = position
        chain = self._chain(path, table)
        for there in chain:
            there.below = position
        if structural and chain:
            chain[0].inside = position

    def _chain(self, path: bytes, table: str) -> tuple[Mention, ...]:
        """The directories above a path, nearest first: the same for all that is in one directory."""
        directory = path.rpartition(b"/")[0] if path != b"/" else path
        chain = self._chains.get((table, directory))
        if chain is None:
            chain = self._chains[table, directory] = tuple(self._changing(place, table) for place in above(path))
        return chain

    def _forget_paths(self, position: int, record: records.Record) -> None:
        """A record was trimmed, after all before it: what it was the newest to say is not known any more."""
        match record:
            case records.Mutation():
                for path in names(record):
                    self._forget_path(position, path, "touched")
            case records.Gap() if record.scope != records.ALL:
                self._forget_path(position, record.scope, "gaps")
            case records.Coverage():
                self._forget_path(position, record.path, "gaps")
            case _:
                pass

    def _forget_path(self, position: int, path: bytes, table: str) -> None:
        for place in (path, *above(path)):
            if table == "gaps" or not self._is_needed(place):
                self._changing(place, table).forget(position)

    def _is_needed(self, path: bytes) -> bool:
        """Whether the verdict on any entry may rest on when `path` was last named: retention changes no verdict.

        An entry rests on it, on something below it, or on a pattern that may match it. Gaps are none of that: where
        they are forgotten, so is the time from which silence would count.
        """
        needed = self._needed.get(path)
        if needed is None:
            below = keys.path_key(path.rstrip(b"/") + b"/")
            needed = bool(self._duplicates("paths", keys.path_key(path)))
            needed = needed or next(self._rows("paths", below, below), None) is not None
            needed = needed or any(
                touches(kept.dep, kept.real, path) for up in above(path) for kept in self._patterns_at(up)
            )
            self._needed[path] = needed
        return needed

    def _patterns_at(self, directory: bytes) -> list[Kept]:
        """The patterns that entries rest on and whose base is a directory."""
        patterns = self._patterns.get(directory)
        if patterns is None:
            rows = (self.entry_at(key) for key in self._duplicates("paths", keys.path_key(directory)))
            found = (self._or(decode_entry, row, None) for row in rows if row is not None)
            deps = (kept for entry in found if entry is not None for kept in entry.deps or ())
            patterns = self._patterns[directory] = [kept for kept in deps if kept.dep.kind in PATTERN_KINDS]
        return patterns

    def trim(self, keep_records: int, oldest_at: int) -> int:
        """Trims up to a slice of the oldest records: those over `keep_records`, and those older than `oldest_at` (ns).

        The newest record always stays. What verdicts need lies in other tables. Returns how many went.
        """
        gone = 0
        self._needed.clear()  # another command of this transaction may have put entries
        self._patterns.clear()
        for position, record in self.records(0, _TRIM_SLICE):
            if position == self._head or (position > self._head - keep_records and record.at >= oldest_at):
                break
            if isinstance(record, records.Action | records.EntryChange) and record.op:
                self._delete("ops", record.op)
            self._forget_paths(position, record)
            self._delete("log", clock.key(position))
            gone += 1
        if gone:
            faults.point("trim.cut")
        return gone

    # entries

    def scope_number(self, scope: bytes) -> bytes | None:
        number = self._numbers.get(scope) or super().scope_number(scope)
        if number is not None:
            self._numbers[scope] = number
        return number

    def _number(self, scope: bytes) -> bytes:
        number = self.scope_number(scope)
        if number is None:
            number = keys.nth_scope(self.count("scopes"))
            self._put("scopes", keys.short_hash(scope), number)
        return number

    def _entry_key(self, entry_id: EntryId) -> bytes:
        return keys.entry_key(self._number(entry_id.scope), entry_id.key.encode())

    def put_entry(self, entry: Entry, stored: Stored | None, members: dict[int, tuple[Member, ...]]) -> None:
        """Makes `entry` the active one of its key. `stored` None keeps the value as it is."""
        key = self._entry_key(entry.id)
        old = self.entry(entry.id)
        self._wait_no_more(entry.id)
        self._put("entries", key, _encode(entry))
        if stored is not None:
            self._put("values", key, _encode(stored))
        if old is None or old.deps != entry.deps:
            self._reindex(key, self._index_rows(old), self._index_rows(entry))
            self._drop("members", key)
            for index, held in members.items():
                self._put("members", keys.short_hash(key) + index.to_bytes(4, "big"), _encode(held))

    def renew_entry(self, entry: Entry) -> None:
        """Stores an active entry whose dependencies and value are as before."""
        self._put("entries", self._entry_key(entry.id), _encode(entry))

    def archive(self, entry: Entry, reason: str, stored: Stored) -> None:
        """Keeps a precedent that is not active, under the position of its newest record."""
        key = keys.short_hash(self._entry_key(entry.id)) + clock.key(entry.renewed)
        self._put("archive", key, _encode(Archived(entry, reason, stored.value, stored.meta)))

    def put_import(self, entry_id: EntryId, name: bytes, row: bytes | None) -> None:
        """Keeps what is known of what was imported for a key, or drops it."""
        key = keys.short_hash(self._entry_key(entry_id)) + name
        if row is None:
            self._delete("imports", key)
        else:
            self._put("imports", key, row)

    def _wait_no_more(self, entry_id: EntryId) -> None:
        """An entry is replaced or goes: it waits no more for what it rests on to be imported."""
        row = self.import_row(entry_id, keys.WAITING)
        if row is None:
            return
        for _, key, made in self._or(_waits, row, keys.Waits(0, ())).grounds:
            self.put_import(EntryId(entry_id.scope, key), keys.wanted_name(made) + keys.waiting_name(entry_id), None)
        self.put_import(entry_id, keys.WAITING, None)

    def forget(self, entry_id: EntryId) -> None:
        """Takes an entry away, with its value and its archive. Who waits for it to be imported goes on waiting."""
        key = self._entry_key(entry_id)
        self._wait_no_more(entry_id)
        try:
            rows = self._index_rows(self.entry(entry_id))
        except Damaged:
            rows = self._index_of(key)
        self._reindex(key, rows, set())
        self._drop("members", key)
        self._drop("archive", key)
        self._drop("imports", key, keys.IMPORTED)
        self._drop("imports", key, keys.ORIGIN)
        self._delete("entries", key)
        self._delete("values", key)

    def _drop(self, table: str, key: bytes, name: bytes = b"") -> None:
        """Drops the rows of an entry from a table that is keyed by its hash first, those whose `name` begins so."""
        prefix = keys.short_hash(key) + name
        for row in [row for row, _ in self._rows(table, prefix, prefix)]:
            self._delete(table, row)

    def _index_of(self, key: bytes) -> set[tuple[str, bytes]]:
        """The index rows of an entry that cannot be read: all there are are looked through, a second for a million."""
        return {(table, row) for table in ("paths", "others") for row, value in self._rows(table) if value == key}

    def _reindex(self, key: bytes, before: set[tuple[str, bytes]], after: set[tuple[str, bytes]]) -> None:
        for table, row in before - after:
            self._delete(table, row, key)
        for table, row in after - before:
            self._put(table, row, key)

    def _index_rows(self, entry: Entry | None) -> set[tuple[str, bytes]]:
        rows: set[tuple[str, bytes]] = set()
        for kept in entry.deps or () if entry else ():
            if kept.dep.kind is Kind.OBJECT:
                rows.add(("others", keys.object_key(kept.dep.name)))
            elif kept.dep.kind in PATH_KINDS:
                rows.add(("paths", keys.path_key(base(kept.dep))))
                if kept.real is not None:
                    rows.add(("paths", keys.path_key(kept.real)))
            elif entry is not None:
                below = keys.entry_key(self._number(entry.id.scope), kept.dep.name)
                rows.add(("others", keys.dependent_key(below)))
        return rows

    # actions, objects, roots, answers

    def put_action(self, action: OpenAction) -> None:
        """Keeps an action that has begun."""
        self._put("actions", clock.key(action.id), _encode(action))

    def drop_answer(self, op_key: bytes) -> None:
        """Drops the answer to an op: the next one with that op is a new request."""
        self._delete("ops", op_key)

    def delete_action(self, action_id: int) -> None:
        """Drops an action that has ended."""
        self._delete("actions", clock.key(action_id))

    def put_object(self, state: ObjectState) -> None:
        """Keeps what actions declared of an object."""
        self._put("objects", keys.object_key(state.name), _encode(state))

    def put_path(self, state: PathState) -> None:
        """Keeps what actions declared of a path."""
        self._put("written", keys.written_key(state.path), _encode(state))

    def put_root(self, root: Root) -> None:
        """Keeps a root."""
        self._put("roots", keys.short_hash(root.path), _encode(root))

    def delete_root(self, path: bytes) -> None:
        """Drops a root."""
        self._delete("roots", keys.short_hash(path))

    @staticmethod
    def op_key(about: bytes, op: str) -> bytes:
        """What a record keeps of an op, so that the answer goes when the record is trimmed."""
        return keys.op_key(about, op)

    def put_answer(self, about: bytes, op: str, answered: Answered) -> None:
        """Keeps the first answer to an op."""
        self._put("ops", keys.op_key(about, op), _encode(answered))
