"""Asking the judge: snapshot, triage, read, settle; in a loop, until the answer holds for one moment.

Rule: the snapshot is closed before a file is read. What the log says may change while files are read; then it
is all judged again, at most three times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, TypeVar, TypeVarTuple

import msgspec

from provd.core import verdict
from provd.core.dependency import Kind, Member
from provd.core.entry import Entry, EntryId
from provd.core.reading import Found, Reading, Signature
from provd.core.verdict import Facts, Fault, Judgement, Judgements, NeedDigests, Proof, Question, Verdict
from provd.disk import IgnoreRules, ReadingJob, Workers, is_near, read_single, signature_of
from provd.store import Store, View

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")
Targets = Mapping[EntryId, Entry | None]
ATTEMPTS: Final = 3
_BIG: Final = 2000
"""Dependencies that are judged in a thread: so many take some milliseconds."""
_QUICK_FILES: Final = 16
_QUICK_BYTES: Final = 256 * 1024
"""What is read at once in the loop: about as long as two hand-overs to a thread."""


class Findings(msgspec.Struct, frozen=True):
    """What was read for a question, all of one moment: enough to judge again by other facts of the log."""

    found: Mapping[Reading, Found] = {}
    stats: Mapping[bytes, Signature | None] = {}


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

    def __init__(self, store: Store, workers: Workers, rules: Callable[[], IgnoreRules]) -> None:
        self._store = store
        self._workers = workers
        self._rules = rules
        self._mounts = workers.mounts

    async def judge(
        self,
        targets: Callable[[View], Targets],
        question: Question,
        timeout: float,  # noqa: ASYNC109
        *,
        many: bool = False,
    ) -> Answer:
        """Judges the entries that `targets` takes from a view, within `timeout` seconds.

        `many` says that they are so many that others would wait while they are taken.
        """
        deadline = asyncio.get_running_loop().time() + timeout
        wanted, facts = await self._snapshot(targets, question, many=many)
        for _ in range(ATTEMPTS):
            big = _is_big(wanted)
            need = await self._think(big, verdict.triage, wanted, facts, question)
            if not isinstance(need, NeedDigests):
                return Answer(need, facts.position, facts.position, Findings())
            findings = await self._read(need, deadline)
            again, then, members = wanted, facts, {}
            if self._store.head != facts.position or need.unequal_sets(findings.found):
                again, then = await self._snapshot(targets, question, many=many)
                with self._store.view() as view:
                    members = self._members(view, need, findings)
            if again == wanted and msgspec.structs.replace(then, position=facts.position) == facts:
                judged = await self._think(big, verdict.settle, need, findings.found, findings.stats, members)
                return Answer(judged, facts.position, then.position, findings)
            wanted, facts = again, then
        fault = Fault(Verdict.UNKNOWN, "moving", Proof.CONTENT)
        moving = {i: Judgement(Verdict.UNKNOWN, "moving", Proof.CONTENT, e, (fault,)) for i, e in wanted.items()}
        return Answer(moving, facts.position, facts.position, Findings())

    async def _snapshot(
        self, targets: Callable[[View], Targets], question: Question, *, many: bool
    ) -> tuple[Targets, Facts]:
        """The entries asked about and what the log knows of them, of one moment."""
        if not many:
            with self._store.view() as view:
                wanted = targets(view)
                if not _is_big(wanted):
                    return wanted, view.facts(wanted, question)
        return await asyncio.to_thread(self._snapshot_there, targets, question)

    def _snapshot_there(self, targets: Callable[[View], Targets], question: Question) -> tuple[Targets, Facts]:
        with self._store.thread_view() as view:
            wanted = targets(view)
            return wanted, view.facts(wanted, question)

    async def _think(self, big: bool, function: Callable[[*_Arguments], _Result], *arguments: *_Arguments) -> _Result:
        """Judges; in a thread where it is so much that others would wait for it (not a worker: those may all hang)."""
        if not big:
            return function(*arguments)
        return await asyncio.to_thread(function, *arguments)

    async def reread(self, unread: Unread, question: Question, timeout: float) -> Findings:  # noqa: ASYNC109
        """What must be read to judge the entries that a decision stumbled over, all at one moment."""
        return (await self.judge(lambda _: unread.targets, question, timeout)).findings

    async def read(self, readings: frozenset[Reading], timeout: float) -> dict[Reading, Found]:  # noqa: ASYNC109
        """Reads, in workers, what is named; what is not done in time is `timeout`."""
        if not readings:
            return {}
        if len(readings) == 1 and self._mounts.all_local():
            (reading,) = readings
            if reading.kind is Kind.FILE and is_near(reading.path):
                found = read_single(reading.path, reading.algorithm, _QUICK_BYTES)
                if found is not None:
                    return {reading: found}
        if self._is_quick(readings):
            job = ReadingJob(tuple(readings), self._rules(), _QUICK_BYTES, self._mounts.now())
            job.run()
            if not job.not_quick:
                return job.results()
        return await self._workers.read(tuple(readings), self._rules(), timeout)

    def _is_quick(self, readings: frozenset[Reading]) -> bool:
        """Whether reading takes less time than handing it to a thread, and cannot hang."""
        if len(readings) > _QUICK_FILES or not self._mounts.all_local():
            return False
        size = 0
        for reading in readings:
            if reading.kind is not Kind.FILE or not is_near(reading.path):
                return False
            try:
                there = signature_of(reading.path)
            except OSError:
                return False
            size += 0 if there is None else there.size
        return size <= _QUICK_BYTES

    async def _read(self, need: NeedDigests, deadline: float) -> Findings:
        left = max(0.0, deadline - asyncio.get_running_loop().time())
        found = await self.read(need.readings, left)
        stats: Mapping[bytes, Signature | None] = {}
        if need.stats:
            stats = await self._workers.each(signature_of, need.stats, left)
        return Findings(found, stats)

    @staticmethod
    def _members(view: View, need: NeedDigests, findings: Findings) -> dict[tuple[EntryId, int], tuple[Member, ...]]:
        held = {(i, n): view.members(i, n) for i, n in need.unequal_sets(findings.found)}
        return {at: members for at, members in held.items() if members is not None}


def _is_big(targets: Targets) -> bool:
    return sum(len(entry.deps or ()) for entry in targets.values() if entry is not None) > _BIG


def settle_again(view: View, targets: Targets, question: Question, findings: Findings) -> Judgements | Unread:
    """Judges `targets` by the facts of `view` and what was read before: for a decision inside a transaction."""
    need = verdict.triage(targets, view.facts(targets, question), question)
    if not isinstance(need, NeedDigests):
        return need
    if not need.readings <= findings.found.keys():
        return Unread(targets)
    return verdict.settle(need, findings.found, findings.stats)
