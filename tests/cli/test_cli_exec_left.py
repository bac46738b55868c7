"""exec: what a command leaves running is noticed, and waited for where that is wanted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from executing import EXEC
from real_cli import RealCli, cli
from support import HANG

from provd.cli.processes import orphans

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["cli"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux alone")

_LATE: Final = "(read line <go; echo late >late) >/dev/null 2>&1 & exit 3"
_SENDER: Final = """
import os, signal, sys
command, ours = map(int, sys.argv[1:])
signal.alarm(60)
while os.getppid() == command:
    os.sched_yield()
os.kill(ours, signal.SIGTERM)
signal.pause()
"""
"""Signals to `exec` as soon as the command has ended, and goes on."""


@pytest.fixture
def gate(cli: RealCli) -> Iterator[str]:
    """A FIFO that what goes on waits for; in the end it is open, whoever waits."""
    path = os.path.join(cli.root, "go")
    os.mkfifo(path)
    both = os.open(path, os.O_RDWR)
    yield path
    os.write(both, b"\n")
    os.close(both)


def test_what_goes_on_is_named(cli: RealCli, gate: str) -> None:
    got = cli.process("exec", "-q", "--report", "report", "--write", "object:o", "--", "sh", "-c", _LATE, code=3)

    told = re.search(
        r"provd: 1 process started by it still runs \((\d+)\): what that writes from now on is not", got.err
    )
    assert told is not None, got.err
    assert "\n  next: provd exec --wait -- CMD  # " in got.err
    assert "\n  or: provd action record --write object:o  # when that has ended" in got.err
    with open(os.path.join(cli.root, "report"), encoding="utf-8") as report:
        assert json.load(report)["running"] == [int(told[1])]
    assert not os.path.exists(os.path.join(cli.root, "late"))


def test_in_a_session_of_its_own_too_and_what_that_started(cli: RealCli, gate: str) -> None:
    script = "(setsid sh -c 'sh -c \"read line <go; true\"; true' >/dev/null 2>&1 &)"

    told = cli.process("exec", "--", "sh", "-c", script).err

    assert re.search(r"provd: [12] process(es)? started by it still runs? \(", told), told


def test_nothing_is_said_where_all_have_ended(cli: RealCli) -> None:
    assert "still run" not in cli.process("exec", "--", "sh", "-c", "true & wait; (true; true)").err


def test_with_wait_it_ends_when_all_have(cli: RealCli, gate: str) -> None:
    command = [*EXEC, "--wait", "--write", "object:o", "--", "sh", "-c", _LATE]
    process = subprocess.Popen(command, cwd=cli.root, env=cli.environment(), stderr=subprocess.PIPE, text=True)
    with open(gate, "w", encoding="utf-8") as go:
        go.write("\n")
    said = process.communicate(timeout=HANG)[1]

    assert process.returncode == 3
    assert "still run" not in said
    assert os.path.exists(os.path.join(cli.root, "late"))


def test_a_signal_ends_the_waiting_and_not_what_goes_on(cli: RealCli) -> None:
    script = f"{sys.executable} -c '{_SENDER}' $$ $PPID >/dev/null 2>&1 & exit 0"

    got = cli.process("exec", "--wait", "--", "sh", "-c", script)

    told = re.search(r"1 process started by it still runs \((\d+)\)", got.err)
    assert told is not None, got.err
    os.kill(int(told[1]), signal.SIGKILL)


def test_where_nothing_is_noticed_there_is_no_waiting(cli: RealCli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "adopt", lambda: False)

    told = cli("exec", "--wait", "--", "true", code=2).err

    assert "provd: --wait: this system does not tell what a command leaves running" in told
