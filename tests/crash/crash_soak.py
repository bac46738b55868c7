"""Many crashes in many worlds, and the report."""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
import traceback
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from crash_ground import MAKERS, Device, Ground, new_device, new_directory
from crash_migration import migration_killed
from crash_points import MIGRATING, POINTS, Hits
from crash_world import CRASHED, World
from oracle_run import Wrong
from oracle_table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

_ODD: Final = 0.4
"""The share of worlds whose daemon lies elsewhere and stays, or whose log is trimmed."""
_LIVES: Final = 10
"""Crashes of one world."""
_MIGRATIONS: Final = 3
"""Crashes of migrations in one go, so that among those of a directory each point has about as many."""
_POINTS: Final = {"directory": POINTS, "migration": MIGRATING}
"""The points that daemons pass on a ground; where power is lost none is told to end at one."""
GROUNDS: Final = (*MAKERS, "directory", "migration")


class Plan(NamedTuple):
    """How many crashes, on which grounds, from which seed, and where their files lie.

    `least` is how often each named point that is passed there must be hit.
    """

    crashes: int
    grounds: list[str]
    seed: int
    directory: str
    least: int


def soak(plan: Plan) -> int:
    """Crashes and prints; 0, or 1 where something was lost or false, or a point was hit too seldom."""
    random, begun = Random(plan.seed), time.monotonic()
    crashes: Counter[tuple[str, str]] = Counter()
    counts: Counter[str] = Counter()
    hits = Hits()
    table = Table({})
    wrong = ""
    left = plan.crashes
    for number, kind in enumerate(itertools.cycle(plan.grounds)):
        most = _MIGRATIONS if kind == "migration" else _LIVES
        lives = min(left, most, -(-plan.crashes // len(plan.grounds)))
        if not lives or wrong:
            break
        sys.stderr.write(f"{plan.crashes - left} crashes, {time.monotonic() - begun:.0f} s: {kind}\n")
        if kind == "migration":
            try:
                for _ in range(lives):
                    name, point = migration_killed(random, hits)
                    crashes[f"migration of {name}", point] += 1
            except (Exception, KeyboardInterrupt):  # noqa: BLE001  what was counted is told all the same
                wrong = traceback.format_exc()
            left -= lives
            continue
        with _ground(kind, plan.directory) as ground:
            device, odd = kind in MAKERS, random.random() < _ODD
            world = World(ground, plan.seed + number, hits, trims=odd and not device, stays=odd and device)
            try:
                _live(world, lives)
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  what was counted is told all the same
                wrong = f"{error}" if isinstance(error, Wrong) else traceback.format_exc()
                wrong += f"\nworld {number} on {kind}, {world.crashes}\n{world.daemon.said()[-3000:]}"
            finally:
                crashes.update({(kind, way): count for way, count in world.crashes.items()})
                left -= min(left, world.crashes.total())
                counts += world.counts
                if world.began:
                    counts.update({name: n for name, n in world.run.tally.items() if name.startswith("by ")})
                    _add(table, world.run.table)
                world.close()
    out = sys.stdout.write
    out(f"{table.text().partition(chr(10) + 'cells under')[0]}\n\n")
    for (kind, way), count in sorted(crashes.items()):
        out(f"{kind}, {way}: {count}\n")
    out(", ".join(f"{name}: {count}" for name, count in sorted(counts.items())) + "\n")
    points = [point for kind in plan.grounds for point in _POINTS.get(kind, ())]
    missing = hits.missing(points, plan.least)
    out(f"points: {hits.text(points)}\n" if points else "")
    out(f"seed {plan.seed}: {crashes.total()} crashes, {time.monotonic() - begun:.0f} s\n")
    faults = table.faults()
    for each in (*faults, wrong):
        out(f"{each}\n" if each else "")
    if missing:
        out(f"hit less than {plan.least} times: {', '.join(missing)}\n")
    return 1 if faults or wrong or missing else 0


def _live(world: World, lives: int) -> None:
    world.begin()
    while world.crashes.total() < lives:
        world.crash()
        assert "Traceback" not in world.daemon.said(), "a fault of its own"


@contextlib.contextmanager
def _ground(kind: str, directory: str) -> Iterator[Device | Ground]:
    with new_device(kind, directory) if kind in MAKERS else new_directory(directory) as ground:
        yield ground


def _add(table: Table, more: Table) -> None:
    """What a crash changed stays apart, all else is one row."""
    table.total += more.total
    for (mutation, kind), counter in more.cells.items():
        table.cells[mutation if mutation == CRASHED else "(other)", kind] += counter
