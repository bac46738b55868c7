"""The store on a real LMDB: what is answered is durable, what is refused leaves nothing, and indexes tell the truth."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import tempfile
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import lmdb
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provd import faults
from provd.core import clock, errors, records
from provd.core.dependency import Kind, Member, parse, touches
from provd.core.entry import Entry, EntryId, Kept, Standing
from provd.core.reading import Found
from provd.core.records import ALL, Action, ActionEvent, EntryChange, EntryEvent, Gap
from provd.core.verdict import Judgements, NeedDigests, ObjectState, Question, Touch, Verdict, settle, triage
from provd.store import Store, View, Writer
from provd.store.environment import FORMAT, TABLES
from provd.store.keys import Answered, OpenAction, PathState, Root, Stored

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

T = TypeVar("T")
SCOPE: Final = b"/r"
ONE: Final = "xxh3:" + "1" * 32
RUN: Final = "0123456789abcdef"
MEMORY: Final = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
SMALL: Final = 1 << 18
"""Bytes of a map that is soon full."""


@pytest.fixture
def directory(tmp_path: Any) -> str:
    """Where a store may be made."""
    return os.path.join(tmp_path, "store")


@contextmanager
def opened(directory: str, **more: Any) -> Iterator[Store]:
    """A store without a loop: commands go through `run`."""
    store = Store(directory, **more)
    try:
        yield store
    finally:
        store.stop()


@contextmanager
def scratch() -> Iterator[Store]:
    """A store for one example of a property, in memory where that is possible: there are many."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory, opened(os.path.join(directory, "store")) as store:
        yield store


def in_loop(directory: str, body: Callable[[Store], Awaitable[T]], **more: Any) -> T:
    """Runs `body` with a store whose writer thread runs."""

    async def main() -> T:
        store = Store(directory, **more)
        store.start(asyncio.get_running_loop())
        try:
            return await body(store)
        finally:
            store.stop()

    return asyncio.run(main())


def gap(reason: str = "x", scope: bytes = b"/r") -> Gap:
    return Gap(1, scope, reason)


def appending(reason: str = "x") -> Callable[[Writer], int]:
    return lambda writer: writer.append(gap(reason))


def log_of(view: View) -> list[tuple[int, str]]:
    return [(at, one.reason if isinstance(one, Gap) else "") for at, one in view.records(0, 100_000)]


def entry(key: str, *deps: Kept, version: int = 5, at: int = 10, scope: bytes = SCOPE) -> Entry:
    return Entry(EntryId(scope, key), version, version, at, deps, 0)


def kept(text: bytes, real: bytes | None = None, **more: Any) -> Kept:
    return Kept(parse(text, SCOPE), real=real, **more)


def put(writer: Writer, *some: Entry) -> None:
    for one in some:
        writer.put_entry(one, Stored(b"1", None), {})


def recording(record: records.Record) -> Callable[[Writer], int]:
    return lambda writer: writer.append(record)


def keeping(*some: PathState | OpenAction | Root) -> Callable[[Writer], None]:
    def command(writer: Writer) -> None:
        for one in some:
            match one:
                case PathState():
                    writer.put_path(one)
                case OpenAction():
                    writer.put_action(one)
                case Root():
                    writer.put_root(one)

    return command


def keys_of(entries: list[Entry]) -> set[str]:
    return {one.id.key for one in entries}


class Gate:
    """A command that holds the writer until it is opened, so that what comes meanwhile is one group."""

    def __init__(self) -> None:
        self.held = threading.Event()
        self._open = threading.Event()

    def __call__(self, _: Writer) -> None:
        self.held.set()
        assert self._open.wait(60)

    async def closed(self, store: Store) -> asyncio.Future[None]:
        future = store.submit(self)
        await asyncio.to_thread(self.held.wait, 60)
        return future

    def open(self) -> None:
        self._open.set()


async def together(store: Store, *commands: Callable[[Writer], Any]) -> list[Any]:
    """What becomes of commands that are carried out as one group."""
    gate = Gate()
    first = await gate.closed(store)
    futures = [store.submit(command) for command in commands]
    gate.open()
    await first
    return list(await asyncio.gather(*futures, return_exceptions=True))


# groups


