"""Bad lines, parameters and clocks: each has its clear error (code, message, hint), and none crashes the daemon."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from asking import METHOD, PARAMS, PARSE, REQUEST, answer_to, complete, refusal, request
from support import Daemon, Json, RpcError, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable


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
    since = ws.rpc("log.since", clock=before)["records"]
    told: list[str] = []  # whoever meant to write an object may do so all the same
    if method in {"action.begin", "action.record"}:
        told = ["gap"] * ("writes" not in params) + ["action"] * isinstance(params.get("writes"), str)
    assert [record["type"] for record in since] == told


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
