"""`python -m tests.crash.crashes [--crashes N] [--on GROUND...] [--seed S] [--least N]`: what is left after crashes.

Grounds: `ext4` and `xfs` lose their power (as root, in loop devices and a mount namespace of its own), in a `directory`
the daemon is killed at random and at named points, in a `migration` at its own points. Prints a table. Exit status: 0,
or 1 where something acknowledged was lost, the log has a hole or another past, a verdict was not true, or one of the
points that the code names was hit less than `--least` times.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from random import SystemRandom

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, os.path.join(TESTS, "oracle"), os.path.join(TESTS, "blackbox"), TESTS, os.path.dirname(TESTS)]

from crash_soak import GROUNDS, Plan, soak  # noqa: E402
from sealing_help import may_mount  # noqa: E402

INSIDE = "PROVD_CRASH_INSIDE"


def main() -> int:
    """Runs; gives the exit status."""
    options = argparse.ArgumentParser(prog="python -m tests.crash", description="crashes, and what is left after them")
    options.add_argument("--crashes", type=int, default=100, help="how many (%(default)s)")
    options.add_argument("--on", nargs="+", choices=GROUNDS, default=list(GROUNDS), help="where (all)")
    options.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 32), help="else a random one")
    options.add_argument("--dir", default=tempfile.gettempdir(), help="where the files lie (%(default)s)")
    options.add_argument("--least", type=int, help="hits of each named point (a hundredth of the crashes)")
    given = options.parse_args()
    least = given.crashes // 100 if given.least is None else given.least
    if not os.environ.get(INSIDE) and may_mount():
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "-m", sys.executable, "-m", "tests.crash.crashes", *sys.argv[1:]])
    return soak(Plan(given.crashes, given.on, given.seed, given.dir, least))


if __name__ == "__main__":
    sys.exit(main())
