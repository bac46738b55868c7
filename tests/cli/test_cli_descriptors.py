"""A daemon whose descriptors or connections are used up: it says so, or its silence is explained, and stop ends it."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys

import pytest
from starting import Home, home
from support import HANG, Rpc, RpcError

__all__ = ["home"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc/locks tells who holds a lock")
COMMANDS = (["check", "k"], ["put", "k", "--no-deps"], ["start"], ["restart"], ["status"])


def filled(stack: contextlib.ExitStack, path: str) -> None:
    """Connections that nobody uses any more, as many as are taken."""
    for _ in range(1024):
        connection = stack.enter_context(contextlib.closing(Rpc(path)))
        try:
            connection("daemon.hello", protocol=1)
        except (ConnectionError, RpcError):
            return
    raise AssertionError("there is no end of them")


def test_a_daemon_without_room_for_a_connection_says_so_and_is_stopped(home: Home) -> None:
    script = 'ulimit -n 70 && exec "$@"'
    begin = ["sh", "-c", script, "sh", *home.command("start")]
    env = home.environment(PATH=f"{home.bin}:/usr/bin:/bin")
    subprocess.run(begin, check=True, capture_output=True, timeout=HANG, env=env)
    pid = home.hello()["pid"]
    with contextlib.ExitStack() as stack:
        filled(stack, home.socket)
        for command in COMMANDS:
            said = home.provd(*command, code=5).err
            assert f"connections to the daemon (pid {pid}) are open, as many as its limit of 70 open files" in said
            assert "provd restart" in said
        assert f"(pid {pid})" in " ".join(home.provd("doctor", code=1).out.split())
        assert home.provd("stop").err == "stopped\n"
    assert "no daemon" in home.provd("stop", code=3).err


def test_a_daemon_that_cannot_even_say_so_is_stopped(home: Home) -> None:
    home.provd("start")
    with contextlib.ExitStack() as stack:
        asking = stack.enter_context(contextlib.closing(Rpc(home.socket)))  # kept, since a closed one leaves room
        pid = asking("daemon.hello", protocol=1)["pid"]
        most = max(map(int, os.listdir(f"/proc/{pid}/fd"))) + 1
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))
        filled(stack, home.socket)
        for command in COMMANDS:
            said = home.provd(*command, code=3).err
            assert "closed the connection before it answered" in said
            assert f"and its process {pid} still runs" in said
            assert "or: provd stop" in said
        assert home.provd("stop").err == "stopped\n"
    assert "no daemon" in home.provd("stop", code=3).err
