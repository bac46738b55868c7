"""Big files are read with low priority, as long as there is time."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from reading_help import place, reading, sha, write

from provd.core.reading import Trouble
from provd.disk import IgnoreRules, ReadingJob, Workers, calmly, files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RULES = IgnoreRules()
LONG = 240.0
"""Seconds that no test waits for."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux only")


@pytest.fixture
def big(monkeypatch: pytest.MonkeyPatch) -> Iterator[bytes]:
    """A file of three pieces and a bit, which is big enough."""
    monkeypatch.setattr(files, "BIG", 3 * files.PIECE)
    with place() as path:
        yield write(path + b"/big", CONTENT)


CONTENT = bytes(files.PIECE) + b"1" * files.PIECE + b"2" * files.PIECE + b"end"


class Pieces:
    """The nice of the thread that read each piece, and its policy; `then` is called before each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, then: Callable[[], object] = lambda: None) -> None:
        self.nice: list[int] = []
        self.policies: set[int] = set()
        real = files.read_piece

        def hook(descriptor: int, buffer: memoryview) -> int:
            then()
            self.nice.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
            self.policies.add(os.sched_getscheduler(threading.get_native_id()))
            return real(descriptor, buffer)

        monkeypatch.setattr(files, "read_piece", hook)


def test_a_big_file_is_read_with_low_priority(big: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Low, and not so low that it gets no CPU while it holds the interpreter: who answers would wait for it.

    Broken: nice 19; the policy SCHED_IDLE.
    """
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    pieces = Pieces(monkeypatch)
    wanted = reading("file:", big)

    async def body() -> None:
        pool = Workers()
        found = await pool.read([wanted], RULES, LONG)
        pool.close()
        assert found[wanted].digest == sha(CONTENT)

    asyncio.run(body())
    assert set(pieces.nice) == {10}
    assert pieces.policies == {os.sched_getscheduler(0)}
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == own


def test_a_smaller_one_is_read_as_usual(big: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BIG", len(CONTENT) + 1)
    pieces = Pieces(monkeypatch)
    work = ReadingJob([reading("file:", big)], RULES, calm=LONG)
    work.run()
    assert set(pieces.nice) == {os.getpriority(os.PRIO_PROCESS, threading.get_native_id())}


def test_what_is_late_goes_on_with_the_usual_priority(big: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    pieces = Pieces(monkeypatch, lambda: now.__setitem__(0, now[0] + 0.25))
    work = ReadingJob([reading("file:", big)], RULES, calm=0.5)
    work.run()
    usual = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert pieces.nice[:2] == [10, 10]
    assert set(pieces.nice[2:]) == {usual}
    assert [found.digest for found in work.results().values()] == [sha(CONTENT)]


def test_a_job_that_is_cancelled_ends_there_too(big: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    work = ReadingJob([reading("file:", big)], RULES, calm=LONG)
    pieces = Pieces(monkeypatch, work.cancel)
    work.run()
    assert pieces.nice == [10]
    assert [found.trouble for found in work.results().values()] == [Trouble.TIMEOUT]


def test_what_fails_there_is_told(big: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise OSError(5, "Input/output error")

    Pieces(monkeypatch, fails)
    work = ReadingJob([reading("file:", big)], RULES, calm=LONG)
    work.run()
    assert [found.trouble for found in work.results().values()] == [Trouble.UNREADABLE]


def test_where_no_thread_can_be_had_it_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert calmly.calmly(threading.get_ident) == threading.get_ident()
