"""doctor beside a real daemon whose store was moved or migrated, whose socket is gone, whose roots are not watched."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from typing import TYPE_CHECKING

import pytest
from changes import until
from old_stores import bring, daemon_in, new_home
from real_doctor import changed, home, news
from support import Daemon, RpcError, Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["home"]


@pytest.fixture
def old() -> Iterator[Daemon]:
    """A daemon of today, not started yet, on a store of the first format."""
    place = new_home()
    bring("1-watched", place)
    daemon = daemon_in(place)
    yield daemon
    daemon.close()
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.skipif(sys.platform != "linux", reason="only there the system says who holds a lock")
def test_a_socket_that_was_taken_away_from_a_daemon_that_runs(own: Workspace) -> None:
    process = own.daemon.process
    assert process is not None
    os.unlink(own.daemon.socket)
    gone = news(own.daemon)

    process.send_signal(signal.SIGHUP)
    until(lambda: "was made anew" in own.daemon.said(), own.daemon.home, process)

    assert set(gone) == {"socket.gone"}
    assert gone["socket.gone"]["next"].startswith(f"kill -HUP {process.pid}  # ")
    assert news(own.daemon) == {}


def test_a_store_that_was_migrated_until_the_old_one_is_removed(old: Daemon) -> None:
    old.start().scanned()
    kept = os.path.join(old.state, "store.format-1")
    found = news(old)

    old.restart().scanned()
    until(lambda: "the older format was removed" in old.said(), old.home, old.process)

    assert kept in found["store.migrated"]["what"]
    assert found["store.migrated"]["next"].startswith("provd restart")
    assert found.keys() - news(old).keys() == {"store.migrated"}


def test_a_store_that_was_moved_under_the_daemon(own: Workspace) -> None:
    store = os.path.join(own.daemon.state, "store")
    os.rename(store, store + "-away")
    with pytest.raises(RpcError, match="moved"):
        own.rpc("entry.put", key="k", value=1, deps=[], scope="global")
    found = news(own.daemon)

    os.rename(store + "-away", store)
    own.rpc("entry.put", key="k", value=1, deps=[], scope="global")

    assert set(found) == {"store.astray"}
    assert found["store.astray"]["next"].endswith("  # or put it back")
    assert news(own.daemon) == {}


def test_a_store_that_was_opened_again_after_a_failed_write(home: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    sign = os.path.join(home.home, "sign")
    fails = "os.unlink(sign) or (_ for _ in ()).throw(OSError(5, 'Input/output error'))"
    point = f"lambda name: {fails} if name == 'commit.before' and os.path.exists(sign) else usual(name)"
    once = f"import os; from provd import faults; sign = {sign!r}; usual = faults.point; faults.point = {point}"
    changed(home, monkeypatch, once).start().scanned()
    with open(sign, "wb"):
        pass
    with contextlib.suppress(RpcError):  # whether it was carried out again alone, or refused
        home.rpc("entry.put", key="k", value=1, deps=[], scope="global")

    found = news(home)

    assert not os.path.exists(sign)
    assert set(found) == {"store.reopened"}
    assert "opened again 1 time " in found["store.reopened"]["what"]
    home.rpc("entry.put", key="k", value=1, deps=[], scope="global")


def test_a_root_whose_rules_leave_all_out(own: Workspace) -> None:
    own.rpc("root.add", path=own.root, ignore=["*"])

    found = news(own.daemon)

    assert set(found) == {"root.ignored"}
    assert own.root in found["root.ignored"]["what"]
    assert found["root.ignored"]["next"].startswith(f"provd watch add {own.root} --ignore .git/")


def test_a_root_that_is_scanned_for_long(home: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon's clock is behind while the root is added, and the scan goes on as long as the sign is there."""
    sign, root = os.path.join(home.home, "sign"), home.root
    behind = "now = time.time_ns; time.time_ns = lambda: now() - 600 * 10**9 * os.path.exists(sign)"
    held = "itertools.takewhile(lambda _: os.path.exists(sign), itertools.repeat(None))"
    slow = f"InotifyWatcher.add = lambda *a: (g := add(*a)) and itertools.chain(itertools.islice(g, 1), {held}, g)"
    imports = "import itertools, os, time; from provd.watch.inotify import InotifyWatcher; add = InotifyWatcher.add"
    home.roots = []
    changed(home, monkeypatch, f"{imports}; sign = {sign!r}; {behind}; {slow}").start()
    with open(sign, "wb"):
        pass
    home.rpc("root.add", path=root, wait=False)
    found = news(home)

    os.unlink(sign)
    home.scanned()

    assert set(found) == {"root.scanning", "clock.set"}
    assert f"{root} is being scanned since 10 min" in found["root.scanning"]["what"]
    assert news(home) == {}


def test_a_root_that_gets_no_watch(home: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = "lambda *_: (_ for _ in ()).throw(OSError(28, 'No space left on device'))"
    changed(home, monkeypatch, f"from provd.watch.syscalls import Kernel; Kernel.add = {nothing}").start()

    found = news(home)

    assert set(found) == {"root.unwatched"}
    assert home.root in found["root.unwatched"]["what"]
    assert "max_user_watches" in found["root.unwatched"]["next"]


def test_a_root_that_is_watched_though_its_file_system_tells_too_little(
    home: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.args = ["--backend", "inotify"]
    changed(home, monkeypatch, "import provd.watch.filesystems as f; f.RELIABLE = frozenset()").start().scanned()

    found = news(home)

    assert set(found) == {"root.doubted"}
    assert home.root in found["root.doubted"]["what"]


def test_an_audit_that_found_something(own: Workspace) -> None:
    """What is written by a name outside of the root makes no event in it: nobody knows of it, until somebody looks."""
    path = own.write("f", "one\n")
    other = os.path.join(own.daemon.home, "f")
    os.link(path, other)
    own.put("k", "file:f")
    assert own.rpc("daemon.audit")["mismatches"] == []
    assert news(own.daemon) == {}
    with open(other, "w", encoding="ascii") as file:
        file.write("another\n")
    assert own.rpc("daemon.audit")["mismatches"] != []
    found = news(own.daemon)

    assert set(found) == {"audit.mismatch"}
    assert found["audit.mismatch"]["next"].startswith("provd audit ")

    own.write("f", "one\n")
    own.clock()
    assert set(news(own.daemon)) == {"audit.mismatch"}, "nobody looked again"
    own.put("k", "file:f")
    assert own.rpc("daemon.audit")["mismatches"] == []
    assert news(own.daemon) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="what waits is counted by the events of inotify")
def test_more_happens_than_is_recorded(home: Daemon) -> None:
    sign = os.path.join(home.outside, "sign")
    home.start(PROVD_HANG_AT=f"pump.take:{sign}").scanned()
    own = home.workspace()
    files = [own.write("a"), own.write("b")]
    with open(sign, "wb"):
        pass
    for _ in range(6000):
        for path in files:  # the kernel tells only once of what happens to one file twice
            os.utime(path)

    found = news(home)

    assert not os.path.exists(sign), "the pump hangs"
    assert set(found) == {"queue"}
    assert found["queue"]["what"].startswith("12,00")
    assert "--ignore build/" in found["queue"]["next"]
