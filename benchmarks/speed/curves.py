"""How provd grows: one measurement at several sizes, as points. `picture` draws them."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from typing import Any, Final

from speed import questions, starting
from speed.figures import Ask, Table, quantile
from speed.plan import Plan
from speed.processes import Watchman, blocking, watchman_query
from speed.sizes import filled
from speed.watchers import WATCHERS

Series = dict[str, list[tuple[int, float]]]
"""Name -> (size, figure), by size."""
PROVD: Final = "provd"
WATCHMAN: Final = "Watchman"
STATS: Final = "bare os.stat"
_LOSING: Final = ("watchdog", "watchfiles", "watchman", "provd")
_ROWS: Final = 100_000
"""Files that the rows of the suite have at share 1."""
_BURST: Final = 100_000
"""Files of the burst `files` at scale 1."""
_RUNS: Final = 3
"""Bursts of a size for each watcher; the median counts."""


def _upto(plan: Plan, least: int, usual: int, scaled: int) -> list[int]:
    """Powers of ten from `least` on: to `scaled` with --scale, else to the run's share of `usual`."""
    most = scaled if plan.scale else plan.size(usual)
    return [10**power for power in range(12) if least <= 10**power <= most]


class _Quiet(Plan):
    """A run whose tables are not shown: their limits are those of other sizes."""

    def tell(self, table: Table) -> None:
        """Keeps it."""
        self.tables.append(table)


@contextlib.contextmanager
def _sized(plan: Plan, files: int) -> Iterator[Plan]:
    """A run of its own that takes this number for the 100,000 files of the rows; its files go when it is over."""
    home = plan.place("size")
    os.mkdir(home)
    try:
        share = files / _ROWS
        yield _Quiet(home, plan.rounds, plan.questions, plan.seconds, share, scale=False, placements=plan.placements)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _points(samples: Mapping[str, list[int]], size: int, series: Series, unit: float = 1e3) -> None:
    """The median of each as a point; in microseconds, unless the unit (in nanoseconds) is another."""
    for name, found in samples.items():
        series.setdefault(name, []).append((size, quantile(found, 0.5) / unit))


def dependencies(plan: Plan) -> Series:
    """Microseconds of a question about one entry, by the files that it rests on."""
    tree, series = plan.tree(plan.size(100_000)), Series()
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(questions.watching(plan, plan.placements[0], tree.root))
        peer = None
        if Watchman.is_here():
            peer = stack.enter_context(Watchman(plan.place("watchman")))
            peer.watch(tree.root)
        for count in _upto(plan, 1, 10_000, 10_000):
            paths = random.Random(count).sample(tree.paths, count)
            key = questions.put_all(daemon, tree.root, [paths])
            asks = {
                PROVD: questions.checks(daemon, tree.root, key)[questions.PRODUCT],
                STATS: questions.stats_of([paths]),
            }
            if peer is not None:
                asks[WATCHMAN] = blocking(peer.sock, cycle([watchman_query(tree.root, paths)]).__next__)
            _points(plan.measure(asks), count, series)
    return series


def entries(plan: Plan) -> Series:
    """Microseconds of a question about ten files, by the entries in the store."""
    return _stores(plan, [(count, 0) for count in _upto(plan, 1000, 100_000, 1_000_000)])


def records(plan: Plan) -> Series:
    """Microseconds of a question about ten files, by the records in the log."""
    return _stores(plan, [(1000, count) for count in _upto(plan, 1000, 1_000_000, 10_000_000)])


def _stores(plan: Plan, sizes: list[tuple[int, int]]) -> Series:
    """The same 300 keys in turn on a store of each of these entries and records, all at the same time."""
    tree, series, asks = plan.tree(10_000), Series(), dict[str, Ask]()
    with contextlib.ExitStack() as stack:
        for count, long in sizes:
            daemon, keys = stack.enter_context(filled(plan, tree, count, long))
            asks[str(long or count)] = questions.checks(daemon, tree.root, keys)[questions.PRODUCT]
        for name, found in plan.measure(asks).items():
            _points({PROVD: found}, int(name), series)
    return series


def files(plan: Plan) -> Series:
    """Microseconds of a question about ten files, by the files of the root."""
    names = {questions.PRODUCT: PROVD, questions.WATCHMAN: WATCHMAN, "ten bare os.stat": STATS}
    series = Series()
    for count in _upto(plan, 1000, 100_000, 1_000_000):
        with _sized(plan, count) as sized:
            questions.ten_files(sized)
            for line in sized.tables[0].lines.values():
                if line.name in names:
                    series.setdefault(names[line.name], []).append((count, line.p50))
    return series


def start(plan: Plan) -> Series:
    """Seconds until a root that was added is watched, and until all of it is known, by its files."""
    series = Series()
    for count in _upto(plan, 1000, 100_000, 1_000_000):
        with _sized(plan, count) as sized:
            starting.start(sized)
            for line in sized.tables[0].lines.values():
                series.setdefault(line.name, []).append((count, line.p50 / 1e3))
    return series


def burst(plan: Plan) -> Series:
    """Percent of the files made in a burst, in new directories, that a watcher never told."""
    series = Series()
    for scale in (0.01, 0.03, 0.1, 0.3, 1.0):
        if scale > plan.share:
            break
        size = round(_BURST * scale)
        for who in filter(WATCHERS.__contains__, _LOSING):
            lost = [_lost(plan, who, scale) for _ in range(min(_RUNS, plan.rounds))]
            series.setdefault(who, []).append((size, 100 * statistics.median(lost) / size))
    return series


def _lost(plan: Plan, who: str, scale: float) -> int:
    home = plan.place("burst")
    os.mkdir(home)
    try:
        return int(WATCHERS[who]("files", home, scale)["missing"])
    finally:
        shutil.rmtree(home, ignore_errors=True)


CURVES: Final[dict[str, Callable[[Plan], Series]]] = {
    "dependencies": dependencies,
    "entries": entries,
    "records": records,
    "files": files,
    "start": start,
    "burst": burst,
}


def measured(name: str, plan: Plan) -> dict[str, Any]:
    """One curve with when it was measured and how loaded the machine was before and after."""
    before = os.getloadavg()[0]
    series = CURVES[name](plan)
    load = [round(before, 1), round(os.getloadavg()[0], 1)]
    return {"measured": time.strftime("%Y-%m-%d"), "load": load, "series": series}
