"""start, stop and restart without a service manager: a daemon in the background."""

from __future__ import annotations

import os
import select
import socket
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from changes import until
from starting import Home, end, home
from support import HANG

if TYPE_CHECKING:
    from collections.abc import Callable

    from support import Daemon

__all__ = ["home"]

_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what is looked at here")


def read(path: str) -> str:
    with open(path) as file:
        return file.read()


def test_start_answers_and_leaves_a_daemon_of_its_own(home: Home) -> None:
    done = home.provd("start", "--root", "a root")

    hello = home.hello()
    pid = hello["pid"]
    assert done.err == f"started in the background (pid {pid}); it logs to {home.log}\n"
    assert done.out == ""
    assert hello["roots"] == [home.root]
    assert os.getsid(pid) == pid != os.getsid(0)
    assert stat.S_IMODE(os.stat(home.log).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(home.state).st_mode) == 0o700
    assert f"pid={pid}" in read(home.log)


@_LINUX
def test_nothing_of_the_caller_is_kept(home: Home) -> None:
    home.provd("start", NOTIFY_SOCKET="/nobody", WATCHDOG_USEC="1000000", MINE="kept")

    proc = f"/proc/{home.hello()['pid']}"
    assert os.readlink(f"{proc}/cwd") == "/"
    assert [os.readlink(f"{proc}/fd/{number}") for number in range(3)] == [os.devnull, os.devnull, home.log]
    with open(f"{proc}/environ", "rb") as file:
        environment = file.read().split(b"\0")
    assert b"MINE=kept" in environment
    assert not any(variable.startswith((b"NOTIFY_", b"WATCHDOG_")) for variable in environment)


def test_started_again_it_is_the_same_and_watches_more(home: Home) -> None:
    first = home.provd("start")
    before = home.hello()
    assert first.err.endswith("\nnothing is watched yet: provd watch add .  # or another directory\n")

    done = home.provd("start", "--root", home.root)

    after = home.hello()
    assert done.err == f"already running (pid {before['pid']})\nnow watching {home.root}\n"
    assert home.provd("start", "--root", home.root).err == f"already running (pid {before['pid']})\n"
    assert after["run"] == before["run"]
    assert after["roots"] == [home.root]


def test_what_the_daemon_that_runs_does_otherwise_is_said(home: Home) -> None:
    home.provd("start", "--root", home.root, "--backend", "poll")
    pid = home.hello()["pid"]
    assert home.provd("start", "--backend", "poll").err == f"already running (pid {pid})\n"
    differs = (
        f"already running (pid {pid})\n"
        "provd: --backend auto was not taken: it runs with watch.backend poll; "
        "to change that: provd restart --backend auto"
    )
    assert home.provd("start", "--backend", "auto").err == f"{differs}\n"
    assert (
        home.provd("start", "--backend", "auto", "--socket", home.socket).err == f"{differs} --socket {home.socket}\n"
    )
    own = os.path.join(home.path, "own.toml")
    with open(own, "w"):
        pass
    said = home.provd("start", PROVD_CONFIG=own).err
    assert f"provd: $PROVD_CONFIG names {own}, and it runs with the configuration {home.path}/.config/" in said
    assert said.endswith("to change that: provd restart\n")
    assert home.hello()["pid"] == pid


def test_several_at_once_start_one(home: Home) -> None:
    starts = [
        subprocess.Popen(home.command("start"), stderr=subprocess.PIPE, env=home.environment(), cwd=home.path)
        for _ in range(4)
    ]
    told = [start.communicate(timeout=HANG)[1].decode() for start in starts]

    assert [start.returncode for start in starts] == [0] * 4
    pid = home.hello()["pid"]
    nothing = "nothing is watched yet: provd watch add .  # or another directory\n"
    assert sorted(told) == [f"already running (pid {pid})\n{nothing}"] * 3 + [
        f"started in the background (pid {pid}); it logs to {home.log}\n{nothing}"
    ]
    assert "uses the state directory" not in read(home.log)  # the others did not even try


def test_what_the_daemon_says_is_the_reason(home: Home) -> None:
    os.makedirs(os.path.join(home.path, ".config", "provd"))
    with open(os.path.join(home.path, ".config", "provd", "config.toml"), "w") as file:
        file.write("nonsense = 1\n")

    done = home.provd("start", code=5)

    assert done.err.startswith("provd: the daemon did not start: ")
    assert "config.toml" in done.err
    assert "nonsense" in done.err
    assert "\n  next: " in done.err
    assert "did not start" in home.provd("start", code=5).err


@pytest.mark.parametrize("command", ["start", "restart"])
def test_a_root_that_is_not_there_starts_nothing(home: Home, command: str) -> None:
    done = home.provd(command, "--root", "nowhere", code=2)

    assert "--root nowhere: there is no such directory" in done.err
    assert not os.path.exists(home.state)


