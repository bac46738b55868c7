"""The state directory goes while the daemon lives: another one may serve its places, so this one says nothing more."""

from __future__ import annotations

import os
import select
import shutil
import signal
from typing import TYPE_CHECKING

import pytest
from support import HANG, Daemon, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _replaced(state: str) -> None:
    lock = os.path.join(state, "lock")
    shutil.copy(lock, lock + ".copy")
    os.rename(lock + ".copy", lock)


def _moved_above(state: str) -> None:
    above = os.path.dirname(state)
    os.rename(above, above + ".old")


_WAYS = [
    shutil.rmtree,
    lambda state: os.unlink(os.path.join(state, "lock")),
    lambda state: os.rename(state, state + ".old"),
    _replaced,
    _moved_above,
]


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    home = Daemon(roots=[])
    home.state = os.path.join(home.home, "above", "state")
    home.start()
    yield home
    home.close()


def _ends(daemon: Daemon) -> None:
    assert daemon.process is not None
    assert daemon.process.wait(HANG) == 5
    assert "the store was lost while the daemon ran: the lock of this daemon" in daemon.said()


@pytest.mark.parametrize("lose", _WAYS)
def test_who_is_asked_nothing_ends(daemon: Daemon, lose: Callable[[str], None]) -> None:
    lose(daemon.state)

    _ends(daemon)
    assert not os.path.lexists(daemon.socket)


@pytest.mark.parametrize("lose", _WAYS)
def test_a_question_that_comes_first_is_not_answered(daemon: Daemon, lose: Callable[[str], None]) -> None:
    assert daemon.process is not None
    daemon.rpc("entry.put", key="k", value="OLD", deps=[], scope="s")
    assert daemon.rpc("entry.check", key="k", scope="s")["verdict"] == "fresh"
    daemon.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, daemon.process.pid, os.WSTOPPED | os.WNOWAIT)
    lose(daemon.state)
    number = daemon.rpc.send("entry.check", key="k", scope="s")
    daemon.process.send_signal(signal.SIGCONT)

    with pytest.raises((RpcError, EOFError, ConnectionError)) as told:  # told, or cut off: both say nothing of k
        daemon.rpc.result(number)
    assert not isinstance(told.value, RpcError) or told.value.code == "store.unusable"
    _ends(daemon)


def test_an_orphan_never_takes_the_place_of_the_next_one(daemon: Daemon) -> None:
    """False fresh once: the one whose state was removed made its socket anew when the next one had ended."""
    orphan = daemon.process
    assert orphan is not None
    orphan.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, orphan.pid, os.WSTOPPED | os.WNOWAIT)
    shutil.rmtree(daemon.state)
    os.unlink(daemon.socket)
    handle = os.pidfd_open(orphan.pid)
    try:
        daemon.disconnect()
        daemon.process = None
        daemon.start()
        daemon.stop()
        orphan.send_signal(signal.SIGHUP)
        orphan.send_signal(signal.SIGCONT)

        assert select.select([handle], [], [], HANG)[0]
        assert orphan.wait(HANG) == 5
        assert not os.path.lexists(daemon.socket)
        assert "was made anew" not in daemon.said()
    finally:
        orphan.kill()
        orphan.wait()
        os.close(handle)
