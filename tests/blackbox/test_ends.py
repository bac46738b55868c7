"""How a daemon ends that nobody told to: its exit status says so, since whoever looks after it goes by that."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from support import HANG, Daemon, RpcError

if TYPE_CHECKING:
    from collections.abc import Iterator

# A disk that fails from the moment at which the file of $FAILS is there, and does not let the store be opened again.
BROKEN_DISK = """
import os, sys
from provd import cli, faults
from provd.core import errors
from provd.store.environment import Environment
def point(name):
    if name == "commit.before" and os.path.exists(os.environ["FAILS"]):
        raise OSError(5, "Input/output error")
def reopen(self):
    raise errors.StoreUnusable("the disk is gone", "look at it")
faults.point, Environment.reopen = point, reopen
sys.exit(cli.main())
"""


class OnBrokenDisk(Daemon):
    """A daemon whose disk breaks when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = os.path.join(self.home, "fails")
        self.env["FAILS"] = self.fails

    def command(self) -> list[str]:
        """The same arguments, to another program."""
        return [sys.executable, "-c", BROKEN_DISK, *super().command()[3:]]


# A daemon whose connections cannot be ended in order, and that says so when all else is done.
BROKEN_END = """
import sys
from provd import cli, running
async def stop(self):
    raise RuntimeError("this step fails")
def close(self):
    print("and this one is done", file=sys.stderr)
running.Server.stop, running.Workers.close = stop, close
sys.exit(cli.main())
"""


class WithBrokenEnd(Daemon):
    """A daemon one step of whose end fails."""

    def command(self) -> list[str]:
        """The same arguments, to another program."""
        return [sys.executable, "-c", BROKEN_END, *super().command()[3:]]


def test_a_step_of_the_end_that_fails_is_told_and_the_others_are_done() -> None:
    daemon = WithBrokenEnd()
    try:
        daemon.start()
        daemon.rpc("entry.put", key="k", value=1, deps=[], scope="global")
        assert daemon.stop() == 5
        assert "this step fails" in daemon.said()
        assert "and this one is done" in daemon.said()
        assert not os.path.lexists(daemon.socket)
    finally:
        daemon.close()


@pytest.fixture
def on_broken_disk() -> Iterator[OnBrokenDisk]:
    daemon = OnBrokenDisk()
    try:
        yield daemon
    finally:
        daemon.close()


def test_a_daemon_that_lost_its_store_ends_with_5_and_says_why(on_broken_disk: OnBrokenDisk) -> None:
    daemon = on_broken_disk
    daemon.start()
    open(daemon.fails, "w").close()
    with pytest.raises((RpcError, OSError, EOFError)):
        daemon.rpc("entry.put", key="k", value=1, deps=[], scope="global")
    assert daemon.process is not None
    assert daemon.process.wait(HANG) == 5, daemon.said()
    assert "the store was lost" in daemon.said()
    assert "then start it again" in daemon.said()
    assert not os.path.lexists(daemon.socket)
    os.unlink(daemon.fails)
    daemon.start()
    assert daemon.stop() == 0


def test_a_daemon_whose_store_was_moved_takes_no_changes_and_says_why() -> None:
    daemon = Daemon()
    try:
        daemon.start()
        daemon.rpc("entry.put", key="kept", value=1, deps=[], scope="global")
        store = os.path.join(daemon.state, "store")
        os.rename(store, store + ".elsewhere")
        with pytest.raises(RpcError) as refused:
            daemon.rpc("entry.put", key="lost", value=1, deps=[], scope="global")
        assert refused.value.code == "store.unusable"
        assert "moved" in daemon.rpc("daemon.status")["store"]["unusable"]
        assert daemon.rpc("entry.check", key="kept", scope="global")["verdict"] == "fresh"
        os.rename(store + ".elsewhere", store)
        daemon.rpc("entry.put", key="taken", value=1, deps=[], scope="global")
        assert "unusable" not in daemon.rpc("daemon.status")["store"]
    finally:
        daemon.close()
