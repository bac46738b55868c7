"""The log, clocks, subscriptions, roots and the daemon's own methods: SPEC 7 and 9 from outside."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import threading
from typing import TYPE_CHECKING

import pytest
from support import Daemon, Json, Rpc, RpcError, Workspace, records_since, tree_state

if TYPE_CHECKING:
    from collections.abc import Callable


def code(rpc: Rpc | Workspace, method: str, **params: Json) -> str:
    """The code of a request that must be refused."""
    with pytest.raises(RpcError) as caught:
        rpc(method, **params)
    assert caught.value.message
    assert caught.value.hint
    return caught.value.code


def contiguous(records: list[Json]) -> bool:
    numbers = [record["seq"] for record in records]
    return numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True


def some_of_everything(ws: Workspace) -> None:
    """One record of each kind that a client can cause."""
    ws("entry.put", key="k", value=1, deps=[])
    ws("entry.put", key="k", value=1, deps=[])
    ws("entry.put", key="k", value=2, deps=[])
    ws("action.record", writes=["object:x"], session="s", turn=3, note="n")
    begun = ws("action.begin", writes=["object:x"])
    ws("action.end", id=begun["id"], outcome="done")
    ws("entry.forget", key="k")


# ---- numbers


def test_numbers_have_no_holes_across_stops_and_kills(own: Workspace) -> None:
    first = own.clock()
    for turn in range(4):
        some_of_everything(own)
        if turn % 2:
            own.daemon.kill9()
            own.daemon.start()
        else:
            own.daemon.restart()
    records = records_since(own.rpc, first, limit=5)
    assert contiguous(records)
    assert int(own.clock().rpartition(":")[2]) == records[-1]["seq"]
    gaps = [record for record in records if record["type"] == "gap" and record["scope"] == "all"]
    assert len(gaps) == 4
    assert all(gap["reason"] for gap in gaps)


def test_the_first_record_of_a_run_is_a_gap_for_all(own: Workspace) -> None:
    before = own.clock()
    own.daemon.restart()
    first = own.rpc("log.since", clock=before)["records"][0]
    assert (first["type"], first["scope"]) == ("gap", "all")


def test_nothing_but_changes_is_numbered(ws: Workspace) -> None:
    ws.write("f")
    ws.put("k", "file:f")
    before = ws.clock()
    ws.check("k")
    ws("entry.get", key="k")
    ws("entry.list")
    ws("deps.snapshot", deps=["file:f"])
    ws.rpc("daemon.status")
    with pytest.raises(RpcError):
        ws("entry.put", key="k", value=1, deps=["nokind:x"], as_of="put")
    assert ws.clock() == before
    ws.put("k", "file:f", value="other")
    assert ws.clock() != before


def test_what_a_record_says(own: Workspace) -> None:
    before = own.clock()
    some_of_everything(own)
    records = own.rpc("log.since", clock=before)["records"]
    assert [(record["type"], record.get("event")) for record in records] == [
        ("entry", "put"),
        ("entry", "supported"),
        ("entry", "put"),
        ("action", "record"),
        ("action", "begin"),
        ("action", "end"),
        ("entry", "forgotten"),
    ]
    put, supported, other, recorded, begun, ended, _ = records
    for record in records:
        assert re.fullmatch(r"[0-9]{18,20}", record["at"]), "nanoseconds travel as decimal strings"
    assert (put["key"], put["version"], put["root"]) == ("k", put["seq"], own.root)
    assert supported["version"] == put["version"]
    assert other["version"] == other["seq"]
    assert (recorded["session"], recorded["turn"], recorded["note"]) == ("s", 3, "n")
    assert recorded["writes"] == begun["writes"] == ["object:x"]
    assert begun["id"] == begun["seq"] == ended["id"]
    assert ended["outcome"] == "done"


def test_a_late_put_a_refused_begin_and_a_revalidation_are_records(ws: Workspace) -> None:
    ws.write("f", "one")
    old = ws.clock()
    ws("action.record", writes=[ws.object("x")])
    version = ws.put("k", "file:f", value="new", fetched_at=ws.clock())["version"]
    before = ws.clock()
    ws.put("k", "file:f", value="old", fetched_at=old)
    assert code(ws, "action.begin", writes=[ws.object("x")], if_usable=["none"]) == "action.stale"
    ws("entry.revalidate", key="k")
    late, refused, revalidated = ws.rpc("log.since", clock=before)["records"]
    assert (late["type"], late["event"], late["key"]) == ("entry", "late", "k")
    assert (refused["type"], refused["event"], refused["writes"]) == ("action", "refused", [ws.object("x")])
    assert (revalidated["type"], revalidated["event"], revalidated["version"]) == ("entry", "revalidated", version)


def test_a_version_is_the_position_of_its_record(ws: Workspace) -> None:
    before = ws.clock()
    versions = [ws("entry.put", key="k", value=number, deps=[])["version"] for number in range(3)]
    assert [record["seq"] for record in ws.rpc("log.since", clock=before)["records"]] == versions


# ---- clocks and pages


def test_clocks_are_opaque_tokens_that_stand_still_when_nothing_happens(ws: Workspace) -> None:
    clock = ws.clock()
    assert ws.clock() == clock
    assert ws.rpc("log.since", clock=clock)["records"] == []
    assert ws.rpc("log.since", clock=clock)["clock"] == clock
    action = ws("action.record", writes=[ws.object("x")])
    assert action["clock"] == ws.clock() != clock


def test_pages_are_the_whole_cut_into_pieces(ws: Workspace) -> None:
    before = ws.clock()
    for number in range(25):
        ws("action.record", writes=[ws.object(str(number))])
    whole = ws.rpc("log.since", clock=before)
    assert len(whole["records"]) == 25
    assert not whole.get("more")
    for limit in (1, 7, 24, 25, 26):
        assert records_since(ws.rpc, before, limit) == whole["records"]
    page = ws.rpc("log.since", clock=before, limit=10)
    assert page["more"]
    assert page["records"] == whole["records"][:10]
    assert ws.rpc("log.since", clock=page["clock"])["records"] == whole["records"][10:]


def test_since_is_incomplete_where_nobody_watched_and_says_where(own: Workspace) -> None:
    answer = own.rpc("log.since", clock=own.clock())
    if answer["complete"]:
        assert not answer.get("uncovered")
    else:
        assert own.root in str(answer["uncovered"])


def test_since_is_incomplete_across_a_gap(own: Workspace) -> None:
    before = own.clock()
    own.daemon.restart()
    answer = own.rpc("log.since", clock=before)
    assert answer["complete"] is False
    assert answer["records"]


def test_since_of_paths_keeps_to_them(ws: Workspace) -> None:
    before = ws.clock()
    ws("action.record", writes=["file:a/f"])
    answer = ws.rpc("log.since", clock=before, paths=[f"{ws.root}/a"])
    assert {"records", "clock", "complete"} <= answer.keys()
    assert ws.rpc("log.since", clock=before, paths=[f"{ws.root}/b"])["complete"] is False


# ---- subscriptions


def record_of(note: Json) -> Json:
    assert note["jsonrpc"] == "2.0"
    assert note["method"] == "log.record"
    params = note["params"]
    return params.get("record", params)


def take(listener: Rpc, count: int) -> list[Json]:
    return [record_of(listener.note()) for _ in range(count)]


def test_a_subscription_tells_what_happens_from_now_on(ws: Workspace) -> None:
    listener = ws.daemon.connect()
    before = ws.clock()
    listener("log.subscribe")
    for number in range(5):
        ws("action.record", writes=[ws.object(str(number))])
    assert take(listener, 5) == ws.rpc("log.since", clock=before)["records"]


def test_a_subscription_from_a_clock_replays_and_goes_on_without_a_hole(ws: Workspace) -> None:
    before = ws.clock()
    for number in range(50):
        ws("action.record", writes=[ws.object(str(number))])
    writing = threading.Event()

    def writer() -> None:
        rpc = ws.daemon.connect()
        for number in range(200):
            rpc("action.record", writes=[ws.object(f"w{number}")])
            if number == 20:
                writing.set()

    thread = threading.Thread(target=writer)
    thread.start()
    assert writing.wait(60)
    listener = ws.daemon.connect()
    listener("log.subscribe", clock=before)
    records = take(listener, 250)
    thread.join()
    assert records == records_since(ws.rpc, before)


def test_a_number_is_told_only_after_it_is_durable(own: Workspace) -> None:
    """What a subscriber has seen is there after kill -9."""
    listener, writer = own.daemon.connect(), own.daemon.connect()
    first = own.clock()
    listener("log.subscribe")
    for number in range(40):
        writer.send("action.record", writes=[f"object:{number}"])
    seen = take(listener, 15)
    own.daemon.kill9()
    own.daemon.start()
    assert records_since(own.rpc, first)[:15] == seen


def test_entries_tells_which_entries_a_record_touched(ws: Workspace) -> None:
    clock = ws.clock()
    ws("entry.put", key="k", value=1, deps=[ws.object("x")], fetched_at=clock)
    ws("entry.put", key="on k", value=1, deps=["entry:k"], fetched_at=ws.clock())
    scope = f"{ws.tag}s"
    ws("entry.put", key="scoped", value=1, deps=[ws.object("x")], fetched_at=clock, scope=scope)
    ws.write("f")
    ws("entry.put", key="file", value=1, deps=["file:f"], fetched_at=clock)
    listener = ws.daemon.connect()
    listener("log.subscribe", entries=True)
    seq = ws("action.record", writes=[ws.object("x")])["seq"]
    path = ws("action.record", writes=["file:f"])["seq"]
    last = ws("action.record", writes=[ws.object("nothing")])["seq"]
    changed: set[tuple[str, int, str]] = set()
    while True:
        note = listener.note()
        if note["method"] == "entry.changed":
            params = note["params"]
            changed.add((params["key"], params["seq"], params.get("scope") or params["root"]))
        elif record_of(note)["seq"] == last:
            break
    wanted = {("k", seq, ws.root), ("scoped", seq, scope), ("file", path, ws.root)}
    assert wanted <= changed
    assert changed - wanted <= {("on k", seq, ws.root)}


def test_a_subscription_without_entries_tells_records_alone(ws: Workspace) -> None:
    ws("entry.put", key="k", value=1, deps=[ws.object("x")], fetched_at=ws.clock())
    listener = ws.daemon.connect()
    before = ws.clock()
    listener("log.subscribe")
    ws("action.record", writes=[ws.object("x")])
    ws("entry.put", key="k", value=2, deps=[])
    assert take(listener, 2) == ws.rpc("log.since", clock=before)["records"]


def test_after_unsubscribe_nothing_more_is_told(ws: Workspace) -> None:
    listener = ws.daemon.connect()
    listener("log.subscribe")
    ws("action.record", writes=[ws.object("x")])
    take(listener, 1)
    listener("log.unsubscribe")
    ws("action.record", writes=[ws.object("x")])
    assert listener("log.clock")["clock"] == ws.clock()
    assert listener.notes == []
    before = ws.clock()
    listener("log.subscribe")
    ws("action.record", writes=[ws.object("y")])
    assert take(listener, 1) == ws.rpc("log.since", clock=before)["records"]


def test_a_subscriber_may_ask_and_write_on_the_same_connection(ws: Workspace) -> None:
    listener = ws.daemon.connect()
    listener("log.subscribe")
    before = ws.clock()
    for number in range(10):
        put = listener("entry.put", key="k", value=number, deps=[], root=ws.root)
        assert listener("entry.get", key="k", root=ws.root)["version"] == put["version"]
    assert take(listener, 10) == ws.rpc("log.since", clock=before)["records"]


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
    own = daemon.start().workspace()
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
        return {key: (answer["verdict"], answer["why"]) for key, answer in answers.items()}

    assert told() == {**wanted, "quiet": ("fresh", "declared"), "aborted": ("fresh", "declared")}
    daemon.kill9()
    daemon.start()  # what is over the number goes when a daemon starts
    for _ in range(100_000):
        assert told() == wanted
        if own.rpc("daemon.status")["records"] <= 1000:
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
    assert "aside" in str(own.rpc("daemon.status"))


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
    own.daemon.start()
    states = {root["path"]: root["state"] for root in own.rpc("daemon.status")["roots"]}
    assert states[other] == "gone"
