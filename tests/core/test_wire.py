"""The wire: bytes to requests however they are split, and bad lines to errors."""

from __future__ import annotations

import itertools
import json
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provd.core import errors, members, wire
from provd.core.wire import Bad, Framer, Request

LIMIT: Final = 200
"""Bytes of a line, in tests."""


@pytest.fixture
def small_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_LINE", LIMIT)


def line(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


def seen(given_: list[Request | Bad]) -> list[tuple[Any, ...]]:
    """What can be compared of requests and bad lines."""
    return [
        (one.id, one.error.code, one.fatal)
        if isinstance(one, Bad)
        else (one.method, one.id, None if one.params is msgspec.UNSET else bytes(one.params))
        for one in given_
    ]


def fed(framer: Framer, data: bytes) -> list[Request | Bad]:
    """What a piece completes."""
    framer.feed(data)
    out: list[Request | Bad] = []
    while framer.unread:
        if (one := framer.take()) is not None:
            out.append(one)
    return out


def feed(pieces: list[bytes]) -> tuple[list[tuple[Any, ...]], bool]:
    framer = Framer()
    out = [one for piece in pieces for one in fed(framer, piece)]
    return seen(out), framer.broken


def split(data: bytes, at: list[int]) -> list[bytes]:
    cuts = [0, *sorted(at), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(cuts)]


GOOD: Final = [
    line(id=1, method="log.clock"),
    line(id="a", method="entry.get", params={"key": "\u00e4\U0001f600"}),
    line(method="entry.get", params={}),
    line(id=None, method="m", params=[1]),
    b"",
    b"  ",
    b"\r",
    line(id=2, method="m") + b"\r",
]
BAD: Final = [
    b"{",
    b"\xff",
    b"[]",
    b"nothing",
    line(id=3),
    line(id=4, method="m", more=1),
    b'{"jsonrpc":"1.0","id":5,"method":"m"}',
    b'{"jsonrpc":"2.0","id":6,"method":"\xff"}',
]
OVER: Final = [b"x" * (LIMIT + 1), line(id=7, method="m" * LIMIT)]


@settings(deadline=None)
@given(st.lists(st.sampled_from(GOOD + BAD), max_size=8), st.booleans(), st.data())
def test_any_split_of_the_bytes_gives_the_same_requests(lines: list[bytes], ended: bool, data: st.DataObject) -> None:
    stream = b"\n".join(lines) + b"\n" * ended
    at = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    whole = feed([stream])
    assert feed(split(stream, at)) == whole
    assert feed([bytes([byte]) for byte in stream]) == whole


@settings(deadline=None)
@given(st.lists(st.sampled_from(GOOD + BAD), max_size=4), st.sampled_from(OVER), st.data())
def test_any_split_around_a_line_over_the_limit_gives_the_same_end(
    before: list[bytes], over: bytes, data: st.DataObject
) -> None:
    stream = b"".join(one + b"\n" for one in before) + over + b"\n" + GOOD[0] + b"\n"
    at = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "MAX_LINE", LIMIT)
        whole = feed([stream])
        assert whole[1]
        assert whole[0][-1] == (None, "limit", True)
        assert feed(split(stream, at)) == whole


@pytest.mark.usefixtures("small_lines")
def test_a_line_of_exactly_the_limit_is_taken() -> None:
    bare = line(id=1, method="m", params={"a": ""})
    fits = line(id=1, method="m", params={"a": "x" * (LIMIT - len(bare))})
    assert len(fits) == LIMIT
    assert feed([fits + b"\n"]) == feed([fits, b"\n"]) == feed([fits[:50], fits[50:] + b"\n"])
    assert feed([fits, b"\n"])[0] == [("m", 1, json.dumps({"a": "x" * (LIMIT - len(bare))}).encode())]


@pytest.mark.usefixtures("small_lines")
def test_a_line_over_the_limit_ends_the_stream_before_its_end_is_seen() -> None:
    framer = Framer()
    assert fed(framer, b"x" * LIMIT) == []
    (bad,) = fed(framer, b"x")
    assert isinstance(bad, Bad)
    assert (bad.fatal, bad.error.code, bad.id) == (True, "limit", None)
    assert bad.error.hint
    assert framer.broken
    assert fed(framer, b"\n" + GOOD[0] + b"\n") == []


@pytest.mark.usefixtures("small_lines")
def test_requests_before_a_line_over_the_limit_are_taken() -> None:
    out, broken = feed([GOOD[0] + b"\n" + OVER[0] + b"\n" + GOOD[0] + b"\n"])
    assert [one[:2] for one in out] == [("log.clock", 1), (None, "limit")]
    assert broken


def test_many_small_pieces_of_a_long_line_are_one_request() -> None:
    long = line(id=1, method="m", params={"a": "x" * 300_000})
    assert feed([long[at : at + 7] for at in range(0, len(long), 7)] + [b"\n"]) == feed([long + b"\n"])


