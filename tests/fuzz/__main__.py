"""`python -m tests.fuzz [TARGET...] [--inputs N] [--seed S] [--atheris]`: bytes for what reads bytes.

Without a target all of them. Prints a line for each; stops at the first input that a target does not take, and keeps it
in the corpus: with that the tests fail until it is mended. --atheris looks for inputs that reach new code (the package
of that name is to be installed; it takes one target). Exit status: 0, or 1 where an input was not taken.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import sys
import tempfile
import traceback
from random import SystemRandom

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.dirname(os.path.dirname(HERE))]

from fuzz.loop import CORPUS, Failed, made, run  # noqa: E402


def main() -> int:
    """Runs; gives the exit status."""
    options = argparse.ArgumentParser(prog="python -m tests.fuzz", description="bytes for what reads bytes")
    known = sorted(os.listdir(CORPUS))
    options.add_argument("target", nargs="*", metavar="TARGET", help=f"default: all of {' '.join(known)}")
    options.add_argument("--inputs", type=int, default=100_000, help="for each target (%(default)s)")
    options.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 32), help="else a random one")
    options.add_argument("--atheris", action="store_true", help="guided by what code an input reaches")
    given = options.parse_args()
    if unknown := set(given.target) - set(known):
        options.error(f"no target is called {' '.join(unknown)}; there are {' '.join(known)}")
    if given.atheris:
        if len(given.target) != 1:
            options.error("--atheris takes one target")
        guided(given.target[0], given.inputs, given.seed)
    say(f"seed {given.seed}")
    total = 0
    targets = importlib.import_module("fuzz.targets").TARGETS
    for name in given.target or known:
        try:
            ran = run(name, targets[name], made(name, given.inputs, given.seed))
        except Failed as failed:
            traceback.print_exc()
            say(f"{name}: kept as {keep(name, failed.data)}")
            return 1
        total += ran.inputs
        say(
            f"{name:14}{ran.inputs:>11,} inputs {ran.seconds:8.1f} s, longest {ran.longest * 1000:7.1f} ms, "
            f"grew {ran.grew:6.1f} MiB"
        )
    say(f"{total:,} inputs")
    return 0


def say(line: str) -> None:
    """A line on stdout, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def keep(name: str, data: bytes) -> str:
    """Writes an input into the corpus; gives where."""
    path = os.path.join(CORPUS, name, hashlib.sha256(data).hexdigest()[:12])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return path


def guided(name: str, count: int, seed: int) -> None:
    """Runs under atheris, which ends the process."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["provd"]):
        target = importlib.import_module("fuzz.targets").TARGETS[name]
    kept = os.path.join(CORPUS, name)
    found = tempfile.mkdtemp(prefix="fuzz-")  # what is new there is new to this run alone
    options = [f"-runs={count}", f"-seed={seed % (1 << 31) + 1}", "-max_len=4096", f"-artifact_prefix={kept}/"]
    arguments = [sys.argv[0], *options, found, kept]
    atheris.Setup(arguments, target)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
