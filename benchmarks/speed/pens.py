"""Whoever opens a file for writing while it is sealed: how long the kernel has him wait for our lease."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from speed.figures import Ask, Table, in_turn
from speed.plan import AGE, Plan, write

_ALONE: Final = "a file that nobody seals"
_SEALED: Final = "one that is sealed meanwhile"
_SEALER: Final = """
import os, sys, time
from provd.disk import lease, read_single
from provd.disk.epoch import Epoch, clock_watch
from provd.disk.mounts import mounted
from provd.disk.seals import Seals

path, table, epoch = os.fsencode(sys.argv[1]), mounted(), Epoch(clock=clock_watch())
lease.ignore_lease_breaks()
asked = sealed = 0
print("ready", flush=True)
while not os.path.exists(path + b".end"):
    seals = Seals(epoch)
    read_single(path, "sha256", 1 << 20, seals.sealer(table), by_seal=True)
    asked, sealed = asked + 1, sealed + (seals.get(path) is not None)
print(asked, sealed)
"""


def sealing(plan: Plan) -> None:
    """Row S: opening for writing a file that another process seals again and again, as fast as it can."""
    root = plan.place("sealing")
    os.mkdir(root)
    path, other = f"{root}/f", f"{root}/other"
    write(path, b"x" * 4096)
    write(other, b"x" * 4096)
    subprocess.run(["sleep", str(AGE)], check=True)
    sealer = subprocess.Popen([sys.executable, "-c", _SEALER, path], stdout=subprocess.PIPE, text=True)
    assert sealer.stdout is not None
    sealer.stdout.readline()
    asks = {_ALONE: _opening(other), _SEALED: _opening(path)}
    samples = in_turn(asks, plan.rounds, 1_000_000, plan.seconds)  # as many as it gets: what is rare is meant
    write(f"{path}.end", b"")
    asked, sealed = map(int, sealer.communicate()[0].split())
    table = Table("S", "open(O_WRONLY) of a file that is being sealed", base="a file that nobody seals").add_all(
        samples
    )
    worst = table.p99(_SEALED)
    table.at_most("p99 in ms", None if worst is None else worst / 1000, 1.0)
    table.remarks.append(f"the longest of these: {max(samples[_SEALED]) / 1e6:.2f} ms")
    table.remarks.append(f"asked {asked:,} times, {sealed:,} of them sealed")
    plan.tell(table)


def _opening(path: str) -> Ask:
    def ask() -> None:
        os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))

    return ask
