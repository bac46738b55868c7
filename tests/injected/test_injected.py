"""Some awaits and calls that fail, drawn with a fixed seed: no answer is false, nobody waits for ever, nothing is lost.

Broken: a task of a connection that ends in an error and tells nobody; its client waits for ever.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support import REPOSITORY


def _fail(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.injected.injections", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": REPOSITORY},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5000:]


@pytest.mark.timeout(300)
def test_what_fails_while_clients_ask() -> None:
    _fail("--when", "play", "--sites", "20", "--seed", "5")


@pytest.mark.timeout(300)
def test_what_fails_while_it_answers_and_while_it_starts() -> None:
    _fail("--only", "server.py", "--sites", "6", "--seed", "5")
