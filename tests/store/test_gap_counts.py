"""Gaps are counted by their reasons, when they are durable."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import lmdb
import pytest
from storing import Gate, crashing_late, gap, in_loop, opened

from provd.core import errors
from provd.core.records import ALL, Gap
from provd.store.gaps import OTHER, GapCounts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from provd.store import Store, Writer


@pytest.fixture
def directory(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def appending(*gaps: Gap) -> Callable[[Writer], None]:
    def command(writer: Writer) -> None:
        for each in gaps:
            writer.append(each)

    return command


def counts(store: Store) -> dict[str, int]:
    return {row["reason"]: row["count"] for row in store.gaps.told()}


def test_gaps_are_counted_by_what_stands_before_the_colon(directory: str) -> None:
    with opened(directory) as store:
        store.run(appending(Gap(1, ALL, "started", "ab"), gap("it cannot be listed: a"), gap("it cannot be listed: b")))
        store.run(appending(gap("internal: KeyError: 'x'")))

        assert counts(store) == {"started": 1, "it cannot be listed": 2, "internal": 1}
        last = {row["reason"]: row["last"] for row in store.gaps.told()}
        assert (last["it cannot be listed"]["seq"], last["it cannot be listed"]["reason"]) == (
            3,
            "it cannot be listed: b",
        )
        assert last["started"]["scope"] == "all"


def test_what_lost_events_is_told_apart(directory: str) -> None:
    with opened(directory) as store:
        store.run(
            appending(gap("events lost: the kernel's queue overflowed"), gap("events lost: the kernel dropped them"))
        )

        assert len(counts(store)) == 2


def test_a_store_that_is_opened_again_begins_anew(directory: str) -> None:
    with opened(directory) as store:
        store.run(appending(gap("a")))
    with opened(directory) as store:
        assert counts(store) == {}


def test_there_are_never_many_reasons() -> None:
    counted = GapCounts()
    counted.add((n, gap(f"reason {n}")) for n in range(1000))
    counted.add([(1001, gap("reason 3"))])

    told = {row["reason"]: row["count"] for row in counted.told()}

    assert len(told) == 65
    assert (told["reason 3"], told[OTHER]) == (2, 936)


def test_what_was_given_up_with_its_group_is_counted_once(directory: str) -> None:
    async def body(store: Store) -> None:
        gate = Gate()
        first = await gate.closed(store)
        good, bad = store.submit(appending(gap("a"))), store.submit(crashing_late)
        gate.open()
        await first
        await good
        with pytest.raises(Exception, match=r".*"):
            await bad
        assert counts(store) == {"a": 1}

    in_loop(directory, body)


class Failing:
    """An environment whose next write is not kept."""

    def __init__(self, env: lmdb.Environment) -> None:
        self._env = env

    def begin(self, *, write: bool = False) -> Any:
        if write:
            raise lmdb.DiskError("mdb_txn_begin: No space left on device")
        return self._env.begin()

    def close(self) -> None:
        self._env.close()


def test_what_was_refused_is_not_counted(directory: str) -> None:
    async def body(store: Store) -> None:
        failing: Any = Failing(store.environment.env)
        store.environment.env = failing
        outcome = await asyncio.gather(store.submit(appending(gap("a"))), return_exceptions=True)
        assert isinstance(outcome[0], errors.StoreFull)
        assert counts(store) == {}

    in_loop(directory, body)
