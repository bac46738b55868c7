"""What can be told of a begin that could not be taken: the objects that it may have declared, or that it may be any."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from provd.core import misread, params, wire

B64 = base64.b64encode(b"object:y").decode()
BEGIN = '{"jsonrpc":"2.0","id":1,"method":"action.begin","params":'
DEEP = "[" * 2000 + "]" * 2000


def of_params(text: str | bytes) -> list[bytes] | None:
    found = misread.of_params(text if isinstance(text, bytes) else text.encode())
    return None if found is None else sorted(found)


def of_line(text: str | bytes) -> list[bytes] | None:
    found = misread.of_line(text if isinstance(text, bytes) else text.encode())
    return None if found is None else sorted(found)


@pytest.mark.parametrize(
    ("text", "objects"),
    [
        (f'{{"writes":[{{"dep":"object:x"}},{{"b64":"{B64}"}},{{"dep":"object:z","more":[]}}],"note":1}}', b"xyz"),
        (f'{{"writes":[{{"dep":{{"b64":"{B64}"}},"digest":"?"}}]}}', b"y"),
        ('{"writes":"object:x"}', b"x"),
        ('{"writes":{"dep":"object:x"}}', b"x"),
        ('{"write":["object:x"]}', b"x"),
        ('{"writes":{"object:x":1}}', b"x"),
        ('[["object:x"],"s"]', b"x"),
        ('[{"writes":["object:x"]}]', b"x"),
        ('{"writes":["object:x"],"writes":["object:y"]}', b"xy"),
        (f'{{"writes":[{{"dep":"object:x","dep":"f"}},{{"b64":"{B64}","b64":"Zg=="}}]}}', b"xy"),
        ('{"writes":["object:x"],"turn":NaN,"more":[1e999,' + "9" * 5000 + "]}", b"x"),
        ('{"writes":["object:x","file:bad\\udc80"],"note":"\\ud800"}', b"x"),
        ('{"writes":["object:x","tab\t"]}', b"x"),
        (b'{"writes":["object:x"],"note":"\xe9"}', b"x"),
        ('{"writes":[1,null,[],{},"object:","file:/x",{"dep":7},{"b64":7},"object:\\u0000"]}', b""),
        ('{"writes":["object:' + "n" * 1025 + '"]}', b""),
        ('{"writes":[]}', b""),
    ],
)
def test_what_can_be_read_of_parameters_that_do_not_fit(text: str | bytes, objects: bytes) -> None:
    assert of_params(text) == [bytes([one]) for one in objects]


@pytest.mark.parametrize(
    "text",
    [
        *('{"writes":null}', '{"root":"/r"}', "{}", "[]", "7", "null", "", "{"),
        '{"writes":[{"b64":"b2JqZWN0Ong"}]}',
        '{"writes":["object:bad\\udc80"]}',
        b'{"writes":["object:caf\xe9"]}',
        '{"writes":["object:z",{"dep":{"b64":["b2JqZWN0Ong="]}}]}',
        '{"writes":["object:z",{"dep":{"B64":"b2JqZWN0Ong"}}]}',
        '{"writes":"object:x,object:y"}',
        '{"writes":["object:x"' + " " * misread._MOST + "]}",
    ],
)
def test_what_names_nothing_that_can_be_read_may_be_any_object(text: str | bytes) -> None:
    assert of_params(text) is None


def test_what_lies_too_deep_to_be_read_hides_no_object() -> None:
    """How deep that is differs from one Python to another."""
    assert of_params(f'{{"writes":["object:x",{DEEP}]}}') in (None, [b"x"])
    assert of_line(BEGIN + '{"writes":["object:x"],"meta":' + DEEP + "}}") in (None, [b"x"])


def test_writes_that_were_decoded_are_told_in_the_same_way() -> None:
    writes = [{"dep": {"b64": B64}, "b64": None, "digest": None}, "object:x", "file:f"]
    assert misread.declared({"writes": writes}) == frozenset({b"x", b"y"})


@pytest.mark.parametrize(
    ("line", "objects"),
    [
        (BEGIN + '{"writes":["object:x"]},"zz":1}', b"x"),
        ('{"id":true,"method":"action.record","params":{"writes":["object:x"]}}', b"x"),
        ('{"jsonrpc":"2.0","id":1,"params":{"writes":["object:x"]}}', b"x"),
        ("[" + BEGIN + '{"writes":["object:x"]}},' + BEGIN + '{"writes":["object:y"]}}]', b"xy"),
        (BEGIN + '{"writes":["object:x"]}} \t' + BEGIN + '{"writes":["object:y"]}} \n', b"xy"),
        (BEGIN + '{"writes":["object:x"]}}}', b"x"),
        ('{"method":"entry.put","params":{"key":"\\"writes\\" object:x action.begin","more":"object:x"},"zz":1}', b""),
        (BEGIN + '{"writes":["object:x"]},"params":{"writes":["object:y"]}}', b"xy"),
        (BEGIN + '{"writes":["object:x"]},"method":"log.clock","params":{}}', b"x"),
        ('{"method":"Action.begin","params":{"writes":["object:x"],"note":"object:y"},"zz":1}', b"xy"),
        ('{"method":"entry.put","method":"log.clock","params":{"deps":["object:x"]}}', b""),
        (BEGIN + '{"writes":["object:z"]},"writes":["object:x"]}', b"xz"),
        (BEGIN + '{"writes":["object:z"]},"param":{"writes":["object:x"]}}', b"xz"),
        (BEGIN + '{"writes":["object:z"]},"object":"object:x"}', b"xz"),
        (BEGIN + '{"write":["object:x"]},"method":"log.clock"}', b"x"),
        ('{"method":"","params":[{"writes":["object:x"]}],"zz":1}', b"x"),
        (b'\xff {"method":"entry.put"', b""),
        ("nothing at all", b""),
        (" ", b""),
    ],
)
def test_what_can_be_read_of_a_line_that_is_no_request(line: str | bytes, objects: bytes) -> None:
    assert of_line(line) == [bytes([one]) for one in objects]


@pytest.mark.parametrize(
    "line",
    [
        BEGIN + '{"writes":["object:x"]',
        BEGIN + '{"writes":["object:x"],}}',
        str({"method": "action.begin", "params": {"writes": ["object:x"]}}),
        json.dumps(BEGIN + '{"writes":["object:x"]}}'),
        '{"method":"log.clock"}' + BEGIN,
        '{"params":{"writes":["object:x',
        '{"method":"\\u0061ction.begin","params":{"wr\\u0069tes":["object:x"]',
        '{"method":"action\\u002Ebegin","params":{"wr\\u0069tes":["object:x"]',
        b"\xef\xbb\xbf" + BEGIN.encode() + b'{"writes":["object:x"]}}',
        BEGIN + '{"writes":["object:x"]}} ' + " " * misread._MOST,
    ],
)
def test_a_line_of_which_nothing_can_be_told_may_declare_any_object(line: str | bytes) -> None:
    assert of_line(line) is None


names = st.sampled_from(["object:x", "object:y", "file:f", "x", "\udc80", "é"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | names,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["writes", "dep", "b64", "z"]), inner),
    max_leaves=12,
)


@settings(deadline=None)
@given(values, st.integers(0, 400), st.binary(max_size=3))
@example({"writes": ["object:x"]}, 400, b"")
def test_no_begin_is_passed_over_wherever_it_is_broken(value: Any, at: int, noise: bytes) -> None:
    """What was harmed is read as the objects that were in it, or as any."""
    text = json.dumps({"id": 1, "method": "action.begin", "params": value}).encode()
    after = text.index(b'"params"')
    cut = after + at % (len(text) - after + 1)
    read = wire.parse(text[:cut] + noise)
    if isinstance(read, wire.Request):
        return
    assert read.line
    told = misread.of_line(read.line)
    sent = {name for name in (b"x", b"y") if b'"object:' + name + b'"' in text[:cut]}
    assert told is None or sent <= told


@settings(deadline=None)
@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_told_without_a_fault(data: bytes) -> None:
    misread.of_params(data)
    misread.of_line(data)


def test_the_names_that_are_looked_for_are_methods() -> None:
    assert set(params.METHODS) > wire.DECLARING
    assert {name for name, kind in params.METHODS.items() if "writes" in kind.__struct_fields__} == wire.DECLARING
