"""Actions as agents declare them: their intervals, holds and restarts, by SPEC 6 from outside."""

from __future__ import annotations

import os

import pytest
from asking import begin, code, open_actions, put_object
from support import Json, Rpc, Workspace, records_since

# ---- intervals


@pytest.mark.parametrize(
    ("steps", "verdict"),
    [
        ("clock put", "fresh"),
        ("clock put begin", "dirty"),
        ("clock put begin end", "dirty"),
        ("clock begin put", "dirty"),
        ("clock begin put end", "dirty"),
        ("clock begin end put", "dirty"),
        ("begin clock put", "dirty"),
        ("begin clock put end", "dirty"),
        ("begin clock end put", "dirty"),
        ("begin end clock put", "fresh"),
        ("begin abort clock put", "fresh"),
        ("clock begin abort put", "fresh"),
        ("begin clock abort put", "fresh"),
        ("begin clock put abort", "fresh"),
        ("clock put begin abort", "fresh"),
        ("clock put begin fail", "dirty"),
        ("begin fail clock put", "fresh"),
        ("begin clock fail put", "dirty"),
        ("record clock put", "fresh"),
        ("clock record put", "dirty"),
        ("clock put record", "dirty"),
        ("clock put record begin abort", "dirty"),
        ("clock put begin end begin abort", "dirty"),
        ("record clock put begin abort", "fresh"),
    ],
)
def test_a_write_counts_over_its_whole_interval(ws: Workspace, steps: str, verdict: str) -> None:
    clock, action = "", 0
    for step in steps.split():
        match step:
            case "clock":
                clock = ws.clock()
            case "put":
                put_object(ws, "k", clock)
            case "begin":
                action = begin(ws, ws.object("x"))
            case "record":
                ws("action.record", writes=[ws.object("x")])
            case _:
                ws("action.end", id=action, outcome={"end": "done", "fail": "failed", "abort": "aborted"}[step])
    why = {"fresh": "declared", "dirty": "written"}[verdict]
    assert ws.found("k") == (verdict, why)


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("outcome", ["done", "failed", "aborted"])
def test_of_two_overlapping_writes_each_counts_for_itself(ws: Workspace, order: tuple[str, str], outcome: str) -> None:
    put_object(ws, "k", ws.clock())
    actions = {"a": begin(ws, ws.object("x")), "b": begin(ws, ws.object("x"))}
    ws("action.end", id=actions[order[0]], outcome="aborted")
    assert ws.found("k") == ("dirty", "written")
    ws("action.end", id=actions[order[1]], outcome=outcome)
    assert ws.verdict("k") == ("fresh" if outcome == "aborted" else "dirty")


def test_a_later_read_is_fresh_again_and_an_earlier_one_never(ws: Workspace) -> None:
    put_object(ws, "before", ws.clock())
    action = begin(ws, ws.object("x"))
    put_object(ws, "inside", ws.clock())
    end = ws("action.end", id=action, outcome="done")
    assert end["id"] == action
    put_object(ws, "after", end["clock"])
    assert [ws.verdict(key) for key in ("before", "inside", "after")] == ["dirty", "dirty", "fresh"]
    put_object(ws, "unrelated", end["clock"], "y")
    ws("action.record", writes=[ws.object("x")])
    assert [ws.verdict(key) for key in ("after", "unrelated")] == ["dirty", "fresh"]


def test_the_evidence_on_an_open_write_names_the_action_to_end(ws: Workspace) -> None:
    put_object(ws, "k", ws.clock())
    action = begin(ws, ws.object("x"))
    (item,) = ws.check("k")["evidence"]
    assert (item["dep"], item["why"]) == (ws.object("x"), "written")
    assert str(action) in item["hint"]


def test_an_action_ends_once(ws: Workspace) -> None:
    action = begin(ws, ws.object("x"))
    ws("action.end", id=action, outcome="done")
    assert code(ws, "action.end", id=action, outcome="done") == "action.unknown"
    assert code(ws, "action.end", id=action, outcome="aborted") == "action.unknown"
    assert code(ws, "action.end", id=2**62, outcome="done") == "action.unknown"
    put = ws("entry.put", key="k", value=1, deps=[])["version"]
    assert code(ws, "action.end", id=put, outcome="done") == "action.unknown"  # a record, and no action
    recorded = ws("action.record", writes=[ws.object("x")])
    assert recorded["seq"]
    assert code(ws, "action.end", id=recorded["id"], outcome="aborted") == "action.unknown"


@pytest.mark.parametrize("writes", [["svc:x"], ["region:f#a"], [7], ["object:"]])
def test_a_write_that_names_nothing_is_refused_and_nothing_begins(ws: Workspace, writes: list[Json]) -> None:
    before = ws.clock()
    assert code(ws, "action.begin", writes=writes) in {"dep.malformed", "dep.unsupported", "params", "limit", "-32602"}
    assert ws.rpc("log.since", clock=before)["records"] == []


