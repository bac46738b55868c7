"""The log, clocks and subscriptions: SPEC 7 and 9 from outside."""

from __future__ import annotations

import re
import socket
import threading

import pytest
from asking import code, contiguous
from support import HANG, Json, Rpc, RpcError, Workspace, records_since


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
    told = int(own.clock().rpartition(":")[2])
    records = records_since(own.rpc, first, limit=5)
    assert contiguous(records)
    assert records[-1]["seq"] >= told
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
    ws.daemon.scanned()
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


def test_who_unsubscribes_and_has_said_all_is_hung_up_on(ws: Workspace) -> None:
    """Broken: he waits for the end of the connection for ever."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(HANG)
        asking.connect(ws.daemon.socket)
        told = asking.makefile()
        asking.sendall(b'{"jsonrpc":"2.0","id":1,"method":"log.subscribe"}\n')
        assert '"subscription"' in told.readline()
        asking.sendall(b'{"jsonrpc":"2.0","id":2,"method":"log.unsubscribe"}\n')
        asking.shutdown(socket.SHUT_WR)
        assert '"ended"' in told.readlines()[-1]


def test_a_subscriber_may_ask_and_write_on_the_same_connection(ws: Workspace) -> None:
    listener = ws.daemon.connect()
    listener("log.subscribe")
    before = ws.clock()
    for number in range(10):
        put = listener("entry.put", key="k", value=number, deps=[], root=ws.root)
        assert listener("entry.get", key="k", root=ws.root)["version"] == put["version"]
    assert take(listener, 10) == ws.rpc("log.since", clock=before)["records"]
