"""The same lines again, newer lines of the same, and lines that come back to the store that wrote them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from carrying import exported, taken
from support import Daemon, Json, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def other(make_daemon: Callable[..., Daemon], own: Workspace) -> Workspace:
    """The same directory behind another daemon with a store of its own."""
    return Workspace(make_daemon(roots=[own.root]).start().scanned(), own.root, own.tag)


# newer evidence


def test_newer_evidence_that_was_not_taken_is_taken_when_it_holds(own: Workspace, other: Workspace) -> None:
    own.write("a", "one")
    own.put("k", "file:a", value="same")
    older = exported(own)
    own.write("a", "two")
    own.put("k", "file:a", value="same")
    newer = exported(own)
    own.write("a", "not come yet")
    assert taken(other, older) == {"added": 1}
    assert taken(other, newer) == {"unchanged": 1}, "neither holds, and what stands stays"
    own.write("a", "two")
    assert other.verdict("k") == "dirty"
    assert taken(other, newer) == {"replaced": 1}
    assert other.found("k") == ("fresh", "same")
    assert taken(other, newer) == {"unchanged": 1}
    own.write("a", "one")
    assert taken(other, older) == {"unchanged": 1}, "older evidence of the same never comes back"


def test_evidence_for_an_equal_value_is_taken_when_it_holds(own: Workspace, other: Workspace) -> None:
    own.write("a", "one")
    own.put("k", "file:a", value="same")
    lines = exported(own)
    own.write("a", "two")
    version = other.put("k", "file:a", value="same")["version"]
    assert taken(other, lines) == {"unchanged": 1}
    own.write("a", "one")
    assert other.verdict("k") == "dirty"
    assert taken(other, lines) == {"replaced": 1}
    assert (other.found("k"), other.check("k")["version"]) == (("fresh", "same"), version)


# lines of the own store


def on_top(ws: Workspace) -> list[Json]:
    """Lines of `a`, which rests on `b`."""
    ws.write("f")
    ws.put("b", "file:f", value="below")
    ws("entry.put", key="a", value="above", deps=["entry:b"], fetched_at=ws.clock())
    assert ws.found("a") == ("fresh", "same")
    return exported(ws)


@pytest.mark.parametrize("turned", [False, True])
def test_what_was_forgotten_with_its_ground_is_fresh_again(own: Workspace, *, turned: bool) -> None:
    lines = on_top(own)
    for key in "ab":
        own("entry.forget", key=key)
    assert taken(own, lines[::-1] if turned else lines) == {"added": 2}
    assert own.found("a") == ("fresh", "same")
    own.put("b", "file:f", value="another")
    assert own.found("a") == ("dirty", "entry-replaced")


def test_what_was_forgotten_alone_rests_on_the_ground_that_is_still_here(own: Workspace) -> None:
    lines = on_top(own)
    own("entry.forget", key="a")
    assert taken(own, lines) == {"added": 1, "unchanged": 1}
    assert own.found("a") == ("fresh", "same")


def test_what_was_forgotten_alone_knows_that_its_ground_was_replaced(own: Workspace) -> None:
    lines = on_top(own)
    own("entry.forget", key="a")
    own.put("b", "file:f", value="another")
    assert taken(own, lines) == {"added": 1, "unchanged": 1}
    assert own.found("a") == ("dirty", "entry-replaced")


def test_a_ground_put_anew_is_not_what_was_rested_on(own: Workspace) -> None:
    lines = on_top(own)
    for key in "ab":
        own("entry.forget", key=key)
    own.put("b", "file:f", value="another")
    assert taken(own, [line for line in lines if line["key"] == "a"]) == {"added": 1}
    assert own.found("a") == ("unknown", "unproven")


@pytest.mark.parametrize("turned", [False, True])
def test_moved_within_one_store_it_rests_on_what_moved_with_it(own: Workspace, *, turned: bool) -> None:
    lines = on_top(own)
    there = Workspace(own.daemon, os.path.join(own.root, "there"), own.tag)
    there.write("f")
    move = {"source": own.root, "to": there.root}
    assert taken(there, lines[::-1] if turned else lines, moved=move) == {"added": 2}
    assert there.found("a") == ("fresh", "same")
    own.put("b", "file:f", value="another")
    assert there.found("a") == ("fresh", "same")
    there.put("b", "file:f", value="another")
    assert there.found("a") == ("dirty", "entry-replaced")


# who waits for a ground


def rests(ws: Workspace) -> list[Json]:
    """What the ground that `a` rests on is told as."""
    (line,) = (line for line in exported(ws) if line["key"] == "a")
    deps: list[Json] = line["deps"]
    return deps


def test_who_was_put_anew_waits_no_more_for_what_was_imported(own: Workspace, other: Workspace) -> None:
    """The new put did not see the ground: that it comes later proves nothing of it, though its value is equal."""
    below, above = sorted(on_top(own), key=lambda line: line["key"], reverse=True)
    assert taken(other, [above]) == {"added": 1}
    other.write("g", "now")
    nobody_knows = "c:" + "1" * 16 + ":" + "2" * 16 + ":5"
    other("entry.put", key="a", value="above", deps=["entry:b", other.dep("file:g")], fetched_at=nobody_knows)
    assert taken(other, [below]) == {"added": 1}
    assert rests(other)[0] == {"dep": "entry:b"}
    assert other.found("a") == ("unknown", "unproven")


def test_who_waits_goes_on_waiting_when_another_ground_is_forgotten(own: Workspace, other: Workspace) -> None:
    below, above = sorted(on_top(own), key=lambda line: line["key"], reverse=True)
    other.put("b", "file:f", value="another")
    assert taken(other, [above]) == {"added": 1}
    assert other.found("a") == ("unknown", "unproven")
    other("entry.forget", key="b")
    assert taken(other, [below]) == {"added": 1}
    assert other.found("a") == ("fresh", "same")