def test_a_state_that_cannot_be_made(home: Home) -> None:
    with open(os.path.join(home.path, "file"), "w"):
        pass

    done = home.provd("start", "--state", "file", code=5)

    assert f"the state directory {home.path}/file cannot be used" in done.err
    assert "next: ls -ld " in done.err


def test_a_socket_that_is_somebody_elses_is_left_alone(home: Home) -> None:
    os.makedirs(os.path.dirname(home.socket))
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(home.socket)
        other.listen()

        done = home.provd("start", "--timeout", "0.2", code=3)

    assert "did not answer" in done.err
    assert not os.path.exists(home.log)
    os.unlink(home.socket)


def test_another_daemon_holds_the_state(home: Home, make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon(state=home.state).start()

    done = home.provd("start", code=5)

    assert "another daemon" in done.err
    assert f"provd stop --socket {daemon.socket}" in done.err


def test_a_daemon_that_still_ends_is_waited_for(home: Home, make_daemon: Callable[..., Daemon]) -> None:
    ending = make_daemon(state=home.state).start()
    os.unlink(ending.socket)  # as one does first that ends

    start = subprocess.Popen(home.command("start"), stderr=subprocess.PIPE, env=home.environment(), cwd=home.path)
    until(lambda: os.path.exists(os.path.join(home.state, "start.lock")), home.state, start)
    ending.stop()

    assert start.communicate(timeout=HANG)[1].decode().startswith("started in the background")
    assert start.returncode == 0


def test_a_daemon_with_another_state_is_not_taken_for_this(home: Home) -> None:
    home.provd("start")

    for command in ("start", "restart"):
        done = home.provd(command, "--state", "other", "--socket", home.socket, code=5)
        assert f"keeps its state in {home.state}, not in other" in done.err
    assert not os.path.exists(os.path.join(home.path, "other"))


def test_stop_ends_it_and_says_when_there_was_none(home: Home) -> None:
    home.provd("start")
    process = os.pidfd_open(home.hello()["pid"])

    done = home.provd("stop")

    ended, _, _ = select.select([process], [], [], 0)
    os.close(process)
    assert done.err == "stopped\n"
    assert ended == [process]
    assert "no daemon" in home.provd("stop", code=3).err


def test_after_a_kill_it_starts_again(home: Home) -> None:
    home.provd("start", "--root", home.root)
    before = home.hello()
    end(before["pid"])

    home.provd("start")

    after = home.hello()
    assert after["run"] != before["run"]
    assert after["roots"] == [home.root]


def test_a_store_that_could_not_be_opened_is_told(home: Home) -> None:
    home.provd("start", "--root", home.root)
    data = os.path.join(home.state, "store", "data.mdb")
    home.provd("stop")
    with open(data, "r+b") as file:
        file.write(b"\xff" * 8192)

    said = home.provd("start").err

    assert "its store could not be opened and lies at " in said
    assert "\n  next: provd doctor" in said
    assert "could not be opened" not in home.provd("restart").err


def test_restart_is_another_process_with_the_same_memory(home: Home) -> None:
    home.provd("start", "--root", home.root)
    home.provd("put", "k", "--value", "v", "--no-deps", "--root", home.root)
    before = home.hello()

    done = home.provd("restart")

    after = home.hello()
    assert done.err == f"restarted in the background (pid {after['pid']}); it logs to {home.log}\n"
    assert after["run"] != before["run"]
    assert after["log"] == before["log"]
    assert home.provd("get", "k", "--root", home.root).out == "v"


def test_restart_starts_where_there_is_none(home: Home) -> None:
    done = home.provd("restart", "--root", home.root)

    assert done.err.startswith("started in the background")  # nothing was there to be started again
    assert home.hello()["roots"] == [home.root]


def test_restart_keeps_the_state_that_only_the_daemon_knows(home: Home) -> None:
    place = os.path.join(home.path, "s.sock")
    home.provd("start", "--state", "there", "--socket", "s.sock")
    before = home.hello(place)

    home.provd("restart", "--socket", place)

    assert home.hello(place)["log"] == before["log"]
    assert not os.path.exists(home.state)


def test_another_version_is_said(home: Home) -> None:
    code = "import sys, provd; provd.__version__ = '99'; from provd.cli import main; sys.exit(main(['start']))"
    home.provd("start")

    done = subprocess.run(
        [sys.executable, "-c", code], env=home.environment(), capture_output=True, text=True, timeout=HANG, check=True
    )

    assert "this is 99\n  next: provd restart  # takes the new one\n" in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_the_caller_closed(home: Home, closed: str) -> None:
    command = f'exec "$@" {closed}'
    done = subprocess.run(
        ["/bin/sh", "-c", command, "sh", *home.command("start")], env=home.environment(), timeout=HANG, check=False
    )

    assert done.returncode == 0
    assert home.hello()["name"] == "provd"
