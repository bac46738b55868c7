"""The judge: one row of a test for each row of the contract's table, and what holds for all of them.

Facts and findings are made by hand: nothing is read, and nothing is stored.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provd.core import evidence, verdict
from provd.core.dependency import Dependency, Kind, Member, parse
from provd.core.entry import Entry, EntryId, Kept, Standing
from provd.core.reading import Found, Reading, Signature, Trouble
from provd.core.verdict import (
    Facts,
    Fault,
    Judgement,
    Judgements,
    NeedDigests,
    ObjectState,
    Proof,
    Question,
    Touch,
    Verdict,
    reading_of,
    settle,
    triage,
)

SCOPE: Final = b"/r"
CLOCK: Final = 10
ONE: Final = "xxh3:" + "1" * 32
TWO: Final = "xxh3:" + "2" * 32
HERE: Final = Signature(1, 2, 0o100000, 3, 4, 5)
STRICT: Final = Question(revalidate=False)
FOREIGN: Final = Question(foreign=True)

FRESH, DIRTY, UNKNOWN = Verdict.FRESH, Verdict.DIRTY, Verdict.UNKNOWN


def eid(key: str) -> EntryId:
    return EntryId(SCOPE, key)


def dep(text: str) -> Dependency:
    return parse(text.encode(), SCOPE)


def kept(text: str, digest: str | None = ONE, **more: Any) -> Kept:
    return Kept(dep(text), digest, **more)


def on_object(name: str) -> Kept:
    return Kept(dep(f"object:{name}"))


def on_entry(key: str, version: int | None = 5) -> Kept:
    return Kept(dep(f"entry:{key}"), version=version)


def entry(key: str, *deps: Kept, version: int = 5, clock: int = CLOCK, standing: Standing = Standing.ACTIVE) -> Entry:
    return Entry(eid(key), version, version, clock, deps, 0, standing=standing)


def judge_all(
    targets: dict[EntryId, Entry | None],
    facts: Facts,
    found: dict[Reading, Found] | None = None,
    question: Question | None = None,
    **more: Any,
) -> Judgements:
    """Triage, then settle by what was `found`: as the shell does it."""
    need = triage(targets, facts, question or Question())
    return settle(need, found or {}, **more) if isinstance(need, NeedDigests) else need


def judge(
    one: Entry,
    facts: Facts | None = None,
    found: dict[Reading, Found] | None = None,
    question: Question | None = None,
    **more: Any,
) -> Judgement:
    return judge_all({one.id: one}, facts or Facts(20, 0), found, question, **more)[one.id]


def read(one: Kept, digest: str | None = ONE, **more: Any) -> dict[Reading, Found]:
    """What reading a dependency gave."""
    return {reading_of(one): Found(digest, **more)}


def trouble(one: Kept, what: Trouble, **more: Any) -> dict[Reading, Found]:
    return {reading_of(one): Found(trouble=what, **more)}


def objects(state: ObjectState, gap_all: int = 0) -> Facts:
    return Facts(30, gap_all, objects={state.name: state})


FILE: Final = kept("file:a")
NO_FILE: Final = kept("file:a", "absent")
DIRECTORY: Final = kept("dir:d")
LOST: Final = kept("file:a", None)
OBJECT: Final = on_object("svc")
BELOW: Final = on_entry("below")


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


NOTHING: Final = Facts(20, 0)
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

CONTRACT: Final = frozenset(
    {
        *("untouched", "same", "declared", "no-dependencies"),
        *("changed", "created", "deleted", "type-changed", "listing-changed", "touched", "written"),
        *("entry-replaced", "entry-revoked", "entry-missing", "entry-dirty"),
        *("unproven", "gap", "entry-unknown", "too-deep", "unreadable", "timeout", "moving", "namespace"),
        *("no-provenance", "no-entry", "no-active"),
    }
)
"""Every `why` of the contract's table."""
LATER: Final = frozenset({"untouched", "entry-revoked", "no-active"})
"""What only seals and the lifecycle give, which are not built."""
DIRTY_OR_UNKNOWN: Final = CONTRACT - {"untouched", "same", "declared", "no-dependencies"}


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


# sets


def members(*rows: tuple[str, str]) -> tuple[Member, ...]:
    return tuple(Member(kind, name.encode(), b"") for kind, name in rows)


def differs(text: str, had: tuple[Member, ...] | None, has: tuple[Member, ...] | None, **more: Any) -> Fault:
    """The fault of a set that held `had` and holds `has`."""
    one = kept(text, more.get("was", ONE))
    found = read(one, more.get("now", TWO), members=has)
    known = {} if had is None else {(eid("k"), 0): had}
    judged = judge(entry("k", one), found=found, members=known)
    return judged.faults[0]


