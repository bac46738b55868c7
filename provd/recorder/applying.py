"""What was found on the disk against the table of files: the commands that write mutations and rows.

Rule: kinds are decided inside the transaction, against the rows of that moment. The rows are at every moment what the
records tell, and where they may not be what the disk holds the outcome says so. A command does a bounded amount of work
and says how far it came; what it did is found done when it goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from provd.core.dependency import above, is_under
from provd.core.mutation import DIRECTORY, Change, State, kind_of
from provd.core.notice import NAMED, Moved, What
from provd.core.records import Coverage, Gap, Mutation, MutationKind, Origin
from provd.disk.states import is_as
from provd.recorder.following import PIECE, EnoughError, Rows
from provd.recorder.items import Contents, Item, Looked, Outcome
from provd.store import Writer
from provd.store.files import UNKNOWN, UNSEEN, Row

_MADE: Final = (What.CREATED,)


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
        except EnoughError:
            return application.outcome
        application.outcome.next = 1
        return application.outcome


class _Application(Rows):
    """The work of one command."""

    def __init__(self, writer: Writer, calm: int = sys.maxsize) -> None:
        super().__init__(writer)
        self._calm = calm

    def run(self, items: Sequence[Item], start: int) -> Outcome:
        self.outcome.next = start
        try:
            for item in items[start:]:
                self._spend(0)
                self._apply(item)
                self.outcome.next += 1
        except EnoughError:
            pass
        return self.outcome

    def _apply(self, item: Item) -> None:
        match item:
            case Looked(step=Change() as change):
                self._change(change, item.now, item.digest)
            case Looked(step=Moved() as moved):
                self._move(moved, item)
            case Contents():
                self._contents(item)
            case Gap() | Coverage():
                self._writer.append(item)
                self._spend(1)
            case _:
                raise AssertionError(item)

    # steps

    def _change(self, change: Change, now: State | None, digest: bytes) -> None:
        path, row = change.path, self._files.get(change.path)
        whats = change.whats
        if now is None and row is None and not change.is_dir and not NAMED & set(whats):
            # Written by a descriptor whose name is gone: it may have another one beside it.
            self.outcome.inside.append(path.rpartition(b"/")[0] or b"/")
            return
        if row is not None and row.of > self._calm and _is_told(whats, now, row):
            if whats == _MADE and row.state == now:
                return
            whats = tuple(what for what in whats if what is not What.CREATED) or (What.MODIFIED,)
        kind = kind_of(whats, now, None if row is None else row.state)
        if row is None and now is not None and not NAMED & set(whats) and self._was_made(path.rpartition(b"/")[0]):
            kind = MutationKind.CREATED  # it was made before its directory was watched, and changed after
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
        of = self._record(kind, path, now, row, digest=digest)
        if now is None:
            self._stays(path, row, of, is_dir=change.is_dir)
        else:
            self._keep(path, now, of, row, made=What.CREATED in change.whats, digest=digest)

    def _was_made(self, directory: bytes) -> bool:
        """Whether the last that the log tells of a directory is that it was made: then nothing was in it."""
        row = self._files.get(directory or b"/")
        made = None if row is None or not row.of else self._writer.record(row.of)
        return isinstance(made, Mutation) and made.kind is MutationKind.CREATED

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
        of = self._record(MutationKind.MOVED, path, now, row, source, digest=looked.digest, over=target is not None)
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
            self._keep(path, now, of, row, digest=looked.digest)
        else:
            self._stays(path, row, of, is_dir=moved.is_dir)
        if moved.is_dir or (row is not None and row.is_directory):
            self._sure.clear()
            self.outcome.follow(of, source, path)
        if looked.again:
            self.outcome.unsure[source] = None

    def _contents(self, found: Contents) -> None:
        at = self._known(found.directory)
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
        # No more than a command can work off beside what is there: of what is gone there may be any number.
        most = len(found.names) + len(found.but) + len(found.aside) + self._budget
        known = self._files.children(found.directory, found.low, found.high, limit=most)
        if len(known) == most:
            self._missing(found, known)
            raise EnoughError
        start = found.directory.rstrip(b"/") + b"/"
        fill: list[tuple[bytes, State]] = []
        names: Mapping[bytes, State] = found.names
        if silent and not known and not found.but:
            fill, names = list(names.items()), {}
        for name, now in names.items():
            row = known.get(name)
            if row is not None and is_as(now, row.state):
                if row.pending:
                    self.outcome.pending.append((row.of, start + name))
            elif name in found.but:
                continue
            elif row is None and silent:
                fill.append((name, now))
            else:
                digest = found.digests.get(name, b"")
                self._differs(start + name, now, row, found.origin, silent=silent, digest=digest)
        self._missing(found, known)
        self._files.fill(found.directory, fill)
        self._left -= len(fill)
        if found.last and (at is None or not at.listed or at.state.ino != found.ino):
            self._listed(found)

    def _known(self, directory: bytes) -> Row | None:
        """The row of what was listed, None where nothing is known of it.

        Nobody tells of a root's own name: where its row was damaged, it is made anew with all that is in it.
        """
        row = self._files.get(directory)
        lost = row is not None and row.state == UNSEEN and not self._is_listed(directory.rpartition(b"/")[0])
        return None if lost else row

    def _missing(self, found: Contents, known: Mapping[bytes, Row]) -> None:
        """Of the rows that are `known`, those that were not found are gone."""
        start = found.directory.rstrip(b"/") + b"/"
        for name, gone in known.items():
            if name not in found.names and name not in found.but and name not in found.aside:
                self._gone(start + name, gone, found.origin)

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

    def _differs(
        self, path: bytes, now: State, row: Row | None, origin: Origin, *, silent: bool, digest: bytes
    ) -> None:
        self._spend(0)
        if silent and row is not None and row.state == UNKNOWN and now.sort == DIRECTORY:
            self._files.put(path, msgspec.structs.replace(row, state=now))  # only its name was known
            return
        if row is not None and row.is_directory and now.sort != DIRECTORY:
            self._drop_below(path, origin=origin)
        was = None if row is None or row.state == UNKNOWN else row.state
        what = What.CREATED if was is None else What.MODIFIED
        of = self._record(kind_of((what,), now, was), path, now, row, origin=origin, digest=digest)
        self._keep(path, now, of, row, made=was is None or was.sort != now.sort, digest=digest)
        if now.sort == DIRECTORY:
            self.outcome.below.append(path)

    def forget(self, root: bytes, keep: Sequence[bytes]) -> None:
        """Takes away the rows at and below `root`, a slice of them."""
        if any(is_under(root, kept) for kept in keep):
            return
        inside = {kept for kept in keep if is_under(kept, root)}
        ways = {root, *(up for kept in inside for up in above(kept) if is_under(up, root))}
        for directory in sorted(ways, key=len, reverse=True):
            self._forget_inside(directory, inside | ways)
            row = self._files.get(directory)
            if row is None:
                continue
            if self._files.children(directory, limit=1):
                self._files.put(directory, msgspec.structs.replace(row, listed=False))
            else:
                self._supersede(row, directory)
                self._files.delete(directory)

    def _forget_inside(self, directory: bytes, keep: Collection[bytes]) -> None:
        start, low = directory.rstrip(b"/") + b"/", b""
        while rows := self._files.children(directory, low, limit=PIECE):
            for name, row in rows.items():
                if start + name not in keep:
                    self._gone(start + name, row, Origin.SCAN, told=False)
                low = name + b"\0"


def _is_told(whats: Sequence[What], now: State | None, row: Row) -> bool:
    """Whether what was made is in the table already, since a listing was faster than the notice."""
    if What.CREATED not in whats or What.DELETED in whats:
        return False
    return now is None or (row.state.sort, row.state.ino) == (now.sort, now.ino)
