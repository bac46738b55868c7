"""Starts that must be refused, strangers and full disks: each is said clearly, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import lmdb
import pytest
from asking import complete, refusal, startup_refused
from support import HANG, MIB, Daemon, Rpc, RpcError, StartError, Workspace, clean_environment, tree_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as another user")


# ---- starting: exit 5, message and hint on stderr, nothing deleted


def test_a_socket_path_over_107_bytes_is_refused(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    daemon.socket = os.path.join(daemon.home, "s" * (107 - len(daemon.home) - 1))
    assert len(daemon.socket) == 107
    daemon.start()
    daemon.stop()
    daemon.socket += "s"
    startup_refused(daemon, "107")
    assert not os.path.lexists(daemon.socket)


@pytest.mark.parametrize("kind", ["file", "empty", "directory", "fifo", "link"])
def test_what_stands_at_the_socket_path_and_is_no_socket_is_left_alone(
    make_daemon: Callable[..., Daemon], kind: str
) -> None:
    daemon = make_daemon()
    kept = os.path.join(daemon.home, "kept")
    with open(kept, "w") as file:
        file.write("kept")
    match kind:
        case "file":
            shutil.copy(kept, daemon.socket)
        case "empty":
            open(daemon.socket, "w").close()
        case "directory":
            os.mkdir(daemon.socket)
        case "fifo":
            os.mkfifo(daemon.socket)
        case _:
            os.symlink(kept, daemon.socket)
    before = os.lstat(daemon.socket)
    startup_refused(daemon, daemon.socket)
    after = os.lstat(daemon.socket)
    assert (after.st_ino, after.st_mode, after.st_size) == (before.st_ino, before.st_mode, before.st_size)
    with open(kept) as file:
        assert file.read() == "kept"


def test_the_socket_of_another_daemon_is_left_alone(daemon: Daemon, make_daemon: Callable[..., Daemon]) -> None:
    before = os.lstat(daemon.socket).st_ino
    startup_refused(make_daemon(socket_path=daemon.socket), daemon.socket)
    assert os.lstat(daemon.socket).st_ino == before
    assert daemon.rpc("log.clock")["clock"]
    assert daemon.connect()("daemon.hello", protocol=1)["pid"] == daemon.process.pid if daemon.process else False


def test_the_socket_of_a_stranger_that_listens_is_left_alone(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(daemon.socket)
        stranger.listen()
        startup_refused(daemon, daemon.socket)
        with contextlib.closing(Rpc(daemon.socket)):
            stranger.accept()[0].close()


def test_a_stale_socket_is_replaced(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(daemon.socket)
    daemon.start()
    daemon.kill9()
    assert stat.S_ISSOCK(os.lstat(daemon.socket).st_mode)
    daemon.start()
    assert daemon.rpc("log.clock")["clock"]
    daemon.stop()
    assert not os.path.lexists(daemon.socket)


def test_a_second_daemon_on_the_same_state_is_refused(daemon: Daemon, make_daemon: Callable[..., Daemon]) -> None:
    daemon.rpc("entry.put", key="k", value=1, deps=[])
    second = make_daemon(state=daemon.state)
    startup_refused(second, daemon.state)
    assert not os.path.lexists(second.socket)
    assert daemon.rpc("entry.get", key="k")["value"] == 1
    daemon.restart()
    assert daemon.rpc("entry.get", key="k")["value"] == 1


@root_only
def test_a_state_directory_of_another_user_is_refused(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    os.mkdir(daemon.state, 0o700)
    with open(os.path.join(daemon.state, "theirs"), "w") as file:
        file.write("kept")
    os.chown(daemon.state, 65534, 65534)
    before = tree_state(daemon.state)
    startup_refused(daemon, daemon.state)
    assert tree_state(daemon.state) == before


def test_a_state_directory_that_is_a_file_is_refused(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    with open(daemon.state, "w") as file:
        file.write("kept")
    startup_refused(daemon, daemon.state)
    with open(daemon.state) as file:
        assert file.read() == "kept"


def test_a_store_of_a_newer_version_is_refused_and_left_alone(own: Workspace) -> None:
    daemon = own.daemon
    own("entry.put", key="k", value=1, deps=[])
    daemon.stop()
    written = change_format(daemon, lambda format_: format_ + 1)
    before = tree_state(daemon.state)
    startup_refused(daemon, "newer", str(written + 1))
    after = tree_state(daemon.state)
    assert {name for name in before if before[name] != after.get(name)} <= {
        os.path.join(daemon.state, lock) for lock in ("lock", "store/lock.mdb")
    }
    change_format(daemon, lambda _: written)
    daemon.start()
    assert own("entry.get", key="k")["value"] == 1


def change_format(daemon: Daemon, change: Callable[[int], int]) -> int:
    """Writes another format number into a store at rest and gives the one that was there."""
    with lmdb.open(os.path.join(daemon.state, "store"), max_dbs=64, map_size=1 << 40) as store:
        meta = store.open_db(b"meta", create=False)
        with store.begin(write=True) as transaction:
            was = int(transaction.get(b"format", b"", db=meta))
            transaction.put(b"format", str(change(was)).encode(), db=meta)
    return was


def test_state_and_socket_are_for_their_owner_alone(daemon: Daemon) -> None:
    daemon.rpc("entry.put", key="k", value=1, deps=[])
    assert stat.S_IMODE(os.lstat(daemon.state).st_mode) == 0o700
    assert stat.S_IMODE(os.lstat(daemon.socket).st_mode) == 0o600
    for directory, directories, files in os.walk(daemon.state):
        for name in directories:
            assert stat.S_IMODE(os.lstat(os.path.join(directory, name)).st_mode) == 0o700, name
        for name in files:
            assert stat.S_IMODE(os.lstat(os.path.join(directory, name)).st_mode) == 0o600, name


STRANGER = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as s:
    s.settimeout(60)
    s.connect(sys.argv[1])
    try:
        s.sendall(b'{"jsonrpc":"2.0","id":1,"method":"log.clock"}\\n')
        print(s.recv(65536).decode(), end="")
    except (BrokenPipeError, ConnectionResetError):
        pass
"""


