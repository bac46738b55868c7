"""Never fresh without having been shown: the strict rule, foreign peers, chains, and any graph of entries."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judging import (
    BELOW,
    CLOCK,
    DIRTY,
    FILE,
    FOREIGN,
    FRESH,
    LOST,
    NO_FILE,
    NOTHING,
    OBJECT,
    ONE,
    TWO,
    UNKNOWN,
    dep,
    eid,
    entry,
    judge,
    judge_all,
    kept,
    on_entry,
    on_object,
    read,
)

from provd.core import verdict
from provd.core.dependency import Kind
from provd.core.entry import Entry, EntryId, Kept
from provd.core.facts import Facts, ObjectState, Question, Touch
from provd.core.reading import Found, Reading, Signature, Trouble
from provd.core.verdict import Judgement, Judgements, NeedDigests, Proof, Verdict, reading_of, settle, triage

HERE: Final = Signature(1, 2, 0o100000, 3, 4, 5)
STRICT: Final = Question(revalidate=False)


# revalidate: false


def test_the_strict_rule_reads_nothing() -> None:
    targets: dict[EntryId, Entry | None] = {eid("k"): entry("k", FILE, kept("tree:t"), LOST, NO_FILE)}
    need = triage(targets, NOTHING, STRICT)
    assert isinstance(need, NeedDigests)
    assert need.readings == frozenset()
    assert need.stats == {b"/r/a"}, "only what has a stat to compare with"


def test_the_strict_rule_never_takes_an_equal_stat_for_a_proof() -> None:
    one = kept("file:a", signature=HERE)
    judged = judge(entry("k", one), question=STRICT, stats={b"/r/a": HERE})
    assert (judged.verdict, judged.why) == (UNKNOWN, "unproven")
    assert judge(entry("k", one), found=read(one), question=STRICT, stats={b"/r/a": HERE}).verdict is UNKNOWN


@pytest.mark.parametrize("field", ["dev", "ino", "mode", "size", "mtime_ns", "ctime_ns"])
def test_the_strict_rule_takes_a_moved_stat_for_a_touch(field: str) -> None:
    one = kept("file:a", signature=HERE)
    now = msgspec.structs.replace(HERE, **{field: 99})
    judged = judge(entry("k", one), question=STRICT, stats={b"/r/a": now})
    assert (judged.verdict, judged.why, judged.proof) == (DIRTY, "touched", Proof.STAT)


def test_the_strict_rule_sees_what_appeared_and_what_went() -> None:
    gone = judge(entry("k", kept("file:a", signature=HERE)), question=STRICT, stats={b"/r/a": None})
    came = judge(entry("k", NO_FILE), question=STRICT, stats={b"/r/a": HERE})
    still = judge(entry("k", NO_FILE), question=STRICT, stats={b"/r/a": None})
    assert [j.why for j in (gone, came, still)] == ["touched", "touched", "unproven"]


def test_the_strict_rule_knows_nothing_of_what_could_not_be_statted() -> None:
    judged = judge(entry("k", kept("file:a", signature=HERE), NO_FILE), question=STRICT, stats={})
    assert (judged.verdict, {f.why for f in judged.faults}) == (UNKNOWN, {"unproven"})


def test_the_strict_rule_takes_a_declared_write_for_a_touch() -> None:
    facts = Facts(30, 0, touches={(eid("k"), 1): Touch(CLOCK + 1, 7)})
    judged = judge(entry("k", kept("file:b"), FILE), facts, question=STRICT)
    assert [(f.why, f.action) for f in judged.faults] == [("touched", 7), ("unproven", None)]
    facts = Facts(30, 0, touches={(eid("k"), 1): Touch(CLOCK, 7)})
    assert judge(entry("k", kept("file:b"), FILE), facts, question=STRICT).verdict is UNKNOWN


def test_the_strict_rule_still_answers_objects_and_entries() -> None:
    facts = Facts(20, 0, {eid("below"): entry("below", OBJECT)}, {b"svc": ObjectState(b"svc")})
    assert judge(entry("k", OBJECT, BELOW), facts, question=STRICT).verdict is FRESH


# a peer that sees other files


def test_for_a_foreign_peer_nothing_is_read_and_no_path_is_known() -> None:
    one = entry("k", FILE, kept("tree:t"), LOST)
    judged = triage({one.id: one}, NOTHING, FOREIGN)
    assert not isinstance(judged, NeedDigests)
    assert [f.why for f in judged[one.id].faults] == ["namespace"] * 3
    strict = triage({one.id: one}, NOTHING, Question(revalidate=False, foreign=True))
    assert not isinstance(strict, NeedDigests)
    assert strict[one.id].verdict is UNKNOWN


def test_a_foreign_peer_gets_answers_on_what_is_no_file() -> None:
    facts = Facts(20, 0, {eid("below"): entry("below")}, {b"svc": ObjectState(b"svc")})
    assert judge(entry("k", OBJECT, BELOW), facts, question=FOREIGN).verdict is FRESH
    facts = Facts(20, 0, {eid("below"): entry("below", FILE)})
    assert judge(entry("k", BELOW), facts, question=FOREIGN).why == "entry-unknown"


# chains and diamonds


def chain_of(length: int, bottom: Kept = FILE) -> list[Entry]:
    """Entries `0` to `length - 1`, each on the one before, the first on `bottom`."""
    return [entry("0", bottom), *(entry(str(n), on_entry(str(n - 1))) for n in range(1, length))]


@pytest.mark.parametrize(("digest", "expected"), [(ONE, FRESH), (TWO, DIRTY), (None, UNKNOWN)])
def test_a_chain_of_5000_entries_is_judged_without_recursion(digest: str | None, expected: Verdict) -> None:
    chain = chain_of(5000)
    facts = Facts(20, 0, {one.id: one for one in chain})
    found = {reading_of(FILE): Found(digest, None if digest else Trouble.UNREADABLE)}
    assert judge(chain[-1], facts, found).verdict is expected


def test_a_chain_asked_about_from_all_ends_at_once_is_judged_in_any_order() -> None:
    chain = chain_of(300)
    facts = Facts(20, 0, {one.id: one for one in chain})
    for ordered in (chain, chain[::-1]):
        targets: dict[EntryId, Entry | None] = {one.id: one for one in ordered}
        assert {j.verdict for j in judge_all(targets, facts, read(FILE)).values()} == {FRESH}
        assert {j.verdict for j in judge_all(targets, facts, read(FILE, TWO)).values()} == {DIRTY}


def test_what_rests_on_something_too_deep_is_unknown_up_to_the_top() -> None:
    chain = chain_of(1500)
    held = {one.id: one for one in chain[499:-1]}  # a thousand below the top, as the store copies them out
    judged = judge(chain[-1], Facts(20, 0, held), read(FILE))
    assert (judged.verdict, judged.why) == (UNKNOWN, "too-deep")
    assert judged.faults[0].dep == dep("entry:1498")
    assert [(c.why, c.dep) for c in judged.faults[0].causes] == [("too-deep", dep("entry:498"))]


def test_dirty_goes_before_too_deep() -> None:
    top = entry("k", on_entry("nobody-knows"), FILE)
    judged = judge(top, found=read(FILE, TWO))
    assert (judged.verdict, [f.why for f in judged.faults]) == (DIRTY, ["changed", "too-deep"])


def test_every_entry_of_a_lattice_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wide, high = range(3), range(1, 60)  # 3^60 ways down
    layers = [
        [entry(f"0.{side}", FILE) for side in wide],
        *([entry(f"{n}.{side}", *(on_entry(f"{n - 1}.{s}") for s in wide)) for side in wide] for n in high),
    ]
    all_entries = [one for layer in layers for one in layer]
    judged: list[EntryId] = []
    real = verdict._Judge.entry

    def counted(self: Any, one: Entry, done: Judgements) -> Judgement:
        judged.append(one.id)
        return real(self, one, done)

    monkeypatch.setattr(verdict._Judge, "entry", counted)
    targets: dict[EntryId, Entry | None] = {one.id: one for one in layers[-1]}
    answers = judge_all(targets, Facts(20, 0, {one.id: one for one in all_entries}), read(FILE))
    assert {j.verdict for j in answers.values()} == {FRESH}
    assert sorted(judged, key=lambda i: i.key) == sorted((one.id for one in all_entries), key=lambda i: i.key)


def test_a_cycle_is_never_fresh() -> None:
    ring = [entry(str(n), on_entry(str((n + 1) % 5)), FILE) for n in range(5)]
    facts = Facts(20, 0, {one.id: one for one in ring})
    targets: dict[EntryId, Entry | None] = {one.id: one for one in ring}
    assert FRESH not in {j.verdict for j in judge_all(targets, facts, read(FILE)).values()}
    itself = entry("k", on_entry("k"))
    assert judge(itself, Facts(20, 0, {itself.id: itself})).verdict is UNKNOWN


# never fresh without having been shown

PATHS: Final = ["file:a", "file:b", "dir:d", "tree:t", "glob:g/*", "names:n/*"]
digests = st.sampled_from([ONE, TWO, "absent", "type:dir", "type:special"])
path_kept = st.builds(kept, st.sampled_from(PATHS), st.one_of(st.none(), digests))
object_kept = st.sampled_from([on_object("x"), on_object("y")])
founds = st.one_of(
    st.builds(Found, digests),
    st.builds(lambda t: Found(trouble=t), st.sampled_from(list(Trouble))),
)
positions = st.integers(0, 20)
states = st.builds(
    lambda end, opened, refused: ObjectState(b"x", end, end or None, opened, refused),
    positions,
    st.sampled_from([(), (), (), (4,)]),
    positions,
)


@st.composite
def graphs(draw: st.DrawFn) -> list[Entry]:
    """Entries that rest on paths, objects and earlier entries, mostly of the version that stands."""
    out: list[Entry] = []
    for n in range(draw(st.integers(1, 7))):
        on = [
            on_entry(str(draw(st.integers(0, n - 1))), draw(st.sampled_from([5, 5, 5, 5, 4, None])))
            for _ in range(draw(st.integers(0, 2)))
            if n
        ]
        deps = draw(
            st.permutations([*draw(st.lists(path_kept, max_size=3)), *draw(st.lists(object_kept, max_size=1)), *on])
        )
        out.append(entry(str(n), *deps, clock=draw(st.integers(5, 15))))
    return out


def shown(one: Entry, entries: dict[EntryId, Entry], facts: Facts, found: dict[Reading, Found]) -> bool:
    """Whether each dependency was shown to be what it was: written as simply as can be, with recursion."""
    for on in one.deps or ():
        if on.dep.kind is Kind.OBJECT:
            state = facts.objects[on.dep.name]
            if state.open or max(state.last_end, state.refused, facts.gap_all) > one.clock:
                return False
        elif on.dep.kind is Kind.ENTRY:
            below = entries.get(eid(on.dep.name.decode()))
            if below is None or below.version != on.version or not shown(below, entries, facts, found):
                return False
        else:
            there = found.get(reading_of(on))
            if on.digest in {None, "type:special"} or there is None or there.digest != on.digest:
                return False
    return True


@settings(deadline=None, max_examples=400)
@given(data=st.data(), graph=graphs())
def test_never_fresh_with_a_dependency_that_was_not_shown(data: st.DataObject, graph: list[Entry]) -> None:
    entries = {one.id: one for one in graph}
    named = {name: data.draw(states) for name in (b"x", b"y")}
    known: dict[EntryId, Entry | None] = dict(entries)
    for lost in data.draw(st.lists(st.sampled_from(list(entries)), max_size=1)):
        if data.draw(st.booleans()):
            known[lost] = None  # forgotten since
        else:
            del known[lost]  # deeper than facts go
    facts = Facts(20, data.draw(positions), known, named)
    targets: dict[EntryId, Entry | None] = {i: one for i, one in known.items() if one is not None}
    need = triage(targets, facts, Question())
    found: dict[Reading, Found] = {}
    if isinstance(need, NeedDigests):
        for reading in sorted(need.readings, key=repr):
            equal = [on.digest for one in graph for on in one.deps or () if on.digest and reading_of(on) == reading]
            found[reading] = data.draw(st.one_of(st.sampled_from(equal).map(Found), founds))
        for reading in data.draw(st.lists(st.sampled_from(sorted(found, key=repr)), unique=True)) if found else ():
            del found[reading]
        answers = settle(need, found)
    else:
        answers = need
    there = {i: one for i, one in known.items() if one is not None}
    for entry_id, judged in answers.items():
        assert (judged.verdict is FRESH) == shown(there[entry_id], there, facts, found)
        assert bool(judged.faults) == (judged.verdict is not FRESH)
        if judged.verdict is DIRTY:
            assert judged.faults[0].verdict is DIRTY
        else:
            assert DIRTY not in {fault.verdict for fault in judged.faults}


@settings(deadline=None, max_examples=200)
@given(data=st.data(), graph=graphs())
def test_the_strict_rule_is_never_fresh_on_a_path(data: st.DataObject, graph: list[Entry]) -> None:
    objects_ = {name: ObjectState(name) for name in (b"x", b"y")}
    facts = Facts(20, 0, {one.id: one for one in graph}, objects_)
    targets: dict[EntryId, Entry | None] = {one.id: one for one in graph}
    every = {reading_of(on): Found(on.digest) for one in graph for on in one.deps or () if on.digest}
    question = Question(revalidate=False, foreign=data.draw(st.booleans()))
    fresh = {i for i, judged in judge_all(targets, facts, every, question).items() if judged.verdict is FRESH}
    for one in graph:
        if any(on.dep.kind not in {Kind.OBJECT, Kind.ENTRY} for on in one.deps or ()):
            assert one.id not in fresh
