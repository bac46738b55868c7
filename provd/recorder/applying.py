"""What was found on the disk against the table of files: the commands that write mutations and rows.

Rule: kinds are decided inside the transaction, against the rows of that moment. The rows are at every moment what the
records tell, and where they may not be what the disk holds the outcome says so. A command does a bounded amount of work
and says how far it came; what it did is found done when it goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from provd.core.mutation import DIRECTORY, FILE, Change, State, kind_of
from provd.core.notice import Moved, What
from provd.core.records import Coverage, DigestState, Gap, Hashed, Mutation, MutationKind, Origin
from provd.disk.states import BIGGEST
from provd.recorder.attribution import NOBODY, Attribution
from provd.recorder.items import Contents, Item, Looked, Outcome
from provd.store import Writer
from provd.store.files import UNKNOWN, UNSEEN, Files, Row

BUDGET: Final = 4000
"""Rows and records that one command writes, about: so long may another one wait."""
_PIECE: Final = 256
_MADE: Final = (What.CREATED,)
_NAMED: Final = frozenset({What.CREATED, What.DELETED})


class _EnoughError(Exception):
    """The budget is used up."""


class Apply:
    """The command for `items` from number `start` on. When the log ended at `calm`, all that had happened was in it."""

    def __init__(self, items: Sequence[Item], start: int = 0, calm: int = sys.maxsize) -> None:
        self._items = items
        self._start = start
        self._calm = calm

    def __call__(self, writer: Writer) -> Outcome:
        """Carries it out."""
        return _Application(writer, self._calm).run(self._items, self._start)


class Forget:
    """The command that takes away a slice of the rows of a root, but not those of the roots `keep` inside."""

    def __init__(self, root: bytes, keep: Sequence[bytes]) -> None:
        self._root = root
        self._keep = tuple(keep)

    def __call__(self, writer: Writer) -> Outcome:
        """Carries it out; `next` is 1 when nothing is left."""
        application = _Application(writer)
        try:
            application.forget(self._root, self._keep)
        except _EnoughError:
            return application.outcome
        application.outcome.next = 1
        return application.outcome


class _Application:
    """The work of one command."""

    def __init__(self, writer: Writer, calm: int = sys.maxsize) -> None:
        self._writer = writer
        self._calm = calm
        self._sure: set[bytes] = set()  # directories whose names were told
        self._files = Files(writer)
        self._who = Attribution(writer.actions())
        self._left = BUDGET
        self.outcome = Outcome()

    def run(self, items: Sequence[Item], start: int) -> Outcome:
        self.outcome.next = start
        try:
            for item in items[start:]:
                self._spend(0)
                self._apply(item)
                self.outcome.next += 1
        except _EnoughError:
            pass
        return self.outcome

    def _spend(self, some: int) -> None:
        if self._left <= 0:
            raise _EnoughError
        self._left -= some

    def _apply(self, item: Item) -> None:
        match item:
            case Looked(step=Change() as change):
                self._change(change, item.now)
            case Looked(step=Moved() as moved):
                self._move(moved, item)
            case Contents():
                self._contents(item)
            case Gap() | Coverage():
                self._writer.append(item)
                self._spend(1)
            case _:
                raise AssertionError(item)

    # records

    def _record(
        self,
        kind: MutationKind,
        path: bytes,
        now: State | None,
        row: Row | None,
        source: bytes | None = None,
        origin: Origin = Origin.WATCH,
    ) -> int:
        """Appends a mutation of what `row` was known of; returns its position."""
        regular = now is not None and now.sort == FILE
        state = DigestState.PENDING if regular else None
        if now is not None and regular and now.size > BIGGEST:
            state = DigestState.UNREADABLE
        of = self._writer.append(
            Mutation(
                self._writer.now,
                kind,
                path,
                source,
                now.mtime_ns if now is not None and regular else None,
                now.size if now is not None and regular else None,
                None,
                state,
                origin,
                # What a scan finds may have been done before the action began.
                self._who.actor(path, source) if origin is Origin.WATCH else NOBODY,
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

    def _keep(self, path: bytes, now: State, of: int, row: Row | None, *, made: bool = False) -> None:
        """Makes the row of a path say what was found there. `made`: nothing was in it when it was recorded."""
        if row is not None and row.state.sort != now.sort:
            row = None
        self._above(path)
        if now.sort != DIRECTORY:
            self._files.put(path, Row(now, of, pending=now.sort == FILE and now.size <= BIGGEST))
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

    # steps

    def _change(self, change: Change, now: State | None) -> None:
        path, row = change.path, self._files.get(change.path)
        whats = change.whats
        if now is None and row is None and not change.is_dir and not _NAMED & set(whats):
            # Written by a descriptor whose name is gone: it may have another one beside it.
            self.outcome.inside.append(path.rpartition(b"/")[0] or b"/")
            return
        if row is not None and row.of > self._calm and _is_told(whats, now, row):
            if whats == _MADE and row.state == now:
                return
            whats = tuple(what for what in whats if what is not What.CREATED) or (What.MODIFIED,)
        kind = kind_of(whats, now, None if row is None else row.state)
        went = What.DELETED in change.whats
        if row is not None and row.is_directory and (went or (now is not None and now.sort != DIRECTORY)):
            self._drop_below(path)
        if kind is MutationKind.DELETED:
            self._record(kind, path, None, row)
            self._files.delete(path)
            self.outcome.unsure.pop(path, None)
            if now is not None:
                self.outcome.unsure[path] = None
            return
        of = self._record(kind, path, now, row)
        if now is None:
            self._stays(path, row, of, is_dir=change.is_dir)
        else:
            self._keep(path, now, of, row, made=What.CREATED in change.whats)

    def _move(self, moved: Moved, looked: Looked) -> None:
        """What was known at and below the source is known at the path instead, and nothing else is there."""
        source, path, now = moved.source, moved.path, looked.now
        row, target = self._files.get(source), self._files.get(path)
        if target is not None and target.is_directory:
            # A listing may have found it here before its notice came, and what is in it: it is found there again.
            early = now is not None and target.state.ino == now.ino
            self._drop_below(path, told=not early)
            if early:
                self.outcome.inside.append(path)
        of = self._record(MutationKind.MOVED, path, now, row, source)
        self._supersede(target, path)
        self.outcome.unsure.pop(source, None)
        if row is not None and row.is_directory:
            self._files.move(source, path)
            if now is not None and now.sort != DIRECTORY:
                self._drop_below(path)
        elif row is not None:
            self._files.delete(source)  # the path gets its own row below
        elif target is not None:
            self._files.delete(path)
        if now is not None:
            self._keep(path, now, of, row)
        else:
            self._stays(path, row, of, is_dir=moved.is_dir)
        if moved.is_dir or (row is not None and row.is_directory):
            self._sure.clear()
            self.outcome.follow(of, source, path)
        if looked.again:
            self.outcome.unsure[source] = None

    def _contents(self, found: Contents) -> None:
        at = self._files.get(found.directory)
        if at is not None and not at.is_directory:
            self.outcome.unsure[found.directory] = None
            return
        if found.guarded and (at is None or not at.listed):
            self._above(found.directory.rstrip(b"/") + b"/")
            return
        scanned = found.origin is Origin.SCAN
        told = not scanned or self._is_listed(found.directory.rpartition(b"/")[0])
        if told and (at is None or at.state == UNKNOWN):
            at = self._found(found)
        silent = scanned and (at is None or not at.listed)
        known = self._files.children(found.directory, found.low, found.high)
        start = found.directory.rstrip(b"/") + b"/"
        fill: list[tuple[bytes, State]] = []
        for name, now in found.names.items():
            row = known.get(name)
            if row is not None and row.state == now:
                if row.pending:
                    self.outcome.pending.append((row.of, start + name))
            elif name in found.but:
                continue
            elif row is None and silent:
                fill.append((name, now))
            else:
                self._differs(start + name, now, row, found.origin, silent=silent)
        for name, gone in known.items():
            if name not in found.names and name not in found.but and name not in found.aside:
                self._gone(start + name, gone, found.origin)
        self._files.fill(found.directory, fill)
        self._left -= len(fill)
        if found.last and (at is None or not at.listed or at.state.ino != found.ino):
            self._listed(found)

    def _listed(self, found: Contents) -> None:
        known = self._files.get(found.directory) or Row(UNKNOWN)  # the rows inside may have made it known
        state = State(DIRECTORY, 0, 0, 0, found.ino)
        self._files.put(found.directory, msgspec.structs.replace(known, state=state, listed=True))

    def _found(self, found: Contents) -> Row:
        """The row of a directory that was listed before its name was told."""
        now = State(DIRECTORY, 0, 0, 0, found.ino)
        of = self._record(MutationKind.CREATED, found.directory, now, None, origin=found.origin)
        self._keep(found.directory, now, of, self._files.get(found.directory), made=True)
        row = self._files.get(found.directory)
        assert row is not None
        return row

    def _differs(self, path: bytes, now: State, row: Row | None, origin: Origin, *, silent: bool) -> None:
        self._spend(0)
        if silent and row is not None and row.state == UNKNOWN and now.sort == DIRECTORY:
            self._files.put(path, msgspec.structs.replace(row, state=now))  # only its name was known
            return
        if row is not None and row.is_directory and now.sort != DIRECTORY:
            self._drop_below(path, origin=origin)
        was = None if row is None or row.state == UNKNOWN else row.state
        what = What.CREATED if was is None else What.MODIFIED
        of = self._record(kind_of((what,), now, was), path, now, row, origin=origin)
        self._keep(path, now, of, row, made=was is None or was.sort != now.sort)
        if now.sort == DIRECTORY:
            self.outcome.below.append(path)

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
            rows = self._files.children(at, limit=_PIECE)
            for name, row in rows.items():
                path = at.rstrip(b"/") + b"/" + name
                if row.is_directory and self._files.children(path, limit=1):
                    stack.append(path)
                    break
                self._gone_alone(path, row, origin, told=told)
            else:
                if len(rows) < _PIECE:
                    stack.pop()

    def _gone_alone(self, path: bytes, row: Row, origin: Origin, *, told: bool) -> None:
        self._spend(1)
        if told:
            self._record(MutationKind.DELETED, path, None, row, origin=origin)
        else:
            self._supersede(row, path)
        self._files.delete(path)

    def forget(self, root: bytes, keep: Sequence[bytes]) -> None:
        """Takes away the rows at and below `root`, a slice of them."""
        if any(root == kept or root.startswith(kept.rstrip(b"/") + b"/") for kept in keep):
            return
        prefix = root.rstrip(b"/") + b"/"
        inside = [kept for kept in keep if kept.startswith(prefix)]
        for name, row in self._files.children(root).items():
            path = prefix + name
            if not row.is_directory or not inside:
                self._gone(path, row, Origin.SCAN, told=False)
            else:
                self.forget(path, inside)
        top = self._files.get(root)
        if top is None:
            return
        if self._files.children(root, limit=1):
            self._files.put(root, msgspec.structs.replace(top, listed=False))
        else:
            self._supersede(top, root)
            self._files.delete(root)


def _is_told(whats: Sequence[What], now: State | None, row: Row) -> bool:
    """Whether what was made is in the table already, since a listing was faster than the notice."""
    if What.CREATED not in whats or What.DELETED in whats:
        return False
    return now is None or (row.state.sort, row.state.ino) == (now.sort, now.ino)
