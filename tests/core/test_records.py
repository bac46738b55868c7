"""Records: they come back as they were stored, and they look on the wire as the contract says."""

from __future__ import annotations

import base64
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provd.core import records
from provd.core.records import (
    ALL,
    Action,
    ActionEvent,
    Actor,
    Coverage,
    DigestState,
    EntryChange,
    EntryEvent,
    Gap,
    Hashed,
    Mutation,
    MutationKind,
    Origin,
    Outcome,
    Record,
    RootChange,
)

AT = 1_700_000_000_123_456_789
names = st.binary(max_size=40)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
paths = names.map(lambda name: b"/" + name)
positions = st.integers(0, 2**63 - 1)
turns = st.none() | positions | texts
optional = st.none() | texts

RECORDS: dict[type[Record], st.SearchStrategy[Record]] = {
    Gap: st.builds(Gap, positions, st.just(ALL) | paths, texts, texts),
    Action: st.builds(
        Action,
        positions,
        st.sampled_from(ActionEvent),
        positions,
        st.lists(names, max_size=3).map(tuple),
        st.none() | st.sampled_from(Outcome),
        optional,
        turns,
        optional,
        names,
        st.lists(names, max_size=3).map(tuple),
        st.lists(paths, max_size=3).map(tuple),
    ),
    EntryChange: st.builds(
        EntryChange,
        positions,
        st.sampled_from(EntryEvent),
        paths | texts.map(lambda name: b"=" + name.encode()),
        texts,
        positions,
        st.none() | positions,
        optional,
        turns,
        names,
        st.booleans(),
        st.booleans(),
    ),
    RootChange: st.builds(RootChange, positions, st.sampled_from(["added", "removed"]), paths),
    Coverage: st.builds(Coverage, positions, paths, st.sampled_from(["whole", "partial", "none"]), texts),
    Mutation: st.builds(
        Mutation,
        positions,
        st.sampled_from(MutationKind),
        paths,
        st.none() | paths,
        st.none() | positions,
        st.none() | positions,
        optional,
        st.none() | st.sampled_from(DigestState),
        st.sampled_from(Origin),
        st.builds(Actor, optional, turns, st.none() | positions),
    ),
    Hashed: st.builds(Hashed, positions, positions, paths, optional, st.sampled_from(DigestState)),
}
NULLABLE = {"mtime_ns", "size", "digest", "digest_state"}
"""Fields that are there even where nothing is known."""


def named(told: object) -> bytes:
    """The bytes of a name on the wire."""
    if isinstance(told, dict):
        assert set(told) == {"b64"}
        return base64.b64decode(told["b64"], validate=True)
    assert isinstance(told, str)
    return told.encode()


def test_every_type_of_record_is_tested_here() -> None:
    assert set(RECORDS) == set(Record.__args__)


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_a_record_on_the_wire_is_json_with_its_number_and_time_as_text(kind: type[Record]) -> None:
    @settings(deadline=None)
    @given(positions, RECORDS[kind])
    def check(seq: int, record: Record) -> None:
        told = records.to_wire(seq, record)
        assert json.loads(msgspec.json.encode(told)) == told
        assert (told["seq"], told["at"]) == (seq, str(record.at))
        assert told["type"] == {RootChange: "root", EntryChange: "entry"}.get(kind, kind.__name__.lower())
        assert {name for name, value in told.items() if value is None} <= NULLABLE

    check()


def test_a_mutation_tells_what_was_seen_and_that_nobody_knows_who_it_was() -> None:
    assert records.to_wire(7, Mutation(AT, MutationKind.MOVED, b"/r/b", b"/r/a")) == {
        "seq": 7,
        "at": str(AT),
        "type": "mutation",
        "kind": "moved",
        "path": "/r/b",
        "from": "/r/a",
        "mtime_ns": None,
        "size": None,
        "digest": None,
        "digest_state": None,
        "origin": "watch",
        "actor": {"unknown": True},
    }


