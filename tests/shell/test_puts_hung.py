"""Puts on what does not answer: each is waited for once, and the rest of the put does not wait as long again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from desk import Desk, Listening, run

from provd.core import params
from provd.core.reading import Found, Trouble
from provd.disk.resting import RestLooker
from provd.recorder.together import PATIENCE

_SOON = 5.0


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    watch = Listening(os.fsencode(tmp_path / "root"))
    made = Desk(tmp_path, watch)
    watch.store = made.store
    (made.root / "f").write_text("one")
    (made.root / "g").write_text("two")
    watch.begun()
    yield made
    made.close()


class Hanging:
    """The files of some names do not answer; `waits` are the seconds that each reading had."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.waits: list[float] = []
        self.looked: list[bytes] = []
        read, each = desk.inquiry.reader.read, desk.workers.each
        hung = {desk.path(name) for name in names}

        async def hang(readings: Any, timeout: float, **more: Any) -> Any:  # noqa: ASYNC109
            self.waits.append(timeout)
            late = {reading: Found(trouble=Trouble.TIMEOUT) for reading in readings if reading.path in hung}
            return await read(frozenset(readings) - late.keys(), timeout, **more) | late

        async def look(function: Any, paths: Any, *arguments: Any, **more: Any) -> Any:
            if isinstance(function, RestLooker):
                self.looked += paths
            return await each(function, paths, *arguments, **more)

        monkeypatch.setattr(desk.inquiry.reader, "read", hang)
        monkeypatch.setattr(desk.workers, "each", look)


def test_what_did_not_answer_is_not_asked_whether_it_rests(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: a put on one hung file takes the patience of two readings, a minute."""

    async def work() -> None:
        clock = await desk.clock()
        hanging = Hanging(desk, monkeypatch, "f")
        told = await desk.put("k", deps=["file:f", "file:g"], fetched_at=clock)
        assert (told["verdict"]["verdict"], told["verdict"]["why"]) == ("unknown", "unproven")
        assert "file:f" in told["unproven"]
        assert told["verdict"]["evidence"][0]["detail"].startswith("timeout")
        assert hanging.looked == [desk.path("g")]

    run(desk, work)


@pytest.mark.parametrize("hung", [True, False])
def test_what_stands_on_the_same_is_not_waited_for_as_long_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, hung: bool
) -> None:
    async def work() -> None:
        await desk.put("k", deps=["file:f"], as_of="put")
        hanging = Hanging(desk, monkeypatch, *(["f"] if hung else []))
        digest = "xxh3:" + "0" * 32  # not fresh at birth, so what stands is judged
        told = await desk.put(
            "k", deps=[params.WireDependency(dep="file:f", digest=digest)], fetched_at=await desk.clock()
        )
        assert bool(told.get("late")) is not hung
        first, *others = hanging.waits
        assert first == PATIENCE
        assert others
        assert all((wait < _SOON) is hung for wait in others)

    run(desk, work)


def test_what_stands_on_something_else_is_read_in_peace(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: a fresh entry on what is only slow is displaced, since the put itself rests on what hangs."""

    async def work() -> None:
        stands = await desk.put("k", deps=["file:g"], as_of="put")
        hanging = Hanging(desk, monkeypatch, "f")
        told = await desk.put("k", deps=["file:f"], fetched_at=await desk.clock())
        assert (told["late"], told["version"]) == (True, stands["version"])
        assert [wait for wait in hanging.waits if wait < _SOON] == []
        assert (await desk.found("k"))[0] == "fresh"

    run(desk, work)
