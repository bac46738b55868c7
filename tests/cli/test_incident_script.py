"""The incident as a script: it tells its story with the real daemon, and fails where a verdict is another."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

import provd

if TYPE_CHECKING:
    from pathlib import Path

_SCRIPT: Final = os.path.join(os.path.dirname(os.path.dirname(provd.__file__)), "examples", "incident.sh")
_HANG: Final = 100

pytestmark = pytest.mark.skipif(not os.path.exists(_SCRIPT), reason="the examples are not here")


def _tell(home: Path, spoiled: str = "") -> subprocess.CompletedProcess[str]:
    """Run the script with a `provd` whose commands may be spoiled by some lines of shell."""
    (home / "bin").mkdir()
    command = home / "bin" / "provd"
    command.write_text(f'#!/bin/sh\n{spoiled}\nexec "{sys.executable}" -m provd "$@"\n')
    command.chmod(0o755)
    source = os.path.dirname(os.path.dirname(provd.__file__))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PROVD_")}
    environment = kept | {"PATH": f"{home / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": source}
    return subprocess.run(
        ["sh", _SCRIPT], env=environment, capture_output=True, text=True, timeout=_HANG, check=False, cwd=home
    )


def test_the_story(tmp_path: Path) -> None:
    done = _tell(tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert '$ provd put late:summary --value "of what was read" --sums ../read.sums' in lines
    scene = lines[lines.index("$ provd why late:summary") :]
    assert any(line.startswith("      was sha256:") for line in scene)
    assert any(line.startswith("      is  sha256:") for line in scene)
    assert lines[-1].endswith("fresh    control:summary  (same)")


@pytest.mark.parametrize(
    "spoiled",
    [
        'case "$*" in check*) exit 0 ;; esac',
        'case "$*" in check*) exit 1 ;; esac',
        'case "$*" in "check -q plan") exit 4 ;; esac',
        'case "$*" in *control:summary*) exit 4 ;; esac',
    ],
)
def test_another_verdict_fails(tmp_path: Path, spoiled: str) -> None:
    assert _tell(tmp_path, spoiled).returncode == 1
