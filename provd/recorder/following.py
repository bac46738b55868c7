"""Rows and records together: the smallest steps by which the table of files follows the log.

Rule: no row says more than a record has told, and what hangs below a row goes before it. Where a row may not be what
the disk holds the outcome says so.
"""

from __future__ import annotations

from typing import Final

from provd.core.mutation import DIRECTORY, FILE, State
from provd.core.records import DigestState, Hashed, Mutation, MutationKind, Origin
from provd.disk.states import BIGGEST
from provd.recorder.attribution import NOBODY, Attribution
from provd.recorder.items import Outcome
from provd.store import Writer
from provd.store.files import UNKNOWN, UNSEEN, Files, Row

BUDGET: Final = 4000
"""Rows and records that one command writes, about: so long may another one wait."""
PIECE: Final = 256
"""Rows that are read at once where there may be any number."""


class EnoughError(Exception):
    """The budget is used up."""


class Rows:
    """The rows and records of one command."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._sure: set[bytes] = set()  # directories whose names were told
        self._files = Files(writer)
        self._who = Attribution(writer.actions())
        self._budget = self._left = BUDGET
        self.outcome = Outcome()

    def _spend(self, some: int) -> None:
        if self._left <= 0:
            raise EnoughError
        self._left -= some

    def _record(
        self,
        kind: MutationKind,
        path: bytes,
        now: State | None,
        row: Row | None,
        source: bytes | None = None,
        origin: Origin = Origin.WATCH,
        digest: bytes = b"",
        *,
        over: bool = False,
    ) -> int:
        """Appends a mutation of what `row` was known of; returns its position. `digest` is the raw one, if known."""
        regular = now is not None and now.sort == FILE
        state = DigestState.PENDING if regular else None
        if digest:
            state = DigestState.DONE
        elif now is not None and regular and now.size > BIGGEST:
            state = DigestState.UNREADABLE
        of = self._writer.append(
            Mutation(
                self._writer.now,
                kind,
                path,
                source,
                now.mtime_ns if now is not None and regular else None,
                now.size if now is not None and regular else None,
                f"xxh3:{digest.hex()}" if digest else None,
                state,
                origin,
                # What a scan finds may have been done before the action began.
                self._who.actor(path, source) if origin is Origin.WATCH else NOBODY,
                over,
            )
        )
        if state is DigestState.PENDING:
            self.outcome.pending.append((of, path))
        self._supersede(row, path if source is None else source)
        self.outcome.recorded += 1
        self._left -= 1
        return of

    def _supersede(self, row: Row | None, path: bytes) -> None:
        if row is not None and row.pending:
            self._writer.append(Hashed(self._writer.now, row.of, path, None, DigestState.SUPERSEDED))
            self.outcome.superseded.append(row.of)
            self._left -= 1

    def _keep(
        self, path: bytes, now: State, of: int, row: Row | None, *, made: bool = False, digest: bytes = b""
    ) -> None:
        """Makes the row of a path say what was found there. `made`: nothing was in it when it was recorded."""
        if row is not None and row.state.sort != now.sort:
            row = None
        self._above(path)
        if now.sort != DIRECTORY:
            pending = now.sort == FILE and now.size <= BIGGEST and not digest
            self._files.put(path, Row(now, of, pending=pending, digest=digest))
            return
        number, listed = (0, False) if row is None else (row.number, row.listed)
        new = row is None or row.state == UNKNOWN
        if not listed and (made or (new and self._is_listed(path.rpartition(b"/")[0]))):
            listed = True  # from here on each name in it is told
            if not made:
                self.outcome.inside.append(path)
        elif row is not None and row.state.ino not in {0, now.ino}:
            self.outcome.inside.append(path)
        self._files.put(path, Row(now, of, number=number, listed=listed))

    def _stays(self, path: bytes, row: Row | None, of: int, *, is_dir: bool) -> None:
        """Something was told of a name that is not there (any more): it is known, and not what it is."""
        is_dir = is_dir if row is None else row.is_directory
        state = UNSEEN if row is None or not row.is_directory else row.state
        if is_dir and row is None:
            state = UNKNOWN
        self._above(path)
        self._files.put(
            path, Row(state, of, number=row.number, listed=row.listed) if row and is_dir else Row(state, of)
        )
        self.outcome.unsure[path] = None

    def _above(self, path: bytes) -> None:
        """Has the directory listed that lies above names which no record has told."""
        directory = path.rpartition(b"/")[0] or b"/"
        if directory in self._sure:
            return
        self._sure.add(directory)
        row = self._files.get(directory)
        while directory != b"/" and (row is None or not row.is_directory or row.state == UNKNOWN):
            directory = directory.rpartition(b"/")[0] or b"/"
            row = self._files.get(directory)
            if row is not None and row.listed:
                self.outcome.inside.append(directory)
                return

    def _is_listed(self, directory: bytes) -> bool:
        row = self._files.get(directory or b"/")
        return row is not None and row.listed

    def _gone(self, path: bytes, row: Row, origin: Origin, *, told: bool = True) -> None:
        """A name is gone: with all below it."""
        if row.is_directory:
            self._drop_below(path, origin=origin, told=told)
        self._gone_alone(path, row, origin, told=told)

    def _drop_below(self, directory: bytes, *, origin: Origin = Origin.WATCH, told: bool = True) -> None:
        """Takes away all rows below a directory, each with its own record where it is `told`; children come first."""
        stack = [directory]
        while stack:
            at = stack[-1]
            rows = self._files.children(at, limit=PIECE)
            for name, row in rows.items():
                path = at.rstrip(b"/") + b"/" + name
                if row.is_directory and self._files.children(path, limit=1):
                    stack.append(path)
                    break
                self._gone_alone(path, row, origin, told=told)
            else:
                if len(rows) < PIECE:
                    stack.pop()

    def _gone_alone(self, path: bytes, row: Row, origin: Origin, *, told: bool) -> None:
        self._spend(1)
        if told:
            self._record(MutationKind.DELETED, path, None, row, origin=origin)
        else:
            self._supersede(row, path)
        self._files.delete(path)
