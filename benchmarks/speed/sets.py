"""Row 8: `tree:` and `glob:` over 10,000 files."""

from __future__ import annotations

import os
from itertools import repeat

from speed.beside import meanwhile, quiet
from speed.figures import Ask, Table, measure, ratio
from speed.plan import Plan, Tree, write
from speed.processes import connect, kept_client, request, yielding
from speed.questions import put_all, stats_of, watching

_BASE = "bare os.stat of all"


def sets(plan: Plan) -> None:
    """At rest, by the log, with one file changed, and what it means for others."""
    tree = Tree(plan.place("tree"), plan.size(10_000))
    tree.rest()
    below = [at for at, _, _ in os.walk(f"{tree.root}/src")]
    with watching(plan, plan.placements[0], tree.root) as daemon:
        assert daemon.process is not None
        client = kept_client(daemon.socket)
        for kind, dep in (("tree:", "tree:src"), ("glob:", "glob:src/**/*.py")):
            client.put(kind, value="v", deps=[dep], as_of="put", root=tree.root)
        quiet(daemon.process.pid)

        def check(key: str, verify: str = "auto") -> Ask:
            return lambda: client.check(key, root=tree.root, verify=verify, timeout_ms=60_000)

        asks: dict[str, Ask] = {_BASE: stats_of([tree.paths + below])}
        for kind in ("tree:", "glob:"):
            asks[kind] = check(kind)
            asks[f"{kind} by the log"] = check(kind, "log")
        title = f"sets of {len(tree.paths):,} files in {len(below):,} directories"
        table = Table("8", title, unit="ms", base=_BASE).add_all(plan.measure(asks))

        changed: dict[str, list[int]] = {"tree:": [], "glob:": []}
        for number in range(2 * plan.rounds):
            for kind in changed:
                write(tree.paths[number], f"{kind} {number}\n".encode())
                changed[kind] += measure(check(kind), 1, 1)
        for kind, samples in changed.items():
            table.add(f"{kind} one changed", samples)
        stats = table.lines[_BASE].p50
        for kind in changed:
            table.at_most(f"{kind} p50, of the bare stats", ratio(table.p50(kind), stats), 1.3)
            more = table.lines[f"{kind} one changed"].p50 - 1.3 * stats
            table.at_most(f"{kind} one changed, ms more than 1.3 x the bare stats", more, 0.3)
            table.at_most(f"{kind} by the log, ms", table.p50(f"{kind} by the log"), 0.12)
        plan.tell(table)

        key = put_all(daemon, tree.root, [tree.paths[-1:]])[0]
        ask = yielding(connect(daemon.socket), repeat(request("entry.check", key=key, root=tree.root)).__next__)
        beside, other = Table("8", "one file asked for while the tree is judged", base="alone"), connect(daemon.socket)
        line = request("entry.check", key="tree:", root=tree.root, timeout_ms=60_000)
        found = [meanwhile(other, line, ask)[0] for _ in range(plan.rounds)]
        beside.add("alone", measure(ask, plan.questions, plan.seconds))
        beside.add("meanwhile", [sample for samples in found for sample in samples])
        plan.tell(beside)
