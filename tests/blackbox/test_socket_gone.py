"""The socket's name is taken away while the daemon lives: told by SIGHUP it makes it anew, and takes nobody else's."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
from typing import TYPE_CHECKING

import pytest
from changes import until
from support import Daemon, Rpc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MADE = "the socket was gone and was made anew"


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    home = Daemon(roots=[])
    home.socket = os.path.join(home.home, "run", "s.sock")
    home.start()
    home.rpc("daemon.hello", protocol=1)  # a connection that stays
    yield home
    home.close()


def _hang_up(daemon: Daemon, word: str) -> None:
    """SIGHUP, until the log says `word` once more."""
    assert daemon.process is not None
    before = daemon.said().count(word)
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: daemon.said().count(word) > before, daemon.home, daemon.process)


def _asked(daemon: Daemon) -> int:
    with contextlib.closing(Rpc(daemon.socket)) as rpc:
        pid: int = rpc("daemon.hello", protocol=1)["pid"]
    return pid


@pytest.mark.parametrize("take", [os.unlink, lambda path: shutil.rmtree(os.path.dirname(path))])
def test_it_is_made_anew_and_goes_at_the_end(daemon: Daemon, take: Callable[[str], None]) -> None:
    assert daemon.process is not None
    for _ in range(2):
        take(daemon.socket)

        _hang_up(daemon, _MADE)

        assert _asked(daemon) == daemon.process.pid
        assert stat.S_IMODE(os.stat(daemon.socket).st_mode) == 0o600
        daemon.rpc("daemon.hello", protocol=1)
    assert daemon.stop() == 0
    assert not os.path.lexists(daemon.socket)


def test_what_lies_there_is_left_alone(daemon: Daemon) -> None:
    os.unlink(daemon.socket)
    with open(daemon.socket, "w", encoding="utf-8") as file:
        file.write("mine")

    _hang_up(daemon, "configuration reloaded")

    with open(daemon.socket, encoding="utf-8") as file:
        assert file.read() == "mine"
    assert _MADE not in daemon.said()
    assert daemon.stop() == 0
    assert os.path.exists(daemon.socket)


def test_a_socket_that_is_there_stays(daemon: Daemon) -> None:
    before = os.stat(daemon.socket).st_ino

    _hang_up(daemon, "configuration reloaded")

    assert os.stat(daemon.socket).st_ino == before


def test_where_it_cannot_be_made_the_daemon_goes_on(daemon: Daemon) -> None:
    shutil.rmtree(os.path.dirname(daemon.socket))
    with open(os.path.dirname(daemon.socket), "w", encoding="utf-8"):
        pass

    _hang_up(daemon, "the socket is gone and was not made anew")

    assert daemon.rpc("daemon.hello", protocol=1)["name"] == "provd"
