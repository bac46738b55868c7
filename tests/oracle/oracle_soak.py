"""A whole run: a daemon of its own, rounds and faults until enough was asked, and the report."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

import oracle_confined as confined
from oracle_faults import Faults, Tried, may_bar
from oracle_place import ACTS, Place
from oracle_run import Run, Wrong

if TYPE_CHECKING:
    from collections import Counter

_LASTING: Final = 25
"""Rounds for which a fault is counted, or goes on."""
_SUMS: Final = 2000
"""Rounds between two puts by the command."""


class Limits(NamedTuple):
    """When a run ends, and how many rounds lie between two faults."""

    seconds: float | None
    questions: int | None
    faults: int


def soak(limits: Limits, seed: int, directory: str, state: str | None) -> int:
    """Runs and prints; 0, or 1 where an answer was false."""
    home = os.path.realpath(tempfile.mkdtemp(prefix="provd-", dir=directory))
    disk = confined.small_disk(home) if confined.inside() and state is None else ""
    daemon = Tried(home=home, state=os.path.join(disk, "state") if disk else state)
    daemon.bars = confined.inside() and may_bar()
    try:
        daemon.start().scanned()
        return _report(*_run(limits, seed, daemon, disk))
    finally:
        daemon.close()
        shutil.rmtree(home, ignore_errors=True)


def _run(limits: Limits, seed: int, daemon: Tried, disk: str) -> tuple[Run, str, float, int]:
    random = Random(seed)
    root, outside = os.path.join(daemon.root, "r"), os.path.join(daemon.outside, "o")
    place = Place(daemon.home, root, outside, random, mounts=confined.inside(), bars=daemon.bars)
    run = Run(daemon, place, seed)
    faults = Faults(run, daemon, disk=disk, limits=confined.inside())
    begun = time.monotonic()
    wrong, rounds = "", 0
    order: list[str] = []
    try:
        while not _enough(limits, run, time.monotonic() - begun):
            rounds += 1
            if limits.faults and rounds % limits.faults == 0:
                order = order or random.sample(sorted(faults.kinds), len(faults.kinds))
                faults.do(order.pop())
            elif limits.faults and rounds % limits.faults == _LASTING:
                faults.over()
            if rounds % _SUMS == 1 and not run.fault:
                run.put_sums()
            run.step()
    except Wrong as error:
        wrong = str(error)
    except Exception:
        sys.stdout.write("\n".join(run.steps[-60:]) + f"\nseed {seed}\n{daemon.said()[-3000:]}\n")
        raise
    finally:
        if not wrong:
            faults.over()
        run.close()
    if not daemon.alive or "Traceback" in daemon.said():
        wrong += f"\nthe daemon said: {daemon.said()[-3000:]}"
    return run, wrong, time.monotonic() - begun, rounds


def _enough(limits: Limits, run: Run, seconds: float) -> bool:
    questions = run.table.total["asked"]
    return (limits.seconds is not None and seconds >= limits.seconds) or (
        limits.questions is not None and questions >= limits.questions
    )


def _report(run: Run, wrong: str, seconds: float, rounds: int) -> int:
    out = sys.stdout.write
    out(f"{run.table.text()}\n\n")
    for name, counter in sorted(run.faults.items()):
        out(f"fault {name}: {_counts(counter)}\n")
    out(f"{_counts(run.tally)}\n")
    away = sorted(set(ACTS) - set(run.place.acts()))
    if away:
        out(f"not to be had here: {', '.join(away)}\n")
    asked = run.table.total["asked"]
    spent = sum(os.times()[:4])
    out(f"seed {run.seed}: {asked} questions in {rounds} rounds, {seconds:.0f} s, {asked / seconds:.0f} a second")
    out(f", {spent:.0f} s of processors\n")
    faults = run.table.faults()
    for each in [*run.found, *faults, wrong]:
        out(f"{each}\n" if each else "")
    return 1 if faults or wrong else 0


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(counter.items()))
