"""A part of the soak as a test: the command itself, with a fixed seed, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from support import REPOSITORY

QUESTIONS = 12_000
FAULTS = 20


def soaked(seed: int) -> None:
    """Runs; raises AssertionError with the table and what was false."""
    command = ["--questions", str(QUESTIONS), "--seed", str(seed), "--faults", str(FAULTS)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.oracle", *command],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": REPOSITORY},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5000:]
