"""The service manager is told what happens, by one datagram each; where there is none, nothing happens."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from old_stores import bring, daemon_in, new_home
from support import HANG, Daemon, Rpc, clean_environment

from provd.bulletin import Bulletin, headline
from provd.notify import Notifier
from provd.watch.base import RootState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Manager:
    """The end of the socket at which a service manager listens."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.settimeout(HANG)

    def heard(self) -> dict[str, str]:
        """The next message."""
        lines = self.socket.recv(65536).decode().split("\n")
        return dict(line.split("=", 1) for line in lines)

    def heard_until(self, key: str, value: str) -> dict[str, str]:
        """The first message that says so; those before it are passed over."""
        while (heard := self.heard()).get(key) != value:
            pass
        return heard


@pytest.fixture
def directory() -> Iterator[str]:
    """A directory with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="provd-", dir="/tmp") as path:
        yield path


@pytest.fixture
def manager(directory: str) -> Iterator[Manager]:
    manager = Manager(os.path.join(directory, "notify"))
    with contextlib.closing(manager.socket):
        yield manager


def test_what_the_manager_gave_is_taken_out_of_the_environment(manager: Manager) -> None:
    environ = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid()), "A": ""}
    notifier = Notifier.take(environ)
    assert environ == {"A": ""}
    assert (notifier.listens, notifier.watchdog) == (True, 30.0)


@pytest.mark.parametrize(
    ("usec", "pid", "seconds"),
    [
        ("1500000", "", 1.5),
        ("1500000", "1", None),
        ("0", "", None),
        ("", "", None),
        ("-1", "", None),
        ("soon", "", None),
        ("²", "", None),
        ("9" * 400, "", None),
        ("9" * 5000, "", None),
    ],
)
def test_the_watchdog_is_that_of_this_process(manager: Manager, usec: str, pid: str, seconds: float | None) -> None:
    environ = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": usec, "WATCHDOG_PID": pid}
    assert Notifier.take(environ).watchdog == seconds


def test_a_watchdog_without_anybody_to_tell_is_none() -> None:
    assert Notifier.take({"WATCHDOG_USEC": "1000000"}).watchdog is None


def test_each_message_says_what_it_means(manager: Manager) -> None:
    notifier = Notifier(manager.address)
    notifier.ready("all\nis  well")
    assert manager.heard() == {"READY": "1", "STATUS": "all is well"}
    notifier.ready()
    assert manager.heard() == {"READY": "1"}
    notifier.status("watching")
    assert manager.heard() == {"STATUS": "watching"}
    notifier.ping()
    assert manager.heard() == {"WATCHDOG": "1"}
    notifier.stopping()
    assert manager.heard()["STOPPING"] == "1"


def test_a_reload_says_when_it_began(manager: Manager) -> None:
    before = time.monotonic_ns() // 1000
    Notifier(manager.address).reloading()
    heard = manager.heard()
    assert heard["RELOADING"] == "1"
    assert before <= int(heard["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000


@pytest.mark.skipif(sys.platform != "linux", reason="abstract names exist on Linux only")
def test_an_abstract_name_is_an_address() -> None:
    manager = Manager(f"@provd-test-{os.getpid()}")
    with contextlib.closing(manager.socket):
        Notifier(manager.address).ping()
        assert manager.heard() == {"WATCHDOG": "1"}


@pytest.mark.parametrize("address", ["/nowhere/notify", "@provd-nobody-listens", "vsock:2:3", "", "here", "/" * 300])
def test_where_nobody_listens_nothing_happens(address: str) -> None:
    notifier = Notifier.take({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"})
    notifier.ready("x")
    notifier.reloading()
    notifier.status("x")
    notifier.ping()
    notifier.stopping()


def test_a_manager_that_does_not_read_holds_nobody(manager: Manager) -> None:
    notifier = Notifier(manager.address)
    for _ in range(5000):  # more than any queue of datagrams holds
        notifier.ping()
    assert manager.heard() == {"WATCHDOG": "1"}


def test_children_do_not_inherit_the_socket(manager: Manager) -> None:
    code = "import os; print(sorted(os.environ.keys() & {'NOTIFY_SOCKET', 'WATCHDOG_USEC'}))"
    script = (
        "import subprocess, sys; from provd.notify import Notifier; Notifier.take().ready();"
        f"subprocess.run([sys.executable, '-c', {code!r}], check=True)"
    )
    env = clean_environment("/", {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "1000000"})
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("states", "line"),
    [
        ([], "watching nothing: provd watch add DIR"),
        ([("watching", 1, False)], "watching 1 root, 1 directory"),
        (
            [("watching", 12_000, False), ("scanning", 345, False), ("degraded", 0, False)],
            "watching 3 roots, 12,345 directories; 1 scanning; 1 degraded",
        ),
        ([("watching", 10, False), ("watching", 4, True)], "watching 2 roots, 10 directories"),
        ([("gone", 0, False)], "watching 1 root, 0 directories; 1 gone"),
    ],
)
def test_the_line_for_people_counts_what_is_watched(states: list[tuple[str, int, bool]], line: str) -> None:
    told = [(RootState("inotify", state, "whole", directories=number), inside) for state, number, inside in states]
    assert headline(told) == line


class ManyRoots:
    """The roots of a daemon that has very many; counts how often it is asked how one is."""

    def __init__(self, number: int) -> None:
        self.paths = [b"/r%d" % each for each in range(number)]
        self.asked = 0

    def __contains__(self, path: bytes) -> bool:
        return path.startswith(b"/r")

    def state(self, _path: bytes) -> RootState:
        self.asked += 1
        return RootState("inotify", "watching", "whole", directories=1)

    def lies_in_another(self, _path: bytes) -> bool:
        return False


def test_a_line_of_thousands_of_roots_is_made_seldom_and_others_have_their_turn() -> None:
    told: list[str] = []

    class Ears(Notifier):
        def status(self, text: str) -> None:
            told.append(text)

    async def body() -> None:
        loop = asyncio.get_running_loop()
        roots = ManyRoots(3000)
        live = mock.Mock(kept=roots)
        bulletin = Bulletin(Ears("/nobody/listens"), mock.Mock(), live)
        bulletin.changed()
        assert bulletin._timer is not None
        assert bulletin._timer.when() - loop.time() > 5
        bulletin._timer.cancel()
        bulletin._tell()
        most = before = 0
        while not told:
            await asyncio.sleep(0)
            most, before = max(most, roots.asked - before), roots.asked
        assert told == ["watching 3,000 roots, 3,000 directories"]
        assert 0 < most <= 100
        roots.paths = roots.paths[:10]
        bulletin.changed()
        assert bulletin._timer.when() - loop.time() <= 1
        bulletin.stopping()

    asyncio.run(body())


def test_signs_of_life_that_fail_are_begun_anew_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often they do: a pause that is longer than the watchdog waits is the end of the daemon."""
    begun = []

    async def begin(_name: str, _work: object, longest: float) -> None:
        begun.append(longest)

    async def body() -> None:
        notifier = Notifier("/nobody/listens")
        notifier.watchdog = 30.0
        monkeypatch.setattr("provd.bulletin.lasting", begin)
        bulletin = Bulletin(notifier, mock.Mock(), mock.Mock(kept=ManyRoots(1)))
        bulletin.ready()
        await asyncio.sleep(0)
        bulletin.stopping()

    asyncio.run(body())
    assert len(begun) == 1
    assert begun[0] < 30.0 / 3


