"""The judge: which verdict the contract gives, from what the log knows and what was read.

Rule: it never opens a file. `triage` names what must be read, the shell reads it, `settle` judges. What was
not read is never fresh. Each entry is judged once a question, from its leaves upwards and without recursion.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Final, assert_never

import msgspec

from provd.core.dependency import (
    ABSENT,
    PATH_KINDS,
    PATTERN_KINDS,
    SET_KINDS,
    TYPE_SPECIAL,
    Dependency,
    Kind,
    Member,
    algorithm_of,
    base,
)
from provd.core.entry import Entry, EntryId, Kept, Ruin, Standing
from provd.core.facts import Facts, Question
from provd.core.reading import Found, Reading, Signature, Trouble

MAX_DEPTH: Final = 1000
"""How far `entry:` dependencies are followed."""
MAX_PATHS: Final = 16
"""Members named for each set at fault."""
MAX_DIFFERING: Final = 64
"""Members that differ and are thought about, by name, to name the newest of them."""
MAX_CAUSES: Final = 4
"""Leaves named below an `entry:` dependency at fault."""


class Verdict(StrEnum):
    """The three answers; UNKNOWN counts as dirty."""

    FRESH = "fresh"
    DIRTY = "dirty"
    UNKNOWN = "unknown"


class Proof(IntEnum):
    """What a finding rests on, weakest first."""

    DECLARED = 0
    LOG = 1
    STAT = 2
    CONTENT = 3


_FRESH_WHY: Final = {
    Proof.DECLARED: "declared",
    Proof.LOG: "untouched",
    Proof.STAT: "untouched",
    Proof.CONTENT: "same",
}


class Fault(msgspec.Struct, frozen=True, gc=False):
    """One dependency at fault (`dep` is None where the entry itself is), or a finding that all is well.

    `paths` are members of a set, in order of name: up to MAX_DIFFERING that differ, or what could not be read.
    `held` says what each that differs is now: `absent` or a digest, empty where its content does not count.
    `unasked`: a digest is kept, which a question that reads would have compared.
    """

    verdict: Verdict
    why: str
    proof: Proof
    dep: Dependency | None = None
    was: str | None = None
    now: str | None = None
    paths: tuple[bytes, ...] = ()
    held: tuple[str, ...] = ()
    action: int | None = None
    detail: str = ""
    causes: tuple[Fault, ...] = ()
    unasked: bool = False


class Judgement(msgspec.Struct, frozen=True):
    """The verdict on one entry. `faults` has the dirty dependencies first, then the unknown ones."""

    verdict: Verdict
    why: str
    proof: Proof
    entry: Entry | None
    faults: tuple[Fault, ...] = ()
    ignored: int = 0

    @property
    def usable(self) -> bool:
        """Standing is active and the verdict is fresh."""
        return self.verdict is Verdict.FRESH and self.entry is not None and self.entry.standing is Standing.ACTIVE


class NeedDigests(msgspec.Struct, frozen=True):
    """What must be read before the entries can be judged, and what it was asked for.

    `order` is the closure of `targets`, leaves first. `stats` are paths whose `stat` is enough (the strict rule).
    """

    targets: Mapping[EntryId, Entry | None]
    order: list[Entry]
    facts: Facts
    question: Question
    readings: frozenset[Reading] = frozenset()
    stats: frozenset[bytes] = frozenset()

    def fresh(self) -> frozenset[tuple[Reading, str]]:
        """The digests that would make a dependency fresh, by what is to be read."""
        return frozenset(
            (reading_of(kept), kept.digest)
            for entry in self.order
            for kept in entry.deps or ()
            if kept.dep.kind in PATH_KINDS and kept.digest is not None
        )

    def unequal_sets(self, found: Mapping[Reading, Found]) -> list[tuple[EntryId, int]]:
        """The sets that were read and differ, as entry and index: evidence wants the members that they had."""
        return [
            (entry.id, index)
            for entry in self.order
            for index, kept in enumerate(entry.deps or ())
            if kept.dep.kind in SET_KINDS
            and kept.digest is not None
            and (there := found.get(reading_of(kept))) is not None
            and there.digest not in {None, kept.digest}
            and kept.digest not in there.since
        ]


Judgements = dict[EntryId, Judgement]


def reading_of(kept: Kept) -> Reading:
    """What to read to compare a path dependency with its kept digest."""
    return Reading(kept.dep.kind, kept.dep.name, algorithm_of(kept.digest))


def closure(targets: Mapping[EntryId, Entry | None], facts: Facts) -> list[Entry]:
    """The entries asked about and all that they rest on, each once and after what it rests on."""
    ordered: dict[EntryId, Entry] = {}
    opened: set[EntryId] = set()
    todo = [entry for entry in targets.values() if entry is not None]
    while todo:
        entry = todo[-1]
        if entry.id in ordered:
            todo.pop()
        elif entry.id in opened:
            ordered[entry.id] = todo.pop()
        else:
            opened.add(entry.id)
            below = [_entry_of(entry_id, targets, facts) for entry_id in entry.entry_ids()]
            todo.extend(e for e in below if e is not None and e.id not in opened)
    return list(ordered.values())


def _entry_of(entry_id: EntryId, targets: Mapping[EntryId, Entry | None], facts: Facts) -> Entry | None:
    return facts.entries[entry_id] if entry_id in facts.entries else targets.get(entry_id)


def triage(targets: Mapping[EntryId, Entry | None], facts: Facts, question: Question) -> Judgements | NeedDigests:
    """Judges what can be judged without reading, else says what must be read.

    `targets` are the entries asked about; None stands for a key without an active entry.
    """
    readings: set[Reading] = set()
    stats: set[bytes] = set()
    order = closure(targets, facts)
    if not question.foreign:
        for entry in order:
            for index, kept in enumerate(entry.deps or ()):
                if kept.dep.kind not in PATH_KINDS or kept.digest is None:
                    continue
                if question.revalidate:
                    if not facts.late and (entry.id, index) not in facts.quiet:
                        readings.add(reading_of(kept))
                elif kept.signature is not None or kept.digest == ABSENT:
                    stats.add(kept.dep.name)
    need = NeedDigests(targets, order, facts, question, frozenset(readings), frozenset(stats))
    return need if readings or stats else settle(need, {})


def settle(
    need: NeedDigests,
    found: Mapping[Reading, Found],
    stats: Mapping[bytes, Signature | None] | None = None,
    members: Mapping[tuple[EntryId, int], tuple[Member, ...]] | None = None,
) -> Judgements:
    """Judges every entry asked about by what was read.

    `stats` has the signature of each path that was to be statted (None: absent). `members` has what the sets
    named by `NeedDigests.unequal_sets` held when they were kept, where that is known.
    """
    judge = _Judge(need, found, stats or {}, members or {})
    done: Judgements = {}
    for entry in need.order:
        done[entry.id] = judge.entry(entry, done)
    absent = Fault(Verdict.UNKNOWN, "no-entry", Proof.LOG)  # no file was read: that there is none, the store says
    nobody = Judgement(absent.verdict, absent.why, absent.proof, None, (absent,))
    return {entry_id: nobody if entry is None else done[entry_id] for entry_id, entry in need.targets.items()}


class _Judge:
    """The rows of the contract's table, one method a kind of dependency."""

    def __init__(
        self,
        need: NeedDigests,
        found: Mapping[Reading, Found],
        stats: Mapping[bytes, Signature | None],
        members: Mapping[tuple[EntryId, int], tuple[Member, ...]],
    ) -> None:
        self._facts = need.facts
        self._question = need.question
        self._found = found
        self._stats = stats
        self._members = members

    def entry(self, entry: Entry, done: Judgements) -> Judgement:
        if isinstance(entry, Ruin):
            fault = Fault(Verdict.UNKNOWN, "damaged", Proof.CONTENT, detail="it cannot be read in the store any more")
            return Judgement(Verdict.UNKNOWN, fault.why, fault.proof, None, (fault,))
        if entry.deps is None:
            fault = Fault(Verdict.UNKNOWN, "no-provenance", Proof.DECLARED)
            return Judgement(Verdict.UNKNOWN, fault.why, fault.proof, entry, (fault,))
        if not entry.deps:
            return Judgement(Verdict.FRESH, "no-dependencies", Proof.DECLARED, entry)
        findings = [self._dependency(entry, index, kept, done) for index, kept in enumerate(entry.deps)]
        faults = [f for f in findings if f.verdict is Verdict.DIRTY] + [
            f for f in findings if f.verdict is Verdict.UNKNOWN
        ]
        proof = min(f.proof for f in findings)
        ignored = sum(self._ignored(kept) for kept in entry.deps)
        if faults:
            return Judgement(faults[0].verdict, faults[0].why, proof, entry, tuple(faults), ignored)
        return Judgement(Verdict.FRESH, _FRESH_WHY[proof], proof, entry, (), ignored)

    def _ignored(self, kept: Kept) -> int:
        there = self._found.get(reading_of(kept)) if kept.dep.kind in SET_KINDS else None
        return there.ignored if there else 0

    def _dependency(self, entry: Entry, index: int, kept: Kept, done: Judgements) -> Fault:
        kind = kept.dep.kind
        match kind:
            case Kind.OBJECT:
                return self._object(entry, kept.dep)
            case Kind.ENTRY:
                return self._entry(entry, kept, done)
            case Kind.FILE | Kind.DIR | Kind.NAMES | Kind.GLOB | Kind.TREE:
                return self._path(entry, index, kept)
            case _:
                assert_never(kind)

    def _object(self, entry: Entry, dep: Dependency) -> Fault:
        state = self._facts.objects.get(dep.name)
        if state is None:
            return Fault(Verdict.UNKNOWN, "gap", Proof.DECLARED, dep, detail="nobody looked what was declared of it")
        if state.open or state.last_end > entry.clock:
            action = state.open[-1] if state.open else state.last_action
            detail = f"action {action} is still open" if state.open else ""
            return Fault(Verdict.DIRTY, "written", Proof.DECLARED, dep, action=action, detail=detail)
        if state.refused > entry.clock:
            detail = "a write that was declared and refused may have been carried out all the same"
            return Fault(Verdict.UNKNOWN, "gap", Proof.DECLARED, dep, action=state.refused, detail=detail)
        if self._facts.gap_all > entry.clock:
            return Fault(Verdict.UNKNOWN, "gap", Proof.DECLARED, dep, detail="provd was not there for a while")
        return Fault(Verdict.FRESH, "declared", Proof.DECLARED, dep)

    def _entry(self, entry: Entry, kept: Kept, done: Judgements) -> Fault:
        dep = kept.dep
        below = EntryId(entry.id.scope, dep.name.decode())
        if below not in self._facts.entries:
            return Fault(Verdict.UNKNOWN, "too-deep", Proof.CONTENT, dep)
        there = self._facts.entries[below]
        if there is None:
            return Fault(Verdict.DIRTY, "entry-missing", Proof.CONTENT, dep, was=_version(kept.version))
        if kept.version is None:
            return Fault(Verdict.UNKNOWN, "unproven", Proof.CONTENT, dep)
        if isinstance(there, Ruin):
            return Fault(Verdict.UNKNOWN, "entry-unknown", Proof.CONTENT, dep, detail="it is damaged in the store")
        if there.version != kept.version:
            was, now = _version(kept.version), _version(there.version)
            return Fault(Verdict.DIRTY, "entry-replaced", Proof.CONTENT, dep, was=was, now=now)
        judged = done.get(below)
        if judged is None:  # only a cycle could be asked about before it is judged, and cycles are refused when put
            return Fault(Verdict.UNKNOWN, "entry-unknown", Proof.CONTENT, dep)
        causes = tuple(c for f in judged.faults for c in (f.causes or (f,)))[:MAX_CAUSES]
        match judged.verdict:
            case Verdict.FRESH:
                return Fault(Verdict.FRESH, judged.why, judged.proof, dep)
            case Verdict.DIRTY:
                return Fault(Verdict.DIRTY, "entry-dirty", judged.proof, dep, causes=causes)
            case Verdict.UNKNOWN:
                why = "too-deep" if judged.why == "too-deep" else "entry-unknown"
                return Fault(Verdict.UNKNOWN, why, judged.proof, dep, causes=causes)
            case _:
                assert_never(judged.verdict)

    def _path(self, entry: Entry, index: int, kept: Kept) -> Fault:
        dep = kept.dep
        if self._question.foreign:
            return Fault(Verdict.UNKNOWN, "namespace", Proof.CONTENT, dep)
        if kept.digest is None or not self._question.revalidate:
            return self._unread(entry, index, kept)
        if (entry.id, index) in self._facts.quiet:
            return Fault(Verdict.FRESH, "untouched", Proof.LOG, dep)
        if self._facts.late:
            return _late(dep)
        there = self._found.get(reading_of(kept))
        if there is None:
            return Fault(Verdict.UNKNOWN, Trouble.TIMEOUT, Proof.CONTENT, dep)
        if there.digest is None:
            why = str(there.trouble or Trouble.UNREADABLE)
            return Fault(Verdict.UNKNOWN, why, Proof.CONTENT, dep, paths=there.paths[:MAX_PATHS], detail=there.detail)
        if there.digest == kept.digest == TYPE_SPECIAL:
            return Fault(
                Verdict.UNKNOWN, "unreadable", Proof.CONTENT, dep, detail="a special file has no content to compare"
            )
        proof = Proof.STAT if there.sealed else Proof.CONTENT
        if there.digest == kept.digest:
            return Fault(Verdict.FRESH, _FRESH_WHY[proof], proof, dep)
        had = self._members.get((entry.id, index))
        why, paths = _difference(kept, there, had)
        held = _held(kept, there, paths)
        return Fault(Verdict.DIRTY, why, proof, dep, was=kept.digest, now=there.digest, paths=paths, held=held)

    def _unread(self, entry: Entry, index: int, kept: Kept) -> Fault:
        """By what is known without reading: a record or a moved `stat` is a touch, a seal a proof, silence nothing."""
        touch = self._facts.touches.get((entry.id, index))
        if touch is not None and touch.since(entry.clock):
            action = touch.action if touch.declared_since(entry.clock) else None
            unasked = kept.digest is not None
            return Fault(Verdict.DIRTY, "touched", Proof.LOG, kept.dep, action=action, unasked=unasked)
        if kept.digest is not None and kept.dep.name in self._stats:
            now = self._stats[kept.dep.name]
            if now != kept.signature and (kept.signature is not None or kept.digest == ABSENT):
                return Fault(Verdict.DIRTY, "touched", Proof.STAT, kept.dep, was=kept.digest, unasked=True)
        if self._facts.late:
            return _late(kept.dep)
        there = None if kept.digest is None else self._found.get(reading_of(kept))
        if there is not None and there.sealed and there.digest == kept.digest:
            return Fault(Verdict.FRESH, "untouched", Proof.STAT, kept.dep)
        return Fault(Verdict.UNKNOWN, "unproven", Proof.LOG, kept.dep)


