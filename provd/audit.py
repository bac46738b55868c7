"""The audit: what the daemon believes of files, compared with the files.

Rule: nothing is believed here, so it finds provd's own mistakes and changes that leave no trace. What is changing at
this moment is no mistake: it is looked at again when the log has caught up.
"""

from __future__ import annotations

import asyncio
import os
import random
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from provd.core.dependency import Kind
from provd.core.entry import lies_in
from provd.core.reading import Found, Reading, Signature
from provd.core.records import wire_name
from provd.core.verdict import reading_of
from provd.disk import Workers
from provd.store import Store, View

_SLICE: Final = 256
"""Files that are read at once."""
_DIRECTORIES: Final = 16
"""Directories that are listed and compared at once."""
_ROUNDS: Final = 3
_PATIENCE: Final = 600.0
_LISTING: Final = 30.0
MOST_COUNTED: Final = 100_000
"""Rows that are counted for a status."""
TRACELESS: Final = "content changed and stat did not"
UNCOVERED: Final = ": the place is not wholly watched"

State = tuple[str, int, int, int, int]
"""Sort (`f d l s`), size, times of modification and change (ns), inode; a directory has no size and no times."""


class Row(Protocol):
    """What the table of files has of a path: `state` has the five parts of a State, `digest` is raw or empty."""

    @property
    def state(self) -> msgspec.Struct:
        """What one `lstat` said."""

    @property
    def digest(self) -> bytes:
        """XXH3-128 of the content at that state."""


class Table(Protocol):
    """The table of files in one view."""

    def get(self, path: bytes) -> Row | None:
        """The row of a path."""

    def children(self, directory: bytes) -> Mapping[bytes, Row]:
        """The rows directly inside a directory, by name."""


Read = Callable[[frozenset[Reading], float], Awaitable[dict[Reading, Found]]]
Mismatch = dict[str, Any]


class Audit:
    """Compares entries and the table of files with the disk.

    `settled` returns when the log has caught up; `ignored` tells what is left out, `uncovered` the places at, above or
    below a path that cannot be watched; `table` is the table in a view, None where there is none.
    """

    def __init__(
        self,
        store: Store,
        workers: Workers,
        read: Read,
        *,
        table: Callable[[View], Table] | None,
        settled: Callable[[], Awaitable[None]],
        ignored: Callable[[bytes, bool], bool],
        uncovered: Callable[[bytes], Sequence[object]],
    ) -> None:
        self._store = store
        self._workers = workers
        self._read = read
        self._table = table
        self._settled = settled
        self._ignored = ignored
        self._uncovered = uncovered

    async def run(self, roots: Sequence[bytes], scope: bytes | None, sample: int | None) -> dict[str, Any]:
        """Compares `roots` with the table, and what entries of `scope` (None: all) and the table have digests of.

        At most `sample` files are read for that. Returns `{files, mismatches}`: how many were compared, what differs.
        """
        files, mismatches, digests = await self._compare(roots)
        believed = await asyncio.to_thread(self._believed, scope)
        for path, (state, digest) in digests.items():
            kept = believed.setdefault(Reading(Kind.FILE, path, "xxh3"), {})
            kept[state] = f"xxh3:{digest.hex()}"
        wanted = sorted(believed, key=lambda reading: reading.path)
        if sample is not None and sample < len(wanted):
            wanted = random.sample(wanted, sample)
        for at in range(0, len(wanted), _SLICE):
            mismatches += await self._reread({r: believed[r] for r in wanted[at : at + _SLICE]})
        return {"files": len(files | {reading.path for reading in wanted}), "mismatches": mismatches}

    def counts(self, roots: Sequence[bytes]) -> dict[bytes, int] | None:
        """How many files the table has below each root; None where counting would take long. Not for the loop."""
        if self._table is None:
            return None
        with self._store.thread_view() as view:
            if view.count("files") > MOST_COUNTED:
                return None
            table = self._table(view)
            return {root: _count(table, root) for root in roots}

    # entries and digests

    def _believed(self, scope: bytes | None) -> dict[Reading, dict[State, str]]:
        """What entries keep of files: for each reading the digest by the state that it was seen with."""
        believed: dict[Reading, dict[State, str]] = {}
        with self._store.thread_view() as view:
            for entry in view.all_entries():
                if scope is not None and not lies_in(entry.id, scope):
                    continue
                for kept in entry.deps or ():
                    if kept.dep.kind is Kind.FILE and kept.digest is not None and kept.signature is not None:
                        believed.setdefault(reading_of(kept), {})[_signed(kept.signature)] = kept.digest
        return believed

    async def _reread(self, believed: dict[Reading, dict[State, str]]) -> list[Mismatch]:
        found = await self._read(frozenset(believed), _PATIENCE)
        out = []
        for reading, digests in believed.items():
            there = found[reading]
            was = None if there.signature is None else digests.get(_signed(there.signature))
            if was is not None and there.digest not in {None, was}:
                told = {"path": wire_name(reading.path), "was": was, "is": there.digest}
                out.append(told | {"why": TRACELESS})
        return out

    # the table

    async def _compare(
        self, roots: Sequence[bytes]
    ) -> tuple[set[bytes], list[Mismatch], dict[bytes, tuple[State, bytes]]]:
        """The files that were compared, what differs, and the digests that the table has of the others."""
        files: set[bytes] = set()
        digests: dict[bytes, tuple[State, bytes]] = {}
        suspects: set[bytes] = set()
        if self._table is None:
            return files, [], digests
        await self._settled()
        own = set(roots)
        stack = list(roots)
        while stack:
            some = [stack.pop() for _ in range(min(_DIRECTORIES, len(stack)))]
            for directory, names, rows in await self._both(some):
                prefix = directory.rstrip(b"/") + b"/"
                for name in names.keys() | rows.keys():
                    path, now, row = prefix + name, names.get(name), rows.get(name)
                    if self._ignored(path, now is not None and now[0] == "d"):
                        continue
                    if row is None or _state_of(row) != now:
                        suspects.add(path)
                    elif now[0] == "f":
                        files.add(path)
                        if row.digest:
                            digests[path] = (now, row.digest)
                    elif now[0] == "d" and path not in own:
                        stack.append(path)
            await asyncio.sleep(0)
        return files, await self._confirmed(suspects), digests

    async def _both(self, directories: list[bytes]) -> list[tuple[bytes, Mapping[bytes, State], Mapping[bytes, Row]]]:
        """What some directories hold, by the disk and by the table; those that do not answer are left out."""
        listed = await self._workers.each(_listed, directories, _LISTING, apart=True)
        assert self._table is not None
        with self._store.view() as view:
            table = self._table(view)
            return [(directory, names, table.children(directory)) for directory, names in listed.items()]

    async def _confirmed(self, suspects: Iterable[bytes]) -> list[Mismatch]:
        """What still differs, and stands still while the log catches up."""
        left = set(suspects)
        out: dict[bytes, Mismatch] = {}
        for _ in range(_ROUNDS):
            if not left:
                break
            before = await self._workers.each(_state, left, _LISTING, apart=True)
            await self._settled()
            after = await self._workers.each(_state, left, _LISTING, apart=True)
            assert self._table is not None
            with self._store.view() as view:
                table = self._table(view)
                rows = {path: None if (row := table.get(path)) is None else _state_of(row) for path in left}
            for path in list(left):
                if path not in before or path not in after:
                    left.discard(path)  # it does not answer
                elif before[path] == after[path]:
                    left.discard(path)
                    if rows[path] != after[path]:
                        out[path] = _mismatch(path, rows[path], after[path])
                        if self._uncovered(path):  # a hole that status names, and no mistake
                            out[path]["why"] += UNCOVERED
        return [out[path] for path in sorted(out)]


