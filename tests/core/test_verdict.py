"""The judge: one row of a test for each row of the contract's table, and entries over their dependencies.

Facts and findings are made by hand: nothing is read, and nothing is stored.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
import pytest
from judging import (
    BELOW,
    CLOCK,
    CONTRACT,
    DIRTY,
    FILE,
    FOREIGN,
    FRESH,
    LOST,
    NO_FILE,
    NOTHING,
    OBJECT,
    TWO,
    UNKNOWN,
    eid,
    entry,
    judge,
    judge_all,
    kept,
    objects,
    on_entry,
    read,
    trouble,
)

from provd.core import evidence
from provd.core.entry import Entry, EntryId, Kept, Standing
from provd.core.facts import Facts, ObjectState, Question, Touch
from provd.core.reading import Found, Reading, Trouble
from provd.core.verdict import NeedDigests, Proof, Verdict, reading_of, settle, triage

DIRECTORY: Final = kept("dir:d")


class Row(NamedTuple):
    """One row: a single dependency (or none: `deps`), what is known, and the answer."""

    name: str
    deps: tuple[Kept, ...] | None
    facts: Facts
    found: dict[Reading, Found]
    verdict: Verdict
    why: str
    checked: Proof = Proof.CONTENT
    question: Question = Question()


ROWS: Final = [
    Row("read and equal", (FILE,), NOTHING, read(FILE), FRESH, "same"),
    Row("read and equal: absent", (NO_FILE,), NOTHING, read(NO_FILE, "absent"), FRESH, "same"),
    Row(
        "read and equal: a directory",
        (kept("file:a", "type:dir"),),
        NOTHING,
        read(kept("file:a", "type:dir"), "type:dir"),
        FRESH,
        "same",
    ),
    Row("read and equal: a set", (DIRECTORY,), NOTHING, read(DIRECTORY, members=()), FRESH, "same"),
    Row("read and equal after a touch", (FILE,), Facts(20, 15), read(FILE), FRESH, "same"),
    Row("read and differs: changed", (FILE,), NOTHING, read(FILE, TWO), DIRTY, "changed"),
    Row("read and differs: created", (NO_FILE,), NOTHING, read(NO_FILE, TWO), DIRTY, "created"),
    Row("read and differs: deleted", (FILE,), NOTHING, read(FILE, "absent"), DIRTY, "deleted"),
    Row("read and differs: type", (FILE,), NOTHING, read(FILE, "type:dir"), DIRTY, "type-changed"),
    Row("read and differs: special now", (FILE,), NOTHING, read(FILE, "type:special"), DIRTY, "type-changed"),
    Row(
        "read and differs: a listing", (DIRECTORY,), NOTHING, read(DIRECTORY, TWO, members=()), DIRTY, "listing-changed"
    ),
    Row(
        "no digest and a touch since the clock",
        (LOST,),
        Facts(30, 0, touches={(eid("k"), 0): Touch(11, 9)}),
        {},
        DIRTY,
        "touched",
        Proof.LOG,
    ),
    Row(
        "no digest and a write that is open",
        (LOST,),
        Facts(30, 0, touches={(eid("k"), 0): Touch(None, 9)}),
        {},
        DIRTY,
        "touched",
        Proof.LOG,
    ),
    Row("no digest otherwise", (LOST,), NOTHING, read(LOST), UNKNOWN, "unproven", Proof.LOG),
    Row(
        "no digest and a touch before the clock",
        (LOST,),
        Facts(30, 0, touches={(eid("k"), 0): Touch(CLOCK, 9)}),
        {},
        UNKNOWN,
        "unproven",
        Proof.LOG,
    ),
    Row("object never written", (OBJECT,), objects(ObjectState(b"svc")), {}, FRESH, "declared", Proof.DECLARED),
    Row(
        "object written before the clock",
        (OBJECT,),
        objects(ObjectState(b"svc", CLOCK, 3), CLOCK),
        {},
        FRESH,
        "declared",
        Proof.DECLARED,
    ),
    Row(
        "object with a write that ended after the clock",
        (OBJECT,),
        objects(ObjectState(b"svc", CLOCK + 1, 3)),
        {},
        DIRTY,
        "written",
        Proof.DECLARED,
    ),
    Row(
        "object with an open write from before the clock",
        (OBJECT,),
        objects(ObjectState(b"svc", 0, None, (3,))),
        {},
        DIRTY,
        "written",
        Proof.DECLARED,
    ),
    Row(
        "object written and then a gap",
        (OBJECT,),
        objects(ObjectState(b"svc", 12, 3, refused=14), 13),
        {},
        DIRTY,
        "written",
        Proof.DECLARED,
    ),
    Row(
        "object with a gap for all since the clock",
        (OBJECT,),
        objects(ObjectState(b"svc"), CLOCK + 1),
        {},
        UNKNOWN,
        "gap",
        Proof.DECLARED,
    ),
    Row(
        "object with a refused begin since the clock",
        (OBJECT,),
        objects(ObjectState(b"svc", refused=CLOCK + 1)),
        {},
        UNKNOWN,
        "gap",
        Proof.DECLARED,
    ),
    Row(
        "object with a refused begin before the clock",
        (OBJECT,),
        objects(ObjectState(b"svc", refused=CLOCK)),
        {},
        FRESH,
        "declared",
        Proof.DECLARED,
    ),
    Row(
        "entry of the same version and fresh",
        (BELOW,),
        Facts(20, 0, {eid("below"): entry("below", FILE)}),
        read(FILE),
        FRESH,
        "same",
    ),
    Row(
        "entry of a newer version",
        (BELOW,),
        Facts(20, 0, {eid("below"): entry("below", version=6)}),
        {},
        DIRTY,
        "entry-replaced",
        Proof.CONTENT,
    ),
    Row(
        "entry of an older version",
        (BELOW,),
        Facts(20, 0, {eid("below"): entry("below", version=4)}),
        {},
        DIRTY,
        "entry-replaced",
    ),
    Row(
        "entry of a version that it never had at the clock",
        (on_entry("below", 0),),
        Facts(20, 0, {eid("below"): entry("below", version=6)}),
        {},
        DIRTY,
        "entry-replaced",
        Proof.CONTENT,
    ),
    Row("entry revoked or forgotten", (BELOW,), Facts(20, 0, {eid("below"): None}), {}, DIRTY, "entry-missing"),
    Row(
        "entry that is dirty",
        (BELOW,),
        Facts(20, 0, {eid("below"): entry("below", FILE)}),
        read(FILE, TWO),
        DIRTY,
        "entry-dirty",
    ),
    Row(
        "entry that is unknown",
        (BELOW,),
        Facts(20, 0, {eid("below"): entry("below", LOST)}),
        {},
        UNKNOWN,
        "entry-unknown",
        Proof.LOG,
    ),
    Row(
        "entry whose version was never proven",
        (on_entry("below", None),),
        Facts(20, 0, {eid("below"): entry("below")}),
        {},
        UNKNOWN,
        "unproven",
        Proof.CONTENT,
    ),
    Row("entry too deep", (BELOW,), NOTHING, {}, UNKNOWN, "too-deep"),
    Row("cannot be read", (FILE,), NOTHING, trouble(FILE, Trouble.UNREADABLE), UNKNOWN, "unreadable"),
    Row(
        "cannot be read: special files are never equal",
        (kept("file:a", "type:special"),),
        NOTHING,
        read(kept("file:a", "type:special"), "type:special"),
        UNKNOWN,
        "unreadable",
    ),
    Row("not in time", (FILE,), NOTHING, trouble(FILE, Trouble.TIMEOUT), UNKNOWN, "timeout"),
    Row("not in time: nothing came back", (FILE,), NOTHING, {}, UNKNOWN, "timeout"),
    Row("changed while it was judged", (FILE,), NOTHING, trouble(FILE, Trouble.MOVING), UNKNOWN, "moving"),
    Row("other namespace", (FILE,), NOTHING, read(FILE), UNKNOWN, "namespace", Proof.CONTENT, FOREIGN),
    Row("no dependency set", None, NOTHING, {}, UNKNOWN, "no-provenance", Proof.DECLARED),
    Row("the empty set", (), NOTHING, {}, FRESH, "no-dependencies", Proof.DECLARED),
]
LATER: Final = frozenset({"untouched", "entry-revoked", "no-active"})
"""What only seals and the lifecycle give, which are not built."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_of_the_table(row: Row) -> None:
    one = msgspec.structs.replace(entry("k"), deps=row.deps)
    judged = judge(one, row.facts, row.found, row.question)
    assert (judged.verdict, judged.why, judged.proof) == (row.verdict, row.why, row.checked)
    assert judged.usable == (row.verdict is FRESH)
    assert [fault.why for fault in judged.faults] == ([] if row.verdict is FRESH else [row.why])
    assert all(fault.verdict is row.verdict for fault in judged.faults)
    if row.deps:
        assert [fault.dep for fault in judged.faults] == ([] if row.verdict is FRESH else [row.deps[0].dep])