# ---- paths


def test_a_declared_path_write_touches_what_was_not_proved(ws: Workspace) -> None:
    ws.write("d/f", "one")
    os.symlink("d", ws.path("link"))
    clock = ws.clock()
    ws("entry.put", key="unproven", value=1, deps=["file:d/f"], fetched_at=clock)
    ws.put("read", "file:d/f", fetched_at=clock)
    ws("entry.put", key="other", value=1, deps=["file:d/g"], fetched_at=clock)
    assert ws.found("unproven") == ("unknown", "unproven")
    ws("action.record", writes=["file:link/f"])
    assert ws.found("unproven") == ("dirty", "touched")
    assert ws.found("read") == ("fresh", "same")
    assert ws.found("other") == ("unknown", "unproven")


def test_a_declared_path_write_before_the_clock_touches_nothing(ws: Workspace) -> None:
    ws.write("f", "one")
    ws("action.record", writes=["file:f"])
    ws("entry.put", key="k", value=1, deps=["file:f"], fetched_at=ws.clock())
    assert ws.found("k") == ("unknown", "unproven")


# ---- hold


def await_end(listener: Rpc, action: int) -> Json:
    """The record that ends an action, as the subscription tells it."""
    while True:
        record = listener.note()["params"]
        record = record.get("record", record)
        if record["type"] == "action" and record["event"] == "end" and record["id"] == action:
            return record


def test_an_action_on_hold_fails_with_its_connection(ws: Workspace) -> None:
    put_object(ws, "k", ws.clock())
    listener, agent = ws.daemon.connect(), ws.daemon.connect()
    listener("log.subscribe")
    held = agent("action.begin", writes=[ws.object("x")], hold=True)["id"]
    kept = agent("action.begin", writes=[ws.object("y")])["id"]
    ended = agent("action.begin", writes=[ws.object("z")], hold=True)["id"]
    agent("action.end", id=ended, outcome="aborted")
    assert {held, kept} <= open_actions(ws).keys()
    agent.close()
    assert await_end(listener, held)["outcome"] == "failed"
    assert held not in open_actions(ws)
    assert kept in open_actions(ws)
    assert ws.found("k") == ("dirty", "written")
    put_object(ws, "later", ws.clock())
    put_object(ws, "aborted", ws.clock(), "z")
    assert ws.found("later") == ws.found("aborted") == ("fresh", "declared")


def test_an_action_on_hold_has_failed_after_kill_9(own: Workspace) -> None:
    first = own.clock()
    held = begin(own, "object:x", hold=True)
    kept = begin(own, "object:y", session="s", turn=3)
    own.daemon.kill9()
    own.daemon.start()
    assert list(open_actions(own)) == [kept]
    ends = [r for r in records_since(own.rpc, first) if r["type"] == "action" and r["event"] == "end"]
    assert [(record["id"], record["outcome"]) for record in ends] == [(held, "failed")]
    clock = own.clock()
    put_object(own, "x", clock, "x")
    put_object(own, "y", clock, "y")
    assert own.found("x") == ("fresh", "declared")
    assert own.found("y") == ("dirty", "written")
    own("action.end", id=kept, outcome="aborted")
    assert own.found("y") == ("fresh", "declared")


def test_an_action_on_hold_has_failed_after_an_orderly_stop(own: Workspace) -> None:
    held = begin(own, "object:x", hold=True)
    own.daemon.restart()
    assert held not in open_actions(own)
    assert code(own, "action.end", id=held, outcome="aborted") == "action.unknown"


@pytest.mark.parametrize("orderly", [True, False])
def test_an_action_on_hold_with_an_op_waits_for_who_holds_it(own: Workspace, orderly: bool) -> None:
    asked = {"writes": [own.object("x")], "hold": True, "op": "mine"}
    first = Rpc(own.daemon.socket)  # one that the daemon closes, and not the test
    held = first("action.begin", **asked, root=own.root)["id"]
    if orderly:
        own.daemon.restart()
    else:
        own.daemon.kill9()
        own.daemon.start()
    first.close()
    assert list(open_actions(own)) == [held]
    put_object(own, "k", own.clock())
    assert own.found("k") == ("dirty", "written")
    listener, agent = own.daemon.connect(), own.daemon.connect()
    listener("log.subscribe")
    assert agent("action.begin", **asked, root=own.root)["id"] == held
    agent.close()
    assert await_end(listener, held)["outcome"] == "failed"
    put_object(own, "k", own.clock())
    assert own.found("k") == ("fresh", "declared")


# ---- retries, lists, restarts


