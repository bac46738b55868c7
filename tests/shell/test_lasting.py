"""Work beside the requests: a fault in it is told, and it goes on; what nobody holds any more is ended in the end."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from desk import Desk, impatient, run
from structlog.testing import capture_logs

from provd import lasting as module
from provd.core import errors, params
from provd.lasting import lasting
from provd.recorder import held
from provd.recorder.actions import end_held
from provd.recorder.owing import Owing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HANG = 60.0


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    yield from impatient(tmp_path)


@pytest.fixture(autouse=True)
def _nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    monkeypatch.setattr(held, "_AGAIN", 0.001)


def test_work_that_fails_is_told_and_begun_anew() -> None:
    left = [RuntimeError("first"), MemoryError("second")]

    async def work() -> None:
        if left:
            raise left.pop(0)

    with capture_logs() as told:
        asyncio.run(asyncio.wait_for(lasting("trimming", work), HANG))
    assert [(one["log_level"], one["work"], one["exc_info"]) for one in told] == [("error", "trimming", True)] * 2


def test_what_went_on_for_long_is_begun_anew_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: signs of life that failed six times in a year are missed for a minute, and the daemon is killed."""
    lengths, now, pauses = [0, 0, 0, 10, 5, 0, 0], [0.0], list[float]()

    async def work() -> None:
        if lengths:
            now[0] += lengths.pop(0)
            raise RuntimeError("a fault")

    async def rested(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(module, "_PAUSE", 1.0)
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "rested", rested)
    asyncio.run(asyncio.wait_for(lasting("signs of life", work), HANG))
    assert pauses == [1, 2, 4, 1, 1, 2, 4]
    lengths[:] = [0] * 4
    pauses.clear()
    asyncio.run(asyncio.wait_for(lasting("signs of life", work, 3.0), HANG))
    assert pauses == [1, 2, 3, 3]


def test_a_fault_while_it_waits_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [RuntimeError("first"), MemoryError("second")]

    async def work() -> None:
        if left:
            raise left.pop(0)

    async def failing(_seconds: float) -> None:
        raise RuntimeError("a fault")

    async def until_it_ends() -> None:
        async with asyncio.timeout(HANG):
            with monkeypatch.context() as patched:
                patched.setattr(asyncio, "sleep", failing)
                await lasting("trimming", work)

    asyncio.run(until_it_ends())
    assert left == []


def test_work_that_is_cancelled_ends() -> None:
    async def cancelled() -> None:
        task = asyncio.ensure_future(lasting("for ever", asyncio.Event().wait))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, HANG)

    asyncio.run(cancelled())


def test_a_fault_of_who_pays_what_is_owed_leaves_nothing_owed(desk: Desk) -> None:
    async def work() -> None:
        paid = asyncio.Event()
        owing = Owing(desk.store, lambda _: paid.set())
        wait, faults = owing._wait, [RuntimeError("a fault")]

        async def failing() -> None:
            if faults:
                raise faults.pop()
            await wait()

        owing._wait = failing  # type: ignore[method-assign]
        owing.owe([b"/some/place"], "lost")
        await asyncio.wait_for(paid.wait(), HANG)
        assert not owing

    run(desk, work)


@pytest.mark.parametrize("fault", [errors.StoreFull("full", "free some"), RuntimeError("a fault")])
def test_what_a_connection_held_is_ended_when_the_store_takes_it(desk: Desk, fault: Exception) -> None:
    async def work() -> None:
        await desk.actions.begin(params.ActionBegin(writes=["object:x"], hold=True), holder=1, foreign=False)
        submit, faults = desk.store.submit, [fault, fault]

        def refusing(command: Callable[[Any], Any]) -> asyncio.Future[Any]:
            if faults:
                raise faults.pop()
            return submit(command)

        desk.store.submit = refusing  # type: ignore[method-assign]
        await asyncio.wait_for(desk.actions._held.let_go(1, partial(end_held, holder=1)), HANG)
        desk.store.submit = submit  # type: ignore[method-assign]
        assert faults == []
        assert desk.actions.listed() == {"actions": []}

    run(desk, work)
