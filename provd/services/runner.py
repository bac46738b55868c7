"""Runs the service manager's own programs.

Rule: one function, so that tests give another one. It never raises and never waits for ever: a program that is
missing or silent is a code like any other.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

MISSING: Final = 127
"""The code of a program that is not there, as shells have it."""
SILENT: Final = 124
"""The code of a program that did not end in time, as timeout(1) has it."""
QUICK: Final = 5.0
"""Seconds for a question."""
SLOW: Final = 660.0
"""Seconds for a start or a stop: the shipped unit lets a start take 600."""


@dataclass(frozen=True)
class Ran:
    """How a program ended: its code, and what it wrote."""

    code: int
    out: str = ""
    err: str = ""

    @property
    def said(self) -> str:
        """What it complained of, on one line."""
        ended = f"exit code {self.code}" if self.code >= 0 else f"signal {-self.code} ended it"
        return " ".join((self.err.strip() or self.out.strip()).split()) or ended


Runner = Callable[[Sequence[str], float], Ran]
"""A command and the seconds that it may take."""


def run(command: Sequence[str], timeout: float) -> Ran:
    """Runs a program without a terminal, in the C locale."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
            env={**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""},
            cwd="/",
        )
    except subprocess.TimeoutExpired:
        return Ran(SILENT, err=f"{command[0]} did not end within {timeout:g} s")
    except OSError as error:
        return Ran(MISSING, err=f"{command[0]}: {error.strerror or error}")
    return Ran(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
