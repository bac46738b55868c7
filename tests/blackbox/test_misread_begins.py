"""A begin that is refused before it is a request: who sent it may go on, so nothing that it may write stays fresh."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest
from asking import METHOD, PARAMS, PARSE, REQUEST, answer_to, put_object
from support import MIB, records_since

if TYPE_CHECKING:
    from support import Workspace

GAP = ("unknown", "gap")
FRESH = ("fresh", "declared")
BEGIN = '{"jsonrpc":"2.0","id":1,"method":"action.begin","params":'
DEEP = "[" * 5000 + "]" * 5000


def two_objects(ws: Workspace) -> None:
    clock = ws.clock()
    for name in ("x", "other"):
        put_object(ws, name, clock, name)
        assert ws.found(name) == FRESH


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (BEGIN + '{"writes":[WRITE]},"zz":1}', REQUEST),
        ('{"id":1,"method":"action.begin","params":{"writes":[WRITE]}}', REQUEST),
        ('{"jsonrpc":"2.0","id":true,"method":"action.record","params":{"writes":[WRITE]}}', REQUEST),
        (BEGIN + '{"writes":[WRITE,"file:bad\\udc80"]}}', PARSE),
        (BEGIN + '{"writes":[WRITE],"turn":NaN}}', PARSE),
        (BEGIN + '{"writes":[WRITE],"note":"\xe9"}}', PARSE),
        ("[" + BEGIN + '{"writes":[WRITE]}}]', REQUEST),
    ],
)
def test_what_a_line_declares_that_is_no_request_is_unknown_and_nothing_else(
    ws: Workspace, line: str, error: int
) -> None:
    two_objects(ws)
    before = ws.clock()
    reply = answer_to(ws.rpc, line.replace("WRITE", json.dumps(ws.object("x"))).encode("latin-1"))
    assert reply["error"]["code"] == error
    assert ws.found("x") == GAP
    assert ws.found("other") == FRESH
    (record,) = records_since(ws.rpc, before)
    assert (record["type"], record["event"], record["writes"]) == ("action", "refused", [ws.object("x")])
    assert record["note"].startswith("a line that may declare writes was refused: not ")
    put_object(ws, "x", ws.clock())  # it was recorded before the line was answered
    assert ws.found("x") == FRESH


def request(method: str, params: str, more: str = "") -> str:
    return f'{{"jsonrpc":"2.0","id":1,{more}"method":"{method}","params":{params}}}'


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (BEGIN + '{"writes":[WRITE],"writes":[]}}', PARAMS),
        (BEGIN + '{"wr\\u0069tes":[WRITE],"writes":["file:f"]}}', PARAMS),
        (BEGIN + '{"writes":[{"dep":WRITE,"dep":"file:f"}]}}', PARAMS),
        (BEGIN + '{"writes":[],"session":"s","session":WRITE}}', PARAMS),
        (BEGIN + '{"writes":[WRITE]},"params":{"writes":[]}}', REQUEST),
        ('{"jsonrpc":"2.0","method":"log.clock","params":{"writes":[WRITE]},"params":{},"id":1}', REQUEST),
        (request("entry.check", '{"writes":[WRITE]}', '"method":"action.begin",'), REQUEST),
        (request("Action.begin", '{"writes":[WRITE]}'), METHOD),
        (request("action.start", '{"root":"/","writes":[WRITE,"file:f"],"writes":[]}'), METHOD),
        (request("action.end", '{"writes":[WRITE]}'), PARAMS),
        (request("entry.check", '{"key":"x","writes":[WRITE]}'), PARAMS),
        (request("Action.begin", '{"writes":[WRITE]}', '"zz":1,'), REQUEST),
    ],
)
def test_what_a_request_says_is_written_is_unknown_where_a_member_comes_twice_or_its_method_is_another(
    ws: Workspace, line: str, error: int
) -> None:
    two_objects(ws)
    before = ws.clock()
    reply = answer_to(ws.rpc, line.replace("WRITE", json.dumps(ws.object("x"))).encode())
    assert (reply["id"], reply["error"]["code"]) == (1, error)
    assert reply["error"]["data"]["hint"]
    assert ws.found("x") == GAP
    assert ws.found("other") == FRESH
    (record,) = records_since(ws.rpc, before)
    assert (record["type"], record["event"], record["writes"]) == ("action", "refused", [ws.object("x")])


@pytest.mark.parametrize(
    "params", ['{"writes":["file:f"]}', '{"key":"object:x","value":"writes"}', '["object:x","writes"]', "{}"]
)
def test_another_method_that_names_no_writes_of_objects_makes_no_gap(ws: Workspace, params: str) -> None:
    two_objects(ws)
    before = ws.clock()
    assert answer_to(ws.rpc, request("no.such", params).encode())["error"]["code"] == METHOD
    assert records_since(ws.rpc, before) == []


def test_a_put_of_which_one_of_two_lists_would_be_dropped_is_refused(ws: Workspace) -> None:
    for deps in ('["file:a"],"deps":[]', '[{"dep":"file:a","dep":"file:b"}]'):
        reply = answer_to(ws.rpc, request("entry.put", f'{{"key":"k","as_of":"put","deps":{deps}}}').encode())
        assert reply["error"]["code"] == PARAMS
        assert "comes twice" in reply["error"]["message"]
    value = '{"key":"k","scope":"s","deps":[],"value":{"a":1,"a":2},"meta":{"b":1,"b":[]}}'
    assert answer_to(ws.rpc, request("entry.put", value).encode())["result"]["verdict"]["verdict"] == "fresh"


def test_the_second_of_two_keys_is_asked_about_and_named(ws: Workspace) -> None:
    """The fast way does not look for it."""
    two_objects(ws)
    asked = '{"key":"no such","key":"x"}'
    assert [answer_to(ws.rpc, request("entry.check", asked).encode())["result"]["key"] for _ in range(3)] == ["x"] * 3


@pytest.mark.parametrize(
    "line",
    [
        BEGIN + '{"writes":["object:x"],}}',
        BEGIN + '{"writes":["object:x"',
        BEGIN + '{"writes":["object:x"],"more":' + DEEP + "}}",
        BEGIN + '{"objects":["x"]}}',
    ],
    ids=["comma", "cut", "deep", "no writes"],
)
def test_of_a_line_that_tells_nothing_every_object_is_unknown(ws: Workspace, line: str) -> None:
    two_objects(ws)
    assert "error" in answer_to(ws.rpc, line.encode())
    assert ws.found("x") == ws.found("other") == GAP


def test_so_it_is_after_a_line_that_is_too_long(ws: Workspace) -> None:
    two_objects(ws)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(ws.daemon.socket)
        client.sendall(f'{BEGIN}{{"writes":["object:x"],"note":"'.encode() + b"n" * (17 * MIB))
        with client.makefile("rb") as answers:
            assert json.loads(answers.readline())["error"]["data"]["code"] == "limit"
            assert answers.read() == b""
    assert ws.found("x") == GAP


def test_and_after_one_that_ends_with_its_connection(ws: Workspace) -> None:
    two_objects(ws)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(ws.daemon.socket)
        client.sendall(f'{BEGIN}{{"writes":["object:x"'.encode())
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as answers:
            assert json.loads(answers.readline())["error"]["code"] == PARSE
            assert answers.read() == b""
    assert ws.found("x") == GAP


@pytest.mark.parametrize(
    "line",
    [
        b"any words",
        b'{"jsonrpc":"2.0","id":1,"method":"log.clock","zz":1}',
        b'{"jsonrpc":"2.0","id":1,"method":"entry.put","params":{"value":"object:x action.begin"},"zz":1}',
        b"\xff" * 100,
        b"[" * 10_000,
    ],
)
def test_no_other_bad_line_makes_a_gap(ws: Workspace, line: bytes) -> None:
    two_objects(ws)
    before = ws.clock()
    assert "error" in answer_to(ws.rpc, line)
    assert records_since(ws.rpc, before) == []
    assert ws.found("x") == ws.found("other") == FRESH
