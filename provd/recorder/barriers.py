"""Barriers: who waits until all that happened before is recorded.

Rule: a barrier passes when the notices that waited when it was raised are recorded, and each doubt of that moment is
settled. Where places are moved faster than they can be looked at, a gap that says so stands for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from provd.recorder.doubts import Doubts


class _Barrier(msgspec.Struct):
    """Who waits. `after` numbers the newest doubt when all notices were recorded, None until then.

    `tried`: the doubts were looked at since.
    """

    number: int
    future: asyncio.Future[bool]
    after: int | None = None
    tried: bool = False


class Barriers:
    """The barriers of the moment; `newest` is the number of the last one that was raised."""

    def __init__(self, doubts: Doubts) -> None:
        self.newest = 0
        self._doubts = doubts
        self._waiting: list[_Barrier] = []

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)

    @property
    def press(self) -> bool:
        """Whether somebody waits for nothing but doubts."""
        return any(barrier.after is not None for barrier in self._waiting)

    async def wait(self, kick: Callable[[], None], timeout: float | None) -> bool:  # noqa: ASYNC109
        """Raises a barrier, begins with `kick`, and waits until it passes; False if that is not in time."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.newest += 1
        self._waiting.append(_Barrier(self.newest, future))
        kick()
        done, _ = await asyncio.wait({future}, timeout=timeout)
        if not done:
            self._waiting = [barrier for barrier in self._waiting if barrier.future is not future]
        return bool(done) and future.result()

    def recorded(self, newest: int, *, true: bool, all_taken: bool) -> None:
        """A batch was recorded that was taken when `newest` was; `true` is the answer of those that pass.

        All that was read before it began is recorded where `all_taken`, however much came meanwhile.
        """
        left = []
        for barrier in self._waiting:
            if barrier.number <= newest and self._passes(barrier, all_taken=all_taken):
                _answer(barrier.future, value=true)
            else:
                left.append(barrier)
        self._waiting = left

    def refuse(self) -> None:
        """Nothing is recorded any more."""
        for barrier in self._waiting:
            _answer(barrier.future, value=False)
        self._waiting.clear()

    def _passes(self, barrier: _Barrier, *, all_taken: bool) -> bool:
        if barrier.after is None:
            if not all_taken:
                return False
            barrier.after = self._doubts.number
        if self._doubts.before(barrier.after, told=not barrier.tried):
            barrier.tried = True  # they are, before this is asked again
            return False
        return True


def _answer(future: asyncio.Future[bool], *, value: bool) -> None:
    if not future.done():
        future.set_result(value)
