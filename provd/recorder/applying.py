"""What was found on the disk against the table of files: the commands that write mutations and rows.

Rule: kinds are decided inside the transaction, against the rows of that moment. A command does a bounded amount of
work and says how far it came; what it did is found done when it goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from provd.core.mutation import DIRECTORY, FILE, Change, State, kind_of
from provd.core.notice import Moved, What
from provd.core.records import Coverage, DigestState, Gap, Hashed, Mutation, MutationKind, Origin
from provd.disk.states import BIGGEST
from provd.recorder.attribution import NOBODY, Attribution
from provd.store import Writer
from provd.store.files import UNKNOWN, Files, Row

BUDGET: Final = 4000
"""Rows and records that one command writes, about: so long may another one wait."""
_PIECE: Final = 256


class Looked(msgspec.Struct, frozen=True):
    """A step and what lies at its path now. `again`: something lies where it was moved away from."""

    step: Change | Moved
    now: State | None
    again: bool = False


class Contents(msgspec.Struct, frozen=True):
    """What a directory held: all its names from `low` on and before `high`.

    Names in `but` are told elsewhere; names in `aside` are there, and nobody wants to know them. `last`: all names are
    known with these. `guarded`: it counts only where the directory was listed before.
    """

    directory: bytes
    names: dict[bytes, State]
    low: bytes = b""
    high: bytes | None = None
    but: frozenset[bytes] = frozenset()
    aside: frozenset[bytes] = frozenset()
    ino: int = 0
    origin: Origin = Origin.WATCH
    last: bool = True
    guarded: bool = False


Item = Looked | Contents | Gap | Coverage


def named(item: Item) -> tuple[bytes, ...]:
    """The paths that an item is about."""
    match item:
        case Looked(step=Moved() as moved):
            return moved.source, moved.path
        case Looked():
            return (item.step.path,)
        case Contents():
            return (item.directory,)
        case Gap():
            return (item.scope,)
        case Coverage():
            return (item.path,)


class Outcome(msgspec.Struct):
    """How far a command came (`next` is the item to go on with), and what follows from what it wrote."""

    next: int = 0
    recorded: int = 0
    pending: list[tuple[int, bytes]] = []
    superseded: list[int] = []
    moved: list[tuple[int, bytes, bytes]] = []
    """Directories: the record's position, source, path."""
    unknown: list[bytes] = []
    """Directories of which nothing is known: to be scanned."""
    doubtful: list[bytes] = []
    """Directories whose rows may not be true: to be listed when nothing waits."""
    unsure: list[bytes] = []
    """Names of which the same holds."""
    below: list[bytes] = []
    """Directories that a listing found to be new, or others than they were."""


class _EnoughError(Exception):
    """The budget is used up."""


