"""Rows about one question: against a bare echo, Watchman, and the bare `stat`s of what it rests on."""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Iterator
from itertools import cycle, repeat
from typing import Final

from support import Daemon

from speed.figures import Ask, Table, ratio
from speed.plan import Plan
from speed.processes import (
    Echo,
    Placement,
    Watchman,
    blocking,
    connect,
    kept_client,
    request,
    watchman_query,
    yielding,
)

PRODUCT: Final = "entry.check, provd.client"
RAW: Final = "entry.check, to the last byte"
ECHO: Final = "bare echo"
WATCHMAN: Final = "Watchman, synchronised"
PARSED: Final = "parsed, provd.client"


@contextlib.contextmanager
def watching(plan: Plan, placement: Placement, root: str) -> Iterator[Daemon]:
    """A fresh daemon that watches this root."""
    daemon = Daemon(home=plan.place("provd"), roots=[root])
    try:
        with placement.starting():
            daemon.start()
        yield daemon.scanned()
    finally:
        daemon.close()


def stats_of(sets: list[list[str]]) -> Ask:
    """The bare `os.stat`s of one set of paths after another."""
    stat, turn = os.stat, cycle(sets)

    def ask() -> None:
        for path in next(turn):
            stat(path)

    return ask


def put_all(daemon: Daemon, root: str, sets: list[list[str]]) -> list[str]:
    """An entry for each set of files; its keys. Raises RuntimeError where one is not fresh."""
    client = kept_client(daemon.socket)
    keys = [f"k{number}" for number in range(len(sets))]
    for key, paths in zip(keys, sets, strict=True):
        client.put(key, value="v", deps=[f"file:{path}" for path in paths], as_of="put", root=root)
    verdicts = client.check(keys=keys, root=root, timeout_ms=60_000)["verdicts"]
    client.close()
    if any(verdict["verdict"] != "fresh" for verdict in verdicts.values()):
        raise RuntimeError("an entry to be asked for is not fresh; look whether anybody writes below /tmp/provd-*")
    return keys


def checks(daemon: Daemon, root: str, keys: list[str]) -> dict[str, Ask]:
    """`entry.check` of one key after another, by the product's client and by a raw socket."""
    client, turn = kept_client(daemon.socket), cycle(keys)
    lines = cycle([request("entry.check", key=key, root=root) for key in keys])
    return {
        RAW: yielding(connect(daemon.socket), lines.__next__),
        PRODUCT: lambda: client.check(next(turn), root=root),
    }


def echo(plan: Plan) -> None:
    """Row 0: one file, against a bare echo."""
    tree = plan.tree(100)
    for placement in plan.placements:
        with contextlib.ExitStack() as stack:
            daemon = stack.enter_context(watching(plan, placement, tree.root))
            with placement.starting():
                peer = Echo(plan.place("echo"))
            stack.enter_context(peer)
            keys = put_all(daemon, tree.root, [tree.paths[:1]])
            line = repeat(request("entry.check", key=keys[0], root=tree.root)).__next__
            sock = connect(peer.path)
            asks: dict[str, Ask] = {ECHO: blocking(sock, line)}
            asks["bare echo, yielding client"] = yielding(sock, line)
            asks |= checks(daemon, tree.root, keys)
            with placement.asking():
                samples = plan.measure(asks)
            plan.tell(Table("0", f"a question about one file, placement {placement.name}", base=ECHO).add_all(samples))


def ten_files(plan: Plan) -> None:
    """Row 1: ten files at rest, one key and 300 in turn."""
    tree = plan.tree(plan.size(100_000))
    chosen = random.Random(1)
    sets = [chosen.sample(tree.paths, 10) for _ in range(300)]
    for placement in plan.placements:
        with contextlib.ExitStack() as stack:
            daemon = stack.enter_context(watching(plan, placement, tree.root))
            keys = put_all(daemon, tree.root, sets)
            peer = None
            if Watchman.is_here():
                with placement.starting():
                    peer = Watchman(plan.place("watchman"))
                stack.enter_context(peer)
                peer.watch(tree.root)
            for count, limit in ((1, 1 / 3), (300, 0.42)):
                asks = {"ten bare os.stat": stats_of(sets[:count])}
                if peer is not None:
                    queries = cycle([watchman_query(tree.root, paths) for paths in sets[:count]])
                    asks[WATCHMAN] = ask = blocking(peer.sock, queries.__next__)
                    _must_tell_ten(ask())
                asks |= checks(daemon, tree.root, keys[:count])
                with placement.asking():
                    samples = plan.measure(asks)
                title = f"10 files of {len(tree.paths):,}, {count} key{'s in turn' * (count > 1)}"
                table = Table("1", f"{title}, placement {placement.name}", base=WATCHMAN)
                for name in sorted(samples, key=lambda name: name != WATCHMAN):
                    table.add(name, samples[name])
                _limits_of_ten(table, placement.name, limit)
                plan.tell(table)


def _must_tell_ten(answer: bytes) -> None:
    """Raises RuntimeError where Watchman does not tell of ten files that are there."""
    if sum(file["exists"] for file in json.loads(answer)["files"]) != 10:
        raise RuntimeError(f"Watchman did not tell of ten files: {answer[:300]!r}; look at its log")


def _limits_of_ten(table: Table, placement: str, limit: float) -> None:
    table.at_most("p50, of Watchman's", ratio(table.p50(PRODUCT), table.p50(WATCHMAN)), limit)
    table.at_most("p99, of Watchman's p50", ratio(table.p99(PRODUCT), table.p50(WATCHMAN)), 1.0)
    if placement == "one":
        table.at_most("p50, of ten bare stats", ratio(table.p50(PRODUCT), table.p50("ten bare os.stat")), 3.0)


def thousand_files(plan: Plan) -> None:
    """Row 2: one entry that rests on 1,000 files."""
    tree = plan.tree(plan.size(100_000))
    paths = random.Random(2).sample(tree.paths, 1000)
    with watching(plan, plan.placements[0], tree.root) as daemon:
        keys = put_all(daemon, tree.root, [paths])
        base = "1,000 bare os.stat"
        asks = {base: stats_of([paths])} | checks(daemon, tree.root, keys)
        table = Table("2", "one key, 1,000 files", base=base)
        table.add_all(plan.measure(asks))
        table.at_most("p50, of the bare stats", ratio(table.p50(PRODUCT), table.p50(base)), 1.5)
        plan.tell(table)


def thousand_keys(plan: Plan) -> None:
    """Row 3: 1,000 entries of one file in one question."""
    tree = plan.tree(plan.size(100_000))
    paths = random.Random(3).sample(tree.paths, 1000)
    with watching(plan, plan.placements[0], tree.root) as daemon:
        keys = put_all(daemon, tree.root, [[path] for path in paths])
        client, line = kept_client(daemon.socket), repeat(request("entry.check", keys=keys, root=tree.root)).__next__
        base = "1,000 bare os.stat"
        asks: dict[str, Ask] = {base: stats_of([paths])}
        asks[RAW] = yielding(connect(daemon.socket), line)
        asks[PARSED] = lambda: client.check(keys=keys, root=tree.root)
        table = Table("3", "1,000 keys of one file in one question", base=base)
        table.add_all(plan.measure(asks))
        table.at_most("p50 to the last byte, of the bare stats", ratio(table.p50(RAW), table.p50(base)), 2.0)
        table.at_most("p50 parsed, of the bare stats", ratio(table.p50(PARSED), table.p50(base)), 3.3)
        plan.tell(table)