@pytest.mark.parametrize("empty", [b"\n", b" \n", b"\r\n", b"\t \x0b\x0c\n"])
def test_empty_lines_are_one_look_however_many(empty: bytes) -> None:
    """Broken: who sends newlines alone has the loop for himself."""
    framer = Framer()
    framer.feed(empty * 50_000 + GOOD[0] + b"\n" + empty)
    taken = framer.take()
    assert isinstance(taken, Request)
    assert framer.take() is None
    for _ in range(1000):
        framer.feed(b" ")
        framer.feed(empty)
    looks = 0
    while framer.unread:
        assert framer.take() is None
        looks += 1
    assert looks > 10


# one line


def parsed(raw: bytes) -> Bad:
    bad = wire.parse(raw)
    assert isinstance(bad, Bad)
    assert not bad.fatal
    assert bad.error.hint
    return bad


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"}",
        b'{"jsonrpc":"2.0","id":1,"method":"m"}x',
        b'{"jsonrpc":"2.0","id":1,"method":"m",}',
        b"{'jsonrpc':'2.0'}",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b"7\0",  # UTF-16, to a reader that guesses
        b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
        b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\\ud800"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\\udc00\\ud800"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\x00"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
        b'{"jsonrpc":5,"\xff":1,"id":1}',
        b'{"jsonrpc":"2.0","id":1,"method":"entry.put","params":{"key":"k","value":"\xff"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"entry.put","params":{"key":"k","meta":{"a":"\xff"}}}',
    ],
)
def test_what_is_no_json_in_utf8_is_a_parse_error(raw: bytes) -> None:
    bad = parsed(raw)
    assert (bad.error.code, bad.id) == ("parse", None)


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        (b"5", None),
        (b"null", None),
        (b'"m"', None),
        (b"[]", None),
        (b"[" + GOOD[0] + b"," + GOOD[1] + b"]", None),
        (b"{}", None),
        (b'{"id":1}', 1),
        (b'{"jsonrpc":"2.0","id":1}', 1),
        (b'{"id":1,"method":"m"}', 1),
        (b'{"jsonrpc":"1.0","id":1,"method":"m"}', 1),
        (b'{"jsonrpc":2.0,"id":"x","method":"m"}', "x"),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","extra":1}', 1),
        (b'{"jsonrpc":"2.0","id":true,"method":"m"}', None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"m"}', None),
        (b'{"jsonrpc":"2.0","id":{},"method":"m"}', None),
        (b'{"jsonrpc":"2.0","id":1e400,"method":"m"}', None),
    ],
)
def test_json_that_is_no_request_is_a_request_error_with_its_id_where_it_has_one(raw: bytes, number: Any) -> None:
    bad = parsed(raw)
    assert (bad.error.code, bad.id) == ("request", number)


IDS: Final = [0, 1, -1, 2**53, 2**63, 2**64, 10**30, -(10**30), 1.5, "", "a", "\u00e4\U0001f600", "\n"]


@pytest.mark.parametrize("number", IDS)
def test_an_id_comes_back_as_it_was_sent(number: Any) -> None:
    request = wire.parse(line(id=number, method="m"))
    assert isinstance(request, Request)
    answer = wire.answer(request.id, {})
    assert answer.count(b"\n") == 1
    back = json.loads(answer)
    assert back == {"jsonrpc": "2.0", "id": number, "result": {}}
    assert type(back["id"]) is type(number)
    assert json.loads(wire.failure(request.id, errors.Internal("x")))["id"] == number


def test_no_id_is_a_notification_and_null_is_an_id() -> None:
    silent, null = wire.parse(line(method="m")), wire.parse(line(id=None, method="m"))
    assert isinstance(silent, Request)
    assert isinstance(null, Request)
    assert silent.id is msgspec.UNSET
    assert null.id is None


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_line_is_a_request_or_bad(raw: bytes) -> None:
    assert isinstance(wire.parse(raw), Request | Bad)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
