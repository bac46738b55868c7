"""Bad input: each has its clear error (code, message, hint), none crashes the daemon, none costs data."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import resource
import select
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from typing import TYPE_CHECKING

import lmdb
import pytest
from support import HANG, MIB, Daemon, Json, Rpc, RpcError, StartError, Workspace, clean_environment, tree_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARSE, REQUEST, METHOD, PARAMS, OURS = -32700, -32600, -32601, -32602, -32000
LINE = 16 * MIB

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as another user")


def refusal(rpc: Rpc | Workspace, method: str, **params: Json) -> RpcError:
    """The error of a request that must be refused, complete with message and hint."""
    with pytest.raises(RpcError) as caught:
        rpc(method, **params)
    return complete(caught.value)


def complete(error: RpcError) -> RpcError:
    assert error.message, error.error
    assert error.hint, error.error
    assert error.number in {PARSE, REQUEST, METHOD, PARAMS, OURS}, error.error
    return error


def answer_to(rpc: Rpc, line: bytes) -> Json:
    """The next line after a line of bytes, on a connection where nothing else is awaited."""
    rpc.send_raw(line + b"\n")
    return rpc.line()


def request(method: str, params: Json = None, number: Json = 1) -> bytes:
    body: dict[str, Json] = {"jsonrpc": "2.0", "id": number, "method": method}
    return json.dumps(body if params is None else {**body, "params": params}).encode()


# ---- lines


@pytest.mark.parametrize(
    "line",
    [
        b"this is no json",
        b"{",
        b'{"jsonrpc":"2.0","id":1,"method":"log.clock"',
        b'{"jsonrpc":"2.0","id":1,"method":"log.clock"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}',
        b'{"jsonrpc":"2.0","id":1,"method":"log.clock","params":{"x":NaN}}',
        b"\x00",
        b"[1,",
        b"[" * 50_000,
    ],
    ids=["words", "brace", "unclosed", "extra", "latin", "nan", "nul", "comma", "deep"],
)
def test_a_line_that_is_no_json_gets_a_parse_error_and_the_connection_goes_on(ws: Workspace, line: bytes) -> None:
    reply = answer_to(ws.rpc, line)
    assert reply["id"] is None
    assert complete(RpcError(reply["error"])).number == PARSE
    assert ws.clock()


@pytest.mark.parametrize(
    "line",
    [
        b"1",
        b'"log.clock"',
        b"null",
        b"{}",
        b"[]",
        b"[" + request("log.clock") + b"]",
        b'{"id":1,"method":"log.clock"}',
        b'{"jsonrpc":"1.0","id":1,"method":"log.clock"}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"method":7}',
        b'{"jsonrpc":"2.0","id":{},"method":"log.clock"}',
        b'{"jsonrpc":"2.0","id":[1],"method":"log.clock"}',
        b'{"jsonrpc":"2.0","id":true,"method":"log.clock"}',
        b'{"jsonrpc":"2.0","id":1,"method":"log.clock","surprise":1}',
    ],
    ids=lambda line: line[:48].decode(),
)
def test_json_that_is_no_request_gets_an_error_and_the_connection_goes_on(ws: Workspace, line: bytes) -> None:
    reply = answer_to(ws.rpc, line)
    assert complete(RpcError(reply["error"])).number == REQUEST
    assert ws.clock()


@pytest.mark.parametrize("params", [[1], "x", 7, True])
def test_params_that_are_no_object_are_refused(ws: Workspace, params: Json) -> None:
    reply = answer_to(ws.rpc, request("log.clock", params))
    assert complete(RpcError(reply["error"])).number in {REQUEST, PARAMS}
    assert ws.clock()


@pytest.mark.parametrize("number", ["a", 0, -1, 2**53, "", "é" * 100])
def test_the_id_comes_back_as_it_was_sent(ws: Workspace, number: Json) -> None:
    assert answer_to(ws.rpc, request("log.clock", None, number))["id"] == number
    refused = answer_to(ws.rpc, request("no.such", None, number))
    assert refused["id"] == number
    assert refused["error"]["code"] == METHOD


def test_a_request_without_an_id_gets_no_answer(ws: Workspace) -> None:
    for method in ("log.clock", "no.such"):
        ws.rpc.send_raw(json.dumps({"jsonrpc": "2.0", "method": method}).encode() + b"\n")
    assert answer_to(ws.rpc, request("log.clock", None, "next"))["id"] == "next"


@pytest.mark.parametrize("method", ["no.such", "", "entry", "entry.put ", "ENTRY.PUT", "rpc.discover", "__init__"])
def test_an_unknown_method_is_named_as_such(ws: Workspace, method: str) -> None:
    reply = answer_to(ws.rpc, request(method))
    assert reply["id"] == 1
    assert complete(RpcError(reply["error"])).number == METHOD
    assert ws.clock()


GOOD: dict[str, dict[str, Json]] = {
    "daemon.hello": {"protocol": 1},
    "daemon.status": {},
    "daemon.audit": {},
    "root.list": {},
    "log.clock": {},
    "log.since": {"clock": "CLOCK"},
    "log.subscribe": {},
    "log.unsubscribe": {},
    "deps.snapshot": {"deps": []},
    "deps.check": {"deps": []},
    "entry.put": {"key": "k", "deps": []},
    "entry.check": {"key": "k"},
    "entry.get": {"key": "k"},
    "entry.revalidate": {"key": "k"},
    "entry.list": {},
    "entry.forget": {"key": "k"},
    "action.begin": {"writes": []},
    "action.record": {"writes": []},
    "action.end": {"id": 1, "outcome": "done"},
    "action.list": {},
    "root.add": {"path": "/"},
    "root.remove": {"path": "/"},
    "daemon.shutdown": {},
}


@pytest.mark.parametrize("method", GOOD)
def test_a_field_that_no_method_knows_is_refused_and_nothing_is_done(ws: Workspace, method: str) -> None:
    before = ws.clock()
    params = {name: before if value == "CLOCK" else value for name, value in GOOD[method].items()}
    assert refusal(ws.rpc, method, **params, surprise=1).number == PARAMS
    assert ws.rpc("log.since", clock=before)["records"] == []


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("daemon.hello", {"protocol": "1"}),
        ("daemon.hello", {}),
        ("daemon.hello", {"protocol": 1, "client": 7}),
        ("root.add", {}),
        ("root.add", {"path": 7}),
        ("root.add", {"path": "/", "ignore": "x"}),
        ("root.add", {"path": "/", "wait": "yes"}),
        ("log.since", {}),
        ("log.since", {"clock": 7}),
        ("log.since", {"clock": "CLOCK", "limit": "10"}),
        ("log.since", {"clock": "CLOCK", "limit": -1}),
        ("log.since", {"clock": "CLOCK", "limit": 1.5}),
        ("log.since", {"clock": "CLOCK", "paths": "f"}),
        ("log.subscribe", {"entries": 1}),
        ("deps.snapshot", {}),
        ("deps.snapshot", {"deps": "file:f"}),
        ("deps.check", {"deps": [7]}),
        ("deps.check", {"deps": [{"dep": "file:f", "surprise": 1}]}),
        ("entry.put", {}),
        ("entry.put", {"key": 7, "deps": []}),
        ("entry.put", {"key": None, "deps": []}),
        ("entry.put", {"key": "k", "deps": {}}),
        ("entry.put", {"key": "k", "deps": [["file:f"]]}),
        ("entry.put", {"key": "k", "deps": [], "as_of": "now"}),
        ("entry.put", {"key": "k", "deps": [], "based_on": "1"}),
        ("entry.put", {"key": "k", "deps": [], "based_on": -1}),
        ("entry.put", {"key": "k", "deps": [], "op": 7}),
        ("entry.put", {"key": "k", "deps": [], "fetched_at": 7}),
        ("entry.put", {"key": "k", "deps": [], "root": 7}),
        ("entry.put", {"key": "k", "deps": [], "scope": 7}),
        ("entry.check", {}),
        ("entry.check", {"key": ["k"]}),
        ("entry.check", {"keys": "k"}),
        ("entry.check", {"key": "k", "keys": ["k"]}),
        ("entry.check", {"key": "k", "verify": "hope"}),
        ("entry.check", {"key": "k", "revalidate": "no"}),
        ("entry.check", {"key": "k", "timeout_ms": "1"}),
        ("entry.check", {"key": "k", "timeout_ms": -1}),
        ("entry.get", {"key": "k", "even_if": "dirty"}),
        ("entry.get", {"key": "k", "even_if": ["dirtyish"]}),
        ("entry.list", {"verdict": "stale"}),
        ("entry.list", {"standing": "sitting"}),
        ("entry.list", {"limit": "all"}),
        ("action.begin", {}),
        ("action.begin", {"writes": "object:x"}),
        ("action.begin", {"writes": [], "hold": 1}),
        ("action.begin", {"writes": [], "if_usable": "k"}),
        ("action.end", {"id": "x", "outcome": "done"}),
        ("action.end", {"id": 1}),
        ("action.end", {"id": 1, "outcome": "perhaps"}),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else str(value),
)
def test_a_parameter_of_the_wrong_type_is_refused(ws: Workspace, method: str, params: dict[str, Json]) -> None:
    filled = {name: ws.clock() if value == "CLOCK" else value for name, value in ws.fill(method, params).items()}
    before = ws.clock()
    assert refusal(ws.rpc, method, **filled).number == PARAMS
    assert ws.rpc("log.since", clock=before)["records"] == []


@pytest.mark.parametrize("text", ["svc:api/replicas", "globs:src/*.py", "File:f", "http://example.com", "x:", "a.b:c"])
def test_a_word_that_is_no_kind_is_refused_with_the_way_out(ws: Workspace, text: str) -> None:
    error = refusal(ws, "entry.put", key="k", deps=[text], as_of="put")
    assert error.code == "dep.malformed"
    assert "file:" in error.hint
    assert ws.found("k") == ("unknown", "no-entry")


def test_a_region_is_reserved(ws: Workspace) -> None:
    assert refusal(ws, "entry.put", key="k", deps=["region:f#imports"], as_of="put").code == "dep.unsupported"


@pytest.mark.parametrize(
    "digest",
    [
        "",
        "md5:d41d8cd98f00b204e9800998ecf8427e",
        "sha256:12",
        "sha256:" + "G" * 64,
        "sha256:" + "A" * 64,
        "xxh3:" + "0" * 31,
        "type:file",
        "missing",
        "version:1",
    ],
)
def test_a_digest_that_is_none_is_refused(ws: Workspace, digest: str) -> None:
    error = refusal(ws, "entry.put", key="k", deps=[{"dep": "file:f", "digest": digest}])
    assert error.code == "dep.malformed"
    assert ws.found("k") == ("unknown", "no-entry")


@pytest.mark.parametrize("pattern", ["glob:[", "glob:a[b", "names:[!", "glob:"])
def test_a_pattern_or_a_name_that_cannot_be_is_refused_or_answered(ws: Workspace, pattern: str) -> None:
    with contextlib.suppress(RpcError):
        ws("entry.put", key="k", value=1, deps=[pattern], as_of="put")
    assert ws.clock()


# ---- clocks


@pytest.mark.parametrize(
    "token", ["", "x", "c:1:2:3", "17", "c:" + "0" * 16 + ":" + "0" * 16 + ":-1", "é" * 5000, "a\0b"]
)
def test_a_token_that_nobody_handed_out_is_malformed(ws: Workspace, token: str) -> None:
    assert refusal(ws, "entry.put", key="k", deps=[], fetched_at=token).code == "clock.malformed"
    assert refusal(ws, "deps.check", deps=[], fetched_at=token).code == "clock.malformed"
    assert refusal(ws.rpc, "log.since", clock=token).code == "clock.malformed"
    assert refusal(ws.rpc, "log.subscribe", clock=token).code == "clock.malformed"
    assert ws.found("k") == ("unknown", "no-entry")


def test_a_position_ahead_of_this_run_is_malformed(ws: Workspace) -> None:
    head, _, position = ws.clock().rpartition(":")
    ahead = f"{head}:{int(position) + 1000}"
    put = refusal(ws, "entry.put", key="k", deps=[ws.object("x")], fetched_at=ahead)
    assert put.code == "clock.malformed"
    assert refusal(ws.rpc, "log.since", clock=ahead).code == "clock.malformed"
    assert ws.found("k") == ("unknown", "no-entry")


def test_a_token_of_another_log_lies_before_the_gap_of_this_run(
    own: Workspace, make_daemon: Callable[..., Daemon]
) -> None:
    foreign = make_daemon().start().rpc("log.clock")["clock"]
    own("entry.put", key="k", value=1, deps=["object:x"], fetched_at=foreign)
    assert own.found("k") == ("unknown", "gap")
    answer = own.rpc("log.since", clock=foreign)
    assert answer["complete"] is False
    assert answer["records"], "what this run wrote is after every foreign clock"


def test_a_token_of_a_run_that_was_lost_lies_before_the_gap_of_this_run(own: Workspace) -> None:
    daemon = own.daemon
    daemon.stop()
    kept = os.path.join(daemon.home, "kept")
    shutil.copytree(daemon.state, kept)
    daemon.start()
    lost = own.clock()
    daemon.stop()
    shutil.rmtree(daemon.state)
    shutil.move(kept, daemon.state)
    daemon.start()
    for _ in range(4):  # positions of this run pass the lost one
        own("action.record", writes=["object:other"])
    own("entry.put", key="k", value=1, deps=["object:x"], fetched_at=lost)
    assert own.found("k") == ("unknown", "gap")
    assert own.rpc("log.since", clock=lost)["complete"] is False


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


# ---- lines that are too long, readers that do not read


def test_a_line_of_16_mib_is_read(ws: Workspace) -> None:
    body = request("log.clock")
    reply = answer_to(ws.rpc, body + b" " * (LINE - 1 - len(body)))
    assert reply["result"]["clock"]


@pytest.mark.parametrize("ended", [True, False], ids=["with newline", "without"])
def test_a_line_over_16_mib_gets_an_error_and_ends_the_connection(ws: Workspace, ended: bool) -> None:
    rpc = ws.daemon.connect()

    def send() -> None:
        with contextlib.suppress(OSError):
            rpc.send_raw(b"x" * (LINE + 1) + b"\n" * ended)

    sender = threading.Thread(target=send)
    sender.start()
    error = complete(RpcError(rpc.line()["error"]))
    assert error.number in {PARSE, REQUEST, OURS}
    assert rpc.at_end()
    sender.join()
    assert ws.clock()


def hung_up(sock: socket.socket) -> bool:
    """Waits, without reading, until the other side closed the connection."""
    poller = select.poll()
    poller.register(sock, 0)
    return any(event & select.POLLHUP for _, event in poller.poll(HANG * 1000))


def test_a_client_that_never_reads_is_cut_off_while_others_are_served(ws: Workspace) -> None:
    ws("entry.put", key="big", value="v" * (8 * MIB - 2), deps=[])
    silent = ws.daemon.connect()
    for _ in range(12):  # 96 MiB of answers
        silent.send("entry.get", **ws.fill("entry.get", {"key": "big"}))
    for _ in range(20):
        assert ws.clock()
    assert hung_up(silent.sock)
    assert ws.clock()
    assert ws("entry.get", key="big")["usable"]


def test_a_client_that_reads_late_gets_all_below_64_mib(ws: Workspace) -> None:
    ws("entry.put", key="big", value="v" * (8 * MIB - 2), deps=[])
    late = ws.daemon.connect()
    numbers = [late.send("entry.get", **ws.fill("entry.get", {"key": "big"})) for _ in range(7)]
    for _ in range(20):
        assert ws.clock()
    for number in numbers:
        assert len(late.result(number)["value"]) == 8 * MIB - 2


def test_a_subscriber_that_does_not_read_holds_up_nobody(ws: Workspace) -> None:
    """It is cut off, or the stream waits for it: then nothing of it is lost."""
    silent = ws.daemon.connect()
    before = ws.clock()
    silent("log.subscribe")
    long = ["object:" + f"{ws.tag}{number}-".ljust(1024, "x") for number in range(1000)]
    writer = ws.daemon.connect()
    numbers = [writer("action.record", writes=long)["seq"] for _ in range(100)]  # of about 1 MiB each
    assert ws.clock() != before
    with contextlib.suppress(ConnectionError):
        for number in numbers:
            note = silent.note()["params"]
            assert note.get("record", note)["seq"] == number


def test_clients_that_vanish_leave_the_daemon_as_it_was(ws: Workspace) -> None:
    ws("entry.put", key="big", value="v" * (8 * MIB - 2), deps=[])
    whole = request("entry.get", {"key": "big", "root": ws.root}) + b"\n"
    put = request("entry.put", {"key": "put", "value": 1, "deps": [], "root": ws.root}) + b"\n"
    for number in range(20):
        rpc = ws.daemon.connect()
        rpc.send_raw(whole)
        if number % 2:
            rpc.sock.recv(1000)  # in the middle of the answer
        rpc.close()
        for part in (put, whole[: len(whole) // 2], b"", request("log.subscribe") + b"\n", put * 50):
            rpc = ws.daemon.connect()
            rpc.send_raw(part)
            rpc.close()
        assert ws.clock()
    assert ws("entry.get", key="big")["usable"]
    assert ws.daemon.alive
    assert "Traceback" not in ws.daemon.said()


def test_the_1025th_connection_is_told_so(daemon: Daemon) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4096:
        pytest.skip(f"this process may open {hard} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, hard))
    try:
        many = [daemon.connect() for _ in range(1024)]
        for rpc in many:
            assert rpc("log.clock")["clock"]
        refused = daemon.connect()
        with contextlib.suppress(OSError):
            refused.send("log.clock")
        assert complete(RpcError(refused.line()["error"])).code == "limit"
        assert refused.at_end()
        for rpc in many:
            assert rpc("log.clock")["clock"]
    finally:
        daemon.disconnect()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ---- starting: exit 5, message and hint on stderr, nothing deleted


def startup_refused(daemon: Daemon, *words: str, **env: str) -> StartError:
    """A start that must be refused: exit 5, a message that names `words`, no traceback."""
    error = daemon.refused(**env)
    assert error.code == 5, error.stderr
    for word in words:
        assert word.lower() in error.stderr.lower(), error.stderr
    assert "Traceback" not in error.stderr
    assert len(error.stderr.strip().splitlines()) >= 1
    return error


def test_a_socket_path_over_107_bytes_is_refused(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    daemon.socket = os.path.join(daemon.home, "s" * (107 - len(daemon.home) - 1))
    assert len(daemon.socket) == 107
    daemon.start()
    daemon.stop()
    daemon.socket += "s"
    startup_refused(daemon, "107")
    assert not os.path.lexists(daemon.socket)


@pytest.mark.parametrize("kind", ["file", "empty", "directory", "fifo", "link"])
def test_what_stands_at_the_socket_path_and_is_no_socket_is_left_alone(
    make_daemon: Callable[..., Daemon], kind: str
) -> None:
    daemon = make_daemon()
    kept = os.path.join(daemon.home, "kept")
    with open(kept, "w") as file:
        file.write("kept")
    match kind:
        case "file":
            shutil.copy(kept, daemon.socket)
        case "empty":
            open(daemon.socket, "w").close()
        case "directory":
            os.mkdir(daemon.socket)
        case "fifo":
            os.mkfifo(daemon.socket)
        case _:
            os.symlink(kept, daemon.socket)
    before = os.lstat(daemon.socket)
    startup_refused(daemon, daemon.socket)
    after = os.lstat(daemon.socket)
    assert (after.st_ino, after.st_mode, after.st_size) == (before.st_ino, before.st_mode, before.st_size)
    with open(kept) as file:
        assert file.read() == "kept"


def test_the_socket_of_another_daemon_is_left_alone(daemon: Daemon, make_daemon: Callable[..., Daemon]) -> None:
    before = os.lstat(daemon.socket).st_ino
    startup_refused(make_daemon(socket_path=daemon.socket), daemon.socket)
    assert os.lstat(daemon.socket).st_ino == before
    assert daemon.rpc("log.clock")["clock"]
    assert daemon.connect()("daemon.hello", protocol=1)["pid"] == daemon.process.pid if daemon.process else False


def test_the_socket_of_a_stranger_that_listens_is_left_alone(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(daemon.socket)
        stranger.listen()
        startup_refused(daemon, daemon.socket)
        with contextlib.closing(Rpc(daemon.socket)):
            stranger.accept()[0].close()


def test_a_stale_socket_is_replaced(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(daemon.socket)
    daemon.start()
    daemon.kill9()
    assert stat.S_ISSOCK(os.lstat(daemon.socket).st_mode)
    daemon.start()
    assert daemon.rpc("log.clock")["clock"]
    daemon.stop()
    assert not os.path.lexists(daemon.socket)


def test_a_second_daemon_on_the_same_state_is_refused(daemon: Daemon, make_daemon: Callable[..., Daemon]) -> None:
    daemon.rpc("entry.put", key="k", value=1, deps=[])
    second = make_daemon(state=daemon.state)
    startup_refused(second, daemon.state)
    assert not os.path.lexists(second.socket)
    assert daemon.rpc("entry.get", key="k")["value"] == 1
    daemon.restart()
    assert daemon.rpc("entry.get", key="k")["value"] == 1


@root_only
def test_a_state_directory_of_another_user_is_refused(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    os.mkdir(daemon.state, 0o700)
    with open(os.path.join(daemon.state, "theirs"), "w") as file:
        file.write("kept")
    os.chown(daemon.state, 65534, 65534)
    before = tree_state(daemon.state)
    startup_refused(daemon, daemon.state)
    assert tree_state(daemon.state) == before


def test_a_state_directory_that_is_a_file_is_refused(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    with open(daemon.state, "w") as file:
        file.write("kept")
    startup_refused(daemon, daemon.state)
    with open(daemon.state) as file:
        assert file.read() == "kept"


def test_a_store_of_a_newer_version_is_refused_and_left_alone(own: Workspace) -> None:
    daemon = own.daemon
    own("entry.put", key="k", value=1, deps=[])
    daemon.stop()
    written = change_format(daemon, lambda format_: format_ + 1)
    before = tree_state(daemon.state)
    startup_refused(daemon, "newer", str(written + 1))
    after = tree_state(daemon.state)
    assert {name for name in before if before[name] != after.get(name)} <= {
        os.path.join(daemon.state, lock) for lock in ("lock", "store/lock.mdb")
    }
    change_format(daemon, lambda _: written)
    daemon.start()
    assert own("entry.get", key="k")["value"] == 1


def change_format(daemon: Daemon, change: Callable[[int], int]) -> int:
    """Writes another format number into a store at rest and gives the one that was there."""
    with lmdb.open(os.path.join(daemon.state, "store"), max_dbs=64, map_size=1 << 40) as store:
        meta = store.open_db(b"meta", create=False)
        with store.begin(write=True) as transaction:
            was = int(transaction.get(b"format", b"", db=meta))
            transaction.put(b"format", str(change(was)).encode(), db=meta)
    return was


def test_state_and_socket_are_for_their_owner_alone(daemon: Daemon) -> None:
    daemon.rpc("entry.put", key="k", value=1, deps=[])
    assert stat.S_IMODE(os.lstat(daemon.state).st_mode) == 0o700
    assert stat.S_IMODE(os.lstat(daemon.socket).st_mode) == 0o600
    for directory, directories, files in os.walk(daemon.state):
        for name in directories:
            assert stat.S_IMODE(os.lstat(os.path.join(directory, name)).st_mode) == 0o700, name
        for name in files:
            assert stat.S_IMODE(os.lstat(os.path.join(directory, name)).st_mode) == 0o600, name


STRANGER = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as s:
    s.settimeout(60)
    s.connect(sys.argv[1])
    try:
        s.sendall(b'{"jsonrpc":"2.0","id":1,"method":"log.clock"}\\n')
        print(s.recv(65536).decode(), end="")
    except (BrokenPipeError, ConnectionResetError):
        pass
"""


