"""Numbers of records across starts, and what a store does with what it finds where it is opened."""

from __future__ import annotations

import hashlib
import os
import resource
import stat
import time
from typing import TYPE_CHECKING, Any

import lmdb
import pytest
from storing import RUN, appending, crashing_late, gap, in_loop, log_of, opened, refusing, together

from provd import places
from provd.core import clock, errors, records
from provd.core.records import ALL, Gap
from provd.store import Store, Writer
from provd.store.environment import FORMAT, TABLES
from provd.store.trouble import full_or_unusable

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def directory(tmp_path: Any) -> str:
    """Where a store may be made."""
    return os.path.join(tmp_path, "store")


def recording(record: records.Record) -> Callable[[Writer], int]:
    return lambda writer: writer.append(record)


# numbers


def test_numbers_have_no_holes_across_failures_and_starts(directory: str) -> None:
    expected = 0
    for _ in range(5):

        async def body(store: Store) -> list[Any]:
            return await together(store, appending(), refusing, appending(), crashing_late, appending())

        numbers = [one for one in in_loop(directory, body) if isinstance(one, int)]
        assert numbers == [expected + 1, expected + 2, expected + 3]
        expected += 3
    with opened(directory) as store, store.view() as view:
        assert [at for at, _ in log_of(view)] == list(range(1, expected + 1))
        assert (view.head(), view.oldest()) == (expected, 1)


def test_numbers_go_on_after_all_but_the_newest_record_was_trimmed(directory: str) -> None:
    with opened(directory) as store:
        store.run(lambda writer: [writer.append(gap()) for _ in range(5)])
        assert store.run(lambda writer: writer.trim(0, 0)) == 4
        with store.view() as view:
            assert (view.oldest(), view.head()) == (5, 5)
    with opened(directory) as store:
        assert store.run(appending()) == 6


def test_runs_have_the_positions_between_their_gaps(directory: str) -> None:
    spans = {}
    for n in range(3):
        run = f"{n:016x}"
        with opened(directory) as store:
            first = store.run(recording(Gap(1, ALL, "started", run)))
            last = first
            for _ in range(n):
                last = store.run(appending())
            spans[run] = clock.Span(first, last)
            with store.view() as view:
                assert view.runs() == spans
                assert view.gap_all() == first


def test_a_gap_of_a_root_is_no_gap_for_all(directory: str) -> None:
    with opened(directory) as store:
        assert store.run(lambda writer: writer.append(Gap(1, ALL, "started", RUN))) == 1
        store.run(appending("a root went"))
        with store.view() as view:
            assert view.gap_all() == 1


def test_records_are_read_in_order_and_in_slices(directory: str) -> None:
    with opened(directory) as store:
        store.run(lambda writer: [writer.append(gap(str(n))) for n in range(300)])
        with store.view() as view:
            assert [at for at, _ in view.records(0, 10)] == list(range(1, 11))
            assert [at for at, _ in view.records(250, 100)] == list(range(251, 301))
            assert view.records(300, 100) == []
            assert view.record(7) == gap("6")
            assert view.record(301) is None


# opening


def digests(directory: str) -> dict[str, str]:
    out = {}
    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name), "rb") as file:
            out[name] = hashlib.sha256(file.read()).hexdigest()
    return out


@pytest.mark.parametrize("newer", [b"%d" % (FORMAT + 1), b"99", b"123456789"])
def test_a_store_of_a_newer_format_is_refused_and_left_as_it_is(directory: str, newer: bytes) -> None:
    with opened(directory) as store:
        store.run(appending())
    with lmdb.open(directory, max_dbs=len(TABLES) + 3) as env:
        env.open_db(b"something new")
        meta = env.open_db(b"meta")
        with env.begin(write=True) as txn:
            txn.put(b"format", newer, db=meta)
    before = digests(directory)
    with pytest.raises(errors.VersionMismatch) as caught:
        Store(directory)
    assert caught.value.hint
    assert digests(directory)["data.mdb"] == before["data.mdb"]
    assert os.listdir(os.path.dirname(directory)) == ["store"]


@pytest.mark.parametrize("written", [b"", b"0", b"c", b"-3", b"\xff", b"9" * 400])
def test_a_format_that_is_no_number_is_damage(directory: str, written: bytes) -> None:
    with opened(directory) as store:
        store.run(appending())
    with lmdb.open(directory, max_dbs=len(TABLES) + 3) as env, env.begin(write=True) as txn:
        txn.put(b"format", written, db=env.open_db(b"meta", txn=txn))
    with opened(directory) as store:
        assert store.environment.set_aside is not None
        assert store.head > 10**12


