"""Importing precedents of another store, or of this one as it was.

Rule: an imported digest is somebody's word of what was read, and is judged by reading as every other. Nothing else of
another store is believed: its clocks lie before this run, its versions are names, and silence proves nothing. What
stands here is displaced only where it is not fresh and what comes is. Each line stands alone, and one that was taken
before changes nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Any, Final

import msgspec

from provd.clocks import Clocks
from provd.core import errors, params, records
from provd.core.dependency import PATH_KINDS, base
from provd.core.entry import Entry, EntryId, Kept, Standing
from provd.core.facts import Question
from provd.core.portable import Moved, Origin
from provd.core.verdict import Verdict
from provd.inquiry import Findings, Inquiry, Unread, settle_again
from provd.recorder.arriving import Coming, Understood, refused, slices, understood
from provd.recorder.putting import MAX_ENTRIES, Ground, InTheWay, need_no_cycle
from provd.resolver import Resolver, absolute
from provd.store import Store, Writer
from provd.store.keys import Waits
from provd.store.precedents import Imported, Precedents, note_imported, note_origin, note_waiting

_NEVER: Final = -1
"""Before every position: the precedent is here, and no evidence of it was taken from a line."""
Grounds = list[tuple[int, str, str]]
"""What an entry waits for, as in Waits."""
_PATIENCE: Final = 30.0
_ATTEMPTS: Final = 16


class Outcome(StrEnum):
    """What became of a line. LATE: it went into the archive, since what stands here stands better."""

    ADDED = "added"
    ARCHIVED = "archived"
    REPLACED = "replaced"
    LATE = "late"
    UNCHANGED = "unchanged"


class _Tally:
    """What became of the lines of a request so far."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter({str(outcome): 0 for outcome in Outcome})
        self.refused: list[dict[str, Any]] = []

    def add(self, index: int, outcome: Outcome | errors.RequestError) -> None:
        """One line, by its index."""
        if isinstance(outcome, errors.RequestError):
            self.refused.append(refused(index, outcome))
        else:
            self._counts[str(outcome)] += 1

    def told(self) -> dict[str, Any]:
        """The answer."""
        return {**self._counts, "refused": sorted(self.refused, key=lambda one: int(one["index"]))}


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
        """`entry.import`; raises RootMissing, InvalidParams, StoreFull.

        What was taken before an error stays, and is in its detail as `taken`.
        """
        moved = await self._moved(asked.moved, foreign=foreign)
        result = _Tally()
        try:
            for lines in slices(asked.entries):
                await self._take(lines, moved, result, foreign=foreign)
        except errors.ProvdError as e:  # it may be the error of others too
            raise type(e)(e.message, e.hint, **e.detail, taken=result.told()) from None
        return result.told()

    async def _take(
        self, lines: list[tuple[int, msgspec.Raw]], moved: Moved | None, result: _Tally, *, foreign: bool
    ) -> None:
        """Some lines; what became of each is added to the result as soon as it is durable."""
        # In a thread, as others wait for the loop; not in a worker: those may all hang.
        told = await asyncio.to_thread(understood, lines, moved, self._clocks, self._clocks.head())
        result.refused += told.refused
        if not foreign:
            told = told.at(await self._resolver.scopes(told.scopes()))
        async for index, outcome in self._taken(told, foreign=foreign):
            result.add(index, outcome)

    async def _moved(self, move: params.Move | None, *, foreign: bool) -> Moved | None:
        if move is None:
            return None
        place = await self._resolver.place(move.to, foreign=foreign)
        return absolute(params.name_bytes(move.source), "source"), place.need_scope()

    async def _taken(
        self, told: Understood, *, foreign: bool
    ) -> AsyncIterator[tuple[int, Outcome | errors.RequestError]]:
        """What became of each of some lines, those first that nothing must be read for."""
        coming = told.coming
        reals = {} if foreign else await self._resolver.real_paths(told.bases)
        bring = [Bring(one, reals, self._clocks, foreign=foreign) for _, one in coming]
        results = await self._store.submit(lambda writer: [_alone(one, writer) for one in bring])
        undecided: list[tuple[int, Bring]] = []
        for (index, _), one, result in zip(coming, bring, results, strict=True):
            if isinstance(result, _UNDECIDED):
                undecided.append((index, one))
            else:
                yield index, result
        for index, one in undecided:
            yield index, await self._judged(one)

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
        self._known: Imported | None = None

    def __call__(self, writer: Writer) -> Result:
        coming = self.coming
        precedents = Precedents(writer)
        known = precedents.imported(coming.id, coming.line.made)
        if known is None and coming.mine:
            held = precedents.held(coming.id, coming.made, coming.renewed if coming.own else None)
            if held is not None and coming.own:
                return Outcome.UNCHANGED
            known = None if held is None else Imported(held.version, _NEVER, identity=held.identity)
        self._known = known
        revoked = coming.line.standing == "revoked"
        if known is not None and (revoked or not coming.is_newer(known)):
            return Outcome.UNCHANGED
        active = writer.entry(coming.id)
        self._check(writer, active)
        entry, wanted = self._entry(writer)
        if revoked:
            return self._archive(writer, entry, active, coming.line.reason or "superseded", Outcome.ARCHIVED)
        if active is None:
            return self._activate(writer, entry, wanted, None)
        same = self._is_same(active)
        if not self.may_judge:
            return Contested()
        displaces = self._displaces(writer, entry, active)
        if not isinstance(displaces, bool):
            return displaces
        if displaces:
            return self._activate(writer, entry, wanted, active, same=same)
        if not same and (known is None or known.identity != coming.identity):
            return self._archive(writer, entry, active, "late", Outcome.LATE)
        if known is None:
            self._note(writer, active.version, renewed=_NEVER)
        return Outcome.UNCHANGED

    def _is_same(self, active: Entry) -> bool:
        """Whether the line is of the precedent that stands: its version goes by its value, whatever the line's name.

        Where there is no value it is the same under the same name, as long as it rests on the same.
        """
        if self.coming.identity or active.identity:
            return active.identity == self.coming.identity
        if (
            self._known is None
            or self._known.version != active.version
            or (self.coming.deps is None) != (active.deps is None)
        ):
            return False
        there = [(kept.dep.kind, kept.dep.name) for kept in active.deps or ()]
        return there == [(one.kept.dep.kind, one.kept.dep.name) for one in self.coming.deps or ()]

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

    def _entry(self, writer: Writer) -> tuple[Entry, Grounds]:
        """The entry, as of the next position, and those of its `entry:` dependencies that are not here yet.

        Each of these is told as its index, the key, and the token of the version that it named.
        """
        coming, line, position = self.coming, self.coming.line, writer.head() + 1
        kept: list[Kept] = []
        wanted: Grounds = []
        for index, dep in enumerate(coming.deps or ()):
            version = None if dep.made is None else self._version(writer, dep.kept, dep.made)
            if dep.made is not None and version is None:
                wanted.append((index, dep.kept.dep.name.decode(), dep.made))
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
        return since.position if since.exact and precedents.held(below, since.position) else None

    def _activate(
        self,
        writer: Writer,
        entry: Entry,
        wanted: Grounds,
        active: Entry | None,
        *,
        same: bool = False,
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
        self._name(writer, entry)
        note_waiting(writer, entry, wanted)
        self._note(writer, entry.version)
        return Outcome.ADDED if active is None else Outcome.REPLACED

    def _archive(self, writer: Writer, entry: Entry, active: Entry | None, reason: str, told: Outcome) -> Outcome:
        self._record(writer, 0 if active is None else active.version, None, archived=True)
        writer.archive(msgspec.structs.replace(entry, standing=Standing.REVOKED), reason, self.coming.stored)
        self._name(writer, entry)
        self._note(writer, entry.version, None if self.coming.line.standing == "active" else _NEVER)
        return told

    def _record(self, writer: Writer, version: int, superseded: int | None, *, archived: bool = False) -> None:
        writer.append(
            records.EntryChange(
                writer.now,
                records.EntryEvent.IMPORTED,
                self.coming.id.scope,
                self.coming.id.key,
                version,
                superseded,
                self.coming.line.session,
                self.coming.line.turn,
                archived=archived,
            )
        )

    def _name(self, writer: Writer, entry: Entry) -> None:
        """What is new here keeps the name that it came with, so that it is known where it comes home.

        Two precedents of this store have never the same name.
        """
        line = self.coming.line
        there = Precedents(writer).origin(entry.id, entry.version)
        if there.made == line.made if there is not None else self._known is None and entry.version == entry.renewed:
            note_origin(writer, entry.id, entry.version, Origin(line.made, line.renewed, entry.renewed))

    def _note(self, writer: Writer, version: int, renewed: int | None = None) -> None:
        """Keeps what the line is here and how new its evidence, and tells those that waited for it.

        A name that has another value in the line than it had stays with that one: who rests on it was made from that.
        """
        coming, known = self.coming, self._known
        identity = coming.identity
        if known is not None and known.identity != identity:
            version, identity = known.version, known.identity
        here = Imported(version, coming.renewed if renewed is None else renewed, coming.source, identity)
        for entry, waits in note_imported(writer, coming.id, coming.line.made, here):
            _rest_on(writer, entry, waits, coming, version)


def _below(entry_id: EntryId, kept: Kept) -> EntryId:
    return EntryId(entry_id.scope, kept.dep.name.decode())


def _rest_on(writer: Writer, entry: Entry, waits: Waits, come: Coming, version: int) -> None:
    """What an imported entry rests on has come: its version is known now, by each dependency that named just that."""
    named = {index for index, key, made in waits.grounds if (key, made) == (come.id.key, come.line.made)}
    deps = [
        msgspec.structs.replace(kept, version=version) if index in named and kept.version is None else kept
        for index, kept in enumerate(entry.deps or ())
    ]
    event = records.EntryEvent.IMPORTED
    position = writer.append(records.EntryChange(writer.now, event, entry.id.scope, entry.id.key, entry.version))
    known = msgspec.structs.replace(entry, renewed=position, deps=tuple(deps))
    writer.renew_entry(known)
    note_waiting(writer, known, [ground for ground in waits.grounds if ground[0] not in named])
    origin = Precedents(writer).origin(entry.id, entry.version)
    if origin is not None and origin.here == entry.renewed:  # nothing was added to what came with it
        note_origin(writer, entry.id, entry.version, msgspec.structs.replace(origin, here=position))