def _count(table: Table, root: bytes) -> int:
    """The files below a directory, by the table."""
    files, stack = 0, [root]
    while stack:
        directory = stack.pop()
        prefix = directory.rstrip(b"/") + b"/"
        for name, row in table.children(directory).items():
            sort = _state_of(row)[0]
            files += sort == "f"
            if sort == "d":
                stack.append(prefix + name)
    return files


def _mismatch(path: bytes, was: State | None, now: State | None) -> Mismatch:
    if was is None:
        why = "it is there and the log does not know of it"
    elif now is None:
        why = "it is gone and the log does not know of that"
    else:
        why = "stat differs from what the log knows"
    return {"path": wire_name(path), "why": why, "was": _shown(was), "is": _shown(now)}


def _shown(state: State | None) -> str:
    if state is None:
        return "absent"
    sort, size, mtime_ns, _, ino = state
    if sort == "d":
        return f"directory, inode {ino}"
    kind = {"f": "file", "l": "link"}.get(sort, "special")
    return f"{kind} of {size} bytes, inode {ino}, mtime_ns {mtime_ns}"


def _state_of(row: Row) -> State:
    sort, size, mtime_ns, ctime_ns, ino = msgspec.structs.astuple(row.state)
    return (sort, size, mtime_ns, ctime_ns, ino)


def _signed(signature: Signature) -> State:
    """The state of a file that was read."""
    return ("f", signature.size, signature.mtime_ns, signature.ctime_ns, signature.ino)


def _state(path: bytes) -> State | None:
    """What is at `path`, links not followed; None where nothing is. Raises OSError."""
    try:
        return _of(os.lstat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _of(found: os.stat_result) -> State:
    if stat.S_ISDIR(found.st_mode):
        return ("d", 0, 0, 0, found.st_ino)
    sort = "f" if stat.S_ISREG(found.st_mode) else "l" if stat.S_ISLNK(found.st_mode) else "s"
    return (sort, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def _listed(directory: bytes) -> dict[bytes, State]:
    """What a directory holds. Raises OSError."""
    names: dict[bytes, State] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                names[entry.name] = _of(entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue
    return names
