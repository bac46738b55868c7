"""What is held while the daemon ends and begins anew: it waits for its holder for a while, and then it has failed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest
from desk import Desk, Scripted, run

from provd.core import params
from provd.recorder import actions
from provd.recorder.actions import part_held

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(actions, "GRACE", 0.0)
    watch = Scripted()
    desk = Desk(tmp_path, watch)
    watch.store = desk.store
    yield desk
    desk.close()


async def _begin(desk: Desk, op: str | None, holder: int) -> int:
    asked = params.ActionBegin(writes=["object:o"], hold=True, op=op)
    answer = await desk.actions.begin(asked, holder=holder, foreign=False)
    told = msgspec.json.decode(answer) if isinstance(answer, msgspec.Raw) else answer
    assert isinstance(told, dict)
    return int(told["id"])


def _open(desk: Desk) -> list[int]:
    return [action["id"] for action in desk.actions.listed()["actions"]]


def test_only_what_can_be_taken_over_waits(desk: Desk) -> None:
    async def work() -> None:
        kept = await _begin(desk, "op", 7)
        await _begin(desk, None, 7)
        await desk.store.submit(part_held)
        assert _open(desk) == [kept]

    run(desk, work)


def test_what_nobody_takes_over_has_failed(desk: Desk) -> None:
    async def work() -> None:
        number = await _begin(desk, "op", 7)
        other = await _begin(desk, "other", 8)
        await desk.store.submit(partial(part_held, holder=7))
        await desk.actions.wait_for_holders()
        assert _open(desk) == [other]
        assert await _begin(desk, "op", 9) > number  # it is another one by now

    run(desk, work)


def test_what_is_taken_over_goes_on(desk: Desk) -> None:
    async def work() -> None:
        number = await _begin(desk, "op", 7)
        await desk.store.submit(part_held)
        assert await _begin(desk, "op", 1) == number
        await desk.actions.wait_for_holders()
        assert _open(desk) == [number]

    run(desk, work)