class Apply:
    """The command for `items` from number `start` on."""

    def __init__(self, items: Sequence[Item], start: int = 0) -> None:
        self._items = items
        self._start = start

    def __call__(self, writer: Writer) -> Outcome:
        """Carries it out."""
        return _Application(writer).run(self._items, self._start)


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

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
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

    def _keep(self, path: bytes, now: State, of: int, row: Row | None, *, listed: bool) -> None:
        """Makes the row of a path say what was found there."""
        number = 0
        if row is not None and row.is_directory:
            assert now.sort == DIRECTORY
            number, listed = row.number, row.listed or listed
            if row.state.ino not in {0, now.ino}:
                self.outcome.doubtful.append(path)
        pending = of > 0 and now.sort == FILE and now.size <= BIGGEST
        self._files.put(path, Row(now, of, pending, number=number, listed=listed and now.sort == DIRECTORY))

    def _stays(self, path: bytes, row: Row | None, of: int) -> None:
        """Nothing is there, but its own notice has not come: it stays known until then."""
        if row is not None:
            self._files.put(path, msgspec.structs.replace(row, of=of, pending=False))

    # steps

    def _change(self, change: Change, now: State | None) -> None:
        path, row = change.path, self._files.get(change.path)
        kind = kind_of(change.whats, now, None if row is None else row.state)
        went = What.DELETED in change.whats
        if row is not None and row.is_directory and (went or (now is not None and now.sort != DIRECTORY)):
            self._drop_below(path)
        if kind is MutationKind.DELETED:
            self._record(kind, path, None, row)
            self._files.delete(path)
            if now is not None:
                self.outcome.unsure.append(path)
            return
        of = self._record(kind, path, now, row)
        if now is not None:
            old = row if row is None or row.state.sort == now.sort else None
            self._keep(path, now, of, old, listed=What.CREATED in change.whats)
        else:
            self._stays(path, row, of)

    def _move(self, moved: Moved, looked: Looked) -> None:
        source, path, now = moved.source, moved.path, looked.now
        row, target = self._files.get(source), self._files.get(path)
        if target is not None and target.is_directory:
            # A listing may have found it here before its notice came, and what is in it as well.
            known = now is not None and target.state.ino == now.ino and self._files.children(path, limit=1)
            if now is not None and known:
                self._moved_already(moved, now, row, target)
                return
            self._drop_below(path)
        of = self._record(MutationKind.MOVED, path, now, row, source)
        self._supersede(target, path)
        if row is not None:
            self._files.move(source, path)
            if row.is_directory and now is not None and now.sort != DIRECTORY:
                self._drop_below(path)
        if now is not None:
            old = row if row is not None and row.state.sort == now.sort else None
            self._keep(path, now, of, old, listed=False)
            if now.sort == DIRECTORY and old is None:
                self.outcome.unknown.append(path)
        else:
            self._stays(path, row or target, of)
        if moved.is_dir or (row is not None and row.is_directory):
            self.outcome.moved.append((of, source, path))
        if looked.again:
            self.outcome.unsure.append(source)

    def _moved_already(self, moved: Moved, now: State, row: Row | None, target: Row) -> None:
        if row is not None:
            if row.is_directory:
                self._drop_below(moved.source, told=False)
            self._files.delete(moved.source)
        of = self._record(MutationKind.MOVED, moved.path, now, row, moved.source)
        self._keep(moved.path, now, of, target, listed=False)
        self.outcome.moved.append((of, moved.source, moved.path))
        self.outcome.unknown.append(moved.path)  # perhaps not all of it was found yet

    def _contents(self, found: Contents) -> None:
        at = self._files.get(found.directory)
        if (at is not None and not at.is_directory) or (found.guarded and (at is None or not at.listed)):
            return
        silent = found.origin is Origin.SCAN and (at is None or not at.listed)
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
            elif row is not None and silent and row.state == UNKNOWN and now.sort == DIRECTORY:
                self._files.put(start + name, msgspec.structs.replace(row, state=now))  # only its name was known
            else:
                self._differs(start + name, now, row, found.origin)
        for name, gone in known.items():
            if name not in found.names and name not in found.but and name not in found.aside:
                self._gone(start + name, gone, found.origin)
        self._files.fill(found.directory, fill)
        self._left -= len(fill)
        if found.last and (at is None or not at.listed or at.state.ino != found.ino):
            now_known = self._files.get(found.directory) or Row(UNKNOWN)  # the rows inside may have made it known
            state = State(DIRECTORY, 0, 0, 0, found.ino)
            self._files.put(found.directory, msgspec.structs.replace(now_known, state=state, listed=True))

    def _differs(self, path: bytes, now: State, row: Row | None, origin: Origin) -> None:
        self._spend(0)
        if row is not None and row.is_directory and now.sort != DIRECTORY:
            self._drop_below(path, origin=origin)
        was = None if row is None or row.state == UNKNOWN else row.state
        what = What.CREATED if was is None else What.MODIFIED
        of = self._record(kind_of((what,), now, was), path, now, row, origin=origin)
        old = row if row is not None and row.state.sort == now.sort else None
        self._keep(path, now, of, old, listed=was is None or old is None)
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