def test_a_retried_begin_is_the_same_action(ws: Workspace) -> None:
    before = ws.clock()
    first = ws("action.begin", writes=[ws.object("x")], op=f"{ws.tag}op")
    assert ws("action.begin", writes=[ws.object("x")], op=f"{ws.tag}op") == first
    assert len(ws.rpc("log.since", clock=before)["records"]) == 1
    ws("action.end", id=first["id"], outcome="done")
    assert ws("action.begin", writes=[ws.object("x")], op=f"{ws.tag}op") == first | {"ended": True}
    assert first["id"] not in open_actions(ws)
    recorded = ws("action.record", writes=[ws.object("x")], op=f"{ws.tag}record")
    assert ws("action.record", writes=[ws.object("x")], op=f"{ws.tag}record") == recorded


def test_a_retry_that_holds_holds_what_was_begun_without(ws: Workspace) -> None:
    asked = {"writes": [ws.object("held")], "op": f"{ws.tag}held", "root": ws.root}
    listener, agent = ws.daemon.connect(), ws.daemon.connect()
    listener("log.subscribe")
    first = ws.rpc("action.begin", **asked)
    assert agent("action.begin", hold=True, **asked) == first
    assert open_actions(ws)[first["id"]]["hold"] is True
    agent.close()
    assert await_end(listener, first["id"])["outcome"] == "failed"
    assert ws.rpc("action.begin", **asked)["id"] > first["id"], "what ended with its connection begins anew"


def test_concurrent_duplicates_of_a_begin_are_one_action(ws: Workspace) -> None:
    connections = [ws.daemon.connect() for _ in range(6)]
    for turn in range(10):
        params = {"writes": [ws.object("x")], "op": f"{ws.tag}{turn}"}
        sent = [(rpc, rpc.send("action.begin", **params)) for rpc in connections for _ in range(2)]
        assert len({rpc.result(number)["id"] for rpc, number in sent}) == 1
    assert len([a for a in open_actions(ws).values() if a["writes"] == [ws.object("x")]]) == 10


def test_a_begin_is_remembered_through_kill_9(own: Workspace) -> None:
    first = own("action.begin", writes=["object:x"], op="the op")
    own.daemon.kill9()
    own.daemon.start()
    assert own("action.begin", writes=["object:x"], op="the op") == first
    assert list(open_actions(own)) == [first["id"]]


def test_what_was_held_over_an_end_of_the_daemon_is_told_to_wait_until_it_is_held_again(own: Workspace) -> None:
    asked = {"writes": [own.object("x")], "hold": True, "op": "mine"}
    begun = own("action.begin", **asked)["id"]
    assert "waiting" not in open_actions(own)[begun]
    own.daemon.kill9()
    own.daemon.start()
    assert open_actions(own)[begun]["waiting"] is True
    own("action.begin", **asked)
    assert "waiting" not in open_actions(own)[begun]


def test_the_list_shows_open_actions_with_who_and_what(ws: Workspace) -> None:
    action = begin(ws, ws.object("x"), "file:f", session="s1", turn=7, note="scaling")
    listed = open_actions(ws)[action]
    assert (listed["session"], listed["turn"], listed["note"]) == ("s1", 7, "scaling")
    assert listed["writes"][0] == ws.object("x")
    assert len(listed["writes"]) == 2
    ws("action.end", id=action, outcome="done")
    assert action not in open_actions(ws)


def test_an_action_of_one_connection_may_be_ended_by_another(ws: Workspace) -> None:
    action = begin(ws, ws.object("x"))
    assert ws.daemon.connect()("action.end", id=action, outcome="aborted")["id"] == action


@pytest.mark.parametrize("how", ["stop", "kill9"])
def test_after_a_restart_objects_are_unknown_until_read_again(own: Workspace, how: str) -> None:
    clock = own.clock()
    put_object(own, "x", clock, "x")
    put_object(own, "written", clock, "w")
    own("action.record", writes=["object:w"])
    own("entry.put", key="on x", value=1, deps=["entry:x"], fetched_at=own.clock())
    if how == "stop":
        own.daemon.stop()
    else:
        own.daemon.kill9()
    own.daemon.start()
    assert own.found("x") == ("unknown", "gap")
    assert own.found("written")[0] == "dirty"
    assert own.found("on x") == ("unknown", "entry-unknown")
    put_object(own, "x", own.clock(), "x")
    assert own.found("x") == ("fresh", "declared")


def test_the_end_of_an_objects_last_write_is_kept_through_restarts(own: Workspace) -> None:
    old = own.clock()
    own("action.record", writes=["object:x"])
    for _ in range(2):
        own.daemon.restart()
    put_object(own, "k", old)
    assert own.found("k") == ("dirty", "written")
