"""stop: it returns when the daemon's process has ended, so that the next one meets nothing of it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from fake_daemon import Cli, Hangup, Silence, Stream, cli, fake

from provd import reach
from provd.cli import command
from provd.cli.processes import process
from provd.client import Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support import Daemon

__all__ = ["cli", "fake"]

_HANG = 60
_STUB = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as listening:
    listening.bind(sys.argv[1])
    listening.listen()
    print("ready", flush=True)
    connection, _ = listening.accept()
with connection, connection.makefile("rb") as lines:
    for line in lines:
        request = json.loads(line)
        stopping = request["method"] == "daemon.shutdown"
        hello = {"name": "provd", "pid": os.getpid() + int(sys.argv[2]), "roots": []}
        answer = {"id": request["id"], "result": {} if stopping else hello}
        connection.sendall(json.dumps(answer).encode() + b"\\n")
        if stopping:
            break
sys.stdin.read()
"""
"""A daemon that closes its connections when it is told to stop, and ends when its stdin does."""


@pytest.fixture
def lingering(cli: Cli) -> Iterator[Callable[[int], subprocess.Popen[bytes]]]:
    """Starts a stub at `slow`; its own number of itself is so much too high."""
    started: list[subprocess.Popen[bytes]] = []

    def start(too_high: int = 0) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", _STUB, os.path.join(cli.fake.home, "slow"), str(too_high)]
        stub = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(stub)
        assert stub.stdout is not None
        assert stub.stdout.readline() == b"ready\n"
        return stub

    yield start
    for stub in started:
        stub.communicate(timeout=_HANG)


@pytest.fixture(params=["pidfd", "refused", "none"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How the system tells of a process's end."""

    def refuse(_: int) -> int:
        raise PermissionError

    if request.param == "none":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    elif not hasattr(os, "pidfd_open"):
        pytest.skip("no pidfd_open here")
    elif request.param == "refused":
        monkeypatch.setattr(os, "pidfd_open", refuse)


def test_a_daemon_that_is_out_of_sight_ends_with_its_connection(cli: Cli) -> None:
    cli.fake.answers["daemon.shutdown"] = Stream({})

    got = cli("stop")

    assert (got.out, got.err) == ("", "stopped\n")
    assert [method for method, _ in cli.fake.asked] == ["daemon.hello", "daemon.shutdown"]


def test_a_connection_that_stays(cli: Cli) -> None:
    cli.fake.answers["daemon.shutdown"] = Stream({}, close=False)

    assert "still there after 0.1 s" in cli("stop", "--timeout", "0.1", code=5).err


@pytest.mark.skipif(sys.platform != "linux", reason="only there the system names the peer")
def test_a_daemon_that_does_not_answer(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.fake.answers["daemon.hello"] = Silence()
    monkeypatch.setattr(command, "GREETING", 0.1)

    assert f"or: kill -9 {os.getpid()}" in cli("stop", code=5).err


def test_the_process_of_a_stranger_is_not_to_be_ended(cli: Cli) -> None:
    answer: Any
    for answer in (Hangup(), {}):
        cli.fake.answers["daemon.hello"] = answer

        assert "kill" not in cli("stop", code=3).err


def test_no_daemon(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "# one listens there: so, or leave --socket out" in cli("stop", "--socket", "none", code=3).err
    monkeypatch.delenv("PROVD_SOCKET")
    monkeypatch.setattr("provd.elsewhere.answers", lambda _: False)  # as one of who runs these tests may
    told = cli("stop", "--socket", "none", code=3).err

    assert "no daemon: there is no socket at " in told
    assert "nothing has to be stopped here" in told
    assert "provd start" not in told


@pytest.mark.usefixtures("_way")
def test_a_process_that_ends_after_its_connections(
    cli: Cli, lingering: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = lingering()
    closed = Client.wait_closed

    def then_end(client: Client) -> None:
        closed(client)
        assert stub.poll() is None
        assert stub.stdin is not None
        stub.stdin.close()

    monkeypatch.setattr(Client, "wait_closed", then_end)

    assert cli("stop", "--socket", "slow").err == "stopped\n"
    assert stub.poll() == 0
    stub.stdin = None


@pytest.mark.usefixtures("_way")
def test_a_process_that_stays(cli: Cli, lingering: Callable[..., subprocess.Popen[bytes]]) -> None:
    stub = lingering()

    got = cli("stop", "--socket", "slow", "--timeout", "0.1", code=5)

    assert got.err == (
        f"provd: the daemon at {cli.here}/slow was told to stop and its process {stub.pid} still runs after 0.1 s\n"
        f"  next: kill {stub.pid}  # or see what it logs\n"
    )
    assert stub.poll() is None


def test_a_process_that_is_stopped_while_it_ends(
    cli: Cli, lingering: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = lingering()
    monkeypatch.setattr(reach, "state", lambda _: "T")

    said = cli("stop", "--socket", "slow", "--timeout", "0.1", code=5).err

    assert f"\n  next: kill -CONT {stub.pid}  # " in said


@pytest.mark.skipif(sys.platform != "linux", reason="only there the system names the peer")
def test_a_number_of_another_namespace_is_nobody_here(
    cli: Cli, lingering: Callable[..., subprocess.Popen[bytes]]
) -> None:
    stub = lingering(1)

    assert cli("stop", "--socket", "slow").err == "stopped\n"
    assert stub.poll() is None


@pytest.mark.usefixtures("_way")
def test_a_process_that_is_gone_already() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(_HANG)

    with process.Process(gone.pid) as watched:
        assert watched.ended(0.0)


def test_the_daemon_itself(cli: Cli, make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    for _ in range(3):
        daemon.start()
        assert daemon.process is not None

        cli("stop", "--socket", daemon.socket)

        assert daemon.process.poll() == 0
