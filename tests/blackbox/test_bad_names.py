"""Bad names, paths and roots, and what is over a limit: each has its clear error, and none costs data."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

import pytest
from asking import OURS, PARAMS, PARSE, answer_to, complete, refusal, request, startup_refused
from support import MIB, Daemon, Json, RpcError, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable


# ---- names and paths


@pytest.mark.parametrize("text", ["file:a\0b", "a\0b", "tree:\0", "glob:*\0", "object:a\0b"])
def test_a_nul_in_a_dependency_is_refused(ws: Workspace, text: str) -> None:
    for dep in (text, {"dep": text}, {"b64": base64.b64encode(text.encode()).decode()}):
        error = refusal(ws, "entry.put", key="k", deps=[dep], fetched_at=ws.clock())
        assert error.code == "dep.malformed", dep
    assert ws.found("k") == ("unknown", "no-entry")


def test_a_nul_in_any_other_path_is_refused(ws: Workspace) -> None:
    requests: list[tuple[str, dict[str, Json]]] = [
        ("root.add", {"path": "/tmp/a\0b"}),
        ("root.remove", {"path": "/tmp/a\0b"}),
        ("entry.put", {"key": "k", "deps": [], "root": "/tmp/a\0b"}),
        ("entry.check", {"key": "k", "root": "/tmp/a\0b"}),
        ("entry.list", {"touching": "a\0b", "root": ws.root}),
        ("log.since", {"clock": ws.clock(), "paths": ["a\0b"]}),
        ("action.begin", {"writes": ["file:a\0b"], "root": ws.root}),
    ]
    for method, params in requests:
        error = refusal(ws.rpc, method, **params)
        assert error.number in {PARAMS, OURS}, method
        assert error.code in {"root.missing", "dep.malformed", "params", str(PARAMS)}, method


def test_names_that_are_no_utf8_are_asked_and_answered_as_bytes(ws: Workspace) -> None:
    name = b"caf\xe9-\xff"
    ws.write(name, "one")
    ws.write(b"d/" + name, "one")
    ws.put("k", b"file:" + name)
    ws.put("t", "tree:d")
    assert ws.verdict("k") == ws.verdict("t") == "fresh"
    ws.write(name, "two")
    ws.write(b"d/" + name, "two")
    (file,) = ws.check("k")["evidence"]
    assert base64.b64decode(file["dep"]["b64"]) == b"file:" + name
    (tree,) = ws.check("t")["evidence"]
    assert [base64.b64decode(path["b64"]) for path in tree["paths"]] == [ws.path(b"d/" + name)]


def test_a_root_of_bytes_is_a_root(ws: Workspace) -> None:
    root = ws.path(b"r\xff")
    os.mkdir(root)
    odd = Workspace(ws.daemon, os.fsdecode(root), "")
    odd.write("f", "one")
    odd.put("k", "file:f")
    assert odd.verdict("k") == "fresh"
    odd.write("f", "two")
    assert odd.verdict("k") == "dirty"
    assert ws.found("k") == ("unknown", "no-entry")


@pytest.mark.parametrize("value", ["%", "YQ", "YQ=", "a b=", "=", "\u00e9"])
def test_a_b64_that_is_none_is_refused(ws: Workspace, value: str) -> None:
    error = refusal(ws, "entry.put", key="k", deps=[{"dep": {"b64": value}, "digest": "absent"}])
    assert error.code in {"dep.malformed", "params", str(PARAMS)}


def test_half_a_surrogate_pair_is_no_name(ws: Workspace) -> None:
    reply = answer_to(ws.rpc, request("entry.put", {"key": "k", "deps": ["file:\udcff"], "as_of": "put"}))
    assert complete(RpcError(reply["error"])).number in {PARSE, PARAMS, OURS}
    reply = answer_to(ws.rpc, request("entry.put", {"key": "\ud800", "deps": []}))
    assert complete(RpcError(reply["error"])).number in {PARSE, PARAMS, OURS}
    assert ws.clock()


def test_half_a_surrogate_pair_in_free_text_breaks_nothing(ws: Workspace) -> None:
    before = ws.clock()
    requests: list[tuple[str, dict[str, Json]]] = [
        ("entry.put", {"key": "value", "value": ["\ud800"], "deps": []}),
        ("entry.put", {"key": "meta", "value": 1, "meta": {"\udfff": 1}, "deps": []}),
        ("entry.put", {"key": "session", "value": 1, "session": "\ud800", "deps": []}),
        ("entry.put", {"key": "scope", "value": 1, "scope": f"{ws.tag}\ud800", "deps": []}),
        ("entry.put", {"key": "op", "value": 1, "op": f"{ws.tag}\ud800", "deps": []}),
        ("action.record", {"writes": [ws.object("x")], "note": "\ud800"}),
    ]
    for method, params in requests:
        reply = answer_to(ws.rpc, request(method, ws.fill(method, params)))
        if "error" in reply:
            assert complete(RpcError(reply["error"])).number in {PARSE, PARAMS, OURS}
    for entry in ws("entry.list")["entries"]:
        assert ws("entry.get", key=entry["key"])["usable"]
    assert ws.rpc("log.since", clock=before)["clock"] == ws.clock()


@pytest.mark.parametrize("length", [300, 5000], ids=["component", "path"])
def test_a_path_too_long_for_the_system_is_unknown_and_no_crash(ws: Workspace, length: int) -> None:
    answer = ws("deps.check", deps=[{"dep": "file:" + "x" * length, "digest": "absent"}])
    assert answer["verdict"] == "unknown"
    assert answer["evidence"][0]["why"] == "unreadable"


# ---- roots


@pytest.mark.parametrize("make", ["missing", "file", "dangling", "fifo"])
def test_a_root_that_is_no_directory_is_refused(ws: Workspace, make: str) -> None:
    path = os.fsdecode(ws.path("r"))
    if make == "file":
        ws.write("r", "kept")
    elif make == "dangling":
        os.symlink("nowhere", path)
    elif make == "fifo":
        os.mkfifo(path)
    roots = ws.rpc("root.list")["roots"]
    assert refusal(ws.rpc, "root.add", path=path).code == "root.missing"
    assert refusal(ws.rpc, "entry.put", key="k", deps=[], root=path).code == "root.missing"
    assert refusal(ws.rpc, "deps.check", deps=["file:f"], root=path).code == "root.missing"
    assert refusal(ws.rpc, "action.begin", writes=["file:f"], root=path).code == "root.missing"
    assert ws.rpc("root.list")["roots"] == roots


@pytest.mark.parametrize("make", ["missing", "file"])
def test_a_daemon_told_to_watch_what_is_no_directory_says_so(make_daemon: Callable[..., Daemon], make: str) -> None:
    daemon = make_daemon()
    daemon.roots = [os.path.join(daemon.home, "r")]
    if make == "file":
        with open(daemon.roots[0], "w") as file:
            file.write("kept")
    startup_refused(daemon, "r")
    if make == "file":
        with open(daemon.roots[0]) as file:
            assert file.read() == "kept"


def test_a_relative_path_without_a_root_to_join_is_ambiguous(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon().start()
    other = os.path.join(daemon.home, "other")
    os.mkdir(other)
    assert daemon.rpc("entry.put", key="k", deps=[])["verdict"]["verdict"] == "fresh"
    daemon.rpc("root.add", path=other)
    assert refusal(daemon.rpc, "entry.put", key="k", deps=[]).code == "root.ambiguous"
    assert refusal(daemon.rpc, "deps.check", deps=["file:f"]).code == "root.ambiguous"
    assert daemon.rpc("deps.check", deps=[{"dep": f"file:{other}/f", "digest": "absent"}])["verdict"] == "fresh"


# ---- limits


@pytest.mark.parametrize("letter", ["k", "é", "😀"])
def test_a_key_has_at_most_1024_bytes(ws: Workspace, letter: str) -> None:
    longest = letter * (1024 // len(letter.encode()))
    ws("entry.put", key=longest, value=1, deps=[])
    assert ws("entry.get", key=longest)["value"] == 1
    for method in ("entry.put", "entry.check", "entry.get", "entry.forget"):
        error = refusal(ws, method, key=longest + "k")
        assert error.code == "limit", method
    assert refusal(ws, "entry.check", keys=["a", longest + "k"]).code == "limit"
    assert [entry["key"] for entry in ws("entry.list")["entries"]] == [longest]


def test_an_empty_key_is_refused(ws: Workspace) -> None:
    assert refusal(ws, "entry.put", key="", deps=[]).code in {"limit", "params", str(PARAMS)}


def test_an_object_has_1_to_1024_bytes(ws: Workspace) -> None:
    clock = ws.clock()
    longest = "object:" + ws.tag.ljust(1024, "x")
    ws("entry.put", key="k", value=1, deps=[longest], fetched_at=clock)
    assert ws.verdict("k") == "fresh"
    assert ws("action.record", writes=[longest])["affects"]["keys"] == ["k"]
    for text in (longest + "x", "object:"):
        assert refusal(ws, "entry.put", key="j", deps=[text], fetched_at=clock).code in {"limit", "dep.malformed"}
        assert refusal(ws, "action.record", writes=[text]).code in {"limit", "dep.malformed"}


def test_a_value_of_8_mib_is_kept_and_a_larger_one_is_too_big(ws: Workspace) -> None:
    value = "v" * (8 * MIB - 2)  # with its quotes 8 MiB of JSON
    ws("entry.put", key="k", value=value, deps=[])
    before = ws.clock()
    assert refusal(ws, "entry.put", key="k", value=value + "123", deps=[]).code == "entry.too_big"
    assert refusal(ws, "entry.put", key="j", value=[value, 1], deps=[]).code == "entry.too_big"
    assert ws("entry.get", key="k")["value"] == value
    assert ws.found("j") == ("unknown", "no-entry")
    assert ws.rpc("log.since", clock=before)["records"] == []


def test_an_entry_has_at_most_100000_dependencies(ws: Workspace) -> None:
    clock = ws.clock()
    most = [ws.object(str(number)) for number in range(100_000)]
    ws("entry.put", key="k", value=1, deps=most, fetched_at=clock)
    assert ws.verdict("k") == "fresh"
    assert refusal(ws, "entry.put", key="k", value=2, deps=[*most, "object:more"], fetched_at=clock).code == "limit"
    assert refusal(ws, "deps.check", deps=[*most, "object:more"], fetched_at=clock).code == "limit"
    assert ws("entry.get", key="k")["value"] == 1
    ws("action.record", writes=[most[77_777]])
    assert [item["dep"] for item in ws.check("k")["evidence"]] == [most[77_777]]


def test_an_entry_may_rest_on_100000_files(ws: Workspace) -> None:
    deps = [{"dep": f"file:no/{number}", "digest": "absent"} for number in range(100_000)]
    ws("entry.put", key="k", value=1, deps=deps)
    assert ws.verdict("k") == "fresh"
    ws.write("no/99999", "now it is there")
    answer = ws.check("k")
    assert (answer["verdict"], answer["why"]) == ("dirty", "created")
    assert [item["dep"] for item in answer["evidence"]] == ["file:no/99999"]


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_cycle_of_entries_is_refused_and_nothing_is_half_done(ws: Workspace, length: int) -> None:
    ws("entry.put", key="e0", value="first", deps=[])
    for number in range(1, length):
        ws("entry.put", key=f"e{number}", value=1, deps=[f"entry:e{number - 1}"], fetched_at=ws.clock())
    before = ws.clock()
    error = refusal(ws, "entry.put", key="e0", value="second", deps=[f"entry:e{length - 1}"], fetched_at=before)
    assert error.code == "dep.cycle"
    assert ws.rpc("log.since", clock=before)["records"] == []
    assert ws("entry.get", key="e0")["value"] == "first"
    assert all(ws.verdict(f"e{number}") == "fresh" for number in range(length))
