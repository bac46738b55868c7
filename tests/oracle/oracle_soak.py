"""A whole run: a daemon of its own, rounds and faults until enough was asked, and the report."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

import oracle_confined as confined
from oracle_faults import Faults, Tried, may_bar
from oracle_place import ACTS, Place
from oracle_run import Run, Wrong
from oracle_table import Condition, Finding, told

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

_LASTING: Final = 25
"""Rounds for which a fault is counted, or goes on."""
_SUMS: Final = 2000
"""Rounds between two puts by the command."""
_TELLING: Final = 20.0
"""Seconds between two lines that tell how far it is."""
_MORE: Final = 1.1
"""How many times its questions a complete run goes on for while a cell is thin."""


class Limits(NamedTuple):
    """When a run ends, how many rounds lie between two faults, and whether it is to meet all conditions."""

    seconds: float | None
    questions: int | None
    faults: int
    complete: bool


def soak(limits: Limits, seed: int, directory: str, state: str | None) -> int:
    """Runs and prints; 0, or 1 where an answer was false, or a complete run was not complete.

    SIGINT and SIGTERM end it after the round, with its report.
    """
    home = os.path.realpath(tempfile.mkdtemp(prefix="provd-", dir=directory))
    disk = confined.small_disk(home) if confined.inside() and state is None else ""
    daemon = Tried(home=home, state=os.path.join(disk, "state") if disk else state)
    daemon.bars = confined.inside() and may_bar()
    try:
        daemon.start().scanned()
        return _report(limits, *_run(limits, seed, daemon, disk))
    finally:
        daemon.close()
        shutil.rmtree(home, ignore_errors=True)


def _run(limits: Limits, seed: int, daemon: Tried, disk: str) -> tuple[Run, str, float, int]:
    random = Random(seed)
    root, outside = os.path.join(daemon.root, "r"), os.path.join(daemon.outside, "o")
    place = Place(daemon.home, root, outside, random, mounts=confined.inside(), bars=daemon.bars)
    run = Run(daemon, place, seed)
    faults = Faults(run, daemon, disk=disk, limits=confined.inside())
    begun, ended, tells = time.monotonic(), _ended(), time.monotonic() + _TELLING
    sys.stdout.write(f"seed {seed}\n")
    sys.stdout.flush()
    wrong, rounds = "", 0
    order: list[str] = []
    try:
        while not ended() and not _enough(limits, run, time.monotonic() - begun):
            rounds += 1
            if time.monotonic() >= tells:
                tells += _TELLING
                _tell(run, time.monotonic() - begun)
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


def _ended() -> Callable[[], bool]:
    """Tells whether somebody wanted an end; what starts us in the background may have had these signals ignored."""
    signals: list[int] = []
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _frame: signals.append(number))
    return lambda: bool(signals)


def _enough(limits: Limits, run: Run, seconds: float) -> bool:
    if limits.seconds is not None and seconds >= limits.seconds:
        return True
    questions = run.table.total["asked"]
    if limits.questions is None or questions < limits.questions:
        return False
    return not limits.complete or questions >= _MORE * limits.questions or not run.table.thin()


def _tell(run: Run, seconds: float) -> None:
    asked = run.table.total["asked"]
    away = "; ".join(each.words for each in run.table.conditions() if not each.held and "cells" not in each.words)
    sys.stdout.write(f"{seconds:.0f} s: {asked} questions, {len(run.table.thin())} thin cells; not yet: {away}\n")
    sys.stdout.flush()


def _report(limits: Limits, run: Run, wrong: str, seconds: float, rounds: int) -> int:
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
    for each in [*run.found, wrong]:
        out(f"{each}\n" if each else "")
    puts = sum(run.tally[f"puts: {each}"] for each in Finding)
    here = f"{len(away)} kinds of mutation not to be had here; none"
    conditions = [*run.table.conditions(), Condition(not puts, f"{puts} puts answered falsely; none")]
    lines, right = told([*conditions, Condition(not away, here, amount=True)], complete=limits.complete)
    out(f"{lines}\n")
    return 0 if right and not wrong else 1


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(counter.items()))
