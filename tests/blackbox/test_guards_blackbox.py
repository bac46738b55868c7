"""What an action could invalidate, and guarded writes: SPEC 6 from outside."""

from __future__ import annotations

import os
import threading

import pytest
from asking import begin, code, open_actions, put_object
from support import Json, Rpc, RpcError, Workspace

# ---- what an action could invalidate


def affected(ws: Workspace, *writes: str) -> set[str]:
    answer = ws("action.record", writes=list(writes))["affects"]
    assert answer["count"] == len(answer["keys"]) == len(set(answer["keys"]))
    return set(answer["keys"])


def test_a_path_write_affects_whatever_rests_on_that_path(ws: Workspace) -> None:
    for name in ("src/a.py", "src/sub/b.py", "src/c.txt", "other/a.py"):
        ws.write(name)
    os.symlink("src", ws.path("linked"))
    os.symlink("src/a.py", ws.path("one"))
    for key, dep in {
        "file": "file:src/a.py",
        "absolute": f"file:{ws.root}/src/a.py",
        "through directory link": "file:linked/a.py",
        "through file link": "file:one",
        "dir": "dir:src",
        "glob": "glob:src/*.py",
        "names": "names:src/*.py",
        "deep": "glob:src/**/*.py",
        "tree": "tree:src",
        "all": "tree:.",
        "sibling": "file:src/c.txt",
        "other": "tree:other",
        "other glob": "glob:other/*.py",
        "below": "file:src/sub/b.py",
    }.items():
        ws.put(key, dep)
    of_a = {"file", "absolute", "through directory link", "through file link", "dir", "glob", "names", "deep"}
    of_a |= {"tree", "all"}
    assert affected(ws, "file:src/a.py") == of_a
    assert affected(ws, "linked/a.py") == of_a
    assert affected(ws, "file:src/sub/b.py") == {"deep", "tree", "all", "below"}
    assert affected(ws, "file:src/new.py") >= {"dir", "glob", "names", "deep", "tree", "all"}
    assert affected(ws, "tree:src") >= of_a | {"sibling", "below"}
    assert not affected(ws, "tree:src") & {"other", "other glob"}
    assert affected(ws, "file:nowhere") == {"all"}
    assert affected(ws, ws.object("x")) == set()


def test_affects_goes_through_entries_that_rest_on_entries(ws: Workspace) -> None:
    put_object(ws, "base", ws.clock())
    for key, on in {"one": "base", "two": "one", "three": "two"}.items():
        ws("entry.put", key=key, value=1, deps=[f"entry:{on}"], fetched_at=ws.clock())
    ws("entry.put", key="aside", value=1, deps=[])
    ws.write("f")
    ws.put("file", "file:f")
    ws("entry.put", key="on file", value=1, deps=["entry:file", "entry:two"], fetched_at=ws.clock())
    assert affected(ws, ws.object("x")) == {"base", "one", "two", "three", "on file"}
    assert affected(ws, "file:f") == {"file", "on file"}
    assert affected(ws, ws.object("y")) == set()


def test_begin_and_record_tell_the_same_effects(ws: Workspace) -> None:
    put_object(ws, "k", ws.clock())
    begun = ws("action.begin", writes=[ws.object("x")])
    assert begun["affects"] == {"count": 1, "keys": ["k"]}
    ws("action.end", id=begun["id"], outcome="aborted")
    assert ws("action.record", writes=[ws.object("x")])["affects"] == {"count": 1, "keys": ["k"]}
    ws("entry.forget", key="k")
    assert ws("action.record", writes=[ws.object("x")])["affects"] == {"count": 0, "keys": []}


# ---- guarded writes


def test_a_guarded_action_begins_only_where_all_it_rests_on_is_usable(ws: Workspace) -> None:
    ws.write("f", "one")
    ws.put("plan", "file:f")
    ws("entry.put", key="empty", value=1, deps=[])
    ws("entry.put", key="unknown", value=1)
    action = begin(ws, ws.object("x"), if_usable=["plan", "empty"])
    ws("action.end", id=action, outcome="done")
    for keys in (["unknown"], ["plan", "unknown"], ["none"]):
        assert code(ws, "action.begin", writes=[ws.object("x")], if_usable=keys) == "action.stale"
    ws.write("f", "two")
    with pytest.raises(RpcError) as caught:
        ws("action.begin", writes=[ws.object("x")], if_usable=["plan", "empty"])
    assert caught.value.code == "action.stale"
    verdicts = caught.value.data["verdicts"]
    assert verdicts["plan"]["verdict"] == "dirty"
    assert verdicts["plan"]["evidence"][0]["dep"] == "file:f"
    ws.write("f", "one")
    begin(ws, ws.object("x"), if_usable=["plan", "empty"])