SETS: Final = ["dir:d", "tree:d", "names:d/*", "glob:d/*"]


@pytest.mark.parametrize("text", SETS)
def test_a_set_names_the_members_that_came_and_went(text: str) -> None:
    fault = differs(text, members(("f", "a"), ("f", "b")), members(("f", "b"), ("f", "c")))
    assert (fault.verdict, fault.why) == (DIRTY, "listing-changed")
    assert fault.paths == (b"/r/d/a", b"/r/d/c")
    assert (fault.was, fault.now) == (ONE, TWO)


@pytest.mark.parametrize("text", SETS)
def test_a_member_that_changed_type_is_a_changed_listing(text: str) -> None:
    fault = differs(text, members(("f", "a")), members(("d", "a")))
    assert (fault.why, fault.paths) == ("listing-changed", (b"/r/d/a",))


@pytest.mark.parametrize("text", ["tree:d", "glob:d/*"])
def test_a_member_with_other_content_is_a_change(text: str) -> None:
    same = Member("f", b"b", b"1")
    fault = differs(text, (Member("f", b"a", b"1"), same), (Member("f", b"a", b"2"), same))
    assert (fault.why, fault.paths) == ("changed", (b"/r/d/a",))


@pytest.mark.parametrize(
    ("text", "why"),
    [("dir:d", "listing-changed"), ("names:d/*", "listing-changed"), ("tree:d", "changed"), ("glob:d/*", "changed")],
)
def test_a_set_whose_old_members_nobody_knows_names_none(text: str, why: str) -> None:
    fault = differs(text, None, members(("f", "a")))
    assert (fault.why, fault.paths) == (why, ())


@pytest.mark.parametrize("text", ["dir:d", "tree:d"])
def test_a_directory_that_came_or_went_names_what_it_holds_or_held(text: str) -> None:
    created = differs(text, None, members(("f", "a")), was="absent")
    deleted = differs(text, members(("f", "a")), None, now="absent")
    assert (created.why, created.paths) == ("created", (b"/r/d/a",))
    assert (deleted.why, deleted.paths) == ("deleted", (b"/r/d/a",))


def test_members_of_the_root_directory_have_one_slash() -> None:
    assert differs("dir:/", members(), members(("d", "bin"))).paths == (b"/bin",)


def test_at_most_sixteen_members_are_named_the_first_by_name() -> None:
    has = members(*(("f", f"{n:03}") for n in range(17)))
    assert differs("dir:d", (), has[:16]).paths == tuple(b"/r/d/%03d" % n for n in range(16))
    assert differs("dir:d", (), has).paths == tuple(b"/r/d/%03d" % n for n in range(16))


def test_at_most_sixteen_unreadable_members_are_named() -> None:
    tree = kept("tree:t")
    paths = tuple(b"/r/t/%03d" % n for n in range(17))
    judged = judge(entry("k", tree), found=trouble(tree, Trouble.UNREADABLE, paths=paths, detail="EACCES"))
    assert (judged.faults[0].paths, judged.faults[0].detail) == (paths[:16], "EACCES")


def test_only_sets_that_were_read_and_differ_ask_for_their_old_members() -> None:
    same, other, lost, bad, late = (kept(f"dir:{n}") for n in "abcde")
    lost = msgspec.structs.replace(lost, digest=None)
    one = entry("k", same, other, lost, bad, late, FILE)
    found = read(same) | read(other, TWO) | trouble(bad, Trouble.UNREADABLE) | read(FILE, TWO)
    need = triage({one.id: one}, NOTHING, Question())
    assert isinstance(need, NeedDigests)
    assert need.unequal_sets(found) == [(one.id, 1)]


# evidence on the wire


def test_a_verdict_on_the_wire_has_every_field() -> None:
    judged = judge(entry("k", FILE), found=read(FILE, TWO))
    told = evidence.to_wire(judged, clock="c:1", mutation=lambda _: {"seq": 4}, key="k")
    assert told == {
        "key": "k",
        "verdict": "dirty",
        "usable": False,
        "standing": "active",
        "version": 5,
        "why": "changed",
        "clock": "c:1",
        "checked": "content",
        "evidence": [
            {
                "dep": "file:a",
                "why": "changed",
                "was": ONE,
                "is": TWO,
                "mutation": {"seq": 4},
                "hint": "read it again and put the entry anew",
            }
        ],
        "more": 0,
    }


def test_a_fresh_verdict_has_no_evidence() -> None:
    told = evidence.to_wire(judge(entry("k")), clock="c:1", mutation=lambda _: None)
    assert (told["verdict"], told["usable"], told["evidence"], told["more"]) == ("fresh", True, [], 0)
    assert "key" not in told
    assert "ignored" not in told


