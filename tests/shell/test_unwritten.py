"""Declared writes to objects that the store did not take: nobody says fresh of what they may have written."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from desk import Desk, impatient, run

from provd.core import errors, params
from provd.core.records import ALL, Action, ActionEvent, Gap
from provd.recorder import unwritten


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    yield from impatient(tmp_path)


class Full:
    """The store's `submit` while there is no room, for all or for who records what was not written."""

    def __init__(self, desk: Desk) -> None:
        self.is_full = True
        self._real = desk.store.submit
        desk.store.submit = self  # type: ignore[method-assign]

    def __call__(self, command: Any) -> asyncio.Future[Any]:
        if not self.is_full:
            return self._real(command)
        future = asyncio.get_running_loop().create_future()
        future.set_exception(errors.StoreFull("full", "free space"))
        return future


UNKNOWN = ("unknown", "gap")


async def recorded(desk: Desk) -> None:
    paying = desk.actions.unwritten.owing._paying
    assert paying is not None
    await paying
    assert not desk.store.environment.unwritten


async def put(desk: Desk, *names: str) -> None:
    clock = await desk.clock()
    for name in names:
        await desk.put(name, deps=[f"object:{name}"], fetched_at=clock)
        assert (await desk.found(name))[0] == "fresh"


ASKED: list[params.ActionBegin | params.ActionRecord] = [
    params.ActionRecord(writes=["object:x"]),
    params.ActionBegin(writes=["object:x"]),
    params.ActionBegin(writes=["object:x"], hold=True),
]


@pytest.mark.parametrize("asked", ASKED)
def test_what_a_refused_declaration_may_have_written_is_unknown(
    desk: Desk, asked: params.ActionBegin | params.ActionRecord
) -> None:
    async def work() -> None:
        await put(desk, "x", "other")
        full = Full(desk)
        with pytest.raises(errors.StoreFull):
            await desk.actions.begin(asked, holder=1, foreign=False)
        assert (await desk.found("x"))[:2] == UNKNOWN
        assert (await desk.found("other"))[0] == "fresh"
        full.is_full = False
        await recorded(desk)
        assert (await desk.found("x"))[:2] == UNKNOWN
        with desk.store.view() as view:
            last = view.record(view.head())
        assert isinstance(last, Action)
        assert (last.event, last.objects) == (ActionEvent.REFUSED, (b"x",))
        await put(desk, "x")

    run(desk, work)


REFUSED: list[tuple[params.ActionBegin | params.ActionRecord, type[Exception]]] = [
    (params.ActionBegin(writes=["object:x"], note="n" * (params.MAX_NOTE + 1)), errors.LimitExceeded),
    (params.ActionRecord(writes=["object:x"], note="n" * (params.MAX_NOTE + 1)), errors.LimitExceeded),
    (params.ActionBegin(writes=["entry:k", "object:x"]), errors.DependencyMalformed),
    (params.ActionBegin(writes=["nothing:k", params.WireDependency(dep="object:x")]), errors.DependencyMalformed),
    (params.ActionBegin(writes=["object:x"], root="/nowhere/at/all"), errors.RootMissing),
    (params.ActionRecord(writes=["object:x"], scope="s" * 2000), errors.LimitExceeded),
    (params.ActionBegin(writes=["object:x"], if_usable=[""]), errors.LimitExceeded),
    (
        params.ActionBegin(writes=["entry:k", params.WireDependency(b64=base64.b64encode(b"object:x").decode())]),
        errors.DependencyMalformed,
    ),
]


@pytest.mark.parametrize(("asked", "error"), REFUSED)
def test_so_is_what_was_declared_in_a_request_that_is_refused(
    desk: Desk, asked: params.ActionBegin | params.ActionRecord, error: type[Exception]
) -> None:
    async def work() -> None:
        await put(desk, "x", "other")
        with pytest.raises(error):
            await desk.actions.begin(asked, holder=1, foreign=False)
        assert (await desk.found("x"))[:2] == UNKNOWN
        assert (await desk.found("other"))[0] == "fresh"
        with desk.store.view() as view:
            last = view.record(view.head())
        assert isinstance(last, Action)
        assert (last.event, last.objects) == (ActionEvent.REFUSED, (b"x",))
        kind = "record" if isinstance(asked, params.ActionRecord) else "begin"
        assert (last.note or "").startswith(f"action.{kind} was refused: ")
        await put(desk, "x")  # it is durable before the refusal is answered: what is read after it counts

    run(desk, work)


