"""What stands in the place of a row that is damaged: the least that it may have held, and never more."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from storing import RUN, SCOPE, appending, entry, in_loop, kept, opened, put

from provd.core import clock, errors
from provd.core.entry import Entry, EntryId, Ruin
from provd.core.facts import ObjectState, Question
from provd.core.mutation import State
from provd.core.records import ALL, Gap, Mutation, MutationKind
from provd.recorder.applying import Forget
from provd.store import keys
from provd.store.files import UNSEEN, Files, Row
from provd.store.keys import OpenAction, PathState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.store import Store, Writer

BAD = [b"", b"\xc1", b"\x93\x01\x02", b"\xff" * 39]
LONG = b"/r/" + b"/".join([b"n" * 200] * 3)
K = EntryId(SCOPE, "k")


@pytest.fixture
def store(tmp_path: Any) -> Iterator[Store]:
    with opened(os.path.join(tmp_path, "store")) as store:
        yield store


def damage(store: Store, table: str, key: bytes, value: bytes) -> None:
    """Other bytes than were written in a row that is there."""
    with store.environment.env.begin(write=True, db=store.environment.tables[table]) as txn:
        assert txn.replace(key, value) is not None


def named(store: Store, path: bytes) -> int:
    return store.run(lambda writer: writer.append(Mutation(1, MutationKind.MODIFIED, path)))


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(("dep", "row"), [(b"/r/f", b"/r/f"), (b"tree:/r", b"/r"), (b"glob:/r/*", b"/r/f")])
def test_a_path_may_have_been_named_just_now(store: Store, bad: bytes, dep: bytes, row: bytes) -> None:
    first = named(store, b"/r/f")
    head = named(store, b"/s/x")
    damage(store, "touched", row, bad)
    with store.view() as view:
        if dep != b"glob:/r/*":  # of a pattern what lies in its base was seen to be older
            assert view.newest_mutation(kept(dep), first) == head
        assert not view.is_whole_since(kept(row), [row], first)
    assert store.damaged is not None
    last = named(store, b"/r/f")
    with store.view() as view:
        assert view.newest_mutation(kept(dep), head) == last
        assert view.newest_mutation(kept(dep), last) is None


def test_a_long_name_whose_end_is_lost_may_match(store: Store) -> None:
    first = named(store, LONG)
    other = named(store, b"/r/x")
    damage(store, "touched", keys.place_key(LONG), b"\0" * 40)
    with store.view() as view:
        assert view.newest_mutation(kept(b"glob:/r/**/y"), first) == other


@pytest.mark.parametrize("bad", BAD)
def test_a_gap_may_have_been_just_now(store: Store, bad: bytes) -> None:
    store.run(appending("x"))
    head = named(store, b"/r/f")
    damage(store, "gaps", b"/r", bad)
    with store.view() as view:
        assert view.newest_gap(b"/r/f") == head


@pytest.mark.parametrize("bad", BAD)
def test_an_object_or_a_path_may_have_been_written_just_now(store: Store, bad: bytes) -> None:
    def work(writer: Writer) -> None:
        writer.put_object(ObjectState(b"o", 1, 1))
        writer.put_path(PathState(b"/r/f", 1, 1))
        put(writer, entry("k", kept(b"object:o"), kept(b"/r/f")))

    store.run(work)
    damage(store, "objects", keys.object_key(b"o"), bad)
    damage(store, "written", keys.written_key(b"/r/f"), bad)
    with store.view() as view:
        facts = view.facts({K: view.entry(K)}, Question())
        assert facts.objects[b"o"].refused == clock.MAX_POSITION
        assert facts.touches[K, 1].declared_since(10**9)
        below = view.touch(kept(b"tree:/r"))
        assert below is not None
        assert below.declared_since(10**9)


@pytest.mark.parametrize("bad", BAD)
def test_what_changes_the_row_of_an_object_or_a_path_heals_it_and_forgets_nobody_who_is_at_it(
    store: Store, bad: bytes
) -> None:
    def work(writer: Writer) -> None:
        writer.put_object(ObjectState(b"o", 1, 1, (3,)))
        writer.put_path(PathState(b"/r/f", 1, 1, (3,)))
        writer.put_action(OpenAction(2, 0, (), (b"other",), (b"/r",)))
        writer.put_action(OpenAction(3, 0, (), (b"o",), (b"/r/f",)))
        writer.put_action(OpenAction(4, 0, (), (b"o",), (b"/r/f",)))

    store.run(work)
    head = named(store, b"/r/other")
    damage(store, "objects", keys.object_key(b"o"), bad)
    damage(store, "written", keys.written_key(b"/r/f"), bad)
    states = ObjectState(b"o", open=(3, 4), refused=head), PathState(b"/r/f", head, None, (3, 4))
    with store.view() as view:
        assert (view.object_state(b"o"), view.path_state(b"/r/f")) == states
    assert store.damaged is not None


@pytest.mark.parametrize("bad", BAD)
def test_a_record_is_a_gap_for_all_and_can_be_trimmed(store: Store, bad: bytes) -> None:
    positions = [store.run(appending(reason)) for reason in "abc"]
    damage(store, "log", clock.key(positions[0]), bad)
    with store.view() as view:
        told = view.records(0, 10)
        assert [at for at, _ in told] == positions
        assert told[0][1] == view.record(positions[0])
        assert isinstance(told[0][1], Gap)
        assert told[0][1].scope == ALL
    assert store.run(lambda writer: writer.trim(1, 0)) == 2
    with store.view() as view:
        assert [at for at, _ in view.records(0, 10)] == positions[2:]


@pytest.mark.parametrize("bad", BAD)
def test_a_file_is_another_than_is_there(store: Store, bad: bytes) -> None:
    def work(writer: Writer) -> bytes:
        files = Files(writer)
        files.put(b"/r/f", Row(State("f", 1, 2, 3, 4)))
        return files._key(b"/r/f") or b""

    damage(store, "files", store.run(work), bad)
    with store.view() as view:
        assert Files(view).get(b"/r/f") == Files(view).children(b"/r")[b"f"] == Row(UNSEEN)


@pytest.mark.parametrize("bad", [b"", b"\0", b"\0" * 9])
def test_no_two_directories_get_one_number(store: Store, bad: bytes) -> None:
    def make(name: bytes) -> int:
        directory = Row(State("d", 0, 0, 0, 7))
        return store.run(lambda writer: Files(writer).put(name, directory)).number

    numbers = [make(b"/r/a"), make(b"/r/b")]
    damage(store, "files", bytes(8), bad)
    numbers += [make(b"/r/c"), make(b"/r/d")]
    assert sorted(set(numbers)) == numbers


def _number(store: Store, path: bytes, number: int | None = None) -> int:
    """Puts a number into the row of a directory, that of another one perhaps; returns the one that it has."""

    def work(writer: Writer) -> tuple[bytes, Row]:
        files = Files(writer)
        row = files.get(path)
        assert row is not None
        return files._key(path) or b"", row

    key, row = store.run(work)
    if number is not None:
        harmed = msgspec.structs.replace(row, number=number)
        damage(store, "files", key, msgspec.msgpack.encode(harmed))
    return row.number


@pytest.mark.parametrize("harm", ["zero", "negative", "huge", "its own directory's", "further up", "not given out"])
def test_no_way_through_the_table_comes_back_to_itself(store: Store, harm: str) -> None:
    store.run(lambda writer: Files(writer).put(b"/r/a/b/f", Row(State("f", 1, 2, 3, 4))))
    number = {
        "zero": 0,
        "negative": -26,
        "huge": 2**64 - 1,
        "its own directory's": _number(store, b"/r/a"),
        "further up": _number(store, b"/r"),
        "not given out": _number(store, b"/r/a/b") + 1,
    }[harm]
    _number(store, b"/r/a/b", number)
    with store.view() as view:
        assert Files(view).children(b"/r/a") == {b"b": Row(UNSEEN)}
        assert Files(view).children(b"/r/a/b") == {}
        assert Files(view).get(b"/r/a/b/b") is Files(view).get(b"/r/a/b/a") is None
        assert len(list(islice(Files(view).below(b"/"), 100))) == 3
    assert store.damaged is not None

    def go_on(writer: Writer) -> None:
        files = Files(writer)
        files.put(b"/r/a/b", Row(State("d", 0, 0, 0, 7)))
        files.put(b"/r/a/b/g", Row(State("f", 1, 2, 3, 4)))

    store.run(go_on)
    with store.view() as view:
        assert [path for path, _ in islice(Files(view).below(b"/"), 100)] == [b"/r/a/b/g", b"/r/a/b", b"/r/a", b"/r"]


def test_a_row_that_leads_back_is_taken_away_like_a_file(store: Store) -> None:
    store.run(lambda writer: Files(writer).put(b"/r/a/f", Row(State("f", 1, 2, 3, 4))))
    _number(store, b"/r/a", _number(store, b"/r"))
    assert store.run(Forget(b"/r", [])).next == 1
    with store.view() as view:
        assert list(Files(view).below(b"/r")) == []


@pytest.mark.parametrize("harmed", [0, 1, 2**64 - 1])
def test_a_count_of_directories_that_is_another_one_gives_no_number_twice(store: Store, harmed: int) -> None:
    store.run(lambda writer: Files(writer).put(b"/r/a/b/f", Row(State("f", 1, 2, 3, 4))))
    used = {_number(store, path) for path in (b"/r", b"/r/a", b"/r/a/b")}
    damage(store, "files", bytes(8), harmed.to_bytes(8, "big"))
    store.run(lambda writer: Files(writer).put(b"/r/a/b/c/f", Row(State("f", 1, 2, 3, 4))))
    assert _number(store, b"/r/a/b/c") not in used


def test_what_has_the_name_of_another_one_was_written_just_now(store: Store) -> None:
    def work(writer: Writer) -> None:
        writer.put_object(ObjectState(b"o", last_end=1))
        writer.put_path(PathState(b"/r/f", last_end=1))

    store.run(work)
    damage(store, "objects", keys.object_key(b"o"), msgspec.msgpack.encode(ObjectState(b"p", last_end=1)))
    damage(store, "written", keys.written_key(b"/r/f"), msgspec.msgpack.encode(PathState(b"/r/g", last_end=1)))
    with store.view() as view:
        assert view._object_now(b"o").refused == view.touch_of(b"/r/f", structural=True).end == clock.MAX_POSITION
        assert view.object_state(b"o") == ObjectState(b"o", refused=view.head())
        assert view.path_state(b"/r/f") == PathState(b"/r/f", last_end=view.head())


@pytest.mark.parametrize("field", ["clock", "version", "proven"])
def test_nothing_of_an_entry_is_newer_than_the_record_that_changed_it_last(store: Store, field: str) -> None:
    store.run(lambda writer: put(writer, entry("k", kept(b"/r/f", proven=9))))
    [(key, row)] = _raw(store, "entries").items()
    there = msgspec.msgpack.decode(row, type=Entry)
    deps = (msgspec.structs.replace(there.deps[0], proven=11),) if there.deps else ()
    changes: dict[str, Any] = {"deps": deps} if field == "proven" else {field: 11}
    damage(store, "entries", key, msgspec.msgpack.encode(msgspec.structs.replace(there, **changes)))
    with store.view() as view:
        assert isinstance(view.entry_or_ruin(K), Ruin)


def _raw(store: Store, table: str) -> dict[bytes, bytes]:
    with store.environment.env.begin(db=store.environment.tables[table]) as txn:
        return dict(txn.cursor())


def test_an_entry_that_is_another_one_is_none(store: Store) -> None:
    store.run(lambda writer: put(writer, entry("k", kept(b"/r/f")), entry("other", kept(b"/r/g"))))
    mine, other = sorted(_raw(store, "entries"))
    damage(store, "entries", mine, _raw(store, "entries")[other])
    with store.view() as view:
        assert isinstance(view.entry_or_ruin(K), Ruin)
        assert not isinstance(view.entry_or_ruin(EntryId(SCOPE, "other")), Ruin)


@pytest.mark.parametrize("bad", BAD)
def test_of_a_scope_whose_number_is_lost_nothing_is_known(store: Store, bad: bytes) -> None:
    store.run(lambda writer: put(writer, entry("k", kept(b"/r/f"))))
    damage(store, "scopes", keys.short_hash(SCOPE), bad)
    with store.view() as view:
        assert isinstance(view.entry_or_ruin(K), Ruin)


@pytest.mark.parametrize("bad", BAD)
def test_forgetting_takes_all_rows_of_an_entry(store: Store, bad: bytes) -> None:
    before = {table: len(_raw(store, table)) for table in ("entries", "values", "paths", "others")}
    deps = (kept(b"/r/f", real=b"/s/f"), kept(b"object:o"), kept(b"entry:below"))
    store.run(lambda writer: put(writer, entry("k", *deps)))
    damage(store, "entries", next(iter(_raw(store, "entries"))), bad)
    store.run(lambda writer: writer.forget(K))
    assert {table: len(_raw(store, table)) for table in before} == before


def test_a_store_whose_log_does_not_end_at_its_head_is_set_aside(tmp_path: Any) -> None:
    directory = os.path.join(tmp_path, "store")
    with opened(directory) as store:
        store.run(appending("x"))
        damage(store, "meta", b"head", b"0")
    with opened(directory) as store:
        assert store.environment.set_aside is not None
        assert store.run(appending("new")) == store.head


def test_a_head_that_is_damaged_while_the_store_is_open_is_told_as_that(tmp_path: Any) -> None:
    async def body(store: Store) -> None:
        await store.submit(appending("x"))
        damage(store, "meta", b"head", b"\xc1")
        assert not store.is_own()
        with pytest.raises(errors.StoreDamaged), store.view():
            pass
        with pytest.raises(errors.StoreDamaged):
            await store.submit(appending("new"))
        assert store.lost is None

    in_loop(os.path.join(tmp_path, "store"), body)


NEEDED = [("meta", b"head"), ("runs", RUN.encode()), ("roots", keys.short_hash(b"/r")), ("actions", clock.key(1))]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(("table", "key"), NEEDED)
def test_a_store_without_what_a_start_needs_is_set_aside(tmp_path: Any, table: str, key: bytes, bad: bytes) -> None:
    directory = os.path.join(tmp_path, "store")

    def work(writer: Writer) -> None:
        writer.append(Gap(1, ALL, "started", RUN))
        writer.put_root(keys.Root(b"/r", 1, 2))
        writer.put_action(keys.OpenAction(1, 1, (), (), ()))

    with opened(directory) as store:
        store.run(work)
        log = store.log_id
        damage(store, table, key, bad)
    with opened(directory) as store:
        assert store.environment.set_aside is not None
        assert (store.head > 10**12, store.log_id != log) == (True, True)
        assert store.run(appending("new")) == store.head
