"""When a path was last named by a mutation, and when nobody vouched for it: what silence of the log is worth.

Rule: a row holds positions, so that a question costs as many rows as a path has names, however many records there
are. A directory's row knows the newest mutation anywhere below it; only patterns have to look at their members.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, cast

from provd.core import glob, records
from provd.core.dependency import SET_KINDS, Dependency, Kind, above, base, is_under
from provd.core.entry import Kept
from provd.store import decoding, keys
from provd.store.decoding import Damaged
from provd.store.rows import Rows

PATH_MAX: Final = 4096
"""Bytes of a path that the system takes: nobody writes to a longer one."""
_POSITIONS: Final = struct.Struct(">5Q")
_positions: Final = decoding.reader(_POSITIONS.unpack_from, "when a path was named")


class Mention:
    """The newest positions at which mutations named a path, or gaps and changes of coverage did.

    `newest` is that of any mutation of the path itself, `structural` of one that changed whether it is there or of
    what type (as each gap may hide one that did), `below` of any of something below it, `inside` of a structural one
    directly inside it. `hashed` is the position of the digest of the `newest` one. 0 stands for none. `was` is the row
    as it lies in the store, for who changes it.
    """

    __slots__ = ("below", "hashed", "inside", "newest", "structural", "was")

    def __init__(self, newest: int = 0, structural: int = 0, below: int = 0, inside: int = 0, hashed: int = 0) -> None:
        self.newest = newest
        self.structural = structural
        self.below = below
        self.inside = inside
        self.hashed = hashed
        self.was = b""

    def forget(self, position: int) -> None:
        """The record at `position` was trimmed, after all before it."""
        if self.newest <= position:
            self.newest = self.hashed = 0
        self.structural = self.structural if self.structural > position else 0
        self.below = self.below if self.below > position else 0
        self.inside = self.inside if self.inside > position else 0

    def row(self, path: bytes) -> bytes:
        """The value of the row: the positions, and the path where the row's key does not hold all of it.

        Empty where there is nothing to keep.
        """
        if not (self.newest or self.below):
            return b""
        positions = _POSITIONS.pack(self.newest, self.structural, self.below, self.inside, self.hashed)
        return positions if len(path) <= keys.ORDERED else positions + path


def names(record: records.Mutation) -> tuple[bytes, ...]:
    """The paths that a mutation names."""
    return (record.path,) if record.source is None else (record.path, record.source)


def _may_hold(pattern: glob.Pattern, relative: bytes, known: dict[bytes, glob.States]) -> bool:
    """As `pattern.may_hold`, remembering the states of directories."""
    directory, _, name = relative.rpartition(b"/")
    todo: list[bytes] = []
    at = directory
    while at not in known:  # a path may have a thousand names: no recursion
        todo.append(at)
        at = at.rpartition(b"/")[0]
    for below in reversed(todo):
        known[below] = pattern.step(known[at], below.rpartition(b"/")[2])[1]
        at = below
    matched, states = pattern.step(known[directory], name)
    return matched or bool(states)


class History(Rows):
    """What the log says of paths."""

    def head(self) -> int:
        """The position of the newest record; 0 in an empty log."""
        row = self._get("meta", b"head")
        return 0 if row is None else decoding.number(row)

    def gap_all(self) -> int:
        """The position of the newest gap for all."""
        row = self._get("meta", b"gap_all")
        return 0 if row is None else decoding.number(row)

    def _mention(self, path: bytes, table: str = "touched") -> Mention:
        row = self._get(table, keys.place_key(path))
        return Mention() if row is None else Mention(*self._positions(row))

    def _positions(self, row: bytes) -> tuple[int, ...]:
        """The positions of a row, in their order. What is damaged may have been named just now, in any way."""
        try:
            return _positions(row)
        except Damaged as e:
            self._met(e)
            return (*[self.head()] * 4, 0)

    def last_named(self, path: bytes, *, structural: bool = False) -> int:
        """The position of the newest mutation that names the absolute `path` itself, 0 without one.

        With `structural` of those that changed whether it is there, or of what type.
        """
        if len(path) > PATH_MAX:
            return 0
        there = self._mention(path)
        return there.structural if structural else there.newest

    def _newest_matching(self, dep: Dependency, at: bytes, newest: int, last: int) -> int:
        """`newest`, or the position of a newer mutation of what a pattern may match below its base `at`.

        None is newer than `last`. What lies below a directory in which nothing newer happened is passed over.
        """
        pattern, start = glob.compile_pattern(dep.name), len(at.rstrip(b"/")) + 1
        first = 1 if dep.kind is Kind.NAMES else 0
        known = {b"": pattern.start()}  # what may match below each directory: members share their directories
        prefix = keys.path_key(at.rstrip(b"/") + b"/")
        cursor = self._txn.cursor(db=self._tables["touched"])
        quiet: set[bytes] = set()
        more = cursor.set_range(prefix)
        while more and newest < last:
            key, row = cast("tuple[bytes, bytes]", cursor.item())
            if not key.startswith(prefix):
                break
            path = key if len(key) <= keys.ORDERED else row[_POSITIONS.size :]
            if path is not key and not path.startswith(key[: keys.ORDERED]):  # its end is damaged: it may match
                return last
            directory = path.rpartition(b"/")[0]
            if directory in quiet:
                more = cursor.set_range(directory + b"0")  # the byte after the slash
                continue
            positions = self._positions(row)
            position, below = positions[first], positions[2]
            if below <= newest and len(path) < keys.ORDERED:
                quiet.add(path)
            if position > newest and is_under(path, at) and _may_hold(pattern, path[start:], known):
                newest = position
            more = cursor.next()
        return newest

    def newest_mutation(self, kept: Kept, after: int = 0) -> int | None:
        """The position of the newest mutation `after` a position that touches a path dependency, None without one.

        It names the dependency, its real path, a directory above one of them or a member; members of `dir:` and
        `names:` count only where what is there changed.
        """
        literal = base(kept.dep)
        newest = after
        for at in {literal, kept.real or literal}:
            if len(at) <= PATH_MAX:
                newest = max(newest, self._mention(at).newest, *(self._mention(up).newest for up in above(at)))
                newest = self._newest_member(kept.dep, at, newest)
        return newest if newest > after else None

    def _newest_member(self, dep: Dependency, at: bytes, newest: int) -> int:
        """`newest`, or the position of a newer mutation of a member of the set whose base is `at`."""
        if dep.kind not in SET_KINDS:
            return newest
        there = self._mention(at)
        if dep.kind is Kind.DIR:
            return max(newest, there.inside)
        if dep.kind is Kind.TREE:
            return max(newest, there.below)
        if there.below <= newest:
            return newest
        return self._newest_matching(dep, at, newest, there.below)

    def newest_gap(self, path: bytes, *, below: bool = False, inside: bool = False) -> int:
        """The position of the newest gap that concerns the absolute `path`: for all, for it, or for a directory above.

        A change of coverage is one. With `below` also those of places below it, with `inside` of those directly in it.
        """
        there = self._mention(path, "gaps")
        newest = max(self.gap_all(), there.newest, *(self._gap_at(up) for up in above(path)))
        return max(newest, there.below if below else 0, there.inside if inside else 0)

    def _gap_at(self, path: bytes) -> int:
        return self._mention(path, "gaps").newest

    def hashed(self, position: int, mutation: records.Mutation) -> int | None:
        """The position of the digest of a mutation that was recorded without, if it is the newest of its path."""
        there = self._mention(mutation.path)
        return there.hashed if there.newest == position and there.hashed else None

    def is_whole_since(self, kept: Kept, hops: Iterable[bytes], since: int) -> bool:
        """Whether no gap after `since` concerns a path dependency, and no mutation a name on its way.

        `hops` are the names looked up, `kept.real` where that ends. What `touch` tells, and whether the log still
        holds all that came after `since`, is not asked here.
        """
        if self.gap_all() > since:
            return False
        places = set(hops)
        places.update([up for hop in tuple(places) for up in above(hop)])
        if any(self._mention(place).newest > since or self._gap_at(place) > since for place in places):
            return False
        if kept.dep.kind is Kind.FILE:
            return True
        at, deep = kept.real or base(kept.dep), kept.dep.kind is not Kind.DIR
        return self.newest_gap(at, below=deep, inside=not deep) <= since  # a mount over a name changes its type
