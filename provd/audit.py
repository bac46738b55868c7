"""The audit: what the daemon believes of files, compared with the files.

Rule: nothing is believed here, so it finds provd's own mistakes and changes that leave no trace. What is changing at
this moment is no mistake: it is looked at again when the log has caught up. What could not be looked at is told:
silence would say that it was.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from provd.believed import SILENT, Mismatch, Read, Rereader, State, believed_by_entries
from provd.core import errors
from provd.core.dependency import Kind, up_to
from provd.core.mutation import DIRECTORY, FILE, LINK
from provd.core.reading import Reading
from provd.core.records import wire_name
from provd.disk import Workers
from provd.disk.states import MOUNTED, Unlisted, listing_at_once, state_of
from provd.store import Store, View

_DIRECTORIES: Final = 16
"""Directories that are listed and compared at once."""
_ROUNDS: Final = 3
_IS_DIRECTORY: Final = True
_LISTING: Final = 30.0
MOST_TOLD: Final = 64
"""Places that were not looked at and are named; all are counted."""
MOST_COUNTED: Final = 100_000
"""Rows that are counted for a status."""
UNCOVERED: Final = ": the place is not wholly watched"
APART: Final = "on it lies another file system, which may hang and is not watched"
RESTAMPED: Final = "content changed, and of what stat says only the ctime; the log does not know of that"
RESTLESS: Final = "it changed each time that it was looked at"
GONE: Final = "the root is gone"
UNWATCHED: Final = "no root holds it, so the log knows nothing of it"
BESIDE: Final = "no root holds it: only the roots in it were looked at"
IGNORED: Final = "the rules of its root leave it out, so the log knows nothing of it"
ALL_IGNORED: Final = "the rules of the root leave out all that is in it"

_MOUNTED: Final = msgspec.structs.astuple(MOUNTED)


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


class _Walked:
    """What a comparison of trees with the table came to.

    `files` were compared, `digests` is what the table has of them and at which state, `mismatches` is what differs,
    `restamped` is that of which only the ctime does: nothing is wrong unless its content is another, since a name that
    comes or goes beside it moves that, and makes no event of its own. `ignored` is how many names the rules left out
    (what lies below them is not counted), and `skipped` is what was not looked at and why.
    """

    def __init__(self) -> None:
        self.files: set[bytes] = set()
        self.ignored = 0
        self.digests: dict[bytes, tuple[State, bytes]] = {}
        self.mismatches: list[Mismatch] = []
        self.restamped: set[bytes] = set()
        self.skipped: dict[bytes, str] = {}


class Audit:
    """Compares entries and the table of files with the disk.

    `settled` returns when the log has caught up; `ignored` tells what is left out, `uncovered` the places at, above or
    below a path that cannot be watched; `table` is the table in a view, None where there is none; `renew` has the rows
    of some paths made anew, with records of what differs.
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
        renew: Callable[[Iterable[bytes]], None],
    ) -> None:
        self._store = store
        self._workers = workers
        self._rereader = Rereader(workers, read)
        self._table = table
        self._settled = settled
        self._ignored = ignored
        self._uncovered = uncovered
        self._renew = renew
        self._running: set[asyncio.Task[dict[str, Any]]] = set()
        self._ended = False

    def end(self) -> None:
        """Ends what runs at once: the daemon ends."""
        self._ended = True
        for task in self._running:
            task.cancel()

    async def run(
        self, roots: Sequence[bytes], scope: bytes | None, sample: int | None, skipped: Mapping[bytes, str]
    ) -> dict[str, Any]:
        """Compares `roots` with the table, and what entries of `scope` (None: all) and the table have digests of.

        At most `sample` files are read for that; `skipped` is what the caller leaves out, and why. Returns `{files,
        read, ignored, mismatches, skipped: {count, places: [{path, why}]}}`: how many files were compared and how many
        of them read, how many names the rules leave out, what differs, and what was not looked at. Raises ShuttingDown.
        """
        task = asyncio.ensure_future(self._run(roots, scope, sample, skipped))
        self._running.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if not self._ended:
                raise
            raise errors.ShuttingDown("the daemon ends", "audit again when it runs") from None
        finally:
            self._running.discard(task)

    async def _run(
        self, roots: Sequence[bytes], scope: bytes | None, sample: int | None, skipped: Mapping[bytes, str]
    ) -> dict[str, Any]:
        walked = await self._compare(roots)
        walked.skipped |= skipped
        believed = await asyncio.to_thread(believed_by_entries, self._store, scope)
        for path, (state, digest) in walked.digests.items():
            kept = believed.digests.setdefault(Reading(Kind.FILE, path, "xxh3"), {})
            kept[state] = f"xxh3:{digest.hex()}"
        wanted = sorted(believed.digests, key=lambda reading: reading.path)
        if sample is not None and sample < len(wanted):
            wanted = random.sample(wanted, sample)
        differing = await self._rereader.reread(wanted, believed, walked.skipped)
        files = (walked.files | {reading.path for reading in wanted}) - walked.skipped.keys()
        self._settle(walked, {reading.path for reading in wanted} - walked.skipped.keys(), differing)
        return {
            "files": len(files),
            "read": len({reading.path for reading in wanted} - walked.skipped.keys()),
            "ignored": walked.ignored,
            "mismatches": walked.mismatches,
            "skipped": _told(walked.skipped),
        }

    def _settle(self, walked: _Walked, read: Collection[bytes], differing: Mapping[bytes, Mismatch]) -> None:
        """Takes in what was `read` and is `differing`; rows of which nothing but the ctime is wrong are made anew."""
        for path, mismatch in sorted(differing.items()):
            why = RESTAMPED if path in walked.restamped else mismatch["why"]
            walked.mismatches.append(mismatch | {"why": why})
        self._renew(
            path
            for path in sorted(walked.restamped - differing.keys())
            if path in read or path not in walked.digests  # nothing was known of its content that might be wrong
        )

    def leaves_out(self, path: bytes, root: bytes) -> bool:
        """Whether a place in a root is left out, or lies in one that is."""
        return any(self._ignored(place, _IS_DIRECTORY) for place in up_to(root, path))

    def counts(self, roots: Sequence[bytes]) -> dict[bytes, int] | None:
        """How many files the table has below each root; None where counting would take long. Not for the loop."""
        if self._table is None:
            return None
        with self._store.thread_view() as view:
            if view.count("files") > MOST_COUNTED:
                return None
            table = self._table(view)
            return {root: _count(table, root) for root in roots}

    # the table

    async def _compare(self, roots: Sequence[bytes]) -> _Walked:
        walked = _Walked()
        suspects: set[bytes] = set()
        if self._table is None:
            return walked
        await self._settled()
        own = set(roots)
        stack = list(roots)
        while stack:
            some = [stack.pop() for _ in range(min(_DIRECTORIES, len(stack)))]
            for directory, names, rows in await self._both(some, suspects, walked.skipped):
                prefix = directory.rstrip(b"/") + b"/"
                for name in names.keys() | rows.keys():
                    path, now, row = prefix + name, names.get(name), rows.get(name)
                    if self._ignored(path, now is not None and now[0] == DIRECTORY):
                        walked.ignored += now is not None
                        continue
                    if now == _MOUNTED:
                        walked.skipped[path] = APART
                    elif row is None or _state_of(row) != now:
                        suspects.add(path)
                    elif now[0] == FILE:
                        walked.files.add(path)
                        if row.digest:
                            walked.digests[path] = (now, row.digest)
                    elif now[0] == DIRECTORY and path not in own:
                        stack.append(path)
            await asyncio.sleep(0)
        await self._confirm(suspects, walked)
        return walked

    async def _both(
        self, directories: list[bytes], suspects: set[bytes], skipped: dict[bytes, str]
    ) -> list[tuple[bytes, Mapping[bytes, State], Mapping[bytes, Row]]]:
        """What some directories hold, by the disk and by the table.

        Those that are gone meanwhile become suspects; why others are left out stands in `skipped`.
        """
        listed = partial(listing_at_once, mounts=self._workers.mounts.now())  # what may hang in them is not asked
        found = await self._workers.each(listed, directories, _LISTING, apart=True)
        out: list[tuple[bytes, Mapping[bytes, State], Mapping[bytes, Row]]] = []
        assert self._table is not None
        with self._store.view() as view:
            table = self._table(view)
            for directory in directories:
                there = found.get(directory)
                if there is None:
                    skipped[directory] = SILENT
                elif not isinstance(there, Unlisted):
                    names = {name: msgspec.structs.astuple(state) for name, state in there.names.items()}
                    out.append((directory, names, table.children(directory)))
                elif there.gone:
                    suspects.add(directory)
                else:
                    skipped[directory] = f"it could not be listed: {there.why}"
        return out

    async def _confirm(self, suspects: Iterable[bytes], walked: _Walked) -> None:
        """Takes in what still differs, and stands still while the log catches up; what does not becomes `skipped`."""
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
                rows = {path: table.get(path) for path in left}
            for path in list(left):
                row = rows[path]
                was = None if row is None else _state_of(row)
                if path not in before or path not in after:
                    left.discard(path)
                    walked.skipped[path] = SILENT
                elif isinstance(now := after[path], str):
                    left.discard(path)
                    walked.skipped[path] = f"it could not be looked at: {now}"
                elif before[path] == now:
                    left.discard(path)
                    if row is not None and now is not None and _restamped(was, now):
                        walked.restamped.add(path)
                        if now[0] == FILE:
                            walked.files.add(path)
                        if row.digest:
                            walked.digests[path] = (now, row.digest)
                    elif was != now:
                        out[path] = _mismatch(path, was, now)
                        if self._uncovered(path):  # a hole that status names, and no mistake
                            out[path]["why"] += UNCOVERED
        walked.skipped.update(dict.fromkeys(left, RESTLESS))
        walked.mismatches = [out[path] for path in sorted(out)]


