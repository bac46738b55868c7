"""The whole command: what its status and its last lines say; and a daemon that stands still meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING

import oracle_confined as confined
import pytest
from oracle_faults import Faults, Tried
from oracle_place import NAME, Place
from oracle_run import WHILE_STOPPED, Run
from support import HANG, REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(600)


def oracle(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": REPOSITORY}
    environment.pop(confined.INSIDE, None)
    return subprocess.Popen(
        [sys.executable, "-m", "tests.oracle", "--seed", "3", *arguments],
        cwd=REPOSITORY,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def test_a_complete_run_of_few_questions_has_failed_and_a_short_one_has_not() -> None:
    for complete in (True, False):
        with oracle("--questions", "50", "--faults", "0", *(["--complete"] if complete else [])) as run:
            said, _ = run.communicate(timeout=HANG)
        assert run.returncode == int(complete), said
        word = "NOT HELD" if complete else "not held, nor asked of this run"
        assert f"\n{word}: " in said
        assert "\nheld: 0 false fresh; none\n" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_ends_a_run_is_told_what_it_has(number: signal.Signals) -> None:
    """Broken: what was asked for hours is lost."""
    with oracle("--seconds", "10000", "--faults", "0") as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "seed 3\n"
        run.send_signal(number)
        said, _ = run.communicate(timeout=HANG)
    assert run.returncode == 0, said
    assert said.startswith("mutation ")
    assert "\ntotal " in said
    assert "\nheld: 0 false fresh; none\n" in said


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with contextlib.closing(Tried(home=os.path.realpath(tmp_path))) as daemon:
        daemon.start().scanned()
        root, outside = os.path.join(daemon.root, "r"), os.path.join(daemon.outside, "o")
        place = Place(daemon.home, root, outside, Random(4), mounts=False, bars=False)
        made = Run(daemon, place, 4)
        yield made
        made.close()


def test_what_happened_while_it_stood_still_is_a_row_of_all_that_it_can_touch(run: Run) -> None:
    """Broken: the row is left out of what is counted, or has cells that no run can fill."""
    assert isinstance(run.daemon, Tried)
    faults, gaps = Faults(run, run.daemon), 0
    for kind in NAME:
        assert (0, WHILE_STOPPED, kind) in run.table.thin()
    for _ in range(3):
        clock = run.daemon.rpc("log.clock")["clock"]
        faults.do("stopped")
        told = run.daemon.rpc("log.since", clock=clock)
        gaps += any(each["type"] == "gap" and "overflowed" in each["reason"] for each in told["records"])
        run.put_batches(sorted(run.oracle.entries))
    assert gaps == 3
    counted = {kind: run.table.asked(WHILE_STOPPED, kind) for kind in NAME}
    assert min(counted.values()) >= 15, counted
    assert not run.found
