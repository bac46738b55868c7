"""What attackers and reviewers found, each as the case that showed it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from asking import ask_from, may_unshare
from support import Json, Rpc, RpcError, Workspace

FLIP = """
import ctypes, os, sys
os.chdir(sys.argv[1])
renameat2 = ctypes.CDLL(None).renameat2
print("going", flush=True)
while True:
    if sys.argv[2] == "rename":
        os.rename("p/A", "p/B")
        os.rename("p/B", "p/A")
    elif sys.argv[2] == "link":
        for target in ("s1", "s2"):
            os.symlink(target, "t")
            os.rename("t", "cur")
    else:
        renameat2(-100, b"cur", -100, b"new", 2)
"""


def flipping(ws: Workspace, what: str, ask: Callable[[], str], times: int = 400) -> set[str]:
    """The verdicts while another process flips things as fast as it can."""
    writer = subprocess.Popen([sys.executable, "-c", FLIP, ws.root, what], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"going\n"
        return {ask() for _ in range(times)}
    finally:
        writer.kill()
        writer.communicate()


def test_a_file_that_has_one_of_two_names_is_never_said_to_have_none(ws: Workspace) -> None:
    ws.write("p/A", "v")
    deps = [{"dep": f"file:p/{name}", "digest": "absent"} for name in "AB"]
    ws("entry.put", key="k", value=1, deps=deps)
    assert "fresh" not in flipping(ws, "rename", lambda: ws.verdict("k"))


@pytest.mark.parametrize("what", ["link", "exchange"])
@pytest.mark.parametrize("form", ["files", "tree", "glob"])
def test_what_two_deployments_never_held_together_is_never_fresh(ws: Workspace, what: str, form: str) -> None:
    for directory, a, b in (("s1", "1", "2"), ("s2", "3", "4"), ("torn", "1", "4")):
        ws.write(f"{directory}/a", a)
        ws.write(f"{directory}/b", b)
    if what == "link":
        os.symlink("s1", os.path.join(ws.root, "cur"))
    else:
        os.rename(os.path.join(ws.root, "s1"), os.path.join(ws.root, "cur"))
        os.rename(os.path.join(ws.root, "s2"), os.path.join(ws.root, "new"))
    deps: list[Json] = {
        "files": [{"dep": f"file:cur/{n}", "digest": ws.digest(f"file:torn/{n}")} for n in "ab"],
        "tree": [{"dep": "tree:cur", "digest": ws.digest("tree:torn")}],
        "glob": [{"dep": "glob:cur/*", "digest": ws.digest("glob:torn/*")}],
    }[form]
    ws("entry.put", key="k", value=1, deps=deps)
    assert "fresh" not in flipping(ws, what, lambda: ws.verdict("k"))


def held(rpc: Rpc, ws: Workspace, name: str) -> Json:
    return rpc("action.begin", writes=[ws.object("o")], hold=True, op=name, root=ws.root)


def test_a_held_begin_that_ended_with_its_connection_begins_anew_when_it_is_tried_again(ws: Workspace) -> None:
    first, second = ws.daemon.connect(), ws.daemon.connect()
    begun = held(first, ws, "again")
    first.close()
    while any(action["id"] == begun["id"] for action in second("action.list")["actions"]):
        pass
    again = held(second, ws, "again")
    assert again["id"] != begun["id"]
    assert [a["id"] for a in second("action.list")["actions"] if a["id"] == again["id"]] == [again["id"]]
    ws("entry.put", key="k", value=1, deps=[ws.object("o")], fetched_at=ws.clock())
    assert ws.found("k") == ("dirty", "written")
    second("action.end", id=again["id"], outcome="done")


def test_a_held_begin_that_is_tried_again_is_held_by_who_tried(ws: Workspace) -> None:
    first, second = ws.daemon.connect(), ws.daemon.connect()
    begun = held(first, ws, "taken")
    assert held(second, ws, "taken")["id"] == begun["id"]
    first.close()
    second("entry.put", key="x", value=1, deps=[], root=ws.root)  # by now the first connection's end was seen
    assert begun["id"] in {action["id"] for action in second("action.list")["actions"]}
    second("action.end", id=begun["id"], outcome="done")


@pytest.mark.parametrize("change", [{"writes": ["object:b"]}, {"session": "other"}, {"if_usable": ["k"]}])
def test_an_op_is_another_one_with_other_writes_another_session_or_other_guards(
    ws: Workspace, change: dict[str, Json]
) -> None:
    ws("entry.put", key="k", value=1, deps=[])
    asked: dict[str, Json] = {"writes": ["object:a"], "session": "one", "op": "1", "root": ws.root}
    first = ws.rpc("action.record", **asked)
    assert ws.rpc("action.record", **asked) == first
    assert ws.rpc("action.record", **(asked | change))["id"] != first["id"]


def test_an_op_is_another_one_under_another_key(ws: Workspace) -> None:
    assert ws("entry.put", key="a", value=1, deps=[], op="1")["key"] == "a"
    assert ws("entry.put", key="b", value=2, deps=[], op="1")["key"] == "b"
    assert ws("entry.get", key="b")["value"] == 2


def test_every_clock_that_was_told_is_taken(ws: Workspace) -> None:
    failures: list[Exception] = []
    stop = threading.Event()

    def write() -> None:
        rpc = ws.daemon.connect()
        while not stop.is_set():
            rpc("entry.put", key="w", value=1, deps=[], root=ws.root)

    def give_back() -> None:
        rpc = ws.daemon.connect()
        try:
            for _ in range(300):
                clock = rpc("entry.check", key="w", root=ws.root)["clock"]
                rpc("deps.check", deps=["object:none"], fetched_at=clock, root=ws.root)
        except RpcError as e:
            failures.append(e)

    writers = [threading.Thread(target=write) for _ in range(3)]
    readers = [threading.Thread(target=give_back) for _ in range(3)]
    for thread in writers + readers:
        thread.start()
    for thread in readers:
        thread.join()
    stop.set()
    for thread in writers:
        thread.join()
    assert not failures


def test_a_put_of_very_many_absent_files_is_answered(ws: Workspace) -> None:
    deps = [f"file:{n:0128}" for n in range(80_000)]
    answer = ws("entry.put", key="k", value=1, deps=deps, as_of="put")
    assert len(answer["absent"]) == 1000
    assert answer["absent_more"] == 79_000


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"turn": 2**64}, "params"),
        ({"turn": -(2**63) - 1}, "params"),
        ({"session": "s" * 1000}, "params"),
        ({"op": "o" * 1000}, "params"),
        ({"meta": {"m": "m" * 1_100_000}}, "entry.too_big"),
        ({"deps": [{"dep": "entry:x", "digest": "version:999999999"}]}, "dep.malformed"),
        ({"deps": ["file:" + "/a" * 50_000], "as_of": "put"}, "limit"),
        ({"deps": ["names:" + "a*b?" * 2_000], "as_of": "put"}, "limit"),
    ],
)
def test_what_is_too_long_too_big_or_not_there_yet_is_refused(
    ws: Workspace, params: dict[str, Json], code: str
) -> None:
    given: dict[str, Json] = {"key": "k", "value": 1, "deps": []}
    with pytest.raises(RpcError) as refused:
        ws("entry.put", **(given | params))
    assert refused.value.code == code


def test_numbers_of_any_size_are_values(ws: Workspace) -> None:
    params = b'{"key":"k","value":1e99999999999999999999,"deps":[],"root":%b}'
    line = b'{"jsonrpc":"2.0","id":77,"method":"entry.put","params":' + params + b"}\n"
    rpc = ws.daemon.connect()
    rpc.send_raw(line % (b'"' + ws.root.encode() + b'"'))
    assert rpc.result(77)["version"]


def test_a_client_that_reads_gets_all_its_answers_however_much_they_are(ws: Workspace) -> None:
    big = "x" * 2_000_000
    ws("entry.put", key="big", value=big, deps=[])
    rpc = ws.daemon.connect()
    numbers = [rpc.send("entry.get", key="big", root=ws.root) for _ in range(80)]
    for number in numbers:
        assert rpc.result(number)["value"] == big


def test_ignore_rules_that_do_not_parse_or_could_match_for_ever_are_refused(ws: Workspace) -> None:
    for rule in ("!", "\\", "*a*a*a*a*a*a*b", "x" * 2000):
        with pytest.raises(RpcError) as refused:
            ws.rpc("root.add", path=ws.root, ignore=[rule])
        assert refused.value.code == "params"


def test_a_put_by_a_peer_of_another_namespace_does_not_displace_what_is_fresh(ws: Workspace) -> None:
    if not may_unshare():
        pytest.skip("no mount namespace may be made here")
    ws.write("f", "one")
    good = ws.put("k", "file:f")
    put = {"key": "k", "value": "other", "deps": [{"dep": "file:f", "digest": "absent"}], "root": ws.root}
    reply = ask_from(ws, ["unshare", "--mount"], "", [("entry.put", put)])[0]["result"]
    assert reply["late"] is True
    assert reply["version"] == good["version"]
    assert ws.verdict("k") == "fresh"


def test_a_held_begin_is_never_lost_between_its_holder_and_who_takes_it_over(ws: Workspace) -> None:
    for attempt in range(60):
        first, second = ws.daemon.connect(), ws.daemon.connect()
        held(first, ws, f"race{attempt}")
        number = second.send("action.begin", writes=[ws.object("o")], hold=True, op=f"race{attempt}", root=ws.root)
        first.close()
        taken = second.result(number)["id"]
        second("entry.put", key="after", value=attempt, deps=[], root=ws.root)
        assert taken in {action["id"] for action in second("action.list")["actions"]}
        second("action.end", id=taken, outcome="done")
        second.close()


def test_a_held_begin_that_was_ended_by_hand_is_answered_as_at_first(ws: Workspace) -> None:
    begun = held(ws.rpc, ws, "ended")
    ws.rpc("action.end", id=begun["id"], outcome="done")
    assert held(ws.rpc, ws, "ended") == begun | {"ended": True}
    assert begun["id"] not in {action["id"] for action in ws.rpc("action.list")["actions"]}


TORN = """
import os, sys
os.chdir(sys.argv[1])
print("going", flush=True)
while True:
    for name, content in (("b", "2"), ("a", "2"), ("a", "1"), ("b", "1")):
        open("t", "w").write(content)
        os.rename("t", name)
