"""What the judge makes of the log: silence where it proves something, touches, and what came too late."""

from __future__ import annotations

from typing import Final

import msgspec
import pytest
from judging import CLOCK, DIRTY, FILE, FRESH, LOST, NO_FILE, OBJECT, TWO, UNKNOWN, eid, entry, judge, kept, read

from provd.core import evidence
from provd.core.entry import Entry, EntryId, Kept
from provd.core.facts import Facts, ObjectState, Question, Touch, Verify
from provd.core.reading import Signature
from provd.core.verdict import NeedDigests, Proof, triage

BY_LOG: Final = Question(verify=Verify.LOG)
STRICT: Final = Question(revalidate=False)
QUIET: Final = frozenset({(eid("k"), 0)})


def facts(**more: object) -> Facts:
    return msgspec.structs.replace(Facts(20, 0), **more)


def test_what_is_quiet_is_fresh_and_is_not_read() -> None:
    one = entry("k", FILE)
    targets: dict[EntryId, Entry | None] = {one.id: one}
    told = triage(targets, facts(quiet=QUIET), BY_LOG)
    assert not isinstance(told, NeedDigests)
    judged = told[one.id]
    assert (judged.verdict, judged.why, judged.proof) == (FRESH, "untouched", Proof.LOG)


def test_only_what_is_quiet_is_not_read() -> None:
    other = kept("tree:t")
    one = entry("k", FILE, other)
    need = triage({one.id: one}, facts(quiet=QUIET), BY_LOG)
    assert isinstance(need, NeedDigests)
    assert {reading.path for reading in need.readings} == {b"/r/t"}
    judged = judge(one, facts(quiet=QUIET), read(other), BY_LOG)
    assert (judged.verdict, judged.proof) == (FRESH, Proof.LOG), "the weakest proof is told"
    assert judge(one, facts(quiet=QUIET), read(other, TWO), BY_LOG).verdict is DIRTY


def test_silence_is_no_proof_of_what_has_no_digest() -> None:
    judged = judge(entry("k", LOST), facts(quiet=QUIET), question=BY_LOG)
    assert (judged.verdict, judged.why) == (UNKNOWN, "unproven")


def test_the_strict_rule_is_not_fresh_by_silence() -> None:
    judged = judge(entry("k", FILE), facts(quiet=QUIET), question=STRICT)
    assert (judged.verdict, judged.why) == (UNKNOWN, "unproven")


@pytest.mark.parametrize("question", [BY_LOG, STRICT])
@pytest.mark.parametrize("dep", [FILE, NO_FILE, LOST, kept("tree:t")])
def test_what_was_not_recorded_in_time_is_unknown_and_nothing_is_read(question: Question, dep: Kept) -> None:
    one = entry("k", dep)
    need = triage({one.id: one}, facts(late=True), question)
    assert not isinstance(need, NeedDigests) or not need.readings
    judged = judge(one, facts(late=True), question=question, stats={})
    if dep is LOST and question is BY_LOG:
        assert judged.verdict is UNKNOWN
    else:
        assert (judged.verdict, judged.why) == (UNKNOWN, "timeout")
        assert "recorded" in judged.faults[0].detail


def test_a_touch_that_is_known_counts_however_late_the_rest_is() -> None:
    touched = facts(late=True, touches={(eid("k"), 0): Touch(0, None, CLOCK + 1)})
    assert judge(entry("k", FILE), touched, question=STRICT).why == "touched"
    here = Signature(1, 2, 3, 4, 5, 6)
    moved = judge(entry("k", NO_FILE), facts(late=True), question=STRICT, stats={b"/r/a": here})
    assert moved.why == "touched"


def test_objects_need_no_watcher() -> None:
    late = facts(late=True, objects={b"svc": ObjectState(b"svc")})
    assert judge(entry("k", OBJECT), late, question=STRICT).verdict is FRESH


@pytest.mark.parametrize(
    ("touch", "touched", "action"),
    [
        (Touch(0, None, CLOCK + 1), True, None),
        (Touch(0, None, CLOCK), False, None),
        (Touch(CLOCK, 7, CLOCK + 1), True, None),
        (Touch(CLOCK + 1, 7, CLOCK), True, 7),
        (Touch(CLOCK + 1, 7, CLOCK + 1), True, 7),
        (Touch(None, 7, 0), True, 7),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_a_mutation_is_a_touch_as_a_declared_write_is(
    touch: Touch, touched: bool, action: int | None, strict: bool
) -> None:
    known = facts(touches={(eid("k"), 0): touch})
    judged = judge(entry("k", FILE if strict else LOST), known, question=STRICT if strict else Question())
    assert judged.why == ("touched" if touched else "unproven")
    assert judged.faults[0].action == action


@pytest.mark.parametrize(
    ("one", "question", "reading"),
    [(FILE, STRICT, True), (LOST, STRICT, False), (LOST, Question(), False)],
)
def test_of_a_touch_to_ask_with_reading_is_told_where_that_would_compare(
    one: Kept, question: Question, reading: bool
) -> None:
    known = facts(touches={(eid("k"), 0): Touch(0, None, CLOCK + 1)})

    hint = evidence.hint(judge(entry("k", one), known, question=question).faults[0])

    assert hint.endswith(f", or ask {evidence.READING}") == reading
    assert ("revalidate" in hint) == reading


@pytest.mark.parametrize(
    ("touch", "newest"),
    [
        (Touch(0, None, 0), None),
        (Touch(0, None, 12), 12),
        (Touch(0, None, CLOCK), None),
        (Touch(13, 11, 12), 12),
        (Touch(13, 11, CLOCK), 11),
        (Touch(15, 14, 12), 14),
        (Touch(CLOCK, 9, 12), 12),
        (Touch(None, 7, 12), 12),
        (Touch(None, 7, 3), 7),
    ],
)
def test_the_record_that_tells_of_a_touch_is_the_newest_since_the_clock(touch: Touch, newest: int | None) -> None:
    assert touch.newest(CLOCK) == newest