def test_of_very_many_writes_each_is_looked_at(desk: Desk) -> None:
    async def work() -> None:
        await put(desk, "x", "other")
        writes: list[Any] = [*["/f"] * (params.MAX_DEPENDENCIES + 1), "object:x"]
        with pytest.raises(errors.LimitExceeded):
            await desk.actions.begin(params.ActionBegin(writes=writes), holder=1, foreign=False)
        assert (await desk.found("x"))[:2] == UNKNOWN
        assert (await desk.found("other"))[0] == "fresh"

    run(desk, work)


def test_an_object_that_is_called_all_is_one_of_many(desk: Desk) -> None:
    async def work() -> None:
        await put(desk, "all", "other")
        full = Full(desk)
        with pytest.raises(errors.StoreFull):
            await desk.actions.begin(params.ActionRecord(writes=["object:all"]), holder=1, foreign=False)
        assert (await desk.found("all"))[:2] == UNKNOWN
        assert (await desk.found("other"))[0] == "fresh"
        full.is_full = False
        await recorded(desk)
        assert (await desk.found("other"))[0] == "fresh"

    run(desk, work)


def test_what_is_owed_while_there_is_no_room_stays_small(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk.actions.unwritten.owing, "_most", 2)

    async def work() -> None:
        Full(desk)
        for number in range(9):
            asked = params.ActionRecord(writes=[f"object:{number}"])
            with pytest.raises(errors.StoreFull):
                await desk.actions.begin(asked, holder=1, foreign=False)
            assert len(desk.store.environment.unwritten) <= 2
        desk.actions.unwritten.owing.close()

    run(desk, work)


def test_of_too_many_all_objects_are_unknown(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unwritten, "_MOST", 2)

    async def work() -> None:
        await put(desk, "x", "other")
        full = Full(desk)
        writes: list[Any] = [f"object:{number}" for number in range(3)]
        with pytest.raises(errors.StoreFull):
            await desk.actions.begin(params.ActionRecord(writes=writes), holder=1, foreign=False)
        assert (await desk.found("other"))[:2] == UNKNOWN
        full.is_full = False
        await recorded(desk)
        assert (await desk.found("other"))[:2] == UNKNOWN
        with desk.store.view() as view:
            last = view.record(view.head())
        assert isinstance(last, Gap)
        assert last.scope == ALL

    run(desk, work)


def test_a_debt_is_cut_into_records_of_a_size_that_can_be_sent(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unwritten, "MAX_WRITES", 8)

    async def work() -> None:
        full = Full(desk)
        writes: list[Any] = [f"object:name{number}" for number in range(3)]
        with pytest.raises(errors.StoreFull):
            await desk.actions.begin(params.ActionRecord(writes=writes), holder=1, foreign=False)
        full.is_full = False
        await recorded(desk)
        with desk.store.view() as view:
            told = [record.objects for _, record in view.records(0, 100) if isinstance(record, Action)]
        assert told == [(b"name0",), (b"name1",), (b"name2",)]

    run(desk, work)


def test_a_debt_is_given_up_where_the_daemon_ends(desk: Desk) -> None:
    desk.actions.unwritten.owing.retry = 30.0

    async def work() -> None:
        await put(desk, "x")
        Full(desk)
        with pytest.raises(errors.StoreFull):
            await desk.actions.begin(params.ActionRecord(writes=["object:x"]), holder=1, foreign=False)
        paying = desk.actions.unwritten.owing._paying
        assert paying is not None
        desk.actions.close()
        await asyncio.wait([paying])
        assert paying.cancelled()
        assert (await desk.found("x"))[:2] == UNKNOWN  # as long as somebody may ask

    run(desk, work)


@pytest.mark.parametrize("is_full", [False, True])
def test_a_line_that_may_declare_any_object_makes_all_unknown(desk: Desk, is_full: bool) -> None:
    async def work() -> None:
        await put(desk, "x", "other")
        full = Full(desk)
        full.is_full = is_full
        await desk.actions.unwritten.misread_line(b'{"method":"action.begin"', errors.ParseError("no", "ask anew"))
        assert (await desk.found("x"))[:2] == (await desk.found("other"))[:2] == UNKNOWN
        full.is_full = False
        if is_full:
            await recorded(desk)
        assert (await desk.found("x"))[:2] == UNKNOWN
        await put(desk, "x", "other")

    run(desk, work)


def test_parameters_that_may_declare_any_object_make_all_unknown(desk: Desk) -> None:
    async def work() -> None:
        await put(desk, "other")
        await desk.actions.unwritten.misread("action.begin", b"", errors.InvalidParams("no", "ask anew"))
        assert (await desk.found("other"))[:2] == UNKNOWN

    run(desk, work)
