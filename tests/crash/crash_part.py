"""A part of the soak as a test: the command itself, with a fixed seed, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from support import REPOSITORY


def crashed(count: int, *grounds: str, seed: int) -> None:
    """Runs; raises AssertionError with the table, and with what was lost or false."""
    command = ["--crashes", str(count), "--on", *grounds, "--seed", str(seed)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.crashes", *command],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": REPOSITORY},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5000:]
