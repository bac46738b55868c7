"""What the daemon tells of the wall clock: whether somebody set it since the start, and records from the future."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from provd import clocks, status
from provd.clocks import Clocks, Moment
from provd.core import records
from provd.statistics import Verdicts
from provd.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUN = "0123456789abcdef"
DAY = 86_400 * 10**9


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(os.fspath(tmp_path / "store"))
    _begin(store, RUN)
    yield store
    store.stop()


def _begin(store: Store, run: str) -> None:
    store.run(lambda writer: writer.append(records.Gap(writer.now, records.ALL, "started", run)))


@pytest.mark.parametrize("by", [3600 * 10**9, -3600 * 10**9, 20_000_000])
def test_a_clock_that_was_set_is_told_with_its_direction(
    store: Store, monkeypatch: pytest.MonkeyPatch, by: int
) -> None:
    known = Clocks(store, RUN)
    assert known.stepped == 0
    now = clocks.moment()
    monkeypatch.setattr(clocks, "moment", lambda: Moment(now.at + by, now.offset + by))

    assert abs(known.stepped - by) < 5_000_000
    assert known.begun <= now.at


def test_two_measures_of_a_clock_that_nobody_set_may_differ_a_little(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Clocks(store, RUN)
    now = clocks.moment()
    monkeypatch.setattr(clocks, "moment", lambda: Moment(now.at, now.offset + 1_000_000))

    assert known.stepped == 0


def test_where_there_is_no_clock_of_the_boot_nobody_knows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Clocks(store, RUN)
    monkeypatch.setattr(clocks, "_CLOCK_BOOTTIME", None)

    assert known.stepped == 0


def _told(store: Store, run: str) -> dict[str, Any]:
    nothing: Any = SimpleNamespace(
        behind=0, counters=SimpleNamespace(lost=0, scans=0), counts=lambda roots: {}, told=dict
    )
    roots: Any = SimpleNamespace(paths=[], kept=[], lies_in_another=lambda path: False)

    async def look() -> None:
        """Nothing to look at."""

    import asyncio

    made = status.Status(store, Clocks(store, run), roots, nothing, nothing, Verdicts(), nothing, {}, look)
    return asyncio.run(made.status())


def test_records_of_now_are_not_ahead(store: Store) -> None:
    assert _told(store, RUN)["wall_clock"] == {"stepped_s": 0.0, "ahead_s": 0.0}


def test_records_from_the_future_are_told_in_the_run_that_wrote_them_and_in_the_next(tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "future")
    ahead = Store(path, clock=lambda: time.time_ns() + DAY)
    _begin(ahead, RUN)
    assert 86_000 < _told(ahead, RUN)["wall_clock"]["ahead_s"] <= 86_400
    ahead.stop()
    store = Store(path)
    _begin(store, RUN[::-1])

    told = _told(store, RUN[::-1])

    store.stop()
    assert 86_000 < told["wall_clock"]["ahead_s"] <= 86_400
    assert int(told["oldest_at"]) > time.time_ns()
