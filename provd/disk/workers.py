"""Threads that may be lost: every call that can hang in the system is made in one of them.

Rule: a call on a dead mount cannot be ended from outside. So its thread is given up and another one goes on; where
threads were lost, no more than a few are (`places`). Only when all that there may be are lost is nothing read any
more, and that is said at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple, cast

from provd.core.reading import Found, Reading, Trouble
from provd.disk.company import Company
from provd.disk.ignore import IgnoreRules
from provd.disk.job import ReadingJob
from provd.disk.looking import LookingJob
from provd.disk.mounts import Mounts, MountTable
from provd.disk.places import HANGS, IN_ONE, Places, Turn, place_of, place_of_path
from provd.disk.seals import Seals

LIMIT: Final = 64
"""Threads in all, lost ones included."""
USUAL: Final = 8
"""Threads that are started for new work; more only where work waits too long or threads are lost."""
HELPERS: Final = IN_ONE
"""Threads that join one job that is not ready, each HELP_AFTER seconds after the one before.

With the first it is one more than can hang in one place.
"""
HELP_AFTER: Final = 0.05
"""Seconds after which a job that is not ready is looked at: does one more thread help?"""
BUSY: Final = 100
"""Steps of a job in that time which say that the interpreter is what it takes and not the disk.

Threads share that, so another one would make it no faster, and each question of others would wait for each of them.
"""
CALM: Final = 0.25
"""The part of the time in which big files are read with low priority: on a busy machine that may not be enough."""
RESERVE: Final = 0.25
"""Seconds (at most a quarter of the time) that are kept for confirming what was read."""

_MANY: Final = 2000
"""Readings whose results are put together in a thread (no worker: those may all hang): so many take milliseconds."""

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")


class _Job(Protocol):
    """What any number of threads can do together."""

    @property
    def finished(self) -> bool:
        """Whether everything is done."""

    @property
    def shared(self) -> bool:
        """Whether more threads than one help."""

    @property
    def steps(self) -> int:
        """How many steps were begun."""

    def run(self, turn: Turn | None = None) -> None:
        """Takes part until there is nothing left to take."""

    def cut(self) -> None:
        """Gives up what hangs, so that the rest is ready in time."""

    def cancel(self) -> None:
        """Ends the work of all threads as soon as they can."""


class _Work:
    """One job, in the hands of any number of threads. `ended` is called as each of them ends."""

    def __init__(self, job: _Job, mounts: Mounts, ended: Callable[[BaseException | None], None]) -> None:
        self.job = job
        self.mounts = mounts
        self.ended = ended
        self.threads = 0
        self.company = Company()
        self.turns: list[Turn] = []
        self.given_up = False


class Workers:
    """A bounded pool of daemon threads, started on demand and used again. `mounts` is asked in the loop only.

    What they read is sealed in `seals`.
    """

    def __init__(self, limit: int = LIMIT, mounts: MountTable | None = None, seals: Seals | None = None) -> None:
        self.mounts = mounts or MountTable()
        self.seals = Seals() if seals is None else seals
        self._limit = limit
        self._places = Places()
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._open = 0  # pieces of work in the queue or in a thread's hands
        self._lost = 0  # threads in work that was given up

    async def read(
        self,
        readings: Collection[Reading],
        rules: IgnoreRules,
        timeout: float,  # noqa: ASYNC109
        *,
        by_seal: bool = False,
    ) -> dict[Reading, Found]:
        """What the readings give, all at one moment; what is not read within `timeout` seconds is `timeout`.

        With `by_seal` a seal stands for reading.
        """
        mounts = self.mounts.now()
        hung: dict[Reading, Found] = {}
        if self._places.any_lost:  # what is known to hang needs no thread to find out
            hung = {r: HANGS for r in readings if self._places.hangs(place_of(r, mounts))}
            readings = [reading for reading in readings if reading not in hung]
        if not readings:
            return hung
        sealer, calm = self.seals.sealer(mounts), timeout * CALM
        job = ReadingJob(readings, rules, mounts=mounts, sealer=sealer, by_seal=by_seal, calm=calm)
        if not await self._done(job, timeout):
            return hung | dict.fromkeys(readings, Found(trouble=Trouble.UNREADABLE, detail=self._all_lost()))
        many = len(readings) > _MANY
        return hung | (await asyncio.to_thread(job.results) if many else job.results())

    async def each(
        self,
        function: Callable[[bytes], _Result],
        paths: Iterable[bytes],
        timeout: float,  # noqa: ASYNC109
        *,
        apart: bool = False,
    ) -> dict[bytes, _Result]:
        """What a blocking function gives for each path; where it raises or is not back in time the path is missing.

        A path that hangs speaks against the others of its directory, unless they are asked about `apart`.
        """
        place = partial(place_of_path, mounts=self.mounts.now(), apart=apart)
        if self._places.any_lost:
            paths = [path for path in paths if not self._places.hangs(place(path))]
        job = LookingJob(function, paths, place)
        if not job.finished:
            await self._done(job, timeout)
        return dict(job.results)

    async def call(
        self,
        function: Callable[[*_Arguments], _Result],
        *arguments: *_Arguments,
        timeout: float,  # noqa: ASYNC109 - the thread cannot be cancelled, only given up
        about: bytes | None = None,
    ) -> _Result:
        """What a blocking function returns or raises; raises TimeoutError if it is not back in time.

        `about` is the path that it asks about, if it is one; it is a place of its own.
        """
        place = None if about is None else partial(place_of_path, mounts=self.mounts.now(), apart=True)
        if place is not None and self._places.hangs(place(about or b"")):
            raise TimeoutError(HANGS.detail)
        job = LookingJob(lambda _: function(*arguments), [about or b""], place)
        if not await self._done(job, timeout):
            raise TimeoutError(self._all_lost())
        for error in job.errors.values():
            raise error
        for result in job.results.values():
            return result
        raise TimeoutError(f"not done within {timeout} s")

    async def _done(self, job: _Job, timeout: float) -> bool:  # noqa: ASYNC109
        """Has threads do a job until it is done or time is up; False if there is no thread to hope for."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def ended(error: BaseException | None) -> None:
            if error is not None or job.finished:
                _tell(loop, done, error)

        work = _Work(job, self.mounts.now(), ended)
        if not self._submit(work):
            return False
        timers: list[asyncio.TimerHandle] = []

        def cut() -> None:
            job.cut()
            self._help(work)  # the threads that it has may all hang

        def look(helped: int, before: int) -> None:
            steps = job.steps
            if steps - before < BUSY and helped < HELPERS + work.company.left:
                helped += self._help(work)
            timers[0] = loop.call_later(HELP_AFTER, look, helped, steps)

        def slow() -> None:
            if job.shared:
                look(0, 0)
                timers.append(loop.call_at(end - min(RESERVE, timeout / 4), cut))
            else:
                self._relieve(work)
            timers.append(loop.call_at(end, _set, done, None))

        end = loop.time() + timeout
        timers.append(loop.call_later(min(HELP_AFTER, timeout / 2), slow))  # most are done by then: one timer is enough
        try:
            await done
        finally:
            for timer in timers:
                timer.cancel()
            job.cancel()
            self._give_up(work)
        return True

    def close(self) -> None:
        """Ends the threads that do nothing, and the others when they are done."""
        with self._lock:
            for _ in range(self._threads):
                self._queue.put(None)

    def _all_lost(self) -> str:
        return f"all {self._limit} reading threads hang in the system"

    def _help(self, work: _Work) -> bool:
        return self._submit(work, urgent=True)

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
            turns = list(work.turns)
        for turn in turns:
            turn.give_up()
        self._places.forget(work)
        self._wake()

    def _wake(self) -> None:
        """Hands on the work that has waited for room in a place, where there is some."""
        for work in self._places.ready():
            self._submit(cast("_Work", work))

    def _serve(self) -> None:
        """What each thread does."""
        while (work := self._queue.get()) is not None:
            error: BaseException | None = None
            turn = Turn(self._places, work, work.mounts, work.company.join())
            if self._begin(work, turn):
                try:
                    work.job.run(turn)
                except BaseException as raised:  # noqa: BLE001 - it belongs to who waits for the work
                    error = raised
                turn.leave()
                self._end(work)  # first, so that who is told finds this thread free
                work.ended(error)
            self._wake()
            del work, error, turn  # an idle thread keeps nothing alive

    def _begin(self, work: _Work, turn: Turn) -> bool:
        with self._lock:
            if work.given_up:
                self._open -= 1
                return False
            work.threads += 1
            work.turns.append(turn)
            return True

    def _end(self, work: _Work) -> None:
        with self._lock:
            self._open -= 1
            work.threads -= 1
            if work.given_up:
                self._lost -= 1


def _tell(loop: asyncio.AbstractEventLoop, done: asyncio.Future[None], error: BaseException | None) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
        loop.call_soon_threadsafe(_set, done, error)


def _set(done: asyncio.Future[Any], error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
