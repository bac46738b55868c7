"""Evidence names the mutation that made the difference, and an action only where no such mutation is known."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from asking import one
from support import HANG, Json, Workspace, records_since

if TYPE_CHECKING:
    from collections.abc import Callable


def idle(ws: Workspace, outcome: str = "done") -> Json:
    """An action that says that it writes `s/f`, and writes nothing."""
    action = ws("action.begin", writes=["s/f"], session="idle")["id"]
    ws("action.end", id=action, outcome=outcome)
    return action


def test_it_is_no_action_that_wrote_nothing_in_the_end(watched: Workspace) -> None:
    watched.write("s/f")
    watched.clock()
    watched.put("read", "file:s/f")
    watched.put("whole", "tree:s")
    watched("entry.put", key="unread", value=1, deps=["file:s/f"], fetched_at=watched.clock())
    watched.write("s/f", "two\n")
    watched.clock()
    for how in ("done", "failed", "aborted"):
        idle(watched, how)
        for key in ("read", "whole", "unread"):
            mutation = one(watched.check(key))["mutation"]
            assert (mutation["type"], mutation["actor"]) == ("mutation", {"unknown": True}), (how, key)
    watched("action.begin", writes=["s"], session="open")
    for key in ("read", "whole", "unread"):
        assert one(watched.check(key))["mutation"]["type"] == "mutation", key


def test_of_two_actions_it_is_the_one_that_wrote(watched: Workspace) -> None:
    watched.write("s/f")
    watched.clock()
    watched.put("k", "file:s/f")
    action = watched("action.begin", writes=["s/f"], session="busy")["id"]
    watched.write("s/f", "two\n")
    watched("action.end", id=action, outcome="done")
    idle(watched)
    assert one(watched.check("k"))["mutation"]["actor"] == {"session": "busy", "action": action}
    watched("action.record", writes=["s/f"], session="idle")
    assert one(watched.check("k"))["mutation"]["actor"] == {"session": "busy", "action": action}


def test_what_was_declared_when_it_was_over_takes_what_was_nobodys(watched: Workspace) -> None:
    watched.write("s/f")
    watched.clock()
    watched.put("read", "file:s/f")
    watched.put("whole", "tree:s")
    watched.write("s/f", "two\n")
    watched.clock()
    told = watched("action.record", writes=["s/f"], session="late")
    assert [one(watched.check(key))["mutation"].get("id") for key in ("read", "whole")] == [told["id"]] * 2


def until_hashed(ws: Workspace, clock: str) -> None:
    """Asks until a mutation was recorded, and the digest of the newest one is known."""
    deadline = time.monotonic() + HANG
    while True:
        records = records_since(ws.rpc, clock)
        told = {record["of"] for record in records if record["type"] == "hashed"}
        made = [record for record in records if record["type"] == "mutation"]
        if made and (made[-1]["seq"] in told or made[-1]["digest_state"] == "done"):
            return
        assert time.monotonic() < deadline, f"still not hashed after {HANG} s: {made[-1:]}"


def removed(ws: Workspace) -> None:
    os.unlink(ws.path("link"))


def led_elsewhere(ws: Workspace) -> None:
    """Outside of the root nothing is recorded."""
    path = os.fsencode(os.path.join(ws.daemon.outside, f"{ws.tag}other"))
    with open(path, "wb") as file:
        file.write(b"three\n")
    os.unlink(ws.path("link"))
    os.symlink(path, ws.path("link"))
    ws.clock()
    with open(path, "wb") as file:
        file.write(b"four\n")


@pytest.mark.parametrize("happen", [removed, led_elsewhere])
def test_a_link_is_told_of_by_its_own_record(watched: Workspace, happen: Callable[[Workspace], None]) -> None:
    watched.write("s/f")
    os.symlink(b"s/f", watched.path("link"))
    watched.clock()
    watched.put("k", "file:link")
    happen(watched)
    watched.clock()
    watched("action.begin", writes=["link"])
    assert one(watched.check("k"))["mutation"]["type"] == "mutation"


def test_an_action_is_named_where_the_mutation_is_known_to_have_left_something_else(watched: Workspace) -> None:
    """Only what compares with the log's own digests is known so."""
    other = os.path.join(watched.daemon.outside, f"{watched.tag}other-name")
    os.link(watched.write("f", "one\n"), other)
    clock = watched.clock()
    watched.put("by-sha256", "file:f")
    watched("entry.put", key="by-xxh3", value=1, deps=["file:f"], as_of="put")
    watched.write("f", "two\n")
    watched.clock()
    until_hashed(watched, clock)
    with open(other, "r+b") as file:  # by a name outside of the root, of which nothing is told
        file.write(b"three\n")
    action = watched("action.begin", writes=["f"])["id"]
    assert one(watched.check("by-xxh3"))["mutation"].get("id") == action
    assert one(watched.check("by-sha256"))["mutation"]["type"] == "mutation"


def other_mode(path: bytes) -> None:
    os.chmod(path, 0o600)


def other_time(path: bytes) -> None:
    os.utime(path, (1, 1))


def rewritten(path: bytes) -> None:
    with open(path, "wb") as file:
        file.write(b"one\n")


@pytest.mark.parametrize("happen", [other_mode, other_time, rewritten])
@pytest.mark.parametrize("base", ["s", "way"])
def test_of_a_set_no_record_is_named_that_left_its_member_as_another(
    watched: Workspace, happen: Callable[[bytes], None], base: str
) -> None:
    path, other = watched.write("s/f", "one\n"), os.path.join(watched.daemon.outside, f"{watched.tag}other-name")
    os.link(path, other)
    os.symlink(b"s", watched.path("way"))
    clock = watched.clock()
    sets = [f"{kind}:{base}{rest}" for kind, rest in (("glob", "/*"), ("tree", ""))]
    for dep in ("file:s/f", *sets):
        watched("entry.put", key=dep, value=1, deps=[dep], as_of="put")
    happen(watched.path("s/f"))
    watched.clock()
    until_hashed(watched, clock)
    action = watched("action.begin", writes=["s/f"])["id"]
    with open(other, "r+b") as file:  # by a name outside of the root, of which nothing is told
        file.write(b"three\n")
    watched("action.end", id=action, outcome="done")
    told = {dep: one(watched.check(dep)) for dep in ("file:s/f", *sets)}
    assert {dep: evidence["mutation"].get("id") for dep, evidence in told.items()} == dict.fromkeys(told, action)
