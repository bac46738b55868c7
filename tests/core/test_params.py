"""Parameters of the wire: bytes to types, and what is no parameter to errors."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provd.core import errors, params
from provd.core.params import METHODS

ONES: Final = "xxh3:" + "1" * 32


# parameters


CONTRACT: Final = frozenset(
    {
        *("daemon.hello", "daemon.status", "daemon.shutdown", "daemon.audit"),
        *("daemon.config", "daemon.reload"),
        *("root.add", "root.remove", "root.list"),
        *("log.clock", "log.since", "log.subscribe", "log.unsubscribe"),
        *("deps.snapshot", "deps.check"),
        *("entry.put", "entry.check", "entry.get", "entry.revalidate", "entry.forget", "entry.list"),
        *("entry.export", "entry.import", "entry.places"),
        *("action.begin", "action.record", "action.end", "action.list"),
    }
)
"""Every method of the contract but those of the lifecycle, which is not built; and of its own three for ease."""

DEPS: Final = ["a", {"dep": "file:a", "digest": ONES}, {"dep": {"b64": "YQ=="}}, {"b64": "YQ=="}]
SCOPED: Final[dict[str, Any]] = {"root": "/r", "scope": "global"}
ASKED: Final[dict[str, Any]] = SCOPED | {"verify": "content", "revalidate": False, "timeout_ms": 0}
FULL: Final[dict[str, dict[str, Any]]] = {
    "daemon.hello": {"protocol": 1, "client": "t"},
    "daemon.status": {},
    "daemon.shutdown": {},
    "daemon.config": {},
    "daemon.reload": {},
    "daemon.audit": {"root": {"b64": "L3I="}, "sample": 3},
    "root.add": {"path": "/r", "ignore": ["*.o"], "wait": False},
    "root.remove": {"path": {"b64": "L3I="}},
    "root.list": {},
    "log.clock": {},
    "log.since": {"clock": "c", "last": 20_000, "paths": ["a", {"b64": "YQ=="}], "limit": 5, "root": "/r"},
    "log.subscribe": {"clock": "c", "entries": True},
    "log.unsubscribe": {"subscription": 1},
    "deps.snapshot": {"deps": DEPS, "root": "/r"},
    "deps.check": ASKED | {"deps": DEPS, "fetched_at": "c"},
    "entry.put": SCOPED
    | {"key": "k", "value": [1], "deps": DEPS, "fetched_at": "c", "as_of": "put", "based_on": 3, "based_on_record": 4}
    | {"session": "s", "turn": 4, "meta": {}, "op": "o"},
    "entry.check": ASKED | {"key": "k", "keys": ["k"]},
    "entry.get": ASKED | {"key": "k", "even_if": ["dirty", "unknown"], "deps": True},
    "entry.revalidate": SCOPED
    | {"key": "k", "verify": "auto", "timeout_ms": 5, "value": None, "deps": [], "fetched_at": "c", "as_of": "put"}
    | {"session": "s", "turn": "t", "meta": {}, "op": "o"},
    "entry.forget": SCOPED | {"key": "k"},
    "entry.export": SCOPED | {"all": True, "after": "a", "limit": 5},
    "entry.places": {"key": "k", "limit": 5},
    "entry.import": {"entries": [{"any": "thing"}], "moved": {"source": "/a", "to": {"b64": "L2I="}}},
    "entry.list": SCOPED
    | {"prefix": "a", "verdict": "dirty", "standing": "active", "touching": "/r/a", "after": "b", "limit": 10_000},
    "action.begin": SCOPED
    | {"writes": DEPS, "session": "s", "turn": 1, "note": "n", "hold": True, "if_usable": ["k"], "op": "o"},
    "action.record": SCOPED
    | {"writes": DEPS, "session": "s", "turn": 1, "note": "n", "outcome": "failed", "if_usable": ["k"], "op": "o"},
    "action.end": {"id": 1, "outcome": "aborted"},
    "action.list": {},
}
NEEDED: Final = {
    "daemon.hello": {"protocol"},
    "root.add": {"path"},
    "root.remove": {"path"},
    "deps.snapshot": {"deps"},
    "deps.check": {"deps"},
    "entry.put": {"key"},
    "entry.get": {"key"},
    "entry.revalidate": {"key"},
    "entry.forget": {"key"},
    "entry.places": {"key"},
    "entry.import": {"entries"},
    "action.begin": {"writes"},
    "action.record": {"writes"},
    "action.end": {"id", "outcome"},
}
"""What cannot be left out."""


def decode(method: str, given_: Any) -> params.Params:
    return params.decode(method, msgspec.Raw(json.dumps(given_).encode()))


def refused(method: str, given_: Any) -> None:
    with pytest.raises(errors.InvalidParams) as caught:
        decode(method, given_)
    assert caught.value.hint
    assert method in caught.value.message


def test_every_method_of_the_contract_is_there() -> None:
    assert set(METHODS) == CONTRACT == set(FULL)


@pytest.mark.parametrize("method", sorted(CONTRACT))
def test_a_method_takes_all_its_fields(method: str) -> None:
    asked = decode(method, FULL[method])
    assert type(asked) is METHODS[method]
    assert set(FULL[method]) == set(METHODS[method].__struct_fields__)


@pytest.mark.parametrize("method", sorted(CONTRACT))
def test_a_method_refuses_an_unknown_field(method: str) -> None:
    refused(method, FULL[method] | {"more": 1})
    refused(method, FULL[method] | {"": None})


@pytest.mark.parametrize("method", sorted(CONTRACT))
def test_a_method_needs_what_cannot_be_left_out(method: str) -> None:
    needed = NEEDED.get(method, set())
    decode(method, {name: FULL[method][name] for name in needed})
    for name in needed:
        refused(method, {field: value for field, value in FULL[method].items() if field != name})


@pytest.mark.parametrize("method", sorted(CONTRACT))
def test_a_method_refuses_a_field_of_a_wrong_type(method: str) -> None:
    for name in FULL[method]:
        if name not in {"value", "meta"}:  # any JSON
            refused(method, FULL[method] | {name: {"neither": ["this", "nor", "that"]}})
            refused(method, FULL[method] | {name: 1.5})


@pytest.mark.parametrize("method", sorted(CONTRACT))
@pytest.mark.parametrize("given_", [[], [1], "a", 1, True])
def test_parameters_are_an_object(method: str, given_: Any) -> None:
    refused(method, given_)


@pytest.mark.parametrize("method", sorted(CONTRACT - set(NEEDED)))
def test_parameters_may_be_left_out_where_nothing_is_needed(method: str) -> None:
    assert params.decode(method, msgspec.UNSET) == decode(method, {}) == decode(method, None)


@pytest.mark.parametrize(
    "method", ["", "nothing", "entry", "entry.put ", "Entry.put", "entry.observe", "\n", "x" * 1000]
)
def test_an_unknown_method_is_refused(method: str) -> None:
    with pytest.raises(errors.UnknownMethod) as caught:
        decode(method, {})
    assert caught.value.hint
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [
        ("entry.check", "timeout_ms", -1),
        ("entry.check", "timeout_ms", 3_600_001),
        ("entry.check", "verify", "yes"),
        ("entry.check", "revalidate", 0),
        ("entry.list", "limit", 0),
        ("entry.list", "limit", 10_001),
        ("log.since", "last", 20_001),
        ("entry.list", "verdict", "stale"),
        ("entry.list", "standing", "gone"),
        ("entry.get", "even_if", ["fresh"]),
        ("entry.put", "as_of", "now"),
        ("entry.put", "based_on", -1),
        ("entry.put", "based_on_record", -1),
        ("entry.put", "turn", None),
        ("entry.put", "deps", [1]),
        ("entry.put", "deps", [{"dep": "a", "digest": 1}]),
        ("entry.put", "deps", [{"dep": "a", "more": 1}]),
        ("entry.put", "deps", [{"dep": {"b64": "YQ==", "more": 1}}]),
        ("action.end", "outcome", "lost"),
        ("action.record", "outcome", "aborted"),
        ("daemon.audit", "sample", 0),
        ("log.since", "limit", "5"),
    ],
)
def test_a_value_out_of_range_is_refused(method: str, name: str, value: Any) -> None:
    if value is None:
        assert getattr(decode(method, FULL[method] | {name: None}), name) is None  # null is as good as left out
    else:
        refused(method, FULL[method] | {name: value})


@pytest.mark.parametrize(
    "raw",
    [
        b'{"key":"\xff"}',
        b'{"\xff":1}',
        b'{"key":"\\ud800"}',
        b'{"key":',
        b"",
        b'{"key":"k","value":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"key":"k","deps":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_parameters_that_are_no_json_are_refused(raw: bytes) -> None:
    with pytest.raises(errors.InvalidParams):
        params.decode("entry.put", msgspec.Raw(raw))


def test_a_value_is_kept_to_the_letter_and_null_is_a_value() -> None:
    raw = b'{"key":"k","value": {"b":1.0, "a":1e400}, "meta":null}'
    asked = params.decode("entry.put", msgspec.Raw(raw))
    assert isinstance(asked, params.EntryPut)
    assert isinstance(asked.value, msgspec.Raw)
    assert bytes(asked.value).strip() == b'{"b":1.0, "a":1e400}'
    assert asked.meta == msgspec.Raw(b"null")
    bare = params.decode("entry.put", msgspec.Raw(b'{"key":"k"}'))
    assert isinstance(bare, params.EntryPut)
    assert bare.value is msgspec.UNSET


@pytest.mark.parametrize(
    ("given_", "text", "digest"),
    [
        ("file:\u00e4", "file:\u00e4".encode(), None),
        ({"dep": "file:a"}, b"file:a", None),
        ({"dep": "file:a", "digest": "absent"}, b"file:a", "absent"),
        ({"dep": {"b64": "ZmlsZTr/"}}, b"file:\xff", None),
        ({"b64": "ZmlsZTr/", "digest": "absent"}, b"file:\xff", "absent"),
        ({"b64": ""}, b"", None),
        ({"dep": ""}, b"", None),
    ],
)
def test_a_dependency_of_the_wire(given_: Any, text: bytes, digest: str | None) -> None:
    asked = decode("deps.snapshot", {"deps": [given_]})
    assert isinstance(asked, params.DepsSnapshot)
    assert params.wire_dependency(asked.deps[0]) == (text, digest)


@pytest.mark.parametrize("given_", [{}, {"digest": "absent"}, {"dep": "a", "b64": "YQ=="}, {"dep": None}])
def test_a_dependency_of_the_wire_names_one_thing(given_: Any) -> None:
    asked = decode("deps.snapshot", {"deps": [given_]})
    assert isinstance(asked, params.DepsSnapshot)
    with pytest.raises(errors.DependencyMalformed):
        params.wire_dependency(asked.deps[0])


@pytest.mark.parametrize("text", ["a", "YQ", "YQ=", "Y Q==", "YQ==\n", "\u00e4", "YQ=-"])
def test_what_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidParams):
        params.from_b64(text)


@settings(deadline=None)
@given(st.binary(max_size=20))
def test_a_name_comes_from_the_wire_as_it_went(name: bytes) -> None:
    from provd.core.records import wire_name

    asked = decode("root.remove", {"path": wire_name(name)})
    assert isinstance(asked, params.RootRemove)
    assert params.name_bytes(asked.path) == name


def test_keys_have_1_to_1024_bytes() -> None:
    for good in ("k", "x" * 1024, "\u00e4" * 512, "\n", " "):
        assert params.key(good) == good
    for bad in ("", "x" * 1025, "\u00e4" * 513):
        with pytest.raises(errors.LimitExceeded):
            params.key(bad)


def test_what_was_asked_wrongly_is_told_with_what_there_is() -> None:
    with pytest.raises(errors.InvalidParams) as wrong:
        decode("action.end", {"id": 1, "outcome": "done", "who": "me"})
    with pytest.raises(errors.InvalidParams) as nothing:
        decode("log.clock", {"who": "me"})
    with pytest.raises(errors.UnknownMethod) as unknown:
        decode("entry.puts", {})

    assert wrong.value.hint == "needed: id, outcome"
    assert nothing.value.hint == "it takes no fields"
    assert "entry.put, " in unknown.value.hint
