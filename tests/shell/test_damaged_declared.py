"""What was declared of something cannot be read any more: actions begin and end on it all the same."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from desk import Desk, impatient, run

from provd.core import errors, params
from provd.core.records import Action, ActionEvent, Outcome
from provd.daemon import begin_run
from provd.recorder.actions import end_held
from provd.settings import Settings
from provd.store import keys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Begin = params.ActionBegin | params.ActionRecord
BAD = b"\xc1"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    yield from impatient(tmp_path)


def damage(desk: Desk, *names: str, path: str | None = None) -> None:
    rows = [("objects", keys.object_key(name.encode())) for name in names]
    rows += [("written", keys.written_key(desk.path(path)))] if path else []
    environment = desk.store.environment
    with environment.env.begin(write=True) as txn:
        for table, key in rows:
            assert txn.replace(key, BAD, db=environment.tables[table]) is not None


async def begin(desk: Desk, asked: Begin) -> int:
    told = await desk.actions.begin(asked, holder=1, foreign=False)
    assert isinstance(told, dict)
    return int(told["id"])


async def put(desk: Desk, *names: str) -> None:
    clock = await desk.clock()
    for name in names:
        await desk.put(name, deps=[f"object:{name}"], fetched_at=clock)


def open_ones(desk: Desk) -> list[int]:
    return [action["id"] for action in desk.actions.listed()["actions"]]


WRITES: list[str | params.WireDependency] = ["object:x", "object:y", "file:f"]


def test_an_action_begins_and_ends_on_what_is_damaged(desk: Desk) -> None:
    async def work() -> None:
        await begin(desk, params.ActionRecord(writes=WRITES))
        await put(desk, "x", "y")
        damage(desk, "x", path="f")
        assert (await desk.found("x"))[0] == "unknown"
        number = await begin(desk, params.ActionBegin(writes=WRITES))
        await put(desk, "x", "y")
        assert (await desk.found("x"))[:2] == (await desk.found("y"))[:2] == ("dirty", "written")
        damage(desk, "x", path="f")
        await desk.actions.end(params.ActionEnd(id=number, outcome="done"))
        assert (await desk.found("x"))[0] == "dirty"
        await put(desk, "x", "y")
        assert (await desk.found("x"))[0] == (await desk.found("y"))[0] == "fresh"

    run(desk, work)


def test_who_else_is_at_what_is_damaged_stays_at_it(desk: Desk) -> None:
    async def work() -> None:
        other = await begin(desk, params.ActionBegin(writes=WRITES))
        damage(desk, "x", path="f")
        await begin(desk, params.ActionRecord(writes=WRITES))
        await put(desk, "x")
        assert (await desk.found("x"))[:2] == ("dirty", "written")
        await desk.actions.end(params.ActionEnd(id=other, outcome="aborted"))
        assert (await desk.found("x"))[0] == "fresh"

    run(desk, work)


def test_what_a_connection_held_ends_with_it(desk: Desk) -> None:
    async def work() -> None:
        for name in ("x", "y"):
            await begin(desk, params.ActionBegin(writes=[f"object:{name}"], hold=True))
        damage(desk, "x")
        await desk.actions._held.let_go(1, partial(end_held, holder=1))
        assert open_ones(desk) == []
        await put(desk, "x", "y")
        assert (await desk.found("x"))[0] == (await desk.found("y"))[0] == "fresh"

    run(desk, work)


def test_a_new_run_ends_what_was_held_and_keeps_the_store(desk: Desk) -> None:
    async def work() -> None:
        await put(desk, "x")
        await begin(desk, params.ActionBegin(writes=["object:x"], hold=True))

    run(desk, work)
    desk.store.stop()
    desk.store = type(desk.store)(desk.store.environment.directory)
    damage(desk, "x")
    begin_run(desk.store, Settings(state="", socket=""))
    with desk.store.view() as view:
        assert view.actions() == []
        last = view.record(view.head())
    assert isinstance(last, Action)
    assert (last.event, last.outcome) == (ActionEvent.END, Outcome.FAILED)
    assert desk.entry("x")


def test_what_is_owed_beside_what_is_damaged_is_recorded(desk: Desk) -> None:
    async def work() -> None:
        await begin(desk, params.ActionRecord(writes=WRITES))
        await put(desk, "x", "y")
        damage(desk, "x")
        with pytest.raises(errors.LimitExceeded):
            await begin(desk, params.ActionRecord(writes=WRITES, note="n" * (params.MAX_NOTE + 1)))
        assert not desk.store.environment.unwritten
        assert (await desk.found("x"))[:2] == (await desk.found("y"))[:2] == ("unknown", "gap")
        await put(desk, "x", "y")
        assert (await desk.found("x"))[0] == (await desk.found("y"))[0] == "fresh"

    run(desk, work)