@root_only
def test_another_user_is_not_served_even_where_the_modes_let_him_connect(daemon: Daemon) -> None:
    os.chmod(daemon.home, 0o755)
    os.chmod(daemon.socket, 0o666)
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, daemon.socket],
        env=clean_environment(daemon.home),
        capture_output=True,
        text=True,
        timeout=HANG,
        check=True,
    )
    assert '"result"' not in done.stdout
    assert daemon.rpc("log.clock")["clock"]


# ---- a full disk


@pytest.fixture
def small_disk() -> Iterator[str]:
    """A file system of 32 MiB of its own, where this process may mount one."""
    place = tempfile.mkdtemp(prefix="provd-", dir="/tmp")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32m,mode=700", "provd-test", place], capture_output=True, check=False
    )
    if mounted.returncode:
        os.rmdir(place)
        pytest.skip(f"no mount here: {mounted.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        os.rmdir(place)


def fill(directory: str) -> str:
    """Takes all that is left on a file system; gives the file that holds it."""
    filler = os.path.join(directory, "filler")
    with open(filler, "ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    return filler


def test_on_a_full_disk_changes_are_refused_and_questions_go_on(
    make_daemon: Callable[..., Daemon], small_disk: str
) -> None:
    daemon = make_daemon(state=os.path.join(small_disk, "state")).start()
    ws = daemon.workspace()
    ws.write("f", "one")
    ws.put("kept", "file:f")
    filler = fill(small_disk)
    acknowledged: dict[str, int] = {}
    for number in range(200):
        try:
            acknowledged[f"k{number}"] = ws("entry.put", key=f"k{number}", value="v" * 256 * 1024, deps=[])["version"]
        except RpcError as error:
            assert complete(error).code == "store.full"  # noqa: PT017 - the first puts may still fit
            break
    else:
        pytest.fail("50 MiB went onto a full disk of 32 MiB")
    refused = refusal(ws, "entry.put", key="more", value="v" * MIB, deps=[])
    assert refused.code == "store.full"
    assert ws.verdict("kept") == "fresh"
    ws.write("f", "two")
    assert ws.verdict("kept") == "dirty"
    assert all(ws("entry.get", key=key)["version"] == version for key, version in acknowledged.items())
    assert ws.rpc("daemon.status")["pid"]
    os.unlink(filler)
    acknowledged["after"] = ws("entry.put", key="after", value=1, deps=[])["version"]
    daemon.kill9()
    daemon.start()
    assert all(ws("entry.get", key=key)["version"] == version for key, version in acknowledged.items())
    assert ws.found("more") == ("unknown", "no-entry")


def test_a_daemon_started_on_a_full_disk_says_so_and_costs_nothing(
    make_daemon: Callable[..., Daemon], small_disk: str
) -> None:
    daemon = make_daemon(state=os.path.join(small_disk, "state"))
    filler = fill(small_disk)
    startup_refused(daemon, "space", daemon.state)
    os.unlink(filler)
    daemon.start()
    ws = daemon.workspace()
    version = ws("entry.put", key="k", value=1, deps=[])["version"]
    daemon.stop()
    filler = fill(small_disk)
    with contextlib.suppress(StartError):  # it may come up where it needs no new page
        daemon.start()
        assert ws("entry.get", key="k")["version"] == version
        daemon.stop()
    os.unlink(filler)
    daemon.start()
    assert ws("entry.get", key="k")["version"] == version
