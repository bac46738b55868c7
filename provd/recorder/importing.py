"""Importing precedents of another store, or of this one as it was.

Rule: an imported digest is somebody's word of what was read, and is judged by reading as every other. Nothing else of
another store is believed: its clocks lie before this run, its versions are names, and silence proves nothing. What
stands here is displaced only where it is not fresh and what comes is. Each line stands alone, and one that was taken
before changes nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from provd.clocks import Clocks
from provd.core import clock, errors, params, portable, records
from provd.core import entry as entries
from provd.core.dependency import PATH_KINDS, Kind, base
from provd.core.entry import Entry, EntryId, Kept, Standing
from provd.core.facts import Question
from provd.core.portable import Line, Moved, Rested
from provd.core.verdict import Verdict
from provd.inquiry import Findings, Inquiry, Unread, settle_again
from provd.recorder.putting import MAX_ENTRIES, Ground, InTheWay, need_no_cycle
from provd.resolver import Resolver, absolute
from provd.store import Store, Writer
from provd.store.keys import Stored
from provd.store.precedents import Imported, Precedents, note_imported, note_wanted

_SLICE: Final = 250
_BYTES: Final = 256 * 1024
"""Lines, and bytes of them, taken in one command: others are committed in between. A longer line comes alone."""
_NEVER: Final = -1
"""Before every position: the precedent is here, and no evidence of it was taken from a line."""
_PATIENCE: Final = 30.0
_ATTEMPTS: Final = 16


class Outcome(StrEnum):
    """What became of a line. LATE: it went into the archive, since what stands here stands better."""

    ADDED = "added"
    ARCHIVED = "archived"
    REPLACED = "replaced"
    LATE = "late"
    UNCHANGED = "unchanged"


class Coming(msgspec.Struct, frozen=True):
    """A line, understood. `clock` is the position that its clock is worth here, `own` whether its version is ours.

    `made` and `renewed` are its version and its newest record as positions of the store that wrote it.
    """

    id: EntryId
    line: Line
    deps: tuple[Rested, ...] | None
    identity: bytes
    clock: int
    own: bool
    made: int
    renewed: int

    @property
    def bases(self) -> set[bytes]:
        """The bases of the paths that it rests on."""
        deps = (rested.kept.dep for rested in self.deps or ())
        return {base(dep) for dep in deps if dep.kind in PATH_KINDS}

    @property
    def stored(self) -> Stored:
        """Its value and meta."""
        return Stored(*portable.stored(self.line))


class Understood(msgspec.Struct, frozen=True):
    """A slice of lines: what could be understood, each with its index, what could not, and the bases of all paths."""

    coming: list[tuple[int, Coming]]
    refused: list[dict[str, Any]]
    bases: set[bytes]


class Contested(msgspec.Struct, frozen=True):
    """Another value stands under the key: both must be judged."""


class Importing:
    """Takes lines of `entry.export`."""

    def __init__(self, store: Store, inquiry: Inquiry, resolver: Resolver, clocks: Clocks) -> None:
        self._store = store
        self._inquiry = inquiry
        self._resolver = resolver
        self._clocks = clocks

    async def take(self, asked: params.EntryImport, *, foreign: bool) -> dict[str, Any]:
        """`entry.import`; raises RootMissing, InvalidParams, StoreFull (what was taken before stays)."""
        moved = await self._moved(asked.moved, foreign=foreign)
        counts: Counter[str] = Counter({str(outcome): 0 for outcome in Outcome})
        refused: list[dict[str, Any]] = []
        for lines in _slices(asked.entries):
            # In a thread, as others wait for the loop; not in a worker: those may all hang.
            understood = await asyncio.to_thread(self._understood, lines, moved, self._clocks.head())
            refused += understood.refused
            for index, outcome in await self._taken(understood, foreign=foreign):
                if isinstance(outcome, errors.RequestError):
                    refused.append(_refused(index, outcome))
                else:
                    counts[str(outcome)] += 1
        return {**counts, "refused": sorted(refused, key=lambda one: int(one["index"]))}

    async def _moved(self, move: params.Move | None, *, foreign: bool) -> Moved | None:
        if move is None:
            return None
        place = await self._resolver.place(move.to, foreign=foreign)
        return absolute(params.name_bytes(move.source), "source"), place.need_scope()

    def _understood(self, lines: Sequence[tuple[int, msgspec.Raw]], moved: Moved | None, head: int) -> Understood:
        out = Understood([], [], set())
        for index, raw in lines:
            try:
                one = self._coming(bytes(raw), moved, head)
            except errors.RequestError as e:
                out.refused.append(_refused(index, e))
            else:
                out.coming.append((index, one))
                out.bases.update(one.bases)
        return out

    def _coming(self, raw: bytes, moved: Moved | None, head: int) -> Coming:
        """A line as this store, whose newest position is `head`, reads it; raises RequestError."""
        told = portable.decode(raw)
        root = portable.root_of(told)
        deps = None if told.deps is None else tuple(portable.rested(dep, root, moved) for dep in told.deps)
        made, renewed = self._clocks.since(told.made, head), self._clocks.since(told.renewed, head)
        since = None if told.clock is None else self._clocks.since(told.clock, head)
        for dep in deps or ():
            if dep.made is not None:
                clock.parse(dep.made)
        value, _ = portable.stored(told)
        own = made.exact and renewed.exact
        return Coming(
            id=portable.entry_id(told, root, moved),
            line=told,
            deps=deps,
            identity=b"" if value is None else entries.identity(value),
            clock=since.position if own and since is not None else self._clocks.started - 1,
            own=own,
            made=clock.parse(told.made).position,
            renewed=clock.parse(told.renewed).position,
        )

    async def _taken(self, understood: Understood, *, foreign: bool) -> list[tuple[int, Outcome | errors.RequestError]]:
        """What became of each of some lines."""
        coming = understood.coming
        reals = {} if foreign else await self._resolver.real_paths(understood.bases)
        bring = [Bring(one, reals, self._clocks, foreign=foreign) for _, one in coming]
        results = await self._store.submit(lambda writer: [_alone(one, writer) for one in bring])
        out: list[tuple[int, Outcome | errors.RequestError]] = []
        for (index, _), one, result in zip(coming, bring, results, strict=True):
            out.append((index, await self._judged(one) if isinstance(result, _UNDECIDED) else result))
        return out

    async def _judged(self, bring: Bring) -> Outcome | errors.RequestError:
        """A line that another value stands in the way of, with what must be read to decide."""
        bring.may_judge = True
        for _ in range(_ATTEMPTS):
            result = await self._store.submit(lambda writer: _alone(bring, writer))
            if isinstance(result, Ground):
                question = Question(foreign=bring.foreign)
                bring.own = await self._inquiry.reread(result.unread, question, _PATIENCE)
            elif isinstance(result, InTheWay):
                bring.standing = await self._inquiry.reread(result.unread, Question(), _PATIENCE)
            elif not isinstance(result, Contested):
                return result
        return errors.EntryConflict(
            f"{bring.coming.id.key[:80]!r} was put again and again while this line was judged", "import it again"
        )


Result = Outcome | Contested | Ground | InTheWay
_UNDECIDED: Final = (Contested, Ground, InTheWay)


def _alone(bring: Bring, writer: Writer) -> Result | errors.RequestError:
    """The line, or what is wrong with it alone: it was found before anything was written."""
    try:
        return bring(writer)
    except errors.RequestError as e:
        return e


def _refused(index: int, error: errors.RequestError) -> dict[str, Any]:
    return {"index": index, "code": error.code, "message": error.message, "hint": error.hint}


def _slices(lines: Sequence[msgspec.Raw]) -> Iterator[list[tuple[int, msgspec.Raw]]]:
    """The lines with their indices, some at a time."""
    some: list[tuple[int, msgspec.Raw]] = []
    size = 0
    for index, raw in enumerate(lines):
        more = memoryview(raw).nbytes
        if some and (len(some) == _SLICE or size + more > _BYTES):
            yield some
            some, size = [], 0
        some.append((index, raw))
        size += more
    if some:
        yield some


class Bring:
    """One line, inside a transaction. Until it `may_judge`, what is contested is only told."""

    def __init__(self, coming: Coming, reals: dict[bytes, bytes], clocks: Clocks, *, foreign: bool) -> None:
        self.coming = coming
        self.own = Findings()
        self.standing = Findings()
        self.may_judge = False
        self.foreign = foreign
        self._reals = reals
        self._clocks = clocks

    def __call__(self, writer: Writer) -> Result:
        coming = self.coming
        precedents = Precedents(writer)
        known = precedents.imported(coming.id, coming.line.made)
        if known is None and coming.own and precedents.holds(coming.id, coming.made, coming.renewed):
            return Outcome.UNCHANGED
        revoked = coming.line.standing == "revoked"
        if known is not None and (revoked or coming.renewed <= known.renewed):
            return Outcome.UNCHANGED
        active = writer.entry(coming.id)
        self._check(writer, active)
        entry, wanted = self._entry(writer)
        if revoked:
            return self._archive(writer, entry, active, coming.line.reason or "superseded", Outcome.ARCHIVED)
        if active is None:
            return self._activate(writer, entry, wanted, None)
        same = active.version == known.version if known is not None else self._is_equal(active)
        if not self.may_judge:
            return Contested()
        displaces = self._displaces(writer, entry, active)
        if not isinstance(displaces, bool):
            return displaces
        if displaces:
            return self._activate(writer, entry, wanted, active, same=same)
        if not same:
            return self._archive(writer, entry, active, "late", Outcome.LATE)
        if known is None:
            self._note(writer, active.version, renewed=_NEVER)
        return Outcome.UNCHANGED

    def _is_equal(self, active: Entry) -> bool:
        return bool(self.coming.identity) and active.identity == self.coming.identity

    def _check(self, writer: Writer, active: Entry | None) -> None:
        if active is None and writer.count("entries") >= MAX_ENTRIES:
            raise errors.LimitExceeded(f"{MAX_ENTRIES} entries are kept", "forget some")
        if self.coming.line.standing == "active":
            kept = [dep.kept.dep for dep in self.coming.deps or ()]
            need_no_cycle(writer, self.coming.id, kept)

    def _displaces(self, writer: Writer, entry: Entry, active: Entry) -> bool | Ground | InTheWay:
        """Whether the line is fresh and what stands is not, by what was read."""
        born = settle_again(writer, {entry.id: entry}, Question(foreign=self.foreign), self.own, new=entry.id)
        if isinstance(born, Unread):
            return Ground(born)
        if born[entry.id].verdict is not Verdict.FRESH:
            return False
        stands = settle_again(writer, {active.id: active}, Question(), self.standing)
        if isinstance(stands, Unread):
            return InTheWay(stands)
        return stands[active.id].verdict is not Verdict.FRESH

    # what it becomes

    def _entry(self, writer: Writer) -> tuple[Entry, list[Rested]]:
        """The entry, as of the next position, and those of its `entry:` dependencies that are not here yet."""
        coming, line, position = self.coming, self.coming.line, writer.head() + 1
        kept: list[Kept] = []
        wanted: list[Rested] = []
        for dep in coming.deps or ():
            version = None if dep.made is None else self._version(writer, dep.kept, dep.made)
            if dep.made is not None and version is None:
                wanted.append(dep)
            real = self._reals.get(base(dep.kept.dep)) if dep.kept.dep.kind in PATH_KINDS else None
            version = dep.kept.version if version is None else version
            kept.append(msgspec.structs.replace(dep.kept, real=real, version=version))
        entry = Entry(
            id=coming.id,
            version=position,
            renewed=position,
            clock=coming.clock,
            deps=None if coming.deps is None else tuple(kept),
            at=int(line.at),
            standing=Standing(line.standing),
            identity=coming.identity,
            supports=line.supports,
            conflicts=line.conflicts,
            session=line.session,
            turn=line.turn,
        )
        return entry, wanted

    def _version(self, writer: Writer, kept: Kept, made: str) -> int | None:
        """The version here of what an `entry:` dependency rested on there; None where that is not here."""
        below, precedents = _below(self.coming.id, kept), Precedents(writer)
        known = precedents.imported(below, made)
        if known is not None:
            return known.version
        since = self._clocks.since(made, writer.head())
        return since.position if since.exact and precedents.holds(below, since.position) else None

    def _activate(
        self, writer: Writer, entry: Entry, wanted: list[Rested], active: Entry | None, *, same: bool = False
    ) -> Outcome:
        if active is not None and same:
            entry = msgspec.structs.replace(
                entry, version=active.version, supports=max(active.supports, entry.supports)
            )
        elif active is not None:
            old = msgspec.structs.replace(active, standing=Standing.REVOKED)
            writer.archive(old, "superseded", writer.stored(active.id))
        superseded = active.version if active is not None and not same else None
        self._record(writer, entry.version, superseded)
        writer.put_entry(entry, self.coming.stored, {})
        self._note(writer, entry.version)
        for dep in wanted:
            note_wanted(writer, _below(entry.id, dep.kept), dep.made or "", entry.id, entry.version)
        return Outcome.ADDED if active is None else Outcome.REPLACED

    def _archive(self, writer: Writer, entry: Entry, active: Entry | None, reason: str, told: Outcome) -> Outcome:
        self._record(writer, 0 if active is None else active.version, None)
        writer.archive(msgspec.structs.replace(entry, standing=Standing.REVOKED), reason, self.coming.stored)
        self._note(writer, entry.version)
        return told

    def _record(self, writer: Writer, version: int, superseded: int | None) -> None:
        line, there = self.coming.line, self.coming.id
        event = records.EntryEvent.IMPORTED
        writer.append(
            records.EntryChange(writer.now, event, there.scope, there.key, version, superseded, line.session, line.turn)
        )

    def _note(self, writer: Writer, version: int, renewed: int | None = None) -> None:
        """Keeps what the line is here and how new its evidence, and tells those that waited for it."""
        made, there = self.coming.line.made, self.coming.id
        here = Imported(version, self.coming.renewed if renewed is None else renewed)
        for waiting in note_imported(writer, there, made, here):
            entry = writer.entry(waiting)
            if entry is not None:
                _rest_on(writer, entry, there, version)


def _below(entry_id: EntryId, kept: Kept) -> EntryId:
    return EntryId(entry_id.scope, kept.dep.name.decode())


def _rest_on(writer: Writer, entry: Entry, below: EntryId, version: int) -> None:
    """What an imported entry rests on has come: its version is known now."""

    def known(kept: Kept) -> Kept:
        waits = kept.dep.kind is Kind.ENTRY and kept.version is None and _below(entry.id, kept) == below
        return msgspec.structs.replace(kept, version=version) if waits else kept

    event = records.EntryEvent.IMPORTED
    position = writer.append(records.EntryChange(writer.now, event, entry.id.scope, entry.id.key, entry.version))
    deps = tuple(map(known, entry.deps or ()))
    writer.renew_entry(msgspec.structs.replace(entry, renewed=position, deps=deps))