def test_a_refused_begin_is_no_action_and_makes_its_objects_a_gap(ws: Workspace) -> None:
    clock = ws.clock()
    put_object(ws, "x", clock, "x")
    put_object(ws, "y", clock, "y")
    before = open_actions(ws)
    assert code(ws, "action.begin", writes=[ws.object("x")], if_usable=["none"]) == "action.stale"
    assert open_actions(ws) == before
    assert ws.found("x") == ("unknown", "gap")
    told = ws.check("x")["evidence"][0]
    assert told["detail"] == "a write that was declared and refused may have been carried out all the same"
    assert "for a while" not in told["hint"]  # the daemon was there all the time
    assert ws.found("y") == ("fresh", "declared")
    put_object(ws, "x2", ws.clock(), "x")
    assert ws.found("x2") == ("fresh", "declared")
    ws("action.record", writes=[ws.object("x")])
    assert ws.found("x") == ("dirty", "written")


@pytest.mark.parametrize("method", ["action.begin", "action.record"])
def test_so_are_those_of_a_request_that_does_not_fit(ws: Workspace, method: str) -> None:
    clock = ws.clock()
    for name in ("x", "y", "z"):
        put_object(ws, name, clock, name)
    writes = [7, ws.object("x"), {"dep": ws.object("y"), "extra": 1}]
    assert code(ws, method, writes=writes, unknown=True) == "params"
    assert [ws.found(name) for name in ("x", "y")] == [("unknown", "gap")] * 2
    assert ws.found("z") == ("fresh", "declared")
    put_object(ws, "x2", ws.clock(), "x")
    assert ws.found("x2") == ("fresh", "declared")


def test_a_guarded_record_is_guarded_too(ws: Workspace) -> None:
    ws("entry.put", key="u", value=1)
    assert code(ws, "action.record", writes=[ws.object("x")], if_usable=["u"]) == "action.stale"
    ws("entry.put", key="u", value=1, deps=[])
    assert ws("action.record", writes=[ws.object("x")], if_usable=["u"])["id"]


@pytest.mark.parametrize("agents", [2, 6])
def test_of_agents_that_race_for_a_guarded_object_exactly_one_gets_it(ws: Workspace, agents: int) -> None:
    connections = [ws.daemon.connect() for _ in range(agents)]
    for turn in range(12):
        name, key = f"lock{turn}", f"k{turn}"
        put_object(ws, key, ws.clock(), name)
        start = threading.Barrier(agents)
        answers: list[Json] = []

        def agent(rpc: Rpc, start: threading.Barrier, answers: list[Json], name: str, key: str) -> None:
            params = ws.fill("action.begin", {"writes": [ws.object(name)], "if_usable": [key]})
            start.wait()
            answers.append(rpc.answer(rpc.send("action.begin", **params)))

        threads = [threading.Thread(target=agent, args=(rpc, start, answers, name, key)) for rpc in connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        won = [answer["result"] for answer in answers if "result" in answer]
        lost = [answer["error"]["data"]["code"] for answer in answers if "error" in answer]
        assert len(won) == 1, answers
        assert lost == ["action.stale"] * (agents - 1)
        ws("action.end", id=won[0]["id"], outcome="done")
        assert ws.found(key) == ("dirty", "written")


def test_a_guard_looks_at_the_moment_of_the_begin_and_not_before(ws: Workspace) -> None:
    ws.write("f", "one")
    ws.put("k", "file:f")
    for turn in range(20):
        ws.write("f", "one" if turn % 2 else "two")
        answer = ws.rpc.answer(ws.rpc.send("action.begin", writes=[ws.object("x")], if_usable=["k"], root=ws.root))
        assert ("result" in answer) == bool(turn % 2)
