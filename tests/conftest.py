"""Daemons for tests, each with its own root, state and socket, always ended by the process that started it."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from support import Daemon, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


# A shell's background job, or one behind nohup, has these ignored, and so would have all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Where the environment says that no bytecode is written, each daemon and command would be compiled anew: a third of
# all that it takes to start one. And each worker would compile all tests, at each run.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

_OWN_LIMIT: Final = 100
_OWN_DAEMON: Final = 10
"""How many other tests one takes as long as: one that has a time limit of its own, or a daemon."""


def pytest_configure(config: pytest.Config) -> None:
    """The order is made below: pytest-xdist's begins with the files of most tests, and the longest have one."""
    config.option.loadscopereorder = False


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of several workers none gets a long file at the end, when the others have nothing left to do."""
    if not hasattr(config, "workerinput"):
        return
    lengths: Counter[Path] = Counter()
    for item in items:
        lengths[item.path] += _length(item)
    items.sort(key=lambda item: -lengths[item.path])


def _length(item: pytest.Item) -> int:
    if item.get_closest_marker("timeout"):
        return _OWN_LIMIT
    return _OWN_DAEMON if {"daemon", "make_daemon"} & set(getattr(item, "fixturenames", ())) else 1


@pytest.fixture
def make_daemon() -> Iterator[Callable[..., Daemon]]:
    """Makes daemons that are not started yet; all of them end with the test."""
    made: list[Daemon] = []

    def make(**options: object) -> Daemon:
        daemon = Daemon(**options)  # type: ignore[arg-type]
        made.append(daemon)
        return daemon

    yield make
    for daemon in made:
        daemon.close()


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon of this test's own, started: it may be stopped, killed and filled."""
    daemon = Daemon()
    try:
        yield daemon.start()
        assert daemon.process is not None
    finally:
        daemon.close()


@pytest.fixture
def own(daemon: Daemon) -> Workspace:
    """The watched root of a daemon of this test's own, scanned."""
    return daemon.scanned().workspace()


@pytest.fixture(scope="module")
def module_daemon() -> Iterator[Daemon]:
    """A daemon for all tests of a module that leave it running."""
    daemon = Daemon()
    try:
        yield daemon.start().scanned()
    finally:
        daemon.close()


@pytest.fixture
def ws(module_daemon: Daemon) -> Iterator[Workspace]:
    """A new directory behind the module's daemon, which must be alive afterwards."""
    yield Workspace.fresh(module_daemon)
    assert module_daemon.alive, module_daemon.said()
    module_daemon.disconnect()


@pytest.fixture
def watched(module_daemon: Daemon) -> Iterator[Workspace]:
    """A new directory inside the watched root of the module's daemon, which must be alive afterwards."""
    root = tempfile.mkdtemp(prefix="w", dir=module_daemon.root)
    yield Workspace(module_daemon.scanned(), root, f"{os.path.basename(root)}-")
    assert module_daemon.alive, module_daemon.said()
    module_daemon.disconnect()


@pytest.fixture
def lease_breaks_ignored() -> Iterator[None]:
    """This process is as a daemon is, which may take leases: without that nothing is sealed."""
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGIO, before)