def test_a_mutation_inside_an_action_names_its_session_and_turn() -> None:
    actor = Actor("s", 3, 12)
    one = Mutation(AT, MutationKind.CREATED, b"/r/a", None, AT, 5, None, DigestState.PENDING, Origin.SCAN, actor)
    told = records.to_wire(1, one)
    assert told["actor"] == {"session": "s", "turn": 3, "action": 12}
    assert (told["mtime_ns"], told["size"], told["digest_state"], told["origin"]) == (str(AT), 5, "pending", "scan")


@settings(deadline=None)
@given(names)
def test_a_name_on_the_wire_says_its_bytes(name: bytes) -> None:
    told = records.wire_name(name)
    assert named(json.loads(msgspec.json.encode(told))) == name


def test_a_gap_on_the_wire() -> None:
    assert records.to_wire(1, Gap(AT, ALL, "started", "0" * 16)) == {
        "seq": 1,
        "at": str(AT),
        "type": "gap",
        "scope": "all",
        "reason": "started",
    }
    assert records.to_wire(2, Gap(AT, b"/a", "root added"))["scope"] == "/a"
    assert records.to_wire(2, Gap(AT, b"/\xff", "root added"))["scope"] == {"b64": "L/8="}


def test_an_action_on_the_wire_has_what_it_declared_and_the_paths_that_it_means() -> None:
    full = Action(
        AT,
        ActionEvent.END,
        7,
        (b"object:x", b"file:\xff"),
        Outcome.ABORTED,
        "s",
        "t",
        "n",
        b"opkey",
        (b"x",),
        (b"/r/\xff",),
    )
    assert records.to_wire(9, full) == {
        "seq": 9,
        "at": str(AT),
        "type": "action",
        "event": "end",
        "id": 7,
        "outcome": "aborted",
        "writes": ["object:x", {"b64": "ZmlsZTr/"}],
        "paths": [{"b64": "L3Iv/w=="}],
        "session": "s",
        "turn": "t",
        "note": "n",
    }
    bare = records.to_wire(9, Action(AT, ActionEvent.BEGIN, 9))
    assert bare == {"seq": 9, "at": str(AT), "type": "action", "event": "begin", "id": 9, "writes": []}


def test_an_entry_on_the_wire_says_its_scope() -> None:
    told = records.to_wire(3, EntryChange(AT, EntryEvent.PUT, b"/r", "k", 3, 2, "s", 40))
    assert told == {
        "seq": 3,
        "at": str(AT),
        "type": "entry",
        "event": "put",
        "key": "k",
        "version": 3,
        "superseded": 2,
        "session": "s",
        "turn": 40,
        "root": "/r",
    }
    told = records.to_wire(3, EntryChange(AT, EntryEvent.IMPORTED, b"/r", "k", 2, archived=True))
    assert told["archived"] is True
    assert "confirmed" not in told
    assert records.to_wire(3, EntryChange(AT, EntryEvent.SUPPORTED, b"/r", "k", 2, confirmed=True))["confirmed"] is True
    assert records.to_wire(3, EntryChange(AT, EntryEvent.LATE, b"=global", "k", 3))["scope"] == "global"
    assert records.wire_scope(b"/\xff") == {"root": {"b64": "L/8="}}
    assert records.wire_scope("=\u00e4".encode()) == {"scope": "\u00e4"}


def test_turn_zero_is_told() -> None:
    assert records.to_wire(3, EntryChange(AT, EntryEvent.PUT, b"/r", "k", 3, turn=0))["turn"] == 0


def test_roots_and_coverage_on_the_wire() -> None:
    assert records.to_wire(4, RootChange(AT, "added", b"/r")) == {
        "seq": 4,
        "at": str(AT),
        "type": "root",
        "event": "added",
        "path": "/r",
    }
    assert records.to_wire(5, Coverage(AT, b"/r", "partial", "watch limit")) == {
        "seq": 5,
        "at": str(AT),
        "type": "coverage",
        "path": "/r",
        "coverage": "partial",
        "why": "watch limit",
    }
