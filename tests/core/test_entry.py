"""Entries: equal values have one identity, others have another; scopes lie in directories."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provd.core import entry, errors
from provd.core.dependency import parse
from provd.core.entry import Entry, EntryId, Kept, identity, lies_in

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
numbers = st.sampled_from(
    ["0", "-0", "1", "1.0", "1.00", "10", "1e1", "-1", "1e400", "1e500", "9007199254740992", "9007199254740993"]
)


class Number(str):
    """A number as it is written."""

    __slots__ = ()


leaves = st.none() | st.booleans() | texts | numbers.map(Number)
values = st.recursive(
    leaves,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(texts, below, max_size=4),
    max_leaves=12,
)


def write(value: Any, draw: Any = None) -> str:
    """JSON of a value, with numbers as they are written; `draw` shuffles members and puts spaces in."""
    gap = "" if draw is None else draw(st.sampled_from(["", " ", "\t", "\r", "  "]))
    match value:
        case Number():
            return gap + str.__str__(value) + gap
        case dict():
            names = list(value) if draw is None else draw(st.permutations(list(value)))
            escape = False if draw is None else draw(st.booleans())
            rows = (f"{gap}{json.dumps(name, ensure_ascii=escape)}{gap}:{write(value[name], draw)}" for name in names)
            return "{" + gap + ",".join(rows) + gap + "}"
        case list():
            return "[" + gap + ",".join(write(member, draw) for member in value) + gap + "]"
        case _:
            return gap + json.dumps(value) + gap


def plain(value: Any) -> Any:
    """A value in which everything that is different differs, for comparing."""
    match value:
        case Number():
            return ("number", str.__str__(value))
        case dict():
            return ("object", {name: plain(member) for name, member in value.items()})
        case list():
            return ("list", [plain(member) for member in value])
        case _:
            return (type(value).__name__, value)


@settings(deadline=None)
@given(values, st.data())
def test_the_order_of_members_spaces_and_escapes_do_not_count(value: Any, data: st.DataObject) -> None:
    assert identity(write(value, data.draw).encode()) == identity(write(value).encode())


@settings(deadline=None, max_examples=300)
@given(values, values)
def test_values_have_one_identity_if_and_only_if_they_are_equal(one: Any, other: Any) -> None:
    same = identity(write(one).encode()) == identity(write(other).encode())
    ten = {("number", "10"), ("number", "1e1")}
    if plain(one) == plain(other):
        assert same
    elif not any(pair in repr(plain(one)) + repr(plain(other)) for pair in map(repr, ten)):
        assert not same


DIFFERENT: Final = [
    ("1", "1.0"),
    ("1", "true"),
    ("0", "false"),
    ("1", '"1"'),
    ("0", "-0"),
    ("null", '"null"'),
    ("null", "false"),
    ("[]", "{}"),
    ("[]", "null"),
    ("[]", '""'),
    ("[1]", "1"),
    ("[[1],2]", "[[1,2]]"),
    ('{"a":1}', '["a",1]'),
    ('{"a":1}', '[["a",1]]'),
    ('{"a":1,"b":2}', '[["a",1],["b",2]]'),
    ("{}", '["o",[]]'),
    ("[]", '["l",[]]'),
    ('["l",[]]', '[["l",[]]]'),
    ('{"a":{}}', '{"a":[]}'),
    ('{"a":null}', "{}"),
    ("\"Decimal('1')\"", "1"),
    ('"a"', '"A"'),
    ('"\u00e9"', '"e\u0301"'),
    ("9007199254740992", "9007199254740993"),
    ("1" + "0" * 400, "1" + "0" * 399 + "1"),
    ("0." + "1" * 400, "0." + "1" * 399 + "2"),
    ("1e400", "1e500"),
    ("1e400", "-1e400"),
    ("1e-400", "0.0"),
    ("1e-400", "1e-500"),
    ("0.1", "0.10000000000000001"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_values_have_different_identities(one: str, other: str) -> None:
    assert identity(one.encode()) != identity(other.encode())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":2}', '{"b":2,"a":1}'),
        ('{"a":{"x":1,"y":2}}', ' { "a" : { "y" : 2 , "x" : 1 } } '),
        ('"\u00e9"', '"\\u00e9"'),
        ('"/"', '"\\/"'),
        ('"\U0001f600"', '"\\ud83d\\ude00"'),
        ("[1,2]", "[ 1,\n2 ]"),
    ],
)
def test_equal_values_have_one_identity(one: str, other: str) -> None:
    assert identity(one.encode()) == identity(other.encode())


def test_an_identity_is_never_empty() -> None:
    assert all(len(identity(raw)) == 16 for raw in (b"null", b"{}", b'""', b"0"))


def test_a_number_of_a_million_digits_has_an_identity() -> None:
    assert identity(b"1" * 1_000_000) != identity(b"1" * 1_000_001)


@pytest.mark.parametrize("raw", [b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000])
def test_a_value_that_is_nested_too_deeply_is_refused(raw: bytes) -> None:
    with pytest.raises(errors.InvalidParams) as caught:
        identity(raw)
    assert caught.value.hint


def test_a_value_nested_a_few_hundred_levels_has_an_identity() -> None:
    assert identity(b"[" * 300 + b"]" * 300) != identity(b"[" * 299 + b"]" * 299)


@pytest.mark.parametrize(
    ("scope", "directory", "inside"),
    [
        (b"/r", b"/r", True),
        (b"/r/a", b"/r", True),
        (b"/ra", b"/r", False),
        (b"/r", b"/r/a", False),
        (b"/r", b"/", True),
        (b"=global", b"/", False),
        (b"=/r", b"/r", False),
    ],
)
def test_which_scopes_lie_in_which_directory(scope: bytes, directory: bytes, inside: bool) -> None:
    assert lies_in(EntryId(scope, "k"), directory) is inside


def test_an_entry_rests_on_entries_of_its_own_scope() -> None:
    deps = tuple(Kept(parse(text, b"/r")) for text in (b"entry:a", b"file:b", b"object:c", b"entry:d"))
    one = Entry(EntryId(b"/s", "k"), 1, 1, 1, deps, 0)
    assert one.entry_ids() == [EntryId(b"/s", "a"), EntryId(b"/s", "d")]
    assert Entry(EntryId(b"/s", "k"), 1, 1, 1, None, 0).entry_ids() == []
    assert entry.Standing.ACTIVE is one.standing


@pytest.mark.parametrize("number", [b"1e99999999999999999999", b"-1e-99999999999999999999", b"9" * 10_000])
def test_a_number_of_any_size_has_an_identity(number: bytes) -> None:
    assert entry.identity(number) == entry.identity(b" " + number)
    assert entry.identity(number) != entry.identity(b"1")
    assert entry.identity(b'["' + number + b'"]') != entry.identity(b"[" + number + b"]")
