"""The store on a real LMDB: what is answered is durable, and what is refused leaves nothing."""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import lmdb
import pytest
from storing import (
    SCOPE,
    Gate,
    appending,
    crashing_late,
    entry,
    gap,
    in_loop,
    kept,
    log_of,
    opened,
    put,
    refusing,
    together,
)

from provd import faults
from provd.core import errors
from provd.core.entry import EntryId
from provd.core.facts import ObjectState
from provd.store import Store, View, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SMALL: Final = 1 << 18
"""Bytes of a map that is soon full."""


@pytest.fixture
def directory(tmp_path: Any) -> str:
    """Where a store may be made."""
    return os.path.join(tmp_path, "store")


# groups


def test_what_waits_while_a_transaction_is_synced_shares_the_next_one(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[str] = []
    monkeypatch.setattr(faults, "point", passed.append)

    async def body(store: Store) -> list[Any]:
        passed.clear()  # opening reads
        return await together(store, *(appending(str(n)) for n in range(50)))

    assert in_loop(directory, body) == list(range(1, 51))
    assert passed == ["commit.begin", "commit.filled", "commit.before", "commit.after"] * 2


def test_nothing_is_answered_before_its_transaction_is_durable(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr(faults, "point", events.append)

    async def body(store: Store) -> None:
        events.clear()  # opening reads
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


def failing_late(writer: Writer) -> None:
    writer.append(gap("never"))
    writer.put_object(ObjectState(b"never", 1))
    put(writer, entry("never", kept(b"file:never")))
    raise errors.EntryConflict("too late", "no")


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

    def info(self) -> dict[str, Any]:
        return dict(self._env.info())

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
