"""Asking the judge: snapshot, triage, read, settle; in a loop, until the answer holds for one moment.

Rule: the snapshot is closed before a file is read. What the log says may change while files are read; then it
is all judged again, at most three times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, TypeVar, TypeVarTuple

import msgspec

from provd import garbage
from provd.core import verdict
from provd.core.dependency import PATH_KINDS, Kind, Member, base
from provd.core.entry import Entry, EntryId, Kept
from provd.core.facts import Facts, Question, Verify
from provd.core.reading import Found, Reading, Signature
from provd.core.verdict import Fault, Judgement, Judgements, NeedDigests, Proof, Verdict, reading_of
from provd.disk import IgnoreRules, Route
from provd.reader import Reader
from provd.selfcheck import SelfCheck
from provd.store import Store, View
from provd.watching import Coverage, Watching

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")
Targets = Mapping[EntryId, Entry | None]
Routes = Mapping[tuple[Kind, bytes], Route]
"""The ways of the bases of dependencies, by kind and base."""
ATTEMPTS: Final = 3
_BIG: Final = 2000
"""Dependencies that are judged in a thread: so many take some milliseconds."""
_FOR_EVIDENCE: Final = 0.25
"""Seconds for which the evidence of a fault waits for what happened to be recorded."""


class Findings(msgspec.Struct, frozen=True):
    """What was read for a question, all of one moment: enough to judge again by other facts of the log.

    `readers` are the entries that it was read for, each with the position at which it was put or renewed.
    """

    found: Mapping[Reading, Found] = {}
    stats: Mapping[bytes, Signature | None] = {}
    readers: frozenset[tuple[EntryId, int]] = frozenset()


class Unread(msgspec.Struct, frozen=True):
    """A decision could not be made: these entries rest on what was not read for it."""

    targets: Targets


class Answer(msgspec.Struct, frozen=True):
    """The judgements on the entries asked about, at one position of the log, and what was read for them.

    `began` is the position before anything was read: a clock that is renewed by this answer may not be later.
    """

    judgements: Judgements
    began: int
    position: int
    findings: Findings


class Inquiry:
    """Answers questions about entries; it never writes. `rules` gives the ignore rules of the moment."""

    def __init__(
        self,
        store: Store,
        reader: Reader,
        rules: Callable[[], IgnoreRules],
        watch: Watching,
        self_check: SelfCheck | None = None,
    ) -> None:
        self._store = store
        self.reader = reader
        self._rules = rules
        self._watch = watch
        self._self_check = self_check

    async def judge(
        self,
        targets: Callable[[View], Targets],
        question: Question,
        timeout: float,  # noqa: ASYNC109
        *,
        many: bool = False,
        evidence: bool = False,
    ) -> Answer:
        """Judges the entries that `targets` takes from a view, within `timeout` seconds.

        `many` says that they are so many that others would wait while they are taken. With `evidence` what happened
        to a path at fault is recorded, as far as that takes no longer than a moment, when this returns. In a burst
        that is waited for only where it may change a verdict.
        """
        began = asyncio.get_running_loop().time()
        self._watch.read()
        late = question.needs_log and not question.foreign and not await self._watch.recorded(timeout)
        answer = await self._judged(targets, question, began + timeout, many=many, late=late)
        if self._self_check is not None:
            self._self_check.judged(answer.judgements)
        if not evidence or not _about_paths(answer):
            return answer
        if self._watch.is_behind() and not _unproven(answer):
            return answer  # a record explains the verdict, and changes nothing of it
        await self._watch.recorded(_FOR_EVIDENCE)
        if question.needs_log or self._store.head == answer.position or not _unproven(answer):
            return answer
        return await self._judged_again(answer, targets, question, many=many)

    async def _judged(
        self,
        targets: Callable[[View], Targets],
        question: Question,
        deadline: float,
        *,
        many: bool,
        late: bool,
    ) -> Answer:
        first = await self._snapshot(targets, question, {}, many=many, late=late)
        with garbage.resting(when=_is_big(first[0])):
            return await self._held(first, targets, question, deadline, many=many, late=late)

    async def _held(
        self,
        first: tuple[Targets, Facts],
        targets: Callable[[View], Targets],
        question: Question,
        deadline: float,
        *,
        many: bool,
        late: bool,
    ) -> Answer:
        """Reads and judges, from the `first` snapshot on, until a judgement held while it was made."""
        routes: Routes = {}
        wanted, facts = first
        if question.verify is Verify.LOG and question.revalidate and not question.foreign and not late:
            routes = await self._covered_routes(wanted, facts, deadline)
            wanted, facts = await self._snapshot(targets, question, routes, many=many)
        for _ in range(ATTEMPTS):
            big = _is_big(wanted)
            need = await self._think(big, verdict.triage, wanted, facts, question)
            if not isinstance(need, NeedDigests):
                return Answer(need, facts.position, facts.position, Findings())
            findings = await self._read(need, deadline, big=big)
            again, then = wanted, facts
            still = await self._still_covered(routes, deadline)
            if self._store.head != facts.position or still != routes:
                routes = still
                again, then = await self._snapshot(targets, question, routes, many=many, late=late)
            if (
                again == wanted
                and msgspec.structs.replace(then, position=facts.position, touches=facts.touches) == facts
            ):
                # Touches that were recorded meanwhile make nothing fresh that was not, and none is taken back: they are
                # for what was not read. In a burst there are new ones whenever one looks.
                need = msgspec.structs.replace(need, facts=then)
                judged = await self._settle(need, findings, big=big)
                return Answer(judged, facts.position, then.position, findings)
            wanted, facts = again, then
        fault = Fault(Verdict.UNKNOWN, "moving", Proof.CONTENT)
        moving = {i: Judgement(Verdict.UNKNOWN, "moving", Proof.CONTENT, e, (fault,)) for i, e in wanted.items()}
        return Answer(moving, facts.position, facts.position, Findings())

    async def _judged_again(
        self, answer: Answer, targets: Callable[[View], Targets], question: Question, *, many: bool
    ) -> Answer:
        """By what was recorded meanwhile and read before, where that is enough: a touch says more than *unproven*."""
        wanted, facts = await self._snapshot(targets, question, {}, many=many)
        big = _is_big(wanted)
        need = await self._think(big, verdict.triage, wanted, facts, question)
        if isinstance(need, NeedDigests):
            if not need.readings <= answer.findings.found.keys():
                return answer
            judged = await self._settle(need, answer.findings, big=big)
        else:
            judged = need
        if any(j.verdict is Verdict.FRESH is not answer.judgements[i].verdict for i, j in judged.items()):
            return answer  # what was put meanwhile was not there when this was read
        return Answer(judged, answer.began, facts.position, answer.findings)

    # silence of the log

    async def _covered_routes(self, wanted: Targets, facts: Facts, deadline: float) -> Routes:
        """The ways of what silence may prove something of; all that happened until now is recorded.

        First the way, then the coverage, then the barrier, then the log. What is covered at that moment, and has no gap
        since a position, was covered since; and if a name on the way had changed, that is recorded by the barrier. The
        coverage is looked at before the barrier, since a place that is covered again only now has its gap still to
        be recorded; and once more after it, since that costs nothing.
        """
        wanted_ways = {
            (kept.dep.kind, base(kept.dep))
            for entry in verdict.closure(wanted, facts)
            for kept in entry.deps or ()
            if kept.proven is not None
        }
        if not wanted_ways or not self._watch.roots:
            return {}
        routes = await self.reader.routes({path for _, path in wanted_ways}, _left(deadline))
        there = {(kind, path): routes[path] for kind, path in wanted_ways if path in routes}
        return await self._still_covered(there, deadline)

    async def _still_covered(self, routes: Routes, deadline: float) -> Routes:
        """Those of `routes` that are covered when all that had happened is recorded."""
        if not routes:
            return routes
        covered = self._covered(routes)
        if not covered or not await self._watch.recorded(_left(deadline)):
            return {}
        return self._covered(covered)

    def _covered(self, routes: Routes) -> Routes:
        coverage = Coverage(self._watch, self._rules())
        return {at: route for at, route in routes.items() if coverage.is_whole(route, *at)}

    async def _snapshot(
        self,
        targets: Callable[[View], Targets],
        question: Question,
        routes: Routes,
        *,
        many: bool,
        late: bool = False,
    ) -> tuple[Targets, Facts]:
        """The entries asked about and what the log knows of them, of one moment."""
        if not many:
            with self._store.view() as view:
                wanted = targets(view)
                if not _is_big(wanted):
                    return wanted, _facts(view, wanted, question, routes, self._watch.mounted, late=late)
        return await asyncio.to_thread(self._snapshot_there, targets, question, routes, late)

    def _snapshot_there(
        self, targets: Callable[[View], Targets], question: Question, routes: Routes, late: bool
    ) -> tuple[Targets, Facts]:
        with self._store.thread_view() as view:
            wanted = targets(view)
            return wanted, _facts(view, wanted, question, routes, self._watch.mounted, late=late)

    async def _think(self, big: bool, function: Callable[[*_Arguments], _Result], *arguments: *_Arguments) -> _Result:
        """Judges; in a thread where it is so much that others would wait for it (not a worker: those may all hang)."""
        if not big:
            return function(*arguments)
        return await asyncio.to_thread(function, *arguments)

    async def reread(self, unread: Unread, question: Question, timeout: float) -> Findings:  # noqa: ASYNC109
        """What must be read to judge the entries that a decision stumbled over, all at one moment."""
        return (await self.judge(lambda _: unread.targets, question, timeout)).findings

    async def _read(self, need: NeedDigests, deadline: float, *, big: bool) -> Findings:
        left = _left(deadline)
        by_seal = need.question.verify is not Verify.CONTENT
        fresh = await self._think(big, need.fresh) if by_seal else frozenset()
        found = await self.reader.read(need.readings, left, by_seal=by_seal, fresh=fresh)
        stats: Mapping[bytes, Signature | None] = {}
        if need.stats:
            stats, sealed = await self.reader.stats(need.stats, left)
            found = {**found, **sealed}
        return Findings(found, stats, _readers(need))

    async def _settle(self, need: NeedDigests, findings: Findings, *, big: bool) -> Judgements:
        """The judgements, with what differs of sets. Where that may be many, others do not wait for it."""
        unequal = need.unequal_sets(findings.found)
        if not big and not unequal:
            return verdict.settle(need, findings.found, findings.stats)
        entries = {entry.id: entry for entry in need.order}
        if not big and not any(_is_long(findings, entries[i], n) for i, n in unequal):
            with self._store.view() as view:
                return _settled(view, need, findings, unequal)
        return await asyncio.to_thread(self._settle_there, need, findings, unequal)

    def _settle_there(self, need: NeedDigests, findings: Findings, unequal: list[tuple[EntryId, int]]) -> Judgements:
        with self._store.thread_view() as view:
            return _settled(view, need, findings, unequal)


def _is_big(targets: Targets) -> bool:
    return sum(len(entry.deps or ()) for entry in targets.values() if entry is not None) > _BIG


def _is_long(findings: Findings, entry: Entry, index: int) -> bool:
    """Whether a set has so many members that others would wait while they are compared."""
    return len(findings.found[reading_of((entry.deps or ())[index])].members or ()) > _BIG


def _settled(view: View, need: NeedDigests, findings: Findings, unequal: list[tuple[EntryId, int]]) -> Judgements:
    """The judgements, by the members that the `unequal` sets had where the entries are still those."""
    judged = {entry.id: entry.renewed for entry in need.order}
    members: dict[tuple[EntryId, int], tuple[Member, ...]] = {}
    for entry_id, index in unequal:
        entry, held = view.entry_or_ruin(entry_id), view.members(entry_id, index)
        if entry is not None and entry.renewed == judged[entry_id] and held is not None:
            members[entry_id, index] = held
    return verdict.settle(need, findings.found, findings.stats, members)


def _left(deadline: float) -> float:
    return max(0.0, deadline - asyncio.get_running_loop().time())


def _facts(view: View, wanted: Targets, question: Question, routes: Routes, mounted: int, *, late: bool) -> Facts:
    """The facts of a view; quiet is what has one of the covered `routes` and was not heard of since it was proven.

    Nothing is that was proven before something was mounted at or before the position `mounted`.
    """
    facts = view.facts(wanted, question)
    if late:
        return msgspec.structs.replace(facts, late=True)
    if not routes:
        return facts
    oldest = view.oldest()
    quiet = {
        (entry.id, index)
        for entry in verdict.closure(wanted, facts)
        for index, kept in enumerate(entry.deps or ())
        if kept.proven is not None
        and kept.proven > max(mounted, oldest - 2)
        and (route := routes.get((kept.dep.kind, base(kept.dep)))) is not None
        and is_quiet(view, kept, route, kept.proven)
    }
    return msgspec.structs.replace(facts, quiet=frozenset(quiet))


def is_quiet(view: View, kept: Kept, route: Route, since: int) -> bool:
    """Whether no record after `since` says that a path dependency, whose base has this way, may have changed."""
    real = msgspec.structs.replace(kept, real=route.at)
    touch = view.touch(real, since)
    return (touch is None or not touch.since(since)) and view.is_whole_since(real, route.hops, since)


def _about_paths(answer: Answer) -> bool:
    """Whether any path dependency is at fault."""
    faults = (fault for judged in answer.judgements.values() for fault in judged.faults)
    return any(
        f.dep is not None and (f.dep.kind in PATH_KINDS or f.why in {"entry-dirty", "entry-unknown"}) for f in faults
    )


def _unproven(answer: Answer) -> bool:
    """Whether anything at fault could be said to be touched, if there was a record of it."""
    faults = (fault for judged in answer.judgements.values() for fault in judged.faults)
    return any(cause.why == "unproven" for fault in faults for cause in (fault, *fault.causes))


def _readers(need: NeedDigests) -> frozenset[tuple[EntryId, int]]:
    """The entries that something must be read for."""
    reading = (e for e in need.order if any(k.dep.kind in PATH_KINDS and k.digest is not None for k in e.deps or ()))
    return frozenset((entry.id, entry.renewed) for entry in reading)


def settle_again(
    view: View, targets: Targets, question: Question, findings: Findings, *, new: EntryId | None = None
) -> Judgements | Unread:
    """Judges `targets` by the facts of `view` and what was read before: for a decision inside a transaction.

    What was put after that was read is not judged by it, since there was no moment at which both were so. Only the
    entry `new` may be, which the decision itself makes.
    """
    need = verdict.triage(targets, view.facts(targets, question), question)
    if not isinstance(need, NeedDigests):
        return need
    later = {entry_id for entry_id, _ in _readers(need) - findings.readers}
    if not need.readings <= findings.found.keys() or later - {new}:
        return Unread(targets)
    return verdict.settle(need, findings.found, findings.stats)