def test_a_key_without_an_entry_is_unknown() -> None:
    judged = judge_all({eid("k"): None}, NOTHING)[eid("k")]
    assert (judged.verdict, judged.why, judged.usable, judged.entry) == (UNKNOWN, "no-entry", False, None)
    assert [fault.why for fault in judged.faults] == ["no-entry"]


def test_the_rows_above_have_every_reason_of_the_contract() -> None:
    assert {row.why for row in ROWS} | {"no-entry"} == CONTRACT - LATER


@pytest.mark.parametrize("standing", [Standing.HYPOTHESIS, Standing.REVOKED])
def test_what_is_fresh_and_not_active_is_not_usable(standing: Standing) -> None:
    judged = judge(entry("k", standing=standing))
    assert judged.verdict is FRESH
    assert not judged.usable


# the entry, over its dependencies


def test_dirty_goes_before_unknown_before_fresh() -> None:
    fresh, dirty, unknown = kept("file:f"), kept("file:d"), kept("file:u")
    found = read(fresh) | read(dirty, TWO) | trouble(unknown, Trouble.UNREADABLE)
    judged = judge(entry("k", unknown, fresh, dirty), found=found)
    assert (judged.verdict, judged.why) == (DIRTY, "changed")
    assert [(f.verdict, f.why) for f in judged.faults] == [(DIRTY, "changed"), (UNKNOWN, "unreadable")]
    judged = judge(entry("k", fresh, unknown), found=found)
    assert (judged.verdict, judged.why) == (UNKNOWN, "unreadable")
    assert judge(entry("k", fresh), found=found).verdict is FRESH


