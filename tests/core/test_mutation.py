"""Folding notices, and kinds of mutations: tables."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provd.core.mutation import Change, Listed, State, Step, fold, kind_of
from provd.core.notice import Appeared, Covered, Lost, Moved, Notice, Scan, Touched, What
from provd.core.records import MutationKind

C, M, A, D = What.CREATED, What.MODIFIED, What.ATTRIB, What.DELETED
a, b, d, d_a = b"/r/a", b"/r/b", b"/r/d", b"/r/d/a"

FOLDED: Final[list[tuple[str, list[Notice], list[Step]]]] = [
    ("many of one path are one", [Touched(a, C), Touched(a, M), Touched(a, M)], [Change(a, (C, M))]),
    ("in the order of the last", [Touched(a, M), Touched(a, A), Touched(a, M)], [Change(a, (A, M))]),
    ("paths are apart", [Touched(a, C), Touched(b, C), Touched(a, M)], [Change(a, (C, M)), Change(b, (C,))]),
    ("what came and went is named", [Touched(a, C), Touched(a, D)], [Change(a, (C, D))]),
    ("what was replaced", [Touched(a, D), Touched(a, C)], [Change(a, (D, C))]),
    (
        "a move is a barrier for its source",
        [Touched(a, M), Moved(a, b), Touched(a, C)],
        [Change(a, (M,)), Moved(a, b), Change(a, (C,))],
    ),
    (
        "and for its target",
        [Touched(b, M), Moved(a, b), Touched(b, M)],
        [Change(b, (M,)), Moved(a, b), Change(b, (M,))],
    ),
    ("not for others", [Touched(d, A), Moved(a, b), Touched(d, A)], [Change(d, (A,)), Moved(a, b)]),
    (
        "a moved directory is one for all below",
        [Touched(d_a, M), Moved(d, b, True), Touched(d_a, M)],
        [Change(d_a, (M,)), Moved(d, b, True), Change(d_a, (M,))],
    ),
    (
        "and a deleted one: its names are before and after it",
        [Touched(d, A, True), Touched(d_a, D), Touched(d, D, True), Touched(d, C, True), Touched(d_a, C)],
        [Change(d, (A,), True), Change(d_a, (D,)), Change(d, (D, C), True), Change(d_a, (C,))],
    ),
    (
        "a listing leaves out what is told beside it",
        [Touched(d, C, True), Appeared(d), Touched(d_a, C), Touched(a, C)],
        [Change(d, (C,), True), Listed(d, "", frozenset({b"a"})), Change(d_a, (C,)), Change(a, (C,))],
    ),
    (
        "also what was told before",
        [Touched(d_a, C), Appeared(d)],
        [Change(d_a, (C,)), Listed(d, "", frozenset({b"a"}))],
    ),
    (
        "but not across a move",
        [Touched(d_a, C), Moved(d, b, True), Appeared(d)],
        [Change(d_a, (C,)), Moved(d, b, True), Listed(d)],
    ),
    ("two listings are one, with what is known to be missed", [Appeared(d), Appeared(d, "x")], [Listed(d, "x")]),
    ("a loss is told once", [Lost(d, "x"), Lost(d, "x"), Lost(d, "y")], [Lost(d, "x"), Lost(d, "y")]),
    ("what is told of trees stays", [Covered(d, "none", "x"), Scan(d)], [Covered(d, "none", "x"), Scan(d)]),
    ("at the top", [Touched(b"/a", C), Appeared(b"/")], [Change(b"/a", (C,)), Listed(b"/", "", frozenset({b"a"}))]),
]


@pytest.mark.parametrize(("notices", "steps"), [(n, s) for _, n, s in FOLDED], ids=[name for name, _, _ in FOLDED])
def test_notices_are_folded(notices: list[Notice], steps: list[Step]) -> None:
    assert fold(notices) == steps


@pytest.mark.parametrize(
    ("notice", "steps"),
    [
        (Touched(b"/r/own", C), [Change(b"/r/own", (C,))]),
        (Touched(b"/r/own/x", M), []),
        (Touched(b"/r/owner", M), [Change(b"/r/owner", (M,))]),
        (Appeared(b"/r/own"), []),
        (Moved(b"/r/own/x", b"/r/own/y"), []),
        (Moved(b"/r/own/x", a), [Change(a, (C,))]),
        (Moved(a, b"/r/own/x"), [Change(a, (D,))]),
        (Moved(a, b"/r/own"), [Moved(a, b"/r/own")]),
    ],
)
def test_the_daemons_own_files_are_not_told(notice: Notice, steps: list[Step]) -> None:
    assert fold([notice], [b"/r/own"]) == steps


paths = st.sampled_from([b"/r/a", b"/r/b", b"/r/a/b", b"/r/a/c", b"/r/b/a"])
notices = st.one_of(
    st.builds(Touched, paths, st.sampled_from(list(What)), st.booleans()),
    st.builds(Moved, paths, paths, st.booleans()),
    st.builds(Appeared, paths),
)


@given(st.lists(notices, max_size=30))
def test_every_path_is_named_and_every_change_is_kept_in_its_place(some: list[Notice]) -> None:
    steps = fold(some)
    assert {s.path for s in steps} == {n.path for n in some}
    assert [s for s in steps if isinstance(s, Moved)] == [n for n in some if isinstance(n, Moved)]
    last = {n.path: n.what for n in some if isinstance(n, Touched)}
    for path, what in last.items():
        assert [s for s in steps if isinstance(s, Change) and s.path == path][-1].whats[-1] is what


FILE, OTHER, GROWN = State("f", 1, 2, 3, 4), State("f", 1, 2, 3, 5), State("f", 9, 9, 9, 4)
CHMOD = State("f", 1, 2, 9, 4)
DIRECTORY, LINK = State("d", 0, 0, 0, 4), State("l", 1, 2, 3, 4)
K = MutationKind
KINDS: Final[list[tuple[str, tuple[What, ...], State | None, State | None, MutationKind]]] = [
    ("a new file", (C, M), FILE, None, K.CREATED),
    ("a new file that a listing found before", (C,), FILE, FILE, K.CREATED),
    ("renamed over", (C,), OTHER, FILE, K.MODIFIED),
    ("replaced by a file", (D, C), OTHER, FILE, K.MODIFIED),
    ("replaced by a directory", (D, C), DIRECTORY, FILE, K.CREATED),
    ("a directory made anew", (D, C), DIRECTORY, DIRECTORY, K.CREATED),
    ("of another type, though nobody told", (M,), LINK, FILE, K.CREATED),
    ("written", (M,), GROWN, FILE, K.MODIFIED),
    ("written, with equal times", (M,), FILE, FILE, K.MODIFIED),
    ("written, never seen before", (M,), FILE, None, K.MODIFIED),
    ("chmod", (A,), CHMOD, FILE, K.ATTRIB),
    ("touch", (A,), GROWN, FILE, K.MODIFIED),
    ("chmod of what is not known", (A,), FILE, None, K.MODIFIED),
    ("chmod and written", (A, M), CHMOD, FILE, K.MODIFIED),
    ("deleted", (D,), None, FILE, K.DELETED),
    ("deleted, never known", (D,), None, None, K.DELETED),
    ("came and went", (C, M, D), None, None, K.DELETED),
    ("deleted, and something new is there", (D,), OTHER, FILE, K.DELETED),
    ("deleted, made, gone again", (D, C), None, FILE, K.DELETED),
    ("made and gone, its end is not told yet", (C,), None, None, K.CREATED),
    ("written and gone", (M,), None, FILE, K.MODIFIED),
    ("chmod and gone", (A,), None, FILE, K.ATTRIB),
    ("written after its name was deleted", (D, M), None, FILE, K.DELETED),
    ("written after it was replaced unseen", (D, M), OTHER, FILE, K.MODIFIED),
]


@pytest.mark.parametrize(("whats", "now", "was", "kind"), [row[1:] for row in KINDS], ids=[row[0] for row in KINDS])
def test_kinds(whats: tuple[What, ...], now: State | None, was: State | None, kind: MutationKind) -> None:
    assert kind_of(whats, now, was) is kind