"""


def test_a_guard_is_of_one_moment_however_often_its_entry_is_put(ws: Workspace) -> None:
    for name in "abc":
        ws.write(name, "1")
    for name in "ab":
        ws.write(f"two/{name}", "2")
    digests = {
        "a2": {"dep": "file:a", "digest": ws.digest("file:two/a")},
        "b1": {"dep": "file:b", "digest": ws.digest("file:b")},
        "c": ws.dep("file:c"),
    }
    sets = [["a2", "b1"], ["a2", "c"], ["b1", "c"]]  # a=2 together with b=1 never was
    stop = threading.Event()
    torn: list[int] = []

    def put() -> None:
        rpc = ws.daemon.connect()
        turn = 0
        while not stop.is_set():
            names = sets[turn % 3]
            turn += 1
            answer = rpc("entry.put", key="k", value=turn, deps=[digests[n] for n in names], root=ws.root)
            if names == sets[0] and not answer.get("late"):
                torn.append(answer["version"])

    writer = subprocess.Popen([sys.executable, "-c", TORN, ws.root], stdout=subprocess.PIPE)
    putter = threading.Thread(target=put)
    putter.start()
    accepted = []
    try:
        for _ in range(300):
            with contextlib.suppress(RpcError):  # refused: then it was not usable
                accepted.append(ws.rpc("action.record", writes=[], if_usable=["k"], root=ws.root)["seq"])
    finally:
        stop.set()
        putter.join()
        writer.kill()
        writer.communicate()
    assert not {seq - 1 for seq in accepted} & set(torn)  # accepted on top of a version that never was true


def test_deep_paths_and_bombs_of_links_hold_nobody_up(ws: Workspace) -> None:
    ws.write("ok", "one")
    for n in range(38):
        os.symlink("a/../" * 800 + f"s{n + 1}", os.path.join(ws.root, f"s{n}"))
    os.mkdir(os.path.join(ws.root, "a"))
    os.mkdir(os.path.join(ws.root, "s38"))
    deps: list[Json] = [{"dep": "file:" + "s0/../" * 50 + "f", "digest": "absent"}, ws.dep("file:ok")]
    number = ws.rpc.send("deps.check", deps=deps, root=ws.root, timeout_ms=60_000)
    other = ws.daemon.connect()
    assert other("log.clock")["clock"]
    assert ws.rpc.result(number)["verdict"] in {"fresh", "dirty", "unknown"}
