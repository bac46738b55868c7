"""Threads that may be lost: every call that can hang in the system is made in one of them.

Rule: a call on a dead mount cannot be ended from outside. So its thread is given up and another one goes on;
only when all that there may be are lost is nothing read any more, and that is said at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, TypeVarTuple

from provd.core.reading import Found, Reading, Trouble
from provd.disk.ignore import IgnoreRules
from provd.disk.job import ReadingJob

LIMIT: Final = 64
"""Threads in all, lost ones included."""
USUAL: Final = 8
"""Threads that are started for new work; more only where work waits too long or threads are lost."""
HELPERS: Final = 3
"""Threads that join one job that is not ready, each HELP_AFTER seconds after the one before."""
HELP_AFTER: Final = 0.05
RESERVE: Final = 0.25
"""Seconds (at most a quarter of the time) that are kept for confirming what was read."""

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")


class _Work:
    """One piece of work, in the hands of any number of threads. `ended` is called as each of them ends."""

    def __init__(self, run: Callable[[], object], ended: Callable[[Any, BaseException | None], None]) -> None:
        self.run = run
        self.ended = ended
        self.threads = 0
        self.given_up = False


class Workers:
    """A bounded pool of daemon threads, started on demand and used again."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._open = 0  # pieces of work in the queue or in a thread's hands
        self._lost = 0  # threads in work that was given up

    async def read(self, readings: Sequence[Reading], rules: IgnoreRules, timeout: float) -> dict[Reading, Found]:  # noqa: ASYNC109
        """What the readings give, all at one moment; what is not read within `timeout` seconds is `timeout`."""
        if not readings:
            return {}
        job = ReadingJob(readings, rules)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def ended(_result: object, error: BaseException | None) -> None:
            if error is not None or job.finished:
                _tell(loop, done, None, error)

        work = _Work(job.run, ended)
        if not self._submit(work):
            return dict.fromkeys(readings, Found(trouble=Trouble.UNREADABLE, detail=self._all_lost()))

        timers: list[asyncio.TimerHandle] = []

        def cut() -> None:
            job.cut()
            self._help(work)  # the threads that it has may all hang

        def slow() -> None:
            timers.extend(loop.call_later(HELP_AFTER * n, self._help, work) for n in range(HELPERS))
            timers.append(loop.call_at(end - min(RESERVE, timeout / 4), cut))
            timers.append(loop.call_at(end, _set, done, None, None))

        end = loop.time() + timeout
        timers.append(loop.call_later(min(HELP_AFTER, timeout / 2), slow))  # most are done by then: one timer is enough
        try:
            await done
        finally:
            for timer in timers:
                timer.cancel()
            job.cancel()
            self._give_up(work)
        return job.results()

    async def call(
        self,
        function: Callable[[*_Arguments], _Result],
        *arguments: *_Arguments,
        timeout: float,  # noqa: ASYNC109 - the thread cannot be cancelled, only given up
    ) -> _Result:
        """What a blocking function returns or raises; raises TimeoutError if it is not back in time."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_Result] = loop.create_future()
        work = _Work(functools.partial(function, *arguments), functools.partial(_tell, loop, done))
        if not self._submit(work):
            raise TimeoutError(self._all_lost())
        timers: list[asyncio.TimerHandle] = []

        def slow() -> None:
            self._relieve(work)
            timers.append(loop.call_at(end, _set, done, None, TimeoutError(f"not done within {timeout} s")))

        end = loop.time() + timeout
        timers.append(loop.call_later(min(HELP_AFTER, timeout / 2), slow))
        try:
            return await done
        finally:
            for timer in timers:
                timer.cancel()
            self._give_up(work)

    def close(self) -> None:
        """Ends the threads that do nothing, and the others when they are done."""
        with self._lock:
            for _ in range(self._threads):
                self._queue.put(None)

    def _all_lost(self) -> str:
        return f"all {self._limit} reading threads hang in the system"

    def _help(self, work: _Work) -> None:
        self._submit(work, urgent=True)

    def _relieve(self, work: _Work) -> None:
        """One thread more where work that cannot be shared still waits for one."""
        with self._lock:
            if work.threads == 0:
                self._start(urgent=True)

    def _submit(self, work: _Work, *, urgent: bool = False) -> bool:
        """Hands work to a thread; False if there is none to hope for. Urgent work does not wait for one."""
        with self._lock:
            if (
                self._open >= self._threads
                and not self._start(urgent=urgent)
                and (urgent or self._lost >= self._threads)
            ):
                return False
            self._open += 1
        self._queue.put(work)
        return True

    def _start(self, *, urgent: bool) -> bool:
        """One thread more, if there may be."""
        if self._threads >= self._limit or not (urgent or self._threads - self._lost < USUAL):
            return False
        try:
            threading.Thread(target=self._serve, name="provd-reader", daemon=True).start()
        except RuntimeError:  # the system gives no more threads
            return False
        self._threads += 1
        return True

    def _give_up(self, work: _Work) -> None:
        """Nobody waits for this work any more: the threads that are in it are lost until they come back."""
        with self._lock:
            work.given_up = True
            self._lost += work.threads

    def _serve(self) -> None:
        """What each thread does."""
        while (work := self._queue.get()) is not None:
            result: object = None
            error: BaseException | None = None
            if self._begin(work):
                try:
                    result = work.run()
                except BaseException as raised:  # noqa: BLE001 - it belongs to who waits for the work
                    error = raised
                self._end(work)  # first, so that who is told finds this thread free
                work.ended(result, error)
            del work, result, error  # an idle thread keeps nothing alive

    def _begin(self, work: _Work) -> bool:
        with self._lock:
            if work.given_up:
                self._open -= 1
                return False
            work.threads += 1
            return True

    def _end(self, work: _Work) -> None:
        with self._lock:
            self._open -= 1
            work.threads -= 1
            if work.given_up:
                self._lost -= 1


def _tell(
    loop: asyncio.AbstractEventLoop, done: asyncio.Future[_Result], result: _Result, error: BaseException | None
) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
        loop.call_soon_threadsafe(_set, done, result, error)


def _set(done: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