def _told(skipped: Mapping[bytes, str]) -> dict[str, Any]:
    """The answer's `skipped`: how many places, and the first of them by name."""
    places = [{"path": wire_name(path), "why": skipped[path]} for path in sorted(skipped)[:MOST_TOLD]]
    return {"count": len(skipped), "places": places}


def _count(table: Table, root: bytes) -> int:
    """The files below a directory, by the table."""
    files, stack = 0, [root]
    while stack:
        directory = stack.pop()
        prefix = directory.rstrip(b"/") + b"/"
        for name, row in table.children(directory).items():
            sort = _state_of(row)[0]
            files += sort == FILE
            if sort == DIRECTORY:
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
    sort, size, mtime_ns, ctime_ns, ino = state
    if sort == DIRECTORY:
        return f"directory, inode {ino}"
    kind = {FILE: "file", LINK: "link"}.get(sort, "special")
    return f"{kind} of {size} bytes, inode {ino}, mtime_ns {mtime_ns}, ctime_ns {ctime_ns}"


def _restamped(was: State | None, now: State) -> bool:
    """Whether nothing but the ctime is another."""
    return was is not None and was != now and (*was[:3], was[4]) == (*now[:3], now[4])


def _state_of(row: Row) -> State:
    sort, size, mtime_ns, ctime_ns, ino = msgspec.structs.astuple(row.state)
    return (sort, size, mtime_ns, ctime_ns, ino)


def _state(path: bytes) -> State | str | None:
    """What is at `path`, links not followed; None where nothing is, the system's reason where it does not say."""
    try:
        return msgspec.structs.astuple(state_of(os.lstat(path)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return error.strerror or str(error)
