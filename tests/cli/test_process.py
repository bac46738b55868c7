"""Whether a process runs: one that has ended, and that its parent has not asked about yet, does not.

Each test says what is broken where it fails: it was seen to fail with that.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from provd import reach
from provd.cli.processes import process
from provd.cli.processes.holding import holding
from provd.holders import Written

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system tells this by proc")


@pytest.fixture
def zombie() -> Iterator[int]:
    """The number of a child that has ended and is not reaped."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    yield child.pid
    child.wait()


def test_an_ended_process_that_is_not_reaped_does_not_run(zombie: int) -> None:
    """Broken: `runs` without its look at the state (both of them)."""
    os.getpgid(zombie)  # it exists
    assert reach.state(zombie) == "Z"
    assert not reach.runs(zombie)


def test_a_process_that_is_at_work_or_stopped_runs() -> None:
    """Broken: `runs` takes other states for an end."""
    child = subprocess.Popen(["sh", "-c", "kill -STOP $$"])
    try:
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        assert reach.state(child.pid) in process.STOPPED
        for pid in (child.pid, os.getpid()):
            assert reach.runs(pid)
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("told", [True, False])
def test_nobody_waits_for_an_ended_process(zombie: int, monkeypatch: pytest.MonkeyPatch, *, told: bool) -> None:
    """Whether the system tells the end by a descriptor or not. Broken: `runs` as above (not told)."""
    if not told:
        monkeypatch.delattr(os, "pidfd_open")
    with process.Process(zombie) as watched:
        assert watched.ended(time.monotonic())


def test_an_ended_process_holds_no_lock(zombie: int) -> None:
    """Where the row tells another device than `stat`, it is the process that decides. Broken: `runs` as above."""
    lock = Written(str(zombie), "/s/provd.sock", os.makedev(0x8, 0x1), 77)
    row = f"1: FLOCK  ADVISORY  WRITE {zombie} 00:2b:77 0 EOF\n"
    assert holding(lock, [row]) is None
