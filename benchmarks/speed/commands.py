"""Row 15: what a question costs as a whole process."""

from __future__ import annotations

import os
import subprocess
import sys

from support import REPOSITORY, clean_environment

from speed.figures import Ask, Table, measure, ratio
from speed.plan import Plan
from speed.questions import put_all, watching

_BASE = "python -c pass"
_ASKED = "provd check -q KEY"


def whole_process(plan: Plan) -> None:
    """`provd check -q` of an entry that is fresh, against an interpreter that does nothing."""
    tree = plan.tree(100)
    with watching(plan, plan.placements[0], tree.root) as daemon:
        key = put_all(daemon, tree.root, [tree.paths[:1]])[0]
        script = os.path.join(os.path.dirname(sys.executable), "provd")
        provd = [script] if os.path.exists(script) else [sys.executable, "-m", "provd"]
        env = clean_environment(daemon.home, {"PROVD_SOCKET": daemon.socket, "PYTHONPATH": REPOSITORY})
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled, so the checkout has to be

        def running(*command: str) -> Ask:
            return lambda: subprocess.run(command, cwd=tree.root, env=env, stdin=subprocess.DEVNULL, check=True)

        asks = {_BASE: running(sys.executable, "-c", "pass"), _ASKED: running(*provd, "check", "-q", key)}
        table = Table("15", "a whole process, one after another", unit="ms", base=_BASE)
        samples: dict[str, list[int]] = {name: [] for name in asks}
        asks[_ASKED]()  # this compiles
        for _ in range(plan.size(60)):
            for name, ask in asks.items():
                samples[name] += measure(ask, 1, 1)
        table.add_all(samples)
        table.at_most("p50, of python -c pass", ratio(table.p50(_ASKED), table.p50(_BASE)), 2.0)
        plan.tell(table)