def _late(dep: Dependency) -> Fault:
    return Fault(Verdict.UNKNOWN, Trouble.TIMEOUT, Proof.LOG, dep, detail="what had happened was not recorded in time")


def _version(version: int | None) -> str | None:
    return None if version is None else f"version:{version}"


def _difference(kept: Kept, there: Found, had: tuple[Member, ...] | None) -> tuple[str, tuple[bytes, ...]]:
    """The `why` of an unequal digest, and for sets the members that differ."""
    if kept.dep.kind not in SET_KINDS:
        return _file_difference(kept.digest or "", there.digest or ""), ()
    literal = base(kept.dep).rstrip(b"/") + b"/"
    if kept.digest is not None and kept.digest in there.since:
        return "changed", tuple(literal + name for name in sorted(there.since[kept.digest])[:MAX_DIFFERING])
    has = there.members or ()
    before = {m.name: m for m in had or ()}
    after = {m.name: m for m in has}
    known = had is not None or kept.digest == ABSENT
    names = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n)) if known else []
    paths = tuple(literal + name for name in names[:MAX_DIFFERING])
    if kept.digest == ABSENT:
        return "created", paths
    if there.digest == ABSENT:
        return "deleted", paths
    if kept.dep.kind in PATTERN_KINDS - {Kind.GLOB} or kept.dep.kind is Kind.DIR:
        return "listing-changed", paths
    same_names = known and {(m.name, m.type) for m in before.values()} == {(m.name, m.type) for m in after.values()}
    return ("changed" if same_names or not known else "listing-changed"), paths


def _held(kept: Kept, there: Found, paths: tuple[bytes, ...]) -> tuple[str, ...]:
    """What members are now, as `Fault.held` has it."""
    start, algorithm = len(base(kept.dep).rstrip(b"/")) + 1, algorithm_of(kept.digest)
    raw = (there.raw(path[start:]) for path in paths)
    return tuple(ABSENT if one is None else f"{algorithm}:{one.hex()}" if one else "" for one in raw)


def _file_difference(was: str, now: str) -> str:
    if was == ABSENT:
        return "created"
    if now == ABSENT:
        return "deleted"
    if was.startswith("type:") or now.startswith("type:"):
        return "type-changed"
    return "changed"
