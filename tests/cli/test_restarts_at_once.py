"""Several commands at once that end and begin daemons of one state: each has its turn, and none speaks of another's."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from starting import Home, home
from support import HANG

from provd.cli import main
from provd.cli.processes import holding, namespaces, serving
from provd.client import ProvdUnreachable, RpcError
from provd.places import START_LOCK_NAME

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

__all__ = ["home"]

_HOLDER: Final = """
import fcntl, sys
with open(sys.argv[1], "a") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


def _told(home: Home, *words: str) -> list[str]:
    commands = [
        subprocess.Popen(home.command(word), stderr=subprocess.PIPE, env=home.environment(), cwd=home.path)
        for word in words
    ]
    told = [command.communicate(timeout=HANG)[1].decode() for command in commands]
    assert [command.returncode for command in commands] == [0] * len(words), told
    return told


def test_each_restart_ends_a_daemon_and_begins_one(home: Home) -> None:
    home.provd("start", "--root", home.root)
    pids = {home.hello()["pid"]}
    for number in range(1, 4):
        for said in _told(home, *["restart"] * 4):
            one = re.fullmatch(rf"restarted in the background \(pid (\d+)\); it logs to {re.escape(home.log)}\n", said)
            assert one is not None, said
            pids.add(int(one[1]))
        assert len(pids) == 1 + 4 * number
        assert home.hello()["pid"] in pids


def test_a_start_beside_restarts_finds_one(home: Home) -> None:
    home.provd("start", "--root", home.root)
    for _ in range(3):
        for said in _told(home, "start", "restart", "start", "restart"):
            assert re.match(r"(already running|restarted in the background) \(pid \d+\)", said), said
            assert "next:" not in said


def test_nobody_else_begins_from_before_the_end_until_all_is_said(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.provd("start")
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in home.environment().items():
        monkeypatch.setenv(name, value)
    free: list[tuple[str, bool]] = []

    def looked_at(module: ModuleType, name: str) -> None:
        real: Callable[..., Any] = getattr(module, name)

        def looking(*args: Any, **kwargs: Any) -> Any:
            result = real(*args, **kwargs)
            free.append((name, not holding.starts(home.state) and _is_free(home.state)))
            return result

        monkeypatch.setattr(module, name, looking)

    looked_at(serving, "end")
    looked_at(serving, "has_all")
    looked_at(namespaces, "began_in_here")

    assert main(["restart"]) == 0
    assert free == [("end", False), ("has_all", False), ("began_in_here", False)]
    assert _is_free(home.state)


def _is_free(state: str) -> bool:
    with open(os.path.join(state, START_LOCK_NAME)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/locks tells who holds a lock")
def test_a_start_is_at_work_while_another_process_holds_its_lock(tmp_path: Path) -> None:
    state, path = os.fspath(tmp_path), tmp_path / START_LOCK_NAME
    closed, shutdown = ProvdUnreachable("m", "h", "closed"), RpcError("shutdown", "m")
    assert not holding.starts(state)
    with path.open("w") as lock:
        assert not holding.starts(state)
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not holding.starts(state), "it is this process itself"
    command = [sys.executable, "-c", _HOLDER, os.fspath(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert holding.starts(state)
        assert serving.is_restarted(closed, state)
        assert serving.is_restarted(shutdown, state)
        assert not serving.is_restarted(ProvdUnreachable("m", "h", "silent"), state)
        other.communicate()
    assert not holding.starts(state)
    assert not serving.is_restarted(closed, state)


@pytest.mark.parametrize("follows", [True, False])
def test_the_socket_of_who_came_after_it_is_nothing_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, follows: bool
) -> None:
    """Broken: the hint has the socket of the next daemon moved away."""
    path = os.fspath(tmp_path / "s")
    before = holding.Holder(7, path, sure=True)
    monkeypatch.setattr(holding, "holder", lambda _: holding.Holder(8, path, sure=True) if follows else before)
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(path)
        stale = ProvdUnreachable("m", "h", "stale")

        told = holding.bereft(stale, before, path, os.fspath(tmp_path))

    assert (told is stale) == follows
    assert ("mv " in told.hint) != follows