def test_a_verdict_on_no_entry_has_no_version_and_no_standing() -> None:
    judged = judge_all({eid("k"): None}, NOTHING)[eid("k")]
    told = evidence.to_wire(judged, clock="c:1", mutation=lambda _: None)
    assert (told["version"], told["standing"]) == (None, None)
    assert told["evidence"] == [{"dep": None, "why": "no-entry", "hint": "put it first"}]


def test_evidence_repeats_a_dependency_as_it_was_put() -> None:
    for text in (b"a", b"file:a", b"/r/a", b"file:\xff"):
        one = Kept(parse(text, SCOPE), ONE)
        judged = judge(entry("k", one), found=read(one, TWO))
        told = evidence.to_wire(judged, clock="c", mutation=lambda _: None)["evidence"][0]["dep"]
        assert told == ({"b64": "ZmlsZTr/"} if b"\xff" in text else text.decode())


@pytest.mark.parametrize(("count", "more"), [(63, 0), (64, 0), (65, 1), (200, 136)])
def test_at_most_64_dependencies_are_named_and_the_rest_counted(count: int, more: int) -> None:
    deps = [kept(f"file:{n}") for n in range(count)]
    found = {reading: there for one in deps for reading, there in read(one, TWO).items()}
    told = evidence.to_wire(judge(entry("k", *deps), found=found), clock="c", mutation=lambda _: None)
    assert (len(told["evidence"]), told["more"]) == (min(count, 64), more)


@pytest.mark.parametrize("why", sorted(DIRTY_OR_UNKNOWN))
def test_every_fault_says_what_to_do_next(why: str) -> None:
    assert evidence.hint(Fault(DIRTY, why, Proof.CONTENT))


def test_an_open_write_says_which_action_to_end() -> None:
    judged = judge(entry("k", OBJECT), objects(ObjectState(b"svc", 0, None, (3, 17))))
    told = evidence.to_wire(judged, clock="c", mutation=lambda _: None)["evidence"][0]
    assert re.match("end action 17", told["hint"])
    assert judged.faults[0].action == 17


def test_a_finished_write_names_its_action() -> None:
    judged = judge(entry("k", OBJECT), objects(ObjectState(b"svc", 12, 3)))
    assert judged.faults[0].action == 3
    assert "end action" not in evidence.hint(judged.faults[0])


def test_only_dirty_dependencies_ask_for_a_mutation() -> None:
    asked: list[Fault] = []

    def mutation(fault: Fault) -> None:
        asked.append(fault)

    one = entry("k", FILE, LOST)
    evidence.to_wire(judge(one, found=read(FILE, TWO)), clock="c", mutation=mutation)
    assert [fault.why for fault in asked] == ["changed"]


def test_paths_in_evidence_are_names_of_the_wire() -> None:
    one = kept("dir:d")
    there = (Member("f", b"\xff", b""), Member("f", b"a", b""))
    judged = judge(entry("k", one), found=read(one, TWO, members=there), members={(eid("k"), 0): ()})
    told = evidence.to_wire(judged, clock="c", mutation=lambda _: None)["evidence"][0]["paths"]
    assert told == ["/r/d/a", {"b64": "L3IvZC//"}]


def test_an_entry_at_fault_tells_the_leaves_at_fault_below_it() -> None:
    chain = [entry("0", FILE), *(entry(str(n), on_entry(str(n - 1))) for n in range(1, 6))]
    facts = Facts(20, 0, {one.id: one for one in chain})
    judged = judge(chain[-1], facts, read(FILE, TWO))
    told = evidence.to_wire(judged, clock="c", mutation=lambda _: None)["evidence"]
    assert [item["dep"] for item in told] == ["entry:4"]
    assert [(item["dep"], item["why"]) for item in told[0]["because"]] == [("file:a", "changed")]
    assert told[0]["because"][0]["hint"]


def test_at_most_four_leaves_are_told() -> None:
    deps = [kept(f"file:{n}") for n in range(9)]
    found = {reading: there for one in deps for reading, there in read(one, TWO).items()}
    facts = Facts(20, 0, {eid("below"): entry("below", *deps)})
    told = evidence.to_wire(judge(entry("k", BELOW), facts, found), clock="c", mutation=lambda _: None)
    assert [c["dep"] for c in told["evidence"][0]["because"]] == ["file:0", "file:1", "file:2", "file:3"]


def test_another_version_tells_both() -> None:
    facts = Facts(20, 0, {eid("below"): entry("below", version=6)})
    told = evidence.to_wire(judge(entry("k", BELOW), facts), clock="c", mutation=lambda _: None)["evidence"][0]
    assert (told["was"], told["is"]) == ("version:5", "version:6")


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
