"""The daemon's own methods, its starts and stops, and its roots: SPEC 7 and 9 from outside."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import threading
from typing import TYPE_CHECKING

import pytest
from asking import code, contiguous
from support import Daemon, Json, Workspace, records_since, shown, tree_state

if TYPE_CHECKING:
    from collections.abc import Callable


# ---- the daemon itself


def test_hello_says_who_answers(own: Workspace) -> None:
    hello = own.rpc("daemon.hello", protocol=1, client="a test")
    assert hello["name"] == "provd"
    assert hello["protocol"] == 1
    assert own.daemon.process is not None
    assert hello["pid"] == own.daemon.process.pid
    assert own.root in str(hello["roots"])
    assert re.fullmatch(r"[0-9]+\.[0-9]+.*", hello["version"])
    own.daemon.restart()
    again = own.rpc("daemon.hello", protocol=1)
    assert again["log"] == hello["log"]
    assert again["run"] != hello["run"]


@pytest.mark.parametrize("protocol", [0, 2, 99])
def test_another_protocol_is_refused(ws: Workspace, protocol: int) -> None:
    assert code(ws.rpc, "daemon.hello", protocol=protocol) == "version"
    assert ws.clock()


def test_status_tells_the_state_of_the_house(own: Workspace) -> None:
    own("entry.put", key="k", value=1, deps=[])
    action = own("action.begin", writes=["object:x"], session="s")["id"]
    status = own.rpc("daemon.status")
    hello = own.rpc("daemon.hello", protocol=1)
    for field in ("version", "pid", "log", "run"):
        assert status[field] == hello[field]
    assert status["clock"] == own.clock()
    (root,) = status["roots"]
    assert root["path"] == own.root
    assert root["state"] in {"watching", "scanning", "degraded"}
    assert str(action) in str(status["actions"]) or "s" in str(status["actions"])


def test_shutdown_answers_and_ends_in_order(own: Workspace) -> None:
    version = own("entry.put", key="k", value=1, deps=[])["version"]
    assert own.rpc("daemon.shutdown") == {}
    process = own.daemon.process
    assert process is not None
    assert process.wait(60) == 0
    assert not os.path.lexists(own.daemon.socket)
    own.daemon.disconnect()
    own.daemon.start()
    assert own.check("k")["version"] == version


def test_sigterm_and_sigint_end_in_order(daemon: Daemon) -> None:
    assert daemon.stop() == 0
    daemon.start()
    assert daemon.stop(2) in {0, 130}
    assert not os.path.lexists(daemon.socket)


def version_or_shutdown(answer: Json) -> int:
    """The version that a put was answered with; 0 where the daemon took it no more."""
    if "error" in answer:
        assert answer["error"]["data"]["code"] == "shutdown"
        return 0
    version = answer["result"]["version"]
    assert isinstance(version, int)
    return version


def test_what_was_answered_before_an_orderly_stop_is_there_afterwards(own: Workspace) -> None:
    rpc = own.daemon.connect()
    numbers = [rpc.send("entry.put", key=f"k{n}", value=n, deps=[], root=own.root) for n in range(300)]
    versions = [rpc.result(number)["version"] for number in numbers[:20]]
    process = own.daemon.process
    assert process is not None
    process.terminate()
    with contextlib.suppress(ConnectionError):
        versions.extend(map(version_or_shutdown, (rpc.answer(number) for number in numbers[20:])))
    versions = list(itertools.takewhile(bool, versions))
    assert process.wait(60) == 0, own.daemon.said()
    own.daemon.disconnect()
    own.daemon.start()
    assert [own.check(f"k{n}")["version"] for n in range(len(versions))] == versions


def test_retention_never_changes_a_verdict(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    os.makedirs(f"{daemon.home}/.config/provd")
    with open(f"{daemon.home}/.config/provd/config.toml", "w") as file:
        file.write("[log]\nmax_records = 1000\n")
    own = Workspace.fresh(daemon.start())  # outside the root: nothing there can be shown, however long it rests
    own.write("f", "one")
    first = own.clock()
    open_ = own("action.begin", writes=["object:open"])["id"]
    begun = own.clock()
    for name in ("written", "open", "quiet", "aborted"):
        own("entry.put", key=name, value=1, deps=[f"object:{name}"], fetched_at=begun)
    own("entry.put", key="unproven", value=1, deps=["file:f"], fetched_at=begun)
    own("entry.put", key="touched", value=1, deps=["file:g"], fetched_at=begun)
    own.put("read", "file:f", fetched_at=begun)
    own("entry.put", key="derived", value=1, deps=["entry:read"], fetched_at=own.clock())
    own("action.record", writes=["object:written", "file:g"])
    own("action.end", id=own("action.begin", writes=["object:aborted"])["id"], outcome="aborted")
    for _ in range(5):
        numbers = [own.rpc.send("action.record", writes=[f"object:other{n}"]) for n in range(500)]
        for number in numbers:
            own.rpc.result(number)
    wanted = {
        "written": ("dirty", "written"),
        "open": ("dirty", "written"),
        "quiet": ("unknown", "gap"),
        "aborted": ("unknown", "gap"),
        "unproven": ("unknown", "unproven"),
        "touched": ("dirty", "touched"),
        "read": ("fresh", "same"),
        "derived": ("fresh", "same"),
    }

    def told() -> dict[str, tuple[str, str]]:
        answers = own("entry.check", keys=list(wanted))["verdicts"]
        return {key: shown(answer) for key, answer in answers.items()}

    assert told() == {**wanted, "quiet": ("fresh", "declared"), "aborted": ("fresh", "declared")}
    daemon.kill9()
    daemon.start()  # what is over the number goes when a daemon starts
    for _ in range(100_000):
        assert told() == wanted
        if own.rpc("daemon.status")["records"] <= 1100:  # taking up the root may write some after the trimming
            break
    else:
        pytest.fail("none of 2,500 records was trimmed at max_records = 1000")
    assert told() == wanted
    answer = own.rpc("log.since", clock=first)
    assert answer["complete"] is False
    records = records_since(own.rpc, first)
    assert contiguous(records)
    assert records[0]["seq"] > int(first.rpartition(":")[2]) + 1, "trimmed"
    assert int(own.clock().rpartition(":")[2]) == records[-1]["seq"]
    own("entry.put", key="late reader", value=1, deps=["object:written"], fetched_at=begun)
    assert own.found("late reader") == ("dirty", "written")
    daemon.restart()
    assert {**told(), "late reader": own.found("late reader")} == {**wanted, "late reader": ("dirty", "written")}
    assert own("action.end", id=open_, outcome="done")["id"] == open_
    own("entry.put", key="open", value=1, deps=["object:open"], fetched_at=own.clock())
    assert own.found("open") == ("fresh", "declared")


def test_an_audit_reads_again_and_finds_what_differs(own: Workspace) -> None:
    own.write("f", "one")
    own.write("g", "one")
    own.put("k", "file:f", "file:g")
    answer = own.rpc("daemon.audit")
    assert answer["files"] >= 2
    assert answer["mismatches"] == []


def test_an_audit_makes_rows_anew_that_differ_by_nothing_but_their_ctime(own: Workspace) -> None:
    own.write("a", "x")
    os.link(own.path("a"), own.path("b"))
    own.put("k", "file:b")
    clock = own.clock()
    assert own.rpc("daemon.audit")["mismatches"] == []  # all that was made is hashed
    os.unlink(own.path("a"))  # moves the ctime of b, and no event tells of that
    assert own.rpc("daemon.audit")["mismatches"] == []
    own.clock()
    assert _scanned(own, clock) == [os.fsdecode(own.path("b"))]
    after = own.clock()
    assert own.rpc("daemon.audit")["mismatches"] == []
    assert _scanned(own, after) == []
    assert own.found("k")[0] == "fresh"


def _scanned(own: Workspace, clock: str) -> list[str]:
    """The paths of the mutations since a clock that a look at the disk has shown."""
    return [r["path"] for r in records_since(own.rpc, clock) if r["type"] == "mutation" and r["origin"] == "scan"]


def test_an_audit_ends_though_a_file_is_written_all_the_time(own: Workspace) -> None:
    own.write("f", "one")
    enough = threading.Event()

    def write() -> None:
        with open(own.path("busy"), "wb", buffering=0) as file:
            while not enough.is_set():
                os.pwrite(file.fileno(), b"x", 0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        answer = own.rpc("daemon.audit")
    finally:
        enough.set()
        writer.join()
    assert answer["mismatches"] == []


def test_a_store_that_cannot_be_opened_is_set_aside_and_said(own: Workspace) -> None:
    own("entry.put", key="k", value=1, deps=[])
    old = own.clock()
    log = own.rpc("daemon.hello", protocol=1)["log"]
    own.daemon.stop()
    data = os.path.join(own.daemon.state, "store", "data.mdb")
    with open(data, "r+b") as file:
        file.write(os.urandom(16384))
    with open(data, "rb") as file:
        spoilt = file.read()
    own.daemon.start()
    assert own.rpc("daemon.hello", protocol=1)["log"] != log
    assert own.found("k") == ("unknown", "no-entry")
    assert own.rpc("log.since", clock=old)["complete"] is False
    own("entry.put", key="o", value=1, deps=["object:x"], fetched_at=old)
    assert own.found("o") == ("unknown", "gap")
    sizes = [size for _, _, size, _ in tree_state(own.daemon.state).values()]
    assert len(spoilt) in sizes, "set aside, never deleted"
    assert own.rpc("daemon.status")["set_aside_why"]
    assert "the store could not be used: it was set aside" in own.daemon.said()


# ---- roots


def paths_of(answer: Json) -> list[str]:
    return [root["path"] for root in answer["roots"]]


def test_roots_are_added_listed_kept_and_removed(own: Workspace) -> None:
    other = os.path.join(own.daemon.home, "other")
    os.mkdir(other)
    before = own.clock()
    assert paths_of(own.rpc("root.list")) == [own.root]
    assert set(paths_of(own.rpc("root.add", path=other))) == {own.root, other}
    own.daemon.restart()
    assert set(paths_of(own.rpc("root.list"))) == {own.root, other}
    assert paths_of(own.rpc("root.remove", path=other)) == [own.root]
    own.daemon.restart()
    assert paths_of(own.rpc("root.list")) == [own.root]
    events = [(r["event"], r["path"]) for r in records_since(own.rpc, before) if r["type"] == "root"]
    assert events == [("added", other), ("removed", other)]


def test_a_root_is_kept_by_its_real_path_and_only_once(own: Workspace) -> None:
    link = os.path.join(own.daemon.home, "link")
    os.symlink(own.root, link)
    assert paths_of(own.rpc("root.add", path=link)) == [own.root]
    assert paths_of(own.rpc("root.add", path=own.root + "/.")) == [own.root]
    assert paths_of(own.rpc("root.remove", path=link)) == [], "removed by the name by which it was added"


def test_a_root_below_another_is_the_same_watch_and_one_above_takes_it_in(own: Workspace) -> None:
    below = os.path.join(own.root, "sub")
    os.mkdir(below)
    own.rpc("root.add", path=below)
    own.write("sub/f", "one")
    own.rpc("entry.put", key="k", value=1, deps=["file:f"], as_of="put", root=below)
    own.rpc("root.add", path=own.daemon.home)
    assert own.rpc("entry.check", key="k", root=below)["verdict"] == "fresh"
    own.write("sub/f", "two")
    assert own.rpc("entry.check", key="k", root=below)["verdict"] == "dirty"


def test_removing_what_is_no_root_is_an_error(ws: Workspace) -> None:
    before = paths_of(ws.rpc("root.list"))
    assert code(ws.rpc, "root.remove", path=ws.root) == "root.missing"
    assert paths_of(ws.rpc("root.list")) == before


def test_a_daemon_without_roots_answers_by_reading(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon(roots=[]).start()
    ws = daemon.workspace()
    assert paths_of(ws.rpc("root.list")) == []
    assert code(ws.rpc, "entry.put", key="k", value=1, deps=[]) == "root.ambiguous"
    ws.rpc("entry.put", key="k", value=1, deps=[], scope="global")
    ws.write("f", "one")
    ws.put("k", "file:f")
    assert ws.verdict("k") == "fresh"
    ws.write("f", "two")
    assert ws.verdict("k") == "dirty"


def test_a_root_that_was_deleted_while_the_daemon_was_down_does_not_keep_it_down(own: Workspace) -> None:
    other = os.path.join(own.daemon.home, "other")
    os.mkdir(other)
    own.rpc("root.add", path=other)
    own.daemon.stop()
    os.rmdir(other)
    own.daemon.start().scanned()
    states = {root["path"]: root["state"] for root in own.rpc("daemon.status")["roots"]}
    assert states[other] == "gone"