# a whole daemon


def test_a_daemon_is_ready_when_it_answers_and_tells_of_its_end(
    manager: Manager, make_daemon: Callable[..., Daemon]
) -> None:
    daemon = make_daemon()
    process = daemon.launch(NOTIFY_SOCKET=manager.address)
    assert manager.heard()["READY"] == "1"
    with contextlib.closing(Rpc(daemon.socket)) as rpc:  # no attempt but this one
        assert rpc("daemon.hello", protocol=1)["pid"] == process.pid
    assert daemon.stop() == 0
    manager.heard_until("STOPPING", "1")


def test_a_start_that_migrates_a_store_asks_for_more_time(manager: Manager) -> None:
    home = new_home()
    bring("1-unwatched", home)
    daemon = daemon_in(home)
    try:
        daemon.launch(NOTIFY_SOCKET=manager.address)
        told = []
        while "READY" not in (heard := manager.heard()):
            told.append(heard)
        assert told == [{"EXTEND_TIMEOUT_USEC": "600000000"}] * 4  # before the copy, after it, after each of two steps
        assert daemon.stop() == 0
    finally:
        daemon.close()
        shutil.rmtree(home)


def test_the_line_follows_what_is_watched(manager: Manager, make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    daemon.start(NOTIFY_SOCKET=manager.address)
    manager.heard_until("STATUS", "watching 1 root, 1 directory")
    os.makedirs(os.path.join(daemon.outside, "d", "e"))
    daemon.rpc("root.add", path=daemon.outside)
    manager.heard_until("STATUS", "watching 2 roots, 4 directories")
    os.mkdir(os.path.join(daemon.root, "new"))
    manager.heard_until("STATUS", "watching 2 roots, 5 directories")


def test_a_daemon_with_a_watchdog_gives_signs_of_life(manager: Manager, make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    daemon.start(NOTIFY_SOCKET=manager.address, WATCHDOG_USEC="300000")
    for _ in range(3):
        manager.heard_until("WATCHDOG", "1")


def test_without_a_watchdog_there_is_no_sign(manager: Manager, make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    daemon.start(NOTIFY_SOCKET=manager.address)
    daemon.scanned()
    daemon.stop()
    while "STOPPING" not in (heard := manager.heard()):
        assert "WATCHDOG" not in heard
