"""Who made a mutation, as far as actions declared it: SPEC 6. And provd's own files, which are nobody's mutations."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from asking import begin, sh
from support import Daemon, Json, Workspace, unwire
from watching import below, mutations, of_path, settled

if TYPE_CHECKING:
    from collections.abc import Callable

UNKNOWN = {"unknown": True}


def actors(ws: Workspace, clock: str, name: str | bytes) -> list[Json]:
    """The actors of all mutations of one path since a clock; there is at least one."""
    found = [record["actor"] for record in of_path(mutations(ws, clock), ws.path(name))]
    assert found, name
    return found


def end(ws: Workspace, action: int, outcome: str = "done") -> None:
    ws("action.end", id=action, outcome=outcome)


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_what_is_written_inside_an_action_is_that_sessions(watched: Workspace, outcome: str) -> None:
    watched.write("f", "one")
    clock = watched.clock()
    action = begin(watched, "file:f", session="s1", turn=7)
    watched.write("f", "two")
    end(watched, action, outcome)
    assert all(actor == {"session": "s1", "turn": 7, "action": action} for actor in actors(watched, clock, "f"))


def test_a_write_just_before_the_end_still_is_the_actions(watched: Workspace) -> None:
    """The end drains first; what was finished before it was sent lies inside."""
    for number in range(100):
        clock = watched.clock()
        action = begin(watched, "file:f", session="s", turn=number)
        watched.write("f", str(number))
        end(watched, action)
        assert {actor.get("turn") for actor in actors(watched, clock, "f")} == {number}


def test_a_write_before_the_begin_or_after_the_end_is_nobodys(watched: Workspace) -> None:
    """Begin drains too: what was finished before it was sent is not inside."""
    for number in range(100):
        clock = watched.clock()
        watched.write("f", f"before {number}")
        action = begin(watched, "file:f", session="s")
        end(watched, action)
        watched.write("f", f"after {number}")
        assert all(actor == UNKNOWN for actor in actors(watched, clock, "f")), number


def test_another_path_is_nobodys(watched: Workspace) -> None:
    clock = watched.clock()
    action = begin(watched, "file:f", session="s")
    watched.write("g")
    watched.write("f2")
    watched.write("d/f")
    end(watched, action)
    for name in ("g", "f2", "d/f"):
        assert all(actor == UNKNOWN for actor in actors(watched, clock, name)), name


@pytest.mark.parametrize("write", ["tree:d", "dir:d", "glob:d/**", "file:d"])
def test_a_write_of_a_directory_counts_for_what_the_dependency_covers(watched: Workspace, write: str) -> None:
    os.mkdir(watched.path("d"))
    clock = watched.clock()
    action = begin(watched, write, session="s")
    watched.write("d/f")
    end(watched, action)
    mine = actors(watched, clock, "d/f")
    if write in {"tree:d", "dir:d", "glob:d/**"}:
        assert all(actor.get("session") == "s" for actor in mine)
    watched.write("x/f")
    assert actors(watched, clock, "x/f")[0] == UNKNOWN


def test_every_kind_of_change_is_attributed(watched: Workspace) -> None:
    watched.write("f", "one")
    watched.write("moving", "two")
    watched.write("mode", "three")
    clock = watched.clock()
    writes = ("file:f", "file:mode", "file:moving", "file:moved", "file:new")
    action = begin(watched, *writes, session="s", turn="t")
    sh(watched, "chmod 600 mode; mv moving moved; printf x > new; rm f")
    end(watched, action)
    records = mutations(watched, clock)
    assert {record["kind"] for record in records} >= {"created", "deleted", "moved", "attrib"}
    assert all(record["actor"] == {"session": "s", "turn": "t", "action": action} for record in records), records


def test_of_nested_actions_the_newest_that_names_the_path_is_meant(watched: Workspace) -> None:
    clock = watched.clock()
    outer = begin(watched, "tree:.", session="outer")
    watched.write("a")
    inner = begin(watched, "file:f", session="inner")
    watched.write("f", "in both")
    watched.write("b")
    end(watched, inner)
    watched.write("g")
    end(watched, outer)
    assert {actor["session"] for actor in actors(watched, clock, "f")} == {"inner"}
    for name in ("a", "b", "g"):
        assert {actor.get("session") for actor in actors(watched, clock, name)} == {"outer"}, name


def test_an_action_without_a_session_is_named_by_its_number(watched: Workspace) -> None:
    clock = watched.clock()
    action = begin(watched, "file:f")
    watched.write("f")
    end(watched, action)
    assert all(actor == {"action": action} for actor in actors(watched, clock, "f"))


def test_a_path_declared_through_a_link_is_attributed_by_its_real_path(watched: Workspace) -> None:
    watched.write("d/f", "one")
    os.symlink("d", watched.path("link"))
    clock = watched.clock()
    action = begin(watched, "file:link/f", session="s")
    watched.write("link/f", "two")
    end(watched, action)
    assert {actor.get("session") for actor in actors(watched, clock, "d/f")} == {"s"}


def test_the_evidence_of_a_dirty_answer_says_whose_write_it_was(watched: Workspace) -> None:
    watched.write("f", "one")
    watched.put("k", "file:f")
    action = begin(watched, "file:f", session="s1", turn=3)
    watched.write("f", "two")
    for _ in range(2):  # while it is open, and when it has ended
        answer = watched.check("k")
        assert answer["verdict"] == "dirty"
        (item,) = answer["evidence"]
        assert (item["why"], item["mutation"]["kind"]) == ("changed", "modified")
        assert item["mutation"]["actor"] == {"session": "s1", "turn": 3, "action": action}
        if _ == 0:
            end(watched, action)
    watched.write("f", "three")
    (item,) = watched.check("k")["evidence"]
    assert item["mutation"]["actor"] == UNKNOWN


def test_actors_stay_known_after_a_restart(own: Workspace) -> None:
    clock = own.clock()
    action = begin(own, "file:f", session="s")
    path = own.write("f")
    end(own, action)
    before = of_path(mutations(own, clock), path)
    own.daemon.restart()
    after = of_path(mutations(own, clock), path)
    assert after[: len(before)] == before
    assert before[0]["actor"]["session"] == "s"


# ---- provd's own files


def test_the_daemons_own_files_are_never_records(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    daemon.state = os.path.join(daemon.root, "state")
    daemon.socket = os.path.join(daemon.state, "s.sock")
    daemon.start()
    ws = daemon.workspace()
    clock = ws.clock()
    for number in range(30):
        ws.write("f", str(number))
        ws.put("k", "file:f", value=number)
        ws("action.record", writes=["object:x"])
    records = settled(daemon, clock)
    paths = {unwire(r["path"]) for r in records if r["type"] == "mutation"}
    assert paths == {ws.path("f")}
    assert not any(below(path, daemon.state) for path in paths)
    quiet = ws.clock()
    assert [ws.clock() for _ in range(20)] == [quiet] * 20, "a record of its own store would breed records"
    daemon.restart()
    ws.put("k", "file:f")
    assert not [r for r in mutations(ws, clock) if below(unwire(r["path"]), daemon.state)]
