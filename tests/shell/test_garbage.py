"""The collector of cycles rests while much is thought about, and only then."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from unittest.mock import Mock

import pytest
from desk import run
from shortcutting import Scene, scene

from provd import garbage, inquiry
from provd.core import verdict

__all__ = ["scene"]


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    gc.enable()  # a loop before may have ended before its timer
    yield
    gc.enable()


class Timers:
    """What the loop is told to do later, and the time that it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.set: list[float] = []
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "time", lambda: self.now)
        monkeypatch.setattr(loop, "call_at", self._call_at)

    def _call_at(self, time: float, what: object) -> Mock:
        assert what == gc.enable
        self.set.append(time)
        return Mock(cancel=lambda: self.set.remove(time))


async def _failing() -> None:
    with garbage.resting():
        raise ValueError("no")


def test_it_rests_until_a_moment_after_the_last_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: `go_on` that does not count, or that goes on at once."""

    async def work() -> None:
        with monkeypatch.context() as patched:
            timers = Timers(patched)
            with garbage.resting():
                timers.now += 1
                with pytest.raises(ValueError, match="no"):
                    await _failing()
                assert timers.set == [1000 + garbage.LONGEST]
                assert not gc.isenabled()
            assert timers.set == [1001 + garbage._SOON]
            assert not gc.isenabled()
        gc.enable()

    asyncio.run(work())


def test_it_does_not_rest_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though one work follows the other. Broken: `rest` that begins the time anew; `go_on` without the `min`."""

    async def work() -> None:
        with monkeypatch.context() as patched:
            timers = Timers(patched)
            for _ in range(100):
                with garbage.resting():
                    timers.now += 0.9
                    assert timers.set == [1000 + garbage.LONGEST]
            assert timers.set == [1000 + garbage.LONGEST]
        gc.enable()

    asyncio.run(work())


@pytest.mark.parametrize("big", [False, True])
def test_it_rests_while_an_entry_on_very_many_things_is_judged(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, big: bool
) -> None:
    """Broken: `_judged` without it."""
    seen: list[bool] = []
    triage = verdict.triage

    def looking(*arguments: object) -> object:
        seen.append(gc.isenabled())
        return triage(*arguments)  # type: ignore[arg-type]

    async def work() -> None:
        await scene.put("k", "d/e/f", "c/e/f")
        monkeypatch.setattr(inquiry, "_BIG", 1 if big else 2)
        monkeypatch.setattr(verdict, "triage", looking)
        assert (await scene.desk.found("k"))[0] == "fresh"
        assert set(seen) == {not big}

    run(scene.desk, work)
