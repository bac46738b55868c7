"""The judge's evidence: members of sets that differ, and faults as they are said on the wire."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
import pytest
from judging import (
    BELOW,
    CONTRACT,
    DIRTY,
    FILE,
    LOST,
    NOTHING,
    OBJECT,
    ONE,
    SCOPE,
    TWO,
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
from provd.core.dependency import Member, parse
from provd.core.entry import Kept
from provd.core.facts import Facts, ObjectState, Question
from provd.core.reading import Trouble
from provd.core.verdict import MAX_DIFFERING, Fault, NeedDigests, Proof, triage

DIRTY_OR_UNKNOWN: Final = CONTRACT - {"untouched", "same", "declared", "no-dependencies"}


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
    assert (fault.why, fault.paths, fault.held) == ("changed", (b"/r/d/a",), ("xxh3:32",))


@pytest.mark.parametrize("text", SETS)
def test_of_members_that_differ_it_is_kept_what_they_are_now(text: str) -> None:
    had = (Member("f", b"a", b""), Member("f", b"m", b""))
    has = (Member("f", b"b", b"2"), Member("d", b"m", b""), Member("f", b"z", b""))
    fault = differs(text, had, has)
    assert (fault.paths, fault.held) == (
        (b"/r/d/a", b"/r/d/b", b"/r/d/m", b"/r/d/z"),
        ("absent", "xxh3:32", "", ""),
    )


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


def test_of_members_that_differ_the_first_by_name_are_thought_about() -> None:
    has = members(*(("f", f"{n:03}") for n in range(MAX_DIFFERING + 1)))
    assert differs("dir:d", (), has[:16]).paths == tuple(b"/r/d/%03d" % n for n in range(16))
    assert differs("dir:d", (), has).paths == tuple(b"/r/d/%03d" % n for n in range(MAX_DIFFERING))


def test_at_most_sixteen_members_are_named_on_the_wire_in_the_order_that_the_log_gives() -> None:
    one = kept("dir:d")
    has = members(*(("f", f"{n:03}") for n in range(17)))
    judged = judge(entry("k", one), found=read(one, TWO, members=has), members={(eid("k"), 0): ()})

    def told(mutation: evidence.MutationOf) -> list[str]:
        paths = evidence.to_wire(judged, clock="c", mutation=mutation)["evidence"][0]["paths"]
        assert isinstance(paths, list)
        return paths

    assert told(lambda _: None) == [f"/r/d/{n:03}" for n in range(16)]
    assert told(lambda fault: evidence.Witnessed(None, fault.paths[::-1])) == [f"/r/d/{n:03}" for n in range(16, 0, -1)]


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
    told = evidence.to_wire(judged, clock="c:1", mutation=lambda _: evidence.Witnessed({"seq": 4}, ()), key="k")
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
                "path": "/r/a",
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