jsons = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(texts, below, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(jsons)
def test_any_json_is_a_request_or_bad(value: Any) -> None:
    assert isinstance(wire.parse(json.dumps(value).encode()), Request | Bad)


@settings(deadline=None)
@given(texts, jsons)
def test_a_request_has_what_was_sent(method: str, value: Any) -> None:
    request = wire.parse(line(id=1, method=method, params=value))
    assert isinstance(request, Request)
    assert request.method == method
    assert isinstance(request.params, msgspec.Raw)
    assert json.loads(bytes(request.params)) == value


def test_lines_out_are_one_json_value_each() -> None:
    for out in (
        wire.answer(1, "a\nb"),
        wire.notification("m", {"a": "\u2028\n"}),
        wire.failure(1, errors.Internal("\n")),
    ):
        assert out.endswith(b"\n")
        assert out.count(b"\n") == 1
        json.loads(out)


@given(st.lists(st.text(st.characters(codec="utf-8"))), st.text(st.characters(codec="utf-8")))
def test_notifications_that_differ_in_one_string_are_as_if_each_was_told_alone(values: list[str], other: str) -> None:
    told = wire.notifications("m", {"seq": 1, other + "!": "\0"}, "key", values)
    assert told == b"".join(wire.notification("m", {"key": value, "seq": 1, other + "!": "\0"}) for value in values)


def test_however_short_the_rest_of_a_line_is_no_params_hide_behind_others() -> None:
    hidden = b'"params":{"writes":["object:x"]},'
    shortest = b'{"jsonrpc":"2.0","method":"",' + hidden + b'"params":7}'
    bad = parsed(shortest)
    assert (bad.error.code, bad.line) == ("request", shortest)
    assert isinstance(wire.parse(shortest.replace(hidden, b"")), Request)


@pytest.mark.parametrize(
    "bad",
    [
        line(id=1, method="action.begin", params={}, more=1),
        b'{"jsonrpc":"2.0","method":"\\u0061ction.begin","params":{"wr\\u0069tes":["object:x"]},"params":{}}',
        line(id=True, method="action.record"),
        json.dumps({"id": 1, "method": "action.begin"}).encode(),
        b'{"method":"action.begin"',
        b'{"method":"action.record","params":"\xff"}',
        b'{"params":{"writes":[',
        line(id=1, method="action.begin", params=float("nan")),
    ],
)
def test_a_bad_line_that_may_declare_writes_is_kept(bad: bytes) -> None:
    read = wire.parse(bad)
    assert isinstance(read, Bad)
    assert read.line == bad


@pytest.mark.parametrize("bad", BAD)
def test_no_other_bad_line_is_kept(bad: bytes) -> None:
    read = wire.parse(bad)
    assert isinstance(read, Bad)
    assert not read.line


@pytest.mark.parametrize("pieces", [1, 7])
def test_of_an_over_long_line_the_beginning_tells_whether_it_may_declare_writes(
    small_lines: None, monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    monkeypatch.setattr(wire, "_BEGINNING", 100)
    for start, kept in ((line(id=1, method="action.begin"), True), (line(id=1, method="entry.put"), False)):
        for end in (b"", b"\n"):
            data = start + b" " * LIMIT + b"action.begin" + end
            size = len(data) // pieces + 1
            framer = Framer()
            told = [one for at in range(0, len(data), size) for one in fed(framer, data[at : at + size])]
            assert [(one.fatal, one.line) for one in told if isinstance(one, Bad)] == [
                (True, (start + b" " * LIMIT)[:100] if kept else b"")
            ]


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":1,"id":2,"method":"log.clock"}',
        '{"jsonrpc":"2.0","id":"a","id":2,"method":"log.clock"}',
        '{"jsonrpc":"2.0","id":1,"id":"b","method":"log.clock"}',
        '{"jsonrpc":"2.0","jsonrpc":"2.0","method":"log.clock"}',
        '{"jsonrpc":"2.0","method":"daemon.status","id":1,"method":"log.clock"}',
        '{"jsonrpc":"2.0","meth\\u006fd":"daemon.status","id":1,"method":"log.clock"}',
        '{"method":"m","params":{"a":["b"]},"params":{},"jsonrpc":"2.0"}',
    ],
)
def test_a_member_that_comes_twice_is_refused_however_short_the_line(text: str) -> None:
    read = wire.parse(text.encode())
    assert isinstance(read, Bad)
    assert "comes twice" in read.error.message


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":"a \\"quoted\\" one","method":"log.clock"}',
        '{"jsonrpc":"2.0","id":null,"method":"m","params":{"id":"\\"","id2":"params"}}',
        '{"jsonrpc":"2.0","method":"m"}',
        '{ "jsonrpc" : "2.0" , "id" : 1.5 , "method" : "m" , "params" : [ "a" ] }',
    ],
)
def test_quotes_alone_are_no_member(text: str) -> None:
    assert isinstance(wire.parse(text.encode()), Request)


@pytest.mark.parametrize("sign", '"writes"')
def test_each_sign_of_a_word_may_be_escaped(sign: str) -> None:
    for escaped in (f"\\u{ord(sign):04x}", f"\\u{ord(sign):04X}"):
        assert wire.may_declare('{"writes":['.replace(sign, escaped).encode())
    assert not wire.may_declare('{"reads":['.replace(sign, f"\\u{ord(sign):04x}").encode())


def test_no_more_of_a_line_is_looked_at_than_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of a million members holds up nobody: an object for each of them takes ten seconds."""
    looked: list[str] = []
    made = members._Name.__init__

    def count(self: members._Name, text: str) -> None:
        looked.append(text)
        made(self, text)

    monkeypatch.setattr(members._Name, "__init__", count)
    assert isinstance(wire.parse(b'{"jsonrpc":"2.0",' + b'"id":1,' * 10_000 + b'"method":"m"}'), Bad)
    assert members.twice_in(b'{"deps":[{"dep":"x"' + b',"dep":"y"' * 10_000 + b"}]}", ["deps"]) == "dep"
    assert len(looked) < 10
    many = b"{" + b",".join(b'"a%d":1' % n for n in range(10_000)) + b"}"
    assert members.names(many) is None, "that cannot be told"
    assert len(looked) <= 10 + members._MOST
