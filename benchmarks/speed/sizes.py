"""Rows about how provd grows: many entries and records (9), memory (12), disk (13), and what it does when idle (14)."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import time
from collections.abc import Iterator
from itertools import islice

from support import Daemon

from provd.core.entry import EntryId
from speed.beside import quiet
from speed.figures import Ask, Table, ratio
from speed.filling import append, copies, events, opened
from speed.plan import Plan, Tree
from speed.processes import Watchman
from speed.questions import PRODUCT, checks, put_all, watching

_KEYS = 300
_SMALL, _LARGE = (1_000, 10_000), (50_000, 500_000)
_AT_SCALE = (1_000_000, 10_000_000)
_EVENTS = 100 * 3600 * 24
"""What happens in a day at 100 events a second."""
_WRITTEN = 10_000
"""Files that it happens to."""


@contextlib.contextmanager
def filled(plan: Plan, tree: Tree, entries: int, records: int) -> Iterator[tuple[Daemon, list[str]]]:
    """A daemon with a store of this size, and the keys that are asked for."""
    chosen = random.Random(9)
    daemon = Daemon(home=plan.place("provd"), roots=[tree.root])
    try:
        keys = put_all(daemon.start().scanned(), tree.root, [chosen.sample(tree.paths, 10) for _ in range(_KEYS)])
        daemon.stop()
        store = opened(daemon.state)
        scope = os.fsencode(os.path.realpath(tree.root))
        copies(store, [EntryId(scope, key) for key in keys], entries - len(keys))
        append(store, events(tree.paths, records, store.head + 1))
        store.stop()
        yield daemon.start().scanned(), keys
    finally:
        daemon.close()


def grown(plan: Plan) -> None:
    """Row 9: the same 300 keys of ten files, with few and with many entries and records in the store."""
    tree = plan.tree(plan.size(100_000))
    large = _AT_SCALE if plan.scale else (plan.size(_LARGE[0]), plan.size(_LARGE[1]))
    asks: dict[str, Ask] = {}
    with contextlib.ExitStack() as stack:
        for entries, records in (_SMALL, large):
            daemon, keys = stack.enter_context(filled(plan, tree, entries, records))
            asks[f"{entries:,} entries, {records:,} records"] = checks(daemon, tree.root, keys)[PRODUCT]
        base, many = asks
        table = Table("9", f"10 files, {_KEYS} keys in turn", base=base).add_all(plan.measure(asks))
        table.at_most("p50, of that of the small store", table.lines[many].ratio, 1.15)
        plan.tell(table)


def anonymous(pid: int) -> float:
    """MB of a process's memory that are no file's."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) * 1024 / 1e6 for line in file if line.startswith("Anonymous:"))


def memory(plan: Plan) -> None:
    """Row 12: anonymous memory after a scan, and with many entries."""
    _with_files(plan, plan.tree(plan.size(100_000)), 45)
    if not plan.scale:
        return
    tree = Tree(plan.place("tree"), 1_000_000, per_directory=50)
    _with_files(plan, tree, 60)
    shutil.rmtree(tree.root)
    tree = plan.tree(100_000)
    with filled(plan, tree, _AT_SCALE[0], 0) as (daemon, keys):
        asks = checks(daemon, tree.root, keys)
        for _ in keys:
            asks[PRODUCT]()
        _told(plan, f"{_AT_SCALE[0]:,} entries", {"provd": daemon}, 60)


def _with_files(plan: Plan, tree: Tree, limit: float) -> None:
    with contextlib.ExitStack() as stack:
        found: dict[str, Daemon | Watchman] = {}
        if Watchman.is_here():
            found["Watchman"] = peer = stack.enter_context(Watchman(plan.place("watchman")))
            peer.watch(tree.root)
        found["provd"] = stack.enter_context(watching(plan, plan.placements[0], tree.root))
        _told(plan, f"{len(tree.paths):,} files", found, limit)


def _told(plan: Plan, title: str, processes: dict[str, Daemon | Watchman], limit: float) -> None:
    table = Table("12", f"anonymous memory, {title}", unit="MB", base="Watchman")
    for name, process in processes.items():
        assert process.process is not None
        quiet(process.process.pid)
        table.add(name, [anonymous(process.process.pid)])
    table.at_most("MB", table.p50("provd"), limit)
    plan.tell(table)


def disk(plan: Plan) -> None:
    """Row 13: bytes a record, once the log is as long as it may be and trimmed as it grows.

    A shorter day has fewer files in the same proportion: each has rows of its own, which do not grow with the log.
    """
    tree = plan.tree(plan.size(100_000))
    count = _EVENTS if plan.scale else plan.size(_EVENTS // 20)
    keep = count // 4
    place = plan.place("state")
    os.mkdir(place)
    store = opened(place)
    paths = tree.paths[: max(1, _WRITTEN * count // _EVENTS)]
    records = events(paths, count, store.head + 1)
    file = os.path.join(store.environment.directory, "data.mdb")
    sizes: list[int] = []
    for _ in range(4):
        append(store, islice(records, count // 4), keep)
        sizes.append(os.stat(file).st_blocks * 512)
    store.stop()
    path = sum(map(len, paths)) / len(paths)
    table = Table("13", f"{count:,} records on {len(paths):,} paths, the newest {keep:,} kept", unit="bytes")
    table.add("a record", [sizes[-1] / keep])
    table.add("its path", [path])
    table.at_most("a record, bytes more than its path", table.lines["a record"].p50 - path, 60)
    table.at_most("the file at the end, of that after half", ratio(sizes[-1], sizes[1]), 1.05)
    plan.tell(table)


def idle(plan: Plan) -> None:
    """Row 14: context switches of all threads while nothing happens."""
    tree = plan.tree(plan.size(100_000))
    seconds = 10 if plan.share == 1 else 3
    with watching(plan, plan.placements[0], tree.root) as daemon:
        assert daemon.process is not None
        put_all(daemon, tree.root, [tree.paths[:10]])
        quiet(daemon.process.pid)
        time.sleep(15 if plan.share == 1 else 1)  # roots are looked at once, 10 s after anything happened
        before = _switches(daemon.process.pid)
        time.sleep(seconds)
        table = Table("14", f"idle for {seconds} s, {len(tree.paths):,} files watched", unit="context switches")
        table.add("provd", [_switches(daemon.process.pid) - before])
        table.at_most("context switches", table.p50("provd"), 0)
        plan.tell(table)


def _switches(pid: int) -> int:
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status") as file:
            total += sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
    return total
