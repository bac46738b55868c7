"""start, stop, restart and service where the lock of a state directory says more than the socket."""

from __future__ import annotations

import os
import select
import signal
import sys

import pytest
from starting import Home, home
from support import HANG

__all__ = ["home"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc/locks tells who holds a lock")


def test_stop_finds_the_daemon_of_a_state_by_its_lock(home: Home) -> None:
    elsewhere = os.path.join(home.path, "e.sock")
    home.provd("start", "--state", home.state, "--socket", elsewhere)
    pid = home.hello(elsewhere)["pid"]
    said = home.provd("stop", code=5).err
    assert f"(pid {pid})" in said
    assert f"next: export PROVD_SOCKET={elsewhere}  # " in said
    assert "no daemon" in home.provd("stop", "--socket", os.path.join(home.path, "x.sock"), code=3).err
    assert home.provd("stop", "--state", home.state).err == "stopped\n"
    assert "no daemon" in home.provd("stop", "--state", home.state, code=3).err


def test_what_a_killed_daemon_left_in_its_lock_is_not_believed(home: Home) -> None:
    home.provd("start")
    pid = home.hello()["pid"]
    with open(os.path.join(home.state, "lock")) as file:
        assert file.read().startswith(f"{pid}\n")
    handle = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([handle], [], [], HANG)
    os.close(handle)
    assert "no daemon" in home.provd("stop", code=3).err
    home.provd("start")
    home.provd("stop")
    with open(os.path.join(home.state, "lock")) as file:
        assert file.read() == ""


def test_stop_waits_for_a_stopped_process_as_long_as_it_was_told(home: Home) -> None:
    home.provd("start")
    pid = home.hello()["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        said = home.provd("stop", "--timeout", "0.5", code=5).err
        other = [f"--socket={home.path}/other", "--timeout", "0.5"]
        elsewhere = home.provd("start", *other, code=3).err
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "did not answer within" in said
    for told in (said, elsewhere):
        assert f"kill -CONT {pid}" in told


@pytest.mark.skipif(os.geteuid() != 0, reason="only root meets a directory of another user that it may write to")
def test_root_touches_no_state_of_another_user(home: Home) -> None:
    os.makedirs(home.state)
    os.chown(home.state, 12345, 12345)
    assert "belongs to user 12345" in home.provd("start", code=5).err
    assert "belongs to user 12345" in home.provd("restart", code=5).err
    assert os.listdir(home.state) == []
    os.chown(home.state, 0, 0)
    home.provd("start")
    pid = home.hello()["pid"]
    os.chown(home.state, 12345, 12345)
    assert "belongs to user 12345" in home.provd("restart", code=5).err
    assert home.hello()["pid"] == pid
    os.chown(home.state, 0, 0)