def test_faults_stand_in_the_order_of_the_dependencies() -> None:
    deps = [kept(f"file:{n}") for n in range(5)]
    found = {reading: there for one in deps for reading, there in read(one, TWO).items()}
    judged = judge(entry("k", *deps), found=found)
    assert [fault.dep for fault in judged.faults] == [one.dep for one in deps]


def test_checked_is_the_weakest_proof_of_all_dependencies() -> None:
    facts = Facts(20, 0, {eid("below"): entry("below", OBJECT)}, {b"svc": ObjectState(b"svc")})
    assert judge(entry("k", FILE), facts, read(FILE)).proof is Proof.CONTENT
    assert judge(entry("k", FILE, OBJECT), facts, read(FILE)).proof is Proof.DECLARED
    assert judge(entry("k", FILE, BELOW), facts, read(FILE)).proof is Proof.DECLARED
    assert sorted(Proof) == [Proof.DECLARED, Proof.LOG, Proof.STAT, Proof.CONTENT]


def test_the_digest_of_an_entry_is_compared_in_its_own_algorithm() -> None:
    for algorithm in ("xxh3", "sha256", "blake2b"):
        one = kept("file:a", f"{algorithm}:{'0' * (64 if algorithm == 'sha256' else 32)}")
        need = triage({eid("k"): entry("k", one)}, NOTHING, Question())
        assert isinstance(need, NeedDigests)
        assert {reading.algorithm for reading in need.readings} == {algorithm}


def test_one_reading_serves_all_entries_that_name_it() -> None:
    targets: dict[EntryId, Entry | None] = {eid(k): entry(k, FILE) for k in "abc"}
    need = triage(targets, NOTHING, Question())
    assert isinstance(need, NeedDigests)
    assert need.readings == frozenset({reading_of(FILE)})
    assert {j.verdict for j in settle(need, read(FILE)).values()} == {FRESH}


def test_what_needs_no_reading_is_judged_at_once() -> None:
    assert not isinstance(triage({eid("k"): entry("k", LOST)}, NOTHING, Question()), NeedDigests)


def test_names_left_out_by_ignore_rules_are_counted() -> None:
    tree, other = kept("tree:t"), kept("dir:d")
    judged = judge(
        entry("k", tree, other), found=read(tree, members=(), ignored=3) | read(other, members=(), ignored=2)
    )
    assert (judged.verdict, judged.ignored) == (FRESH, 5)
    assert evidence.to_wire(judged, clock="c", mutation=lambda _: None)["ignored"] == 5
