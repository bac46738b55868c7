"""The oracle itself: what it calls right, what it sees, what it counts."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING

import oracle_run
import pytest
from oracle_book import Book
from oracle_eyes import Eyes, Look
from oracle_model import Dep, Entry, Oracle
from oracle_place import ODD_NAMES, Place
from oracle_puts import Putting
from oracle_table import ENOUGH, QUESTIONS, UNTOUCHED, Finding, Table, told
from support import digest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    home = os.path.realpath(tmp_path)
    made = Place(home, os.path.join(home, "r"), os.path.join(home, "o"), Random(7), mounts=False, bars=False)
    yield made
    made.close()


def look(digest: str, *, barred: bool = False) -> Look:
    return Look(digest, frozenset(), barred)


@pytest.mark.parametrize(
    ("verdict", "now", "strict", "finding"),
    [
        ("fresh", look("1"), False, Finding.RIGHT),
        ("fresh", look("2"), False, Finding.FALSE_FRESH),
        ("fresh", look("2"), True, Finding.FALSE_FRESH),
        ("fresh", look("1", barred=True), False, Finding.FALSE_FRESH),
        ("dirty", look("1"), False, Finding.FALSE_DIRTY),
        ("dirty", look("1"), True, Finding.RIGHT),
        ("dirty", look("2"), False, Finding.RIGHT),
        ("dirty", look("1", barred=True), False, Finding.FALSE_DIRTY),
        ("unknown", look("1"), False, Finding.NEEDLESS),
        ("unknown", look("2"), False, Finding.NEEDLESS),
        ("unknown", look("1"), True, Finding.RIGHT),
        ("unknown", look("2", barred=True), False, Finding.RIGHT),
    ],
)
def test_what_an_answer_is_worth(verdict: str, now: Look, finding: Finding, *, strict: bool) -> None:
    deps = [Dep("file:f", "1", 0), Dep("file:g", "1", 0)]
    answer = {"verdict": verdict, "evidence": [{"dep": "file:f", "why": "changed"}]}
    assert Oracle().judge(deps, answer, {"file:f": now, "file:g": look("1")}, strict=strict) is finding


def test_evidence_names_all_that_differs_and_nothing_else() -> None:
    deps = [Dep("file:f", "1", 0), Dep("file:g", "1", 0)]
    answer = {"verdict": "dirty", "evidence": [{"dep": "file:f", "why": "changed"}]}
    for now in ({"file:f": look("2"), "file:g": look("2")}, {"file:f": look("1"), "file:g": look("2")}):
        assert Oracle().judge(deps, answer, now) is Finding.WRONG_EVIDENCE


def test_what_was_kept_without_a_digest_is_never_fresh() -> None:
    deps = [Dep("file:f", "1", 0, unproven=True)]
    for verdict, finding in (("fresh", Finding.FALSE_FRESH), ("dirty", Finding.RIGHT), ("unknown", Finding.RIGHT)):
        answer = {"verdict": verdict, "evidence": [{"dep": "file:f", "why": "touched"}]}
        assert Oracle().judge(deps, answer, {"file:f": look("1")}) is finding


def test_an_object_is_as_it_was_declared() -> None:
    oracle = Oracle()
    deps = [Dep("object:o", "", oracle.now())]
    known = oracle.object("o")
    assert oracle.may_be(deps, {})[0] == {"fresh"}
    known.open.add(1)
    assert oracle.may_be(deps, {})[0] == {"dirty"}
    known.open.clear()  # given up
    assert oracle.may_be(deps, {})[0] == {"fresh"}
    known.unsure = oracle.now()
    assert oracle.may_be(deps, {})[0] == {"unknown"}
    known.written = oracle.now()
    assert oracle.may_be(deps, {})[0] == {"dirty"}
    deps = [Dep("object:o", "", oracle.now())]
    assert oracle.may_be(deps, {})[0] == {"fresh"}
    oracle.gap = oracle.now()
    assert oracle.may_be(deps, {})[0] == {"unknown"}


def test_an_entry_is_as_good_as_what_it_rests_on() -> None:
    oracle = Oracle()
    oracle.entries["p0"] = Entry(5, 1, [Dep("file:f", "1", 0)], 0, None)
    deps = [Dep("entry:p0", 5, 0)]
    assert oracle.may_be(deps, {"file:f": look("1")})[0] == {"fresh"}
    assert oracle.may_be(deps, {"file:f": look("2")})[0] == {"dirty"}
    assert oracle.may_be(deps, {"file:f": look("1", barred=True)})[0] == {"unknown"}
    assert oracle.may_be([Dep("entry:p0", 4, 0)], {"file:f": look("1")})[0] == {"dirty"}
    assert oracle.may_be([Dep("entry:p1", 4, 0)], {})[0] == {"dirty"}


@pytest.mark.parametrize("seed", range(3))
def test_our_eyes_see_what_the_digests_by_hand_say(place: Place, seed: int) -> None:
    """Two programs that know nothing of each other, over all kinds of trees."""
    assert oracle_run  # registers what can be done
    place.random.seed(seed)
    putting = Putting(place, 10, 0)
    kinds = ("file", "absent", "dir", "names", "glob", "tree")
    for _ in range(60):
        place.act(place.random.choice(place.acts()))
        eyes = Eyes(place.home, place.root)
        for kind in kinds:
            name = putting.dependency(kind, "p0")
            assert eyes.look(name).digest == digest(name, place.root), name


def test_what_rests_on_what(place: Place) -> None:
    os.symlink("../a/f0", os.path.join(place.root, "s/t0"))
    os.link(os.path.join(place.root, "a/f0"), os.path.join(place.root, "h/l0"))

    def rests(dep: str) -> frozenset[tuple[str | int, ...]]:
        return Eyes(place.home, place.root).look(dep).rests

    place.overwrite(os.path.join(place.root, "h/l0"))
    for dep in ("file:a/f0", "file:s/t0", "file:h/l0", "tree:a", "glob:s/*", "glob:a/**/f*"):
        assert place.touched & rests(dep), dep
    for dep in ("file:a/f1", "names:a/*", "dir:a", "tree:s"):
        assert not place.touched & rests(dep), dep
    place.touched.clear()
    place.name(os.path.join(place.root, "a/b"))
    for dep in ("file:a/b/c/f0", "file:a/b/none", "dir:a", "tree:.", "names:a/**/f*"):
        assert place.touched & rests(dep), dep
    assert not place.touched & rests("file:d/f0")


def test_a_mutation_marks_what_rests_on_it_and_what_rests_on_that(place: Place) -> None:
    oracle = Oracle()
    book = Book(oracle)
    eyes = Eyes(place.home, place.root)

    def put(key: str, *names: str) -> None:
        deps = [
            Dep(name, eyes.look(name).digest if ":" in name and not name.startswith("e") else 1, 0) for name in names
        ]
        book.keep(key, Entry(1, 1, deps, 0, None), book.looks(deps, eyes))

    put("p0", "file:a/f0", "tree:d")
    put("p1", "names:a/*")
    put("c2", "entry:p0")
    put("c3", "entry:c2", "file:x/none")
    place.overwrite(os.path.join(place.root, "a/f0"))
    book.mark_tokens("in place", frozenset(place.touched), Eyes(place.home, place.root))
    marks = {key: entry.mark for key, entry in oracle.entries.items()}
    assert marks == {
        "p0": ("in place", {"file"}),
        "p1": None,
        "c2": ("in place", {"entry"}),
        "c3": ("in place", {"entry"}),
    }
    place.touched.clear()
    place.write(os.path.join(place.root, "x/none"))
    book.mark_tokens("created", frozenset(place.touched), Eyes(place.home, place.root))
    assert oracle.entries["c3"].mark == ("created", {"absent"})
    assert oracle.entries["c2"].mark == ("in place", {"entry"})


def test_each_odd_name_is_one_name() -> None:
    assert len({os.fsencode(name) for name in ODD_NAMES}) == len(ODD_NAMES)


def test_the_table_says_what_must_not_be() -> None:
    table = Table({"append": ("file", "tree")})
    for _ in range(1000):
        table.count("append", "file", "dirty", Finding.RIGHT)
        table.count(UNTOUCHED, "file", "fresh", Finding.RIGHT)
    assert table.faults() == []
    assert table.thin()[0] == (0, "append", "tree")
    assert table.wanted("append") == 0
    assert table.text().endswith("cells under 100: 1\n  append / tree: 0")
    for _ in range(11):
        table.count("append", "file", "unknown", Finding.NEEDLESS)
    assert len(table.faults()) == 1
    for _ in range(3):
        table.count("append", "file", "dirty", Finding.FALSE_DIRTY)
    assert len(table.faults()) == 2
    table.count("append", "tree", "fresh", Finding.FALSE_FRESH)
    assert len(table.faults()) == 3
    assert table.asked("append", "tree") == 1


def full_table(after: int = QUESTIONS // 2) -> Table:
    """One that meets all conditions, where half of the questions came after a mutation."""
    table = Table({"append": ("file", "tree")})
    for _ in range(ENOUGH):
        table.count("append", "tree", "dirty", Finding.RIGHT)
    table.total["asked"], table.total["after a mutation"] = QUESTIONS, after
    table.cells["append", "file"]["asked"] = after - ENOUGH
    return table


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize(
    ("finding", "number", "right"),
    [
        (Finding.RIGHT, 0, True),
        (Finding.FALSE_FRESH, 1, False),
        (Finding.WRONG_EVIDENCE, 1, False),
        (Finding.FALSE_DIRTY, QUESTIONS // 1000 - 1, True),
        (Finding.FALSE_DIRTY, QUESTIONS // 1000, False),
        (Finding.NEEDLESS, QUESTIONS // 200 - 1, True),
        (Finding.NEEDLESS, QUESTIONS // 200, False),
    ],
)
def test_no_run_may_have_false_answers(finding: Finding, number: int, *, right: bool, complete: bool) -> None:
    table = full_table()
    table.total[finding] += number
    lines, held = told(table.conditions(), complete=complete)
    assert held is right
    assert ("NOT HELD" in lines) is not right
    assert f"{number} {finding}" in lines or finding is Finding.RIGHT


def test_only_a_complete_run_must_have_asked_enough() -> None:
    few, after, thin, odd = full_table(), full_table(QUESTIONS // 2 - 1), full_table(), full_table()
    few.total["asked"] -= 1
    thin.cells["append", "tree"]["asked"] = ENOUGH - 1
    odd.count("append", "glob", "dirty", Finding.RIGHT)  # a cell that nobody thought could be
    for table, words in (
        (few, f"{QUESTIONS - 1} questions"),
        (after, "% of them after a mutation"),
        (thin, "1 cells under 100"),
        (odd, "1 cells under 100"),
    ):
        lines, held = told(table.conditions(), complete=True)
        assert not held
        missed = [line for line in lines.splitlines() if not line.startswith("held: ")]
        assert len(missed) == 1
        assert missed[0].startswith("NOT HELD: ")
        assert words in missed[0]
        lines, held = told(table.conditions(), complete=False)
        assert held
        assert "NOT HELD" not in lines
        assert "not held, nor asked of this run: " in lines
