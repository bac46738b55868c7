"""`python -m tests.fuzz [TARGET...] [--inputs N] [--seed S] [--atheris]`: bytes for what reads bytes.

Without a target all of them. Prints a line for each; stops at the first input that a target does not take, and keeps it
in the corpus: with that the tests fail until it is mended. --atheris (`pip install atheris`) looks for inputs that
reach new code: each target in a process of its own, all of them whatever comes of one. An input that takes longer than
20 s and a process that grows are faults too. With --keep N, up to N of the inputs that come further than those in
the corpus are put into it, for each target. Exit status: 0, or 1 where an input was not taken.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import traceback
from random import SystemRandom

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.dirname(os.path.dirname(HERE))]

from fuzz.guided import Fault, Plan, guided  # noqa: E402
from fuzz.loop import CORPUS, GROWTH, Failed, keep, made, run  # noqa: E402


def main() -> int:
    """Runs; gives the exit status."""
    options = argparse.ArgumentParser(prog="python -m tests.fuzz", description="bytes for what reads bytes")
    known = sorted(os.listdir(CORPUS))
    options.add_argument("target", nargs="*", metavar="TARGET", help=f"default: all of {' '.join(known)}")
    options.add_argument("--inputs", type=int, default=100_000, help="for each target (%(default)s)")
    options.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 32), help="else a random one")
    options.add_argument("--atheris", action="store_true", help="guided by what code an input reaches")
    options.add_argument("--seconds", type=int, default=0, help="with --atheris: for each target at most (no limit)")
    options.add_argument("--keep", type=int, default=0, help="with --atheris: at most so many new inputs (%(default)s)")
    given = options.parse_args()
    if unknown := set(given.target) - set(known):
        options.error(f"no target is called {' '.join(unknown)}; there are {' '.join(known)}")
    if (given.seconds or given.keep) and not given.atheris:
        options.error("--seconds and --keep go with --atheris")
    say(f"seed {given.seed}")
    if given.atheris:
        if importlib.util.find_spec("atheris") is None:
            options.error("no atheris here: pip install atheris")
        return under_atheris(given.target or known, Plan(given.inputs, given.seconds, given.seed, given.keep))
    total = 0
    targets = importlib.import_module("fuzz.targets").TARGETS
    for name in given.target or known:
        try:
            ran = run(name, targets[name], made(name, given.inputs, given.seed))
        except Failed as failed:
            traceback.print_exc()
            say(f"{name}: kept as {keep(os.path.join(CORPUS, name), failed.data)}")
            return 1
        total += ran.inputs
        say(
            f"{name:14}{ran.inputs:>11,} inputs {ran.seconds:8.1f} s, longest {ran.longest * 1000:7.1f} ms, "
            f"grew {ran.grew:6.1f} MiB"
        )
        if ran.grew > GROWTH:
            say(f"{name}: it grew by more than {GROWTH} MiB")
            return 1
    say(f"{total:,} inputs")
    return 0


def say(line: str) -> None:
    """A line on stdout, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def under_atheris(names: list[str], plan: Plan) -> int:
    """Runs targets under atheris, one after the other, whatever comes of each; gives the exit status."""
    total, status = 0, 0
    for name in names:
        try:
            ran = guided(name, plan)
        except Fault as fault:
            status = 1
            say(f"{name}: {fault}")
            if fault.data is not None:
                say(f"{name}: kept as {keep(os.path.join(CORPUS, name), fault.data)}")
            continue
        total += ran.inputs
        say(f"{name:14}{ran}")
    say(f"{total:,} inputs")
    return status


if __name__ == "__main__":
    sys.exit(main())