def test_what_waits_while_a_transaction_is_synced_shares_the_next_one(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[str] = []
    monkeypatch.setattr(faults, "point", passed.append)

    async def body(store: Store) -> list[Any]:
        return await together(store, *(appending(str(n)) for n in range(50)))

    assert in_loop(directory, body) == list(range(1, 51))
    assert passed == ["commit.begin", "commit.filled", "commit.before", "commit.after"] * 2


def test_nothing_is_answered_before_its_transaction_is_durable(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr(faults, "point", events.append)

    async def body(store: Store) -> None:
        loop = asyncio.get_running_loop()
        called = loop.call_soon_threadsafe

        def told(callback: Any, *more: Any, **context: Any) -> Any:
            events.append("told")
            return called(callback, *more, **context)

        monkeypatch.setattr(loop, "call_soon_threadsafe", told)
        store.on_commit = lambda head: events.append(f"head {head}")
        future = store.submit(appending())
        future.add_done_callback(lambda _: events.append("answered"))
        assert await future == 1
        assert store.head == 1

    in_loop(directory, body)
    assert events[:4] == ["commit.begin", "commit.filled", "commit.before", "commit.after"]
    assert events.index("told") > events.index("commit.after")
    assert events.index("answered") > events.index("told")
    assert "head 1" in events


def test_the_head_moves_with_the_answer_and_not_before(directory: str) -> None:
    async def body(store: Store) -> None:
        gate = Gate()

        def command(writer: Writer) -> int:
            position = writer.append(gap())
            gate(writer)
            return position

        future = store.submit(command)
        await asyncio.to_thread(gate.held.wait, 60)
        assert store.head == 0
        with store.view() as view:
            assert view.head() == 0
            assert view.record(1) is None
        gate.open()
        assert await future == 1
        assert store.head == 1

    in_loop(directory, body)


def test_a_command_that_is_not_waited_for_is_carried_out(directory: str) -> None:
    async def body(store: Store) -> None:
        gate = Gate()
        first = await gate.closed(store)
        lost, last = store.submit(appending("lost")), store.submit(appending("last"))
        lost.cancel()
        gate.open()
        await first
        assert await last == 2
        with store.view() as view:
            assert log_of(view) == [(1, "lost"), (2, "last")]

    in_loop(directory, body)


def test_stopping_carries_out_what_was_submitted(directory: str) -> None:
    async def body(store: Store) -> None:
        gate = Gate()
        await gate.closed(store)
        for n in range(3):
            store.submit(appending(str(n)))
        gate.open()

    in_loop(directory, body)
    with opened(directory) as store, store.view() as view:
        assert log_of(view) == [(1, "0"), (2, "1"), (3, "2")]


def test_a_store_that_was_not_started_takes_no_commands(directory: str) -> None:
    with opened(directory) as store, pytest.raises(errors.Internal):
        store.submit(appending())


# commands that fail


def refusing(_: Writer) -> None:
    raise errors.EntryConflict("no", "no")


def failing_late(writer: Writer) -> None:
    writer.append(gap("never"))
    writer.put_object(ObjectState(b"never", 1))
    put(writer, entry("never", kept(b"file:never")))
    raise errors.EntryConflict("too late", "no")


def crashing_late(writer: Writer) -> None:
    writer.append(gap("never"))
    raise ZeroDivisionError


def raising_of_lmdb(writer: Writer) -> None:
    writer.append(gap("never"))
    writer._txn.put(b"x" * 600, b"", db=writer._tables["meta"])


def is_as_if_never(view: View) -> None:
    assert view.object_state(b"never") == ObjectState(b"never")
    assert view.entry(EntryId(SCOPE, "never")) is None
    assert view.on_path(b"/r/never") == []
    assert "never" not in {reason for _, reason in log_of(view)}


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (refusing, errors.EntryConflict),
        (failing_late, errors.EntryConflict),
        (crashing_late, ZeroDivisionError),
        (raising_of_lmdb, errors.StoreUnusable),
    ],
)
@pytest.mark.parametrize("size", [1, 4])
def test_a_command_that_fails_leaves_nothing_and_its_group_goes_on(
    directory: str, command: Callable[[Writer], Any], error: type[Exception], size: int
) -> None:
    async def body(store: Store) -> None:
        commands = [appending(str(n)) for n in range(size)]
        outcomes = await together(store, *commands[: size // 2], command, *commands[size // 2 :])
        failed = outcomes.pop(size // 2)
        assert type(failed) is error
        assert outcomes == list(range(1, size + 1))
        assert await store.submit(appending("after")) == size + 1
        with store.view() as view:
            assert log_of(view) == [*((n + 1, str(n)) for n in range(size)), (size + 1, "after")]
            is_as_if_never(view)

    in_loop(directory, body)
    with opened(directory) as store, store.view() as view:
        is_as_if_never(view)
        assert store.head == size + 1


def test_all_of_a_group_may_fail(directory: str) -> None:
    async def body(store: Store) -> None:
        outcomes = await together(store, failing_late, refusing, crashing_late)
        assert [type(one) for one in outcomes] == [errors.EntryConflict, errors.EntryConflict, ZeroDivisionError]
        assert store.head == 0

    in_loop(directory, body)


def test_a_command_at_the_start_is_durable_when_it_returns_and_raises_what_it_raises(directory: str) -> None:
    with opened(directory) as store:
        assert store.run(appending("start")) == 1
        assert store.head == 1
        with pytest.raises(errors.EntryConflict):
            store.run(refusing)
    with opened(directory) as store, store.view() as view:
        assert log_of(view) == [(1, "start")]


# a full map


def bulky(writer: Writer) -> None:
    for _ in range(1000):
        writer.append(gap("never" + "x" * 1000))


def test_what_does_not_fit_the_map_is_refused_and_smaller_ones_succeed(directory: str) -> None:
    async def body(store: Store) -> None:
        outcomes = await together(store, appending("a"), bulky, appending("b"))
        assert outcomes[0::2] == [1, 2]
        assert isinstance(outcomes[1], errors.StoreFull)
        assert outcomes[1].hint
        assert await store.submit(appending("c")) == 3
        with store.view() as view:
            assert log_of(view) == [(1, "a"), (2, "b"), (3, "c")]
        assert store.reopened == 0

    in_loop(directory, body, map_size=SMALL)


def test_when_the_map_is_full_changes_are_refused_and_reading_goes_on(directory: str) -> None:
    async def body(store: Store) -> int:
        told = 0
        while True:
            try:
                told = await store.submit(appending("y" * 1000))
            except errors.StoreFull:
                break
        for _ in range(3):
            with pytest.raises(errors.StoreFull):
                await store.submit(bulky)
            assert store.head == told
            with store.view() as view:
                assert [at for at, _ in log_of(view)] == list(range(1, told + 1))
        return told

    told = in_loop(directory, body, map_size=SMALL)
    with opened(directory) as store:
        assert store.head == told, "a larger map goes on where the smaller one was full"
        assert store.run(appending()) == told + 1


def test_a_map_too_small_for_a_store_is_a_clear_error(directory: str) -> None:
    with pytest.raises(errors.StoreFull):
        Store(directory, map_size=4096)


# a failed sync


class FailingEnvironment:
    """An environment whose next commits fail as a disk does; nothing of them is kept."""

    def __init__(self, env: lmdb.Environment, error: Exception) -> None:
        self._env = env
        self._error = error
        self.closed = False

    @contextmanager
    def begin(self, *, write: bool = False) -> Iterator[lmdb.Transaction]:
        txn = self._env.begin(write=write)
        try:
            yield txn
        finally:
            txn.abort()
        if write:
            raise self._error

    def close(self) -> None:
        self.closed = True
        self._env.close()


@pytest.mark.parametrize(
    "error", [lmdb.DiskError("fsync: Input/output error"), lmdb.Error("Input/output error"), lmdb.PanicError("no")]
)
@pytest.mark.parametrize("size", [1, 3])
def test_after_a_failed_sync_nothing_is_acknowledged_until_the_store_was_reopened(
    directory: str, error: Exception, size: int
) -> None:
    async def body(store: Store) -> None:
        assert await store.submit(appending("before")) == 1
        failing: Any = FailingEnvironment(store.environment.env, error)
        gate = Gate()
        first = await gate.closed(store)
        store.environment.env = failing
        futures = [store.submit(appending(str(n))) for n in range(size)]
        reopened_at_answer: list[int] = []
        for future in futures:
            future.add_done_callback(lambda _: reopened_at_answer.append(store.reopened))
        gate.open()
        await first
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        assert failing.closed
        assert reopened_at_answer == [1] * size
        done = [one for one in outcomes if isinstance(one, int)]
        refused = [one for one in outcomes if not isinstance(one, int)]
        assert {type(one) for one in refused} <= {errors.StoreUnusable}
        assert size > 1 or refused, "alone, it is told"
        with store.view() as view:
            assert [at for at, _ in log_of(view)] == [1, *done]
        assert store.head == 1 + len(done)
        assert await store.submit(appending("after")) == store.head

    in_loop(directory, body)
    with opened(directory) as store, store.view() as view:
        assert [at for at, _ in log_of(view)] == list(range(1, store.head + 1))


def test_a_disk_without_space_is_a_full_store(directory: str) -> None:
    async def body(store: Store) -> None:
        env: Any = FailingEnvironment(store.environment.env, lmdb.DiskError("mdb_txn_commit: No space left on device"))
        store.environment.env = env
        with pytest.raises(errors.StoreFull) as caught:
            await store.submit(appending())
        assert caught.value.hint
        assert await store.submit(appending()) == 1

    in_loop(directory, body)


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


@pytest.mark.parametrize("newer", [b"%d" % (FORMAT + 1), b"99", b"next"])
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


@pytest.mark.parametrize("size", [10, 100, 4096, 100_000])
def test_garbage_is_set_aside_and_a_new_log_begins(directory: str, size: int) -> None:
    os.mkdir(directory)
    junk = os.urandom(size)
    with open(os.path.join(directory, "data.mdb"), "wb") as file:
        file.write(junk)
    with opened(directory) as store:
        aside = store.environment.set_aside
        assert aside is not None
        assert store.head == 0
        assert store.run(appending()) == 1
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
        assert store.head == 0
        assert store.run(appending()) == 1
        assert os.path.getsize(os.path.join(store.environment.set_aside, "data.mdb")) == size


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


# entries


def test_an_entry_comes_back_with_its_value_and_its_members(directory: str) -> None:
    one = entry("k", kept(b"dir:d", digest=ONE), kept(b"a\xff", digest="absent"))
    held = (Member("f", b"\xff", b"1"), Member("d", b"x", b""))
    with opened(directory) as store:
        store.run(lambda writer: writer.put_entry(one, Stored(b'{"a":1}', b"{}"), {0: held}))
    with opened(directory) as store, store.view() as view:
        assert view.entry(one.id) == one
        assert view.stored(one.id) == Stored(b'{"a":1}', b"{}")
        assert view.members(one.id, 0) == held
        assert view.members(one.id, 1) is None
        assert list(view.all_entries()) == [one]
        assert view.entry(EntryId(b"/s", "k")) is None
        assert view.stored(EntryId(b"/s", "k")) == Stored(None, None)


def test_one_key_in_two_scopes_is_two_entries(directory: str) -> None:
    with opened(directory) as store:
        store.run(lambda w: put(w, entry("k", version=1, scope=b"/a"), entry("k", version=2, scope=b"=a")))
        with store.view() as view:
            assert [view.entry(EntryId(scope, "k")).version for scope in (b"/a", b"=a")] == [1, 2]  # type: ignore[union-attr]


def test_a_value_that_stays_and_members_of_dependencies_that_went(directory: str) -> None:
    old = entry("k", kept(b"dir:d", digest=ONE), kept(b"dir:e", digest=ONE))
    new = msgspec.structs.replace(old, deps=(kept(b"dir:f", digest=ONE),), renewed=9)
    with opened(directory) as store:
        store.run(lambda w: w.put_entry(old, Stored(b"1", None), {0: (), 1: ()}))
        store.run(lambda w: w.put_entry(new, None, {}))
        with store.view() as view:
            assert view.stored(old.id) == Stored(b"1", None)
            assert [view.members(old.id, n) for n in range(2)] == [None, None]
            assert (view.count("paths"), view.count("members")) == (1, 0), "no row is left behind"
            assert [keys_of(view.on_path(p)) for p in (b"/r/d", b"/r/e", b"/r/f")] == [set(), set(), {"k"}]


def test_precedents_are_kept_in_order(directory: str) -> None:
    with opened(directory) as store:

        def command(writer: Writer) -> None:
            for n in (300, 1, 70_000):
                old = msgspec.structs.replace(entry("k", version=n), standing=Standing.REVOKED)
                writer.archive(old, "superseded", Stored(b"%d" % n, None))

        store.run(command)
        with store.view() as view:
            told = view.archived(EntryId(SCOPE, "k"))
            assert [(a.entry.version, a.reason, a.value) for a in told] == [
                (1, "superseded", b"1"),
                (300, "superseded", b"300"),
                (70_000, "superseded", b"70000"),
            ]
            assert view.archived(EntryId(SCOPE, "other")) == []


def test_forgetting_leaves_no_row_behind(directory: str) -> None:
    one = entry("k", kept(b"dir:d", b"/real/d", digest=ONE), kept(b"object:o"), kept(b"entry:e"), kept(b"a"))
    with opened(directory) as store:
        store.run(lambda w: w.put_entry(one, Stored(b"1", b"{}"), {0: (Member("f", b"x", b""),)}))
        store.run(lambda w: w.archive(one, "late", Stored(None, None)))
        store.run(lambda w: w.forget(one.id))
        with store.view() as view:
            tables = ("entries", "values", "archive", "members", "paths", "others")
            assert {table: view.count(table) for table in tables} == dict.fromkeys(tables, 0)


LONG: Final = ["x" * 1024, "x" * 1023 + "y", "x" * 470, "x" * 471, "x" * 469, "\u00e4" * 512, "x"]


def test_keys_as_long_as_the_limit_are_kept_apart(directory: str) -> None:
    with opened(directory) as store:
        store.run(lambda w: put(w, *(entry(key, version=n) for n, key in enumerate(LONG))))
        with store.view() as view:
            for n, key in enumerate(LONG):
                found = view.entry(EntryId(SCOPE, key))
                assert found is not None
                assert (found.version, found.id.key) == (n, key)
            assert keys_of(view.entries(SCOPE, "x" * 471, None, 100)) == {"x" * 471, "x" * 1024, "x" * 1023 + "y"}
            assert keys_of(view.entries(SCOPE, "x" * 1023, None, 100)) == {"x" * 1024, "x" * 1023 + "y"}
            assert keys_of(view.entries(SCOPE, "x" * 1025, None, 100)) == set()
        store.run(lambda w: w.forget(EntryId(SCOPE, "x" * 1024)))
        with store.view() as view:
            assert keys_of(view.entries(SCOPE, "", None, 100)) == set(LONG) - {"x" * 1024}


some_keys = st.one_of(
    st.text("ab\u00e4", min_size=1, max_size=4),
    st.tuples(st.sampled_from([468, 469, 470, 471, 1000]), st.text("ab", max_size=3)).map(lambda t: "a" * t[0] + t[1]),
)


@settings(deadline=None, max_examples=30)
@given(st.sets(some_keys, max_size=12), st.lists(st.tuples(some_keys | st.just(""), st.integers(1, 4)), max_size=6))
def test_listing_by_prefix_and_in_pages_tells_each_entry_once(keys: set[str], asked: list[tuple[str, int]]) -> None:
    with scratch() as store:
        store.run(lambda w: put(w, *(entry(key) for key in keys), entry("other", scope=b"/s"), entry("a", scope=b"=a")))
        with store.view() as view:
            for prefix, limit in [*asked, ("", 3)]:
                whole = [one.id.key for one in view.entries(SCOPE, prefix, None, 1000)]
                assert sorted(whole) == sorted(key for key in keys if key.startswith(prefix))
                assert [k.encode()[:470] for k in whole] == sorted(k.encode()[:470] for k in whole)
                paged: list[str] = []
                while page := view.entries(SCOPE, prefix, paged[-1] if paged else None, limit):
                    assert len(page) <= limit
                    paged += [one.id.key for one in page]
                assert paged == whole


def test_a_page_goes_on_after_a_key_that_is_gone(directory: str) -> None:
    with opened(directory) as store:
        store.run(lambda w: put(w, *(entry(key) for key in "abcd")))
        store.run(lambda w: w.forget(EntryId(SCOPE, "b")))
        with store.view() as view:
            assert [one.id.key for one in view.entries(SCOPE, "", "b", 10)] == ["c", "d"]
            assert view.entries(SCOPE, "", "d", 10) == []
            assert view.entries(b"/nowhere", "", None, 10) == []


# what rests on what


def test_paths_as_long_as_the_limit_are_found(directory: str) -> None:
    deep = b"/r" + b"/x" * 2047
    assert len(deep) == 4096
    twin = deep[:-1] + b"y"
    above = deep[:3000].rstrip(b"/")
    with opened(directory) as store:
        store.run(
            lambda w: put(
                w,
                entry("deep", kept(b"file:" + deep)),
                entry("twin", kept(b"file:" + twin)),
                entry("tree", kept(b"tree:" + above)),
                entry("names", kept(b"names:" + deep[:-1] + b"*")),
                entry("other", kept(b"file:/s" + deep[2:])),
            )
        )
        with store.view() as view:
            assert keys_of(view.on_path(deep)) == {"deep", "tree", "names"}
            assert keys_of(view.on_path(twin)) == {"twin", "tree", "names"}
            assert keys_of(view.on_path(above)) == {"deep", "twin", "tree", "names"}
            assert keys_of(view.on_path(above + b"/y")) == {"tree"}
            assert keys_of(view.on_path(b"/r")) == {"deep", "twin", "tree", "names"}
            assert keys_of(view.on_path(b"/")) == {"deep", "twin", "tree", "names", "other"}


parts = st.sampled_from([b"a", b"b", b"a", b"b", b"ab", b".c", b"a" * 250])
some_paths = st.lists(parts, max_size=3).map(lambda p: b"/" + b"/".join(p))
patterns = st.sampled_from([b"*", b"a*", b"**", b"**/b", b"*/b", b"b"])


@st.composite
def path_deps(draw: st.DrawFn) -> Kept:
    kind = draw(st.sampled_from(["file", "dir", "tree", "names", "glob"]))
    path = draw(some_paths)
    if kind in {"names", "glob"}:
        path = path.rstrip(b"/") + b"/" + draw(patterns)
    return kept(kind.encode() + b":" + path, draw(st.none() | some_paths))


small_keys = st.sampled_from("klmnop")
ANY_DEPS: Final = st.one_of(
    path_deps(),
    path_deps(),
    st.sampled_from([b"object:x", b"object:y", b"entry:k", b"entry:l"]).map(kept),
)
changes = st.lists(st.tuples(small_keys, st.none() | st.lists(ANY_DEPS, max_size=4)), max_size=10)


@settings(deadline=None, max_examples=100)
@given(changes, st.lists(some_paths, min_size=1, max_size=8))
def test_what_rests_on_what_is_found_as_by_looking_at_all(
    history: list[tuple[str, list[Kept] | None]], written: list[bytes]
) -> None:
    """Entries are put, put again with other dependencies, and forgotten: the index follows."""
    model: dict[str, Entry] = {}
    with scratch() as store:

        def change(writer: Writer) -> None:
            for version, (key, deps) in enumerate(history, 1):
                if deps is None:
                    writer.forget(EntryId(SCOPE, key))
                    model.pop(key, None)
                else:
                    model[key] = entry(key, *deps, version=version)
                    put(writer, model[key])

        store.run(change)
        with store.view() as view:
            assert {one.id.key: one for one in view.all_entries()} == model
            deps = [k for one in model.values() for k in one.deps or ()]
            named = [k.dep.name for k in deps if k.dep.kind is Kind.FILE] + [k.real for k in deps if k.real]
            for path in [*written, *named, b"/"]:
                on = {
                    key
                    for key, one in model.items()
                    if any(k.dep.name[:1] == b"/" and touches(k.dep, k.real, path) for k in one.deps or ())
                }
                assert keys_of(view.on_path(path)) == on
                assert [one.id.key for one in view.on_path(path)] == sorted(on), "each once, in order"
            for name in (b"x", b"y", b"z"):
                on = {k for k, one in model.items() if any(d.dep.text == b"object:" + name for d in one.deps or ())}
                assert keys_of(view.on_object(name)) == on
            for ground in (EntryId(SCOPE, key) for key in "klm"):
                on = {key for key, one in model.items() if ground in one.entry_ids()}
                assert keys_of(view.on_entry(ground)) == on


def test_the_limit_counts_what_rests_on_a_write_at_any_depth(directory: str) -> None:
    chain = [entry("000", kept(b"object:x")), *(entry(f"{n:03}", kept(b"entry:%03d" % (n - 1))) for n in range(1, 200))]
    with opened(directory) as store:
        store.run(lambda w: put(w, *chain))
        with store.view() as view:
            assert view.touched([b"x"], [], 1000) == [one.id for one in chain]
            assert view.touched([b"x", b"x"], [], 50) == [one.id for one in chain[:50]]
            assert view.touched([b"y"], [b"/r"], 1000) == []


def test_a_ring_of_dependents_ends(directory: str) -> None:
    with opened(directory) as store:
        store.run(lambda w: put(w, entry("k", kept(b"entry:l"), kept(b"object:x")), entry("l", kept(b"entry:k"))))
        with store.view() as view:
            assert {i.key for i in view.touched([b"x"], [], 100)} == {"k", "l"}


# what actions declared

ends = st.tuples(some_paths, st.integers(1, 100), st.booleans())


@settings(deadline=None, max_examples=200)
@given(st.lists(ends, max_size=8), path_deps())
def test_the_newest_declared_write_is_found_as_by_looking_at_all(
    written: list[tuple[bytes, int, bool]], one: Kept
) -> None:
    states = {path: PathState(path, end, end * 2, (end * 2 + 1,) if is_open else ()) for path, end, is_open in written}
    with scratch() as store:
        store.run(keeping(*states.values()))
        on = [state for state in states.values() if touches(one.dep, one.real, state.path)]
        opened_ = [state.open[-1] for state in on if state.open]
        with store.view() as view:
            told = view.touch(one)
        if opened_:
            assert told == Touch(None, max(opened_))
        elif on:
            assert told is not None
            newest = max(state.last_end for state in on)
            assert told == Touch(newest, newest * 2)
        else:
            assert told is None


def test_actions_objects_and_roots_come_back_in_order(directory: str) -> None:
    actions = [OpenAction(n, 1, (b"object:x",), (b"x",), (b"/r/\xff",), turn="t") for n in (70_000, 3, 300)]
    state = ObjectState(b"x" * 1024, 5, 3, (7,), 9)
    roots = [Root(b"/b", 1, 2), Root(b"/a\xff", 1, 3, ("*.o",))]
    with opened(directory) as store:
        store.run(keeping(*actions))
        store.run(lambda w: w.put_object(state))
        store.run(keeping(*roots))
    with opened(directory) as store:
        with store.view() as view:
            assert [action.id for action in view.actions()] == [3, 300, 70_000]
            assert view.action(300) == actions[2]
            assert [view.action(n) for n in (4, -1, 2**63, 2**80)] == [None] * 4
            assert view.object_state(b"x" * 1024) == state
            assert view.object_state(b"x" * 1023) == ObjectState(b"x" * 1023)
            assert sorted(view.roots(), key=lambda r: r.path) == sorted(roots, key=lambda r: r.path)
        store.run(lambda w: w.delete_action(300))
        store.run(lambda w: w.delete_root(b"/b"))
        with store.view() as view:
            assert [action.id for action in view.actions()] == [3, 70_000]
            assert view.roots() == [roots[1]]


# trimming


def change(op: bytes = b"", at: int = 1) -> EntryChange:
    return EntryChange(at, EntryEvent.PUT, SCOPE, "k", 1, op=op)


def test_trimming_goes_by_count_and_by_age_from_the_oldest(directory: str) -> None:
    with opened(directory) as store:
        store.run(lambda w: [w.append(change(at=n)) for n in range(1, 11)])
        assert store.run(lambda w: w.trim(8, 0)) == 2
        assert store.run(lambda w: w.trim(8, 0)) == 0
        assert store.run(lambda w: w.trim(8, 5)) == 2
        assert store.run(lambda w: w.trim(1000, 100)) == 5
        with store.view() as view:
            assert (view.oldest(), view.head()) == (10, 10)
        assert store.run(lambda w: w.trim(0, 10**30)) == 0, "the newest record stays"


def test_trimming_takes_a_slice_at_a_time(directory: str) -> None:
    with opened(directory) as store:
        store.run(lambda w: [w.append(gap()) for _ in range(2500)])
        assert [store.run(lambda w: w.trim(1, 0)) for _ in range(4)] == [1000, 1000, 499, 0]


def test_the_answer_to_an_op_goes_with_its_record(directory: str) -> None:
    with opened(directory) as store:

        def command(writer: Writer) -> None:
            for op in ("a", "b"):
                position = writer.append(change(Writer.op_key(b"entry.put", op)))
                writer.put_answer(b"entry.put", op, Answered(position, b"{}"))

        store.run(command)
        store.run(lambda w: w.trim(1, 0))
        with store.view() as view:
            assert view.answered(b"entry.put", "a") is None
            assert view.answered(b"entry.put", "b") == Answered(2, b"{}")
            assert view.answered(b"action.begin", "b") is None


happenings = st.lists(
    st.one_of(
        st.tuples(st.just("gap")),
        st.tuples(st.sampled_from(["write", "open", "refuse"]), st.sampled_from([b"x", b"y"])),
        st.tuples(st.sampled_from(["touch", "edit"]), some_paths),
        st.tuples(st.just("put"), small_keys, st.none() | st.lists(ANY_DEPS, max_size=4), st.integers(0, 8)),
    ),
    max_size=20,
)


def happen(writer: Writer, what: tuple[Any, ...]) -> None:
    """One thing happens, as the recorder keeps it: a record, and what verdicts need of it."""
    seq = writer.head() + 1
    match what:
        case ("gap",):
            writer.append(Gap(1, ALL, "started"))
        case (("write" | "open" | "refuse") as event, name):
            writer.append(Action(1, ActionEvent.RECORD, seq, objects=(name,)))
            state = writer.object_state(name)
            changed: dict[str, dict[str, Any]] = {
                "write": {"last_end": seq},
                "open": {"open": (*state.open, seq)},
                "refuse": {"refused": seq},
            }
            writer.put_object(msgspec.structs.replace(state, **changed[event]))
        case (("touch" | "edit") as event, path):
            writer.append(Action(1, ActionEvent.RECORD, seq, paths=(path,)))
            at = writer.path_state(path)
            done: dict[str, Any] = {"last_end": seq} if event == "touch" else {"open": (*at.open, seq)}
            writer.put_path(msgspec.structs.replace(at, **done))
        case ("put", key, deps, back):
            writer.append(EntryChange(1, EntryEvent.PUT, SCOPE, key, seq))
            versions = [
                msgspec.structs.replace(k, version=there.version if (there := _below(writer, k)) else 0)
                if k.dep.kind is Kind.ENTRY
                else k
                for k in deps or ()
            ]
            one = entry(key, *versions, version=seq, at=max(0, seq - 1 - back))
            put(writer, msgspec.structs.replace(one, deps=None) if deps is None else one)
        case _:
            raise AssertionError(what)


def _below(view: View, one: Kept) -> Entry | None:
    return view.entry(EntryId(SCOPE, one.dep.name.decode()))


def judged(store: Store, question: Question) -> Judgements:
    """Verdicts on all entries, where each reading gives the digest that is asked for."""
    with store.view() as view:
        targets: dict[EntryId, Entry | None] = {one.id: one for one in view.all_entries()}
        need = triage(targets, view.facts(targets, question), question)
    if not isinstance(need, NeedDigests):
        return need
    return settle(need, {reading: Found(ONE) for reading in need.readings})


@settings(deadline=None, max_examples=50)
@given(happenings)
def test_trimming_everything_changes_no_verdict(history: list[tuple[Any, ...]]) -> None:
    questions = [Question(), Question(revalidate=False), Question(foreign=True)]
    with scratch() as store:

        def all_of_it(writer: Writer) -> None:
            writer.append(Gap(1, ALL, "started", RUN))
            for what in history:
                happen(writer, what)

        store.run(all_of_it)
        before = [judged(store, question) for question in questions]
        with store.view() as view:
            runs, head, gap_all = view.runs(), view.head(), view.gap_all()
        while store.run(lambda w: w.trim(0, 10**30)):
            pass
        assert [judged(store, question) for question in questions] == before
        with store.view() as view:
            assert view.oldest() == view.head() == head
            assert (view.runs(), view.gap_all()) == (runs, gap_all)


# facts


@pytest.mark.parametrize(("below", "why"), [(1000, "same"), (1001, "too-deep")])
def test_entries_are_followed_a_thousand_deep(directory: str, below: int, why: str) -> None:
    chain = [
        entry("0", kept(b"a", digest=ONE)),
        *(entry(f"{n}", Kept(parse(b"entry:%d" % (n - 1), None), version=5)) for n in range(1, below + 1)),
    ]
    with opened(directory) as store:
        store.run(lambda w: put(w, *chain))
        with store.view() as view:
            targets: dict[EntryId, Entry | None] = {chain[-1].id: chain[-1]}
            facts = view.facts(targets, Question())
        need = triage(targets, facts, Question())
        answers = settle(need, {r: Found(ONE) for r in need.readings}) if isinstance(need, NeedDigests) else need
        assert answers[chain[-1].id].why == why
        assert answers[chain[-1].id].verdict is (Verdict.FRESH if why == "same" else Verdict.UNKNOWN)


def test_facts_outlive_their_view(directory: str) -> None:
    one = entry("k", kept(b"object:x"), kept(b"a"), kept(b"entry:l"))
    with opened(directory) as store:
        store.run(lambda w: w.append(Gap(1, ALL, "started", RUN)))
        store.run(lambda w: put(w, one, entry("l", kept(b"object:y"))))
        store.run(lambda w: w.put_path(PathState(b"/r", 7, 6)))
        with store.view() as view:
            facts = view.facts({one.id: one}, Question())
        store.run(lambda w: w.put_object(ObjectState(b"x", 99)))
        assert facts.gap_all == facts.position == 1
        assert facts.objects == {b"x": ObjectState(b"x"), b"y": ObjectState(b"y")}
        assert facts.touches == {(one.id, 1): Touch(7, 6)}
        assert set(facts.entries) == {EntryId(SCOPE, "l")}


def test_a_record_of_each_type_is_kept(directory: str) -> None:
    some: list[records.Record] = [
        gap(),
        Action(1, ActionEvent.BEGIN, 2),
        change(),
        records.RootChange(1, "added", b"/r"),
        records.Coverage(1, b"/r", "none", "why"),
    ]
    with opened(directory) as store:
        store.run(lambda w: [w.append(one) for one in some])
    with opened(directory) as store, store.view() as view:
        assert [one for _, one in view.records(0, 10)] == some
