"""Threads that read: what hangs holds nothing but itself, and nothing waits longer than it was told to."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

import pytest
from reading_help import place, reading, sha, write

from provd.core.reading import Found, Trouble
from provd.disk import IgnoreRules, ReadingJob, Workers, files, job, workers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.core.reading import Reading
    from provd.disk.files import Attempt, Listing, Look, Seen

RULES = IgnoreRules()
LONG = 60.0
"""Seconds that no test waits for."""


@pytest.fixture
def here() -> Iterator[bytes]:
    """An empty directory."""
    with place() as path:
        yield path


class Hang:
    """Makes reading the content of `path` hang until it is let go."""

    def __init__(self, path: bytes) -> None:
        self.path = path
        self.entered = threading.Event()
        self.let_go = threading.Event()

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = files.read_content

        def hook(path: bytes, now: Look, attempt: Attempt, *, follow: bool) -> Seen:
            if path == self.path:
                self.entered.set()
                self.let_go.wait()
            return real(path, now, attempt, follow=follow)

        monkeypatch.setattr(files, "read_content", hook)


@pytest.fixture
def hang(here: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hang]:
    """A file that hangs when it is read."""
    made = Hang(write(here + b"/hangs", b"at last"))
    made.install(monkeypatch)
    yield made
    made.let_go.set()


class Watched(Workers):
    """Tells when a thread has come back from work that was given up."""

    def __init__(self, limit: int = workers.LIMIT) -> None:
        super().__init__(limit)
        self.came_back = threading.Event()

    def _end(self, work: workers._Work) -> None:
        super()._end(work)
        if work.given_up:
            self.came_back.set()


def some(here: bytes, count: int) -> list[Reading]:
    """Readings of so many files, each with its own number for content."""
    return [reading("file:", write(here + b"/%d" % number, b"%d" % number)) for number in range(count)]


def contents(found: dict[Reading, Found], wanted: list[Reading]) -> bool:
    """Whether each of the files was read."""
    return [found[one].digest for one in wanted] == [sha(b"%d" % number) for number in range(len(wanted))]


def test_a_hanging_reading_does_not_hold_the_others_of_its_job(here: bytes, hang: Hang) -> None:
    stuck, others = reading("file:", hang.path), some(here, 5)
    work = ReadingJob([stuck, *others], RULES)
    thread = threading.Thread(target=work.run)
    thread.start()
    hang.entered.wait()
    work.run()
    assert work.found == {}  # nothing is said before everything that can be was looked at again
    work.cut()
    work.run()
    assert work.finished
    results = work.results()
    assert contents(results, others)
    assert results[stuck].trouble is Trouble.TIMEOUT
    hang.let_go.set()
    thread.join()
    assert work.results() == results  # what comes too late is left out, since the rest was confirmed without it


def test_a_slow_reading_is_waited_for_and_all_is_confirmed_after_it(
    here: bytes, hang: Hang, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "is_young", lambda _signature, _at: False)
    slow, others = reading("file:", hang.path), some(here, 2)
    work = ReadingJob([slow, *others], RULES)
    thread = threading.Thread(target=work.run)
    thread.start()
    hang.entered.wait()
    work.run()
    write(others[0].path, b"changed before the slow one was read")
    hang.let_go.set()
    thread.join()
    assert work.finished
    assert work.found[slow].digest == sha(b"at last")
    assert work.found[others[0]].digest == sha(b"changed before the slow one was read")


def test_a_second_look_that_hangs_does_not_hold_the_others(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = some(here, 4)
    entered, let_go = threading.Event(), threading.Event()
    real = files.unchanged

    def hook(seen: Seen | Listing, attempt: Attempt) -> bool:
        if seen.path == wanted[0].path and not let_go.is_set():
            entered.set()
            let_go.wait()
        return real(seen, attempt)

    monkeypatch.setattr(job, "unchanged", hook)
    work = ReadingJob(wanted, RULES)
    thread = threading.Thread(target=work.run)
    thread.start()
    entered.wait()
    work.cut()
    work.run()
    results = work.results()
    assert [results[one].trouble for one in wanted] == [Trouble.TIMEOUT, None, None, None]
    let_go.set()
    thread.join()
    assert contents(work.results(), wanted)


def test_giving_up_what_is_late_leaves_a_job_alone_that_has_read_nothing(here: bytes) -> None:
    wanted = some(here, 2)
    work = ReadingJob(wanted, RULES)
    work.cut()
    work.run()
    assert contents(work.found, wanted)


def test_readings_are_answered(here: bytes) -> None:
    wanted = some(here, 50)
    pool = Workers()
    assert contents(asyncio.run(pool.read(wanted, RULES, LONG)), wanted)
    assert asyncio.run(pool.read([], RULES, LONG)) == {}
    pool.close()


def test_what_hangs_is_a_timeout_and_the_others_are_answered(here: bytes, hang: Hang) -> None:
    stuck, others = reading("file:", hang.path), some(here, 5)
    found = asyncio.run(Workers().read([stuck, *others], RULES, 1.0))
    assert contents(found, others)
    assert (found[stuck].digest, found[stuck].trouble) == (None, Trouble.TIMEOUT)


def test_a_job_that_hangs_does_not_hold_another_job(here: bytes, hang: Hang, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "USUAL", 1)  # the thread that hangs is the only one until help comes
    others = some(here, 3)

    async def ask() -> None:
        pool = Workers()
        first = asyncio.create_task(pool.read([reading("file:", hang.path)], RULES, LONG))
        await asyncio.to_thread(hang.entered.wait)
        assert contents(await pool.read(others, RULES, LONG), others)
        assert await pool.call(os.getpid, timeout=LONG) == os.getpid()
        assert not first.done()
        hang.let_go.set()
        assert [found.digest for found in (await first).values()] == [sha(b"at last")]

    asyncio.run(ask())


def test_threads_that_all_hang_are_said_at_once_and_are_used_again_when_they_come_back(here: bytes, hang: Hang) -> None:
    others = some(here, 3)

    async def ask() -> None:
        pool = Watched(limit=2)
        for _ in range(2):
            found = await pool.read([reading("file:", hang.path)], RULES, 0.05)
            assert [one.trouble for one in found.values()] == [Trouble.TIMEOUT]
        found = await pool.read(others, RULES, LONG)
        assert {one.trouble for one in found.values()} == {Trouble.UNREADABLE}
        assert "2 reading threads hang" in found[others[0]].detail
        with pytest.raises(TimeoutError, match="hang"):
            await pool.call(os.getpid, timeout=LONG)
        hang.let_go.set()
        pool.came_back.wait()
        assert contents(await pool.read(others, RULES, LONG), others)

    asyncio.run(ask())


def test_more_jobs_than_threads_are_all_answered(here: bytes) -> None:
    wanted = some(here, 3)

    async def ask() -> None:
        pool = Workers(limit=2)
        for found in await asyncio.gather(*(pool.read(wanted, RULES, LONG) for _ in range(200))):
            assert contents(found, wanted)
        assert pool._threads <= 2

    asyncio.run(ask())


def test_an_idle_thread_is_used_again(here: bytes) -> None:
    wanted = some(here, 1)

    async def ask() -> None:
        pool = Workers()
        for _ in range(20):
            await pool.read(wanted, RULES, LONG)
        assert pool._threads == 1

    asyncio.run(ask())


def test_a_question_that_is_withdrawn_gives_its_threads_up(hang: Hang) -> None:
    async def ask() -> None:
        pool = Watched()
        asked = asyncio.create_task(pool.read([reading("file:", hang.path)], RULES, LONG))
        await pool.call(hang.entered.wait, timeout=LONG)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert pool._lost == 1
        hang.let_go.set()
        pool.came_back.wait()
        assert pool._lost == 0

    asyncio.run(ask())


def test_a_fault_in_a_job_reaches_who_asked(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_self: ReadingJob, _turn: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(ReadingJob, "run", fail)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(Workers().read(some(here, 1), RULES, LONG))


def test_a_call_gives_what_the_function_gives(here: bytes) -> None:
    real = os.path.realpath(here)

    async def ask() -> None:
        pool = Workers()
        assert await pool.call(os.path.realpath, here, timeout=LONG) == real
        with pytest.raises(FileNotFoundError):
            await pool.call(os.stat, here + b"/none", timeout=LONG)

    asyncio.run(ask())


def test_a_call_that_hangs_is_a_timeout() -> None:
    let_go = threading.Event()
    with pytest.raises(TimeoutError, match="not done within"):
        asyncio.run(Workers().call(let_go.wait, timeout=0.01))
    let_go.set()


def test_closing_ends_the_threads() -> None:
    pool = Workers()
    thread = asyncio.run(pool.call(threading.current_thread, timeout=LONG))
    pool.close()
    thread.join()


class Steady:
    """A job in which as many threads wait as join it, until it was asked often how far it came.

    Each time it came `pace` steps further.
    """

    shared = True

    def __init__(self, pace: int, asked: int) -> None:
        self.joined = 0
        self.finished = False
        self._pace, self._asked, self._left = pace, 0, asked
        self._lock = threading.Lock()
        self._over = threading.Event()

    @property
    def steps(self) -> int:
        self._asked += 1
        if self._asked == self._left:
            self.finished = True
            self._over.set()
        return self._pace * self._asked

    def run(self, turn: object = None) -> None:
        del turn
        with self._lock:
            self.joined += 1
        self._over.wait()

    def cut(self) -> None:
        """Nothing is late."""

    def cancel(self) -> None:
        self._over.set()


@pytest.mark.parametrize(("pace", "joined"), [(workers.BUSY, 1), (workers.BUSY - 1, 1 + workers.HELPERS)])
def test_a_job_that_gets_on_by_itself_is_not_joined(monkeypatch: pytest.MonkeyPatch, pace: int, joined: int) -> None:
    """Threads share one interpreter. Broken: `look` that does not ask how far it came."""
    monkeypatch.setattr(workers, "HELP_AFTER", 0.001)
    steady = Steady(pace, workers.HELPERS if joined > 1 else 20)
    pool = Workers()

    async def work() -> None:
        assert await pool._done(steady, LONG)

    asyncio.run(work())
    pool.close()
    assert steady.joined <= joined
    assert pool._threads == joined