@pytest.mark.parametrize("size", [10, 100, 4096, 100_000])
def test_garbage_is_set_aside_and_a_new_log_begins(directory: str, size: int) -> None:
    os.mkdir(directory)
    junk = os.urandom(size)
    with open(os.path.join(directory, "data.mdb"), "wb") as file:
        file.write(junk)
    with opened(directory) as store:
        aside = store.environment.set_aside
        assert aside is not None
        assert store.head > 10**12
        assert store.run(appending()) == store.head
    with open(os.path.join(aside, "data.mdb"), "rb") as file:
        assert file.read() == junk
    assert sorted(os.listdir(os.path.dirname(directory))) == sorted(["store", os.path.basename(aside)])


def test_a_store_with_garbage_inside_is_set_aside_and_gets_a_new_log_id(directory: str) -> None:
    with opened(directory) as store:
        store.run(lambda writer: [writer.append(gap("x" * 100)) for _ in range(1000)])
        log_id = store.log_id
    path = os.path.join(directory, "data.mdb")
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.seek(2 * 4096)
        file.write(os.urandom(size - 2 * 4096))
    with opened(directory) as store:
        assert store.environment.set_aside is not None
        assert store.log_id != log_id
        assert store.head > 10**12
        assert store.run(appending()) == store.head
        assert os.path.getsize(os.path.join(store.environment.set_aside, "data.mdb")) == size


def test_a_log_after_one_that_was_set_aside_begins_where_none_before_it_was(directory: str) -> None:
    """Broken: whoever was told a version by the old log finds another value under it."""
    with opened(directory) as store:
        assert store.run(appending()) == 1
    with open(os.path.join(directory, "data.mdb"), "r+b") as file:
        file.write(b"\xa5" * 8192)
    with opened(directory) as store:
        assert store.environment.set_aside is not None
        begins = store.head
        assert begins > 10**12
    with opened(directory) as store:  # it ended before it wrote anything
        assert store.environment.set_aside is None
        assert store.run(appending()) == begins + 1
    with opened(directory) as store, store.view() as view:
        assert (view.head(), view.oldest()) == (begins + 1, begins + 1)


def test_it_does_so_where_the_start_that_set_it_aside_was_killed(directory: str) -> None:
    """Broken: the number is written after the log is there, so that a kill in between leaves a log that begins at 1."""
    os.mkdir(f"{directory}{places.UNUSABLE}1700000000000000000")
    with opened(directory) as store:
        assert store.head > 10**12
        assert store.run(appending()) == store.head


def test_numbers_go_on_though_the_clock_was_set_back(directory: str) -> None:
    for name in (4 * 10**18, 10**19, "9" * 100, "\u00b2", "old", ""):  # some of them are somebody else's
        os.mkdir(f"{directory}{places.UNUSABLE}{name}")
    with opened(directory) as store:
        assert store.head == 4 * 10**15


def test_a_log_that_grows_as_fast_as_it_can_leaves_room_for_the_next(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken: numbers in milliseconds, of which a log takes several."""
    os.mkdir(f"{directory}{places.UNUSABLE}{10**18}")
    with opened(directory) as store:
        begins = store.head
    monkeypatch.setattr(time, "time_ns", lambda: begins * 1000 + 10**9)
    with open(os.path.join(directory, "data.mdb"), "r+b") as file:
        file.write(b"\xa5" * 8192)
    with opened(directory) as store:
        assert store.head - begins == 10**6, "in a second"


def test_an_empty_file_becomes_a_store(directory: str) -> None:
    os.mkdir(directory)
    with open(os.path.join(directory, "data.mdb"), "wb"):
        pass
    with opened(directory) as store:
        assert store.environment.set_aside is None
        assert store.run(appending()) == 1


def test_a_log_keeps_its_id_and_two_logs_have_two(directory: str, tmp_path: Any) -> None:
    with opened(directory) as store:
        log_id = store.log_id
        assert len(log_id) == 16
        int(log_id, 16)
    with opened(directory) as store, opened(os.path.join(tmp_path, "other")) as other:
        assert store.log_id == log_id != other.log_id


def test_a_directory_that_cannot_be_made_is_a_clear_error(tmp_path: Any) -> None:
    with open(os.path.join(tmp_path, "file"), "wb"):
        pass
    with pytest.raises(errors.StoreUnusable) as caught:
        Store(os.path.join(tmp_path, "file", "store"))
    assert caught.value.hint


def test_nobody_else_may_read_the_store(directory: str) -> None:
    before = os.umask(0)
    try:
        with opened(directory) as store:
            store.run(appending())
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
    assert {stat.S_IMODE(os.stat(os.path.join(directory, name)).st_mode) for name in os.listdir(directory)} == {0o600}


@pytest.mark.parametrize("text", ["mdb_txn_commit: Input/output error", "mdb_put: File too large"])
def test_a_file_that_may_not_grow_is_told_as_that(directory: str, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    with opened(directory):
        monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 20, 1 << 20))
        told = full_or_unusable(lmdb.Error(text), directory)
        assert isinstance(told, errors.StoreFull)
        assert "ulimit -f" in told.message
        monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 40, 1 << 40))
        assert isinstance(full_or_unusable(lmdb.Error(text), directory), errors.StoreUnusable)
