"""`python -m tests.oracle [--seconds N] [--seed S]`: a long random run against the oracle.

Prints how many of each verdict there were. Stops at the first false `fresh` and prints the seed and what was done since
the entry was put. Exit status: 0, or 1 where an answer was false.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from random import SystemRandom

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.dirname(os.path.dirname(HERE))]

from oracle_model import FALSE  # noqa: E402
from oracle_run import Run, Wrong  # noqa: E402
from support import Daemon  # noqa: E402


def main() -> int:
    """Runs; gives the exit status."""
    options = argparse.ArgumentParser(prog="python -m tests.oracle", description="a random run against the oracle")
    options.add_argument("--seconds", type=float, default=60.0, help="how long (%(default)s)")
    options.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 32), help="else a random one")
    given = options.parse_args()
    daemon = Daemon()
    try:
        daemon.start().scanned()
        return _soak(daemon, given.seed, given.seconds)
    finally:
        daemon.close()


def _soak(daemon: Daemon, seed: int, seconds: float) -> int:
    run = Run(daemon.rpc, os.path.join(daemon.root, "r"), os.path.join(daemon.outside, "o"), seed)
    end = time.monotonic() + seconds
    wrong = ""
    try:
        while not wrong and time.monotonic() < end:
            run.step()
    except Wrong as error:
        wrong = str(error)
    finally:
        run.close()
    counts = "".join(f"{count:>9} {what}\n" for what, count in sorted(run.counts.items()))
    said = [step for step in run.steps if step.startswith(tuple(FALSE))]
    sys.stdout.write(f"seed {seed}\n{counts}" + "".join(f"{each}\n" for each in [*said, wrong] if each))
    return 1 if said or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
