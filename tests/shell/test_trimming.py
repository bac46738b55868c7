"""Trimming: a slice at a time, rest in between, and other limits at once. Time stands still: no rest ever ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from provd import trimming
from provd.core import errors
from provd.trimming import Trimming

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from functools import partial

    from provd.store import Store


class Log:
    """Stands for the store: slices that are asked for, and how much each of them finds."""

    def __init__(self, *slices: int | Exception) -> None:
        self.kept: list[int] = []
        self._slices = list(slices)
        self._asked = asyncio.Event()

    async def submit(self, command: partial[int]) -> int:
        """One slice."""
        self.kept.append(command.keywords["keep_records"])
        self._asked.set()
        found = self._slices.pop(0) if self._slices else 0
        if isinstance(found, Exception):
            raise found
        return found

    async def asked(self, times: int) -> None:
        """Waits for so many slices in all."""
        while len(self.kept) < times:
            self._asked.clear()
            await self._asked.wait()


async def settle() -> None:
    """Lets everything run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


def run(body: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(body, 60))


@pytest.fixture(autouse=True)
def _endless_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "_EVERY", 1e6)


def started(log: Log) -> tuple[Trimming, asyncio.Task[None]]:
    made = Trimming(cast("Store", log), 5000, 60)
    return made, asyncio.ensure_future(made.run())


def test_it_goes_on_while_there_is_something_and_rests_then() -> None:
    async def body() -> None:
        log = Log(100, 100, 3)
        made, task = started(log)
        await log.asked(4)
        made.committed()  # what is written now is looked at after the rest
        await settle()
        assert log.kept == [5000] * 4
        task.cancel()

    run(body())


def test_other_limits_end_the_rest() -> None:
    async def body() -> None:
        log = Log()
        made, task = started(log)
        await log.asked(1)
        made.committed()
        await settle()
        made.limits(1000, 60)
        await log.asked(2)
        assert log.kept == [5000, 1000]
        made.limits(1000, 60)  # the same: nothing to do
        await settle()
        assert log.kept == [5000, 1000]
        task.cancel()

    run(body())


def test_other_limits_hold_where_nothing_was_ever_written() -> None:
    async def body() -> None:
        log = Log()
        made, task = started(log)
        await log.asked(1)
        await settle()
        made.limits(5000, 7)
        await log.asked(2)
        task.cancel()

    run(body())


def test_a_slice_that_fails_ends_nothing() -> None:
    async def body() -> None:
        log = Log(errors.StoreFull("full"), RuntimeError("own fault"))
        made, task = started(log)
        await log.asked(1)
        made.limits(4000, 60)
        await log.asked(2)
        made.limits(3000, 60)
        await log.asked(3)
        assert log.kept == [5000, 4000, 3000]
        task.cancel()

    run(body())