@root_only
def test_another_user_is_not_served_even_where_the_modes_let_him_connect(daemon: Daemon) -> None:
    os.chmod(daemon.home, 0o755)
    os.chmod(daemon.socket, 0o666)
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, daemon.socket],
        env=clean_environment(daemon.home),
        capture_output=True,
        text=True,
        timeout=HANG,
        check=True,
    )
    assert '"result"' not in done.stdout
    assert daemon.rpc("log.clock")["clock"]


# ---- a full disk


@pytest.fixture
def small_disk() -> Iterator[str]:
    """A file system of 32 MiB of its own, where this process may mount one."""
    place = tempfile.mkdtemp(prefix="provd-", dir="/tmp")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32m,mode=700", "provd-test", place], capture_output=True, check=False
    )
    if mounted.returncode:
        os.rmdir(place)
        pytest.skip(f"no mount here: {mounted.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        os.rmdir(place)


def fill(directory: str) -> str:
    """Takes all that is left on a file system; gives the file that holds it."""
    filler = os.path.join(directory, "filler")
    with open(filler, "ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    return filler


def test_on_a_full_disk_changes_are_refused_and_questions_go_on(
    make_daemon: Callable[..., Daemon], small_disk: str
) -> None:
    daemon = make_daemon(state=os.path.join(small_disk, "state")).start()
    ws = daemon.workspace()
    ws.write("f", "one")
    ws.put("kept", "file:f")
    filler = fill(small_disk)
    acknowledged: dict[str, int] = {}
    for number in range(200):
        try:
            acknowledged[f"k{number}"] = ws("entry.put", key=f"k{number}", value="v" * 256 * 1024, deps=[])["version"]
        except RpcError as error:
            assert complete(error).code == "store.full"  # noqa: PT017 - the first puts may still fit
            break
    else:
        pytest.fail("50 MiB went onto a full disk of 32 MiB")
    refused = refusal(ws, "entry.put", key="more", value="v" * MIB, deps=[])
    assert refused.code == "store.full"
    assert ws.verdict("kept") == "fresh"
    ws.write("f", "two")
    assert ws.verdict("kept") == "dirty"
    assert all(ws("entry.get", key=key)["version"] == version for key, version in acknowledged.items())
    assert ws.rpc("daemon.status")["pid"]
    os.unlink(filler)
    acknowledged["after"] = ws("entry.put", key="after", value=1, deps=[])["version"]
    daemon.kill9()
    daemon.start()
    assert all(ws("entry.get", key=key)["version"] == version for key, version in acknowledged.items())
    assert ws.found("more") == ("unknown", "no-entry")


def test_a_daemon_started_on_a_full_disk_says_so_and_costs_nothing(
    make_daemon: Callable[..., Daemon], small_disk: str
) -> None:
    daemon = make_daemon(state=os.path.join(small_disk, "state"))
    filler = fill(small_disk)
    startup_refused(daemon, "space", daemon.state)
    os.unlink(filler)
    daemon.start()
    ws = daemon.workspace()
    version = ws("entry.put", key="k", value=1, deps=[])["version"]
    daemon.stop()
    filler = fill(small_disk)
    with contextlib.suppress(StartError):  # it may come up where it needs no new page
        daemon.start()
        assert ws("entry.get", key="k")["version"] == version
        daemon.stop()
    os.unlink(filler)
    daemon.start()
    assert ws("entry.get", key="k")["version"] == version
