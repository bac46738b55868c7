"""What the mutations of a stretch of the log come to: for each path the difference between its start and its end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provd.cli.screens import changed
from provd.cli.screens.changed import Changes

Json = dict[str, Any]
Step = tuple[str, ...]


def record(seq: int, kind: str, path: str, source: str | None = None) -> Json:
    told: Json = {"type": "mutation", "seq": seq, "kind": kind, "path": path, "size": 2, "digest": f"xxh3:{seq:032x}"}
    if kind == "over":
        told |= {"kind": "moved", "over": True}
    return told if source is None else told | {"from": source}


def net(*steps: str) -> list[str]:
    """What is told of steps like `moved /b /a` (from /a), or `over /b /a` where there was a /b."""
    records = [record(seq, *step.split()) for seq, step in enumerate(steps, 1)]
    return [changed.line(one) for one in Changes(records).newest()]


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        (["moved /f~ /f", "created /f", "deleted /f~"], ["modified /f"]),
        (["over /f~ /f", "created /f", "deleted /f~"], ["modified /f", "deleted /f~"]),
        (["moved /f~ /f", "created /f"], ["moved /f~ from /f", "modified /f"]),
        (["moved /t /p", "moved /p /q", "moved /q /t"], ["moved /p from /q", "moved /q from /p"]),
        (["moved /b /a", "over /b /c"], ["deleted /a", "moved /b from /c"]),
        (["created /n1", "moved /n2 /n1"], ["created /n2"]),
        (["created /n1", "over /n2 /n1"], ["modified /n2"]),
        (["over /b /a", "deleted /b"], ["deleted /b", "deleted /a"]),
        (["moved /b /a", "deleted /b"], ["deleted /a"]),
        (["created /n1", "modified /f", "moved /f /n1"], ["modified /f"]),
        (["created /n", "modified /n", "deleted /n"], []),
        (["moved /b /a", "moved /a /b"], []),
        (["modified /a", "moved /b /a", "moved /a /b"], ["modified /a"]),
        (["modified /a", "attrib /a"], ["modified /a"]),
        (["attrib /a"], ["attrib /a"]),
        (["deleted /a", "created /a"], ["modified /a"]),
        (["moved /b /a", "deleted /b", "created /b"], ["deleted /a", "created /b"]),
    ],
)
def test_files(steps: list[str], told: list[str]) -> None:
    assert net(*steps) == told


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        (["moved /b /a", "modified /b/f"], ["moved /b from /a", "modified /b/f"]),
        (["modified /a/f", "moved /b /a"], ["modified /b/f", "moved /b from /a"]),
        (["moved /b /a", "deleted /b/f"], ["moved /b from /a", "deleted /a/f"]),
        (["moved /b /a", "deleted /b/f", "moved /a /b"], ["deleted /a/f"]),
        (["moved /b /a", "moved /b/g /b/f"], ["moved /b from /a", "moved /b/g from /a/f"]),
        (["moved /b /a", "deleted /b/f", "moved /a /c"], ["moved /b from /a", "moved /a from /c"]),
        (["created /a", "created /a/f", "moved /b /a"], ["created /b/f", "created /b"]),
        (["created /a", "created /a/f", "moved /b /a", "deleted /b/f"], ["created /b"]),
        (["created /a", "moved /a/f /f"], ["created /a", "moved /a/f from /f"]),
        (["deleted /a/f", "deleted /a", "created /a"], ["deleted /a/f", "modified /a"]),
    ],
)
def test_directories(steps: list[str], told: list[str]) -> None:
    assert net(*steps) == told


def test_paths_are_counted_once() -> None:
    swapped = Changes([record(1, "moved", "/t", "/p"), record(2, "moved", "/p", "/q"), record(3, "moved", "/q", "/t")])
    assert changed.paths_of(swapped.newest()) == 2
    over = Changes([record(1, "moved", "/b", "/a"), record(2, "over", "/b", "/c")])
    assert changed.paths_of(over.newest()) == 3


def test_of_what_is_gone_no_content_is_told() -> None:
    over = Changes([record(1, "moved", "/b", "/a"), record(2, "over", "/b", "/c")])
    gone, moved = over.newest()
    assert gone == {"type": "mutation", "seq": 2, "kind": "deleted", "path": "/a", "size": None, "digest": None}
    assert (moved["seq"], moved["digest"]) == (2, f"xxh3:{2:032x}")


NAMES = st.sampled_from(["/a", "/b", "/c", "/d"])
STEPS = st.lists(st.one_of(st.tuples(st.sampled_from(["write", "rm"]), NAMES), st.tuples(st.just("mv"), NAMES, NAMES)))


def run(steps: list[Step], files: dict[str, object]) -> list[Json]:
    """Does the steps to files, by name what tells them apart, and returns the records; what cannot be is left out."""
    made: list[Json] = []
    for how, path, *to in steps:
        seq = len(made) + 1
        if how == "write":
            made.append(record(seq, "modified" if path in files else "created", path))
            files.setdefault(path, object())
        elif path in files and how == "rm":
            made.append(record(seq, "deleted", path))
            del files[path]
        elif path in files and path != to[0]:
            made.append(record(seq, "over" if to[0] in files else "moved", to[0], path))
            files[to[0]] = files.pop(path)
    return made


@given(STEPS, st.sets(NAMES))
def test_it_is_true_of_what_is_there(steps: list[Step], there: set[str]) -> None:
    first: dict[str, object] = {path: object() for path in there}
    last = dict(first)
    records = run(steps, last)
    told = {one["path"]: one for one in Changes(records).newest()}
    sources = {one["from"] for one in told.values() if "from" in one}

    assert {path for path, one in told.items() if one["kind"] == "deleted"}.isdisjoint(last)
    assert {path for path, one in told.items() if one["kind"] != "deleted"} <= last.keys()
    for path, one in told.items():
        if one["kind"] == "moved":
            assert last[path] is first[one["from"]]
    differ = {path for path in first.keys() | last.keys() if first.get(path) is not last.get(path)}
    assert differ <= told.keys() | sources
