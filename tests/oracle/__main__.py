"""`python -m tests.oracle [--seconds N | --questions N] [--seed S]`: a long random run against the oracle.

Prints a table: mutation by dependency, with how many questions were asked in each cell and what was answered. Stops at
the first false `fresh` and prints the seed and what was done since the entry was put. Exit status: 0, or 1 where an
answer was false, or more of them than may be were needless; in a complete run also where too few were asked, or too few
after a mutation, or too few in some cell. It tells how far it is; SIGINT ends it, with all that it would have printed.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from random import SystemRandom

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.dirname(os.path.dirname(HERE))]

import oracle_confined as confined  # noqa: E402
from oracle_soak import Limits, soak  # noqa: E402
from oracle_table import QUESTIONS  # noqa: E402


def main() -> int:
    """Runs; gives the exit status."""
    options = argparse.ArgumentParser(prog="python -m tests.oracle", description="a random run against the oracle")
    options.add_argument("--seconds", type=float, help="how long (60, where --questions says nothing)")
    options.add_argument("--questions", type=int, help="how many questions")
    options.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 32), help="else a random one")
    options.add_argument("--dir", default=tempfile.gettempdir(), help="where the files lie (%(default)s)")
    options.add_argument("--state", help="where the daemon's state lies (in memory, where that may be mounted)")
    options.add_argument("--image", choices=("ext4", "xfs", "btrfs"), help="files in a new file system (as root)")
    options.add_argument("--faults", type=int, default=120, help="rounds between faults (%(default)s; 0: none)")
    options.add_argument(
        "--complete",
        action="store_true",
        help=f"the whole table must be filled as well (so with {QUESTIONS} questions)",
    )
    given = options.parse_args()
    if given.image:
        with confined.image(given.image) as path:
            arguments = [*_without(sys.argv[1:], "--image"), "--dir", path]
            with subprocess.Popen([sys.executable, "-m", "tests.oracle", *arguments]) as run:
                for each in (signal.SIGINT, signal.SIGTERM):  # it ends by itself, with its report
                    signal.signal(each, lambda number, _frame: run.send_signal(number))
                return run.wait()
    if not confined.inside():
        confined.enter("tests.oracle", sys.argv[1:])
    if given.seconds is None and given.questions is None:
        given.seconds = 60.0
    complete = given.complete or (given.questions or 0) >= QUESTIONS
    limits = Limits(given.seconds, given.questions, given.faults, complete)
    return soak(limits, given.seed, given.dir, given.state)


def _without(arguments: list[str], option: str) -> list[str]:
    """Arguments without an option and its value."""
    left = list(arguments)
    for index, each in enumerate(left):
        if each == option:
            return left[:index] + left[index + 2 :]
        if each.startswith(f"{option}="):
            return left[:index] + left[index + 1 :]
    return left


if __name__ == "__main__":
    sys.exit(main())
