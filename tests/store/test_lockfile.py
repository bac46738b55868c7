"""The state directory and the socket: one holder each, and what is somebody else's is left alone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import tempfile
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest

from provd import filesystems, lockfile, places
from provd.core import errors
from provd.lockfile import MAX_SOCKET_PATH, BoundSocket, StateDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = os.geteuid() == 0


@pytest.fixture
def place() -> Iterator[str]:
    """A directory with a short name, as sockets need it."""
    with tempfile.TemporaryDirectory(prefix="provd-", dir="/tmp") as path:
        yield path


def mode(path: str) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def unusable(kind: Any, *arguments: Any) -> errors.StoreUnusable:
    """What it raises, which says what to do next."""
    with pytest.raises(errors.StoreUnusable) as caught:
        kind(*arguments)
    assert caught.value.hint
    return caught.value


# the state directory


def test_a_directory_that_its_owner_is_kept_out_of_is_to_be_opened(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.path.join(place, "s")
    with open(path, "w"):
        pass
    monkeypatch.setattr(places, "shut", lambda path: path)

    assert unusable(StateDirectory, path).hint == f"chmod 700 {path}\nprovd start --state DIR"


def test_a_state_directory_is_made_for_its_owner_alone(place: str) -> None:
    path = os.path.join(place, "a", "b")
    before = os.umask(0)
    try:
        StateDirectory(path).release()
    finally:
        os.umask(before)
    assert (mode(path), mode(os.path.join(path, "lock"))) == (0o700, 0o600)


def test_a_state_directory_that_others_could_read_is_closed_to_them(place: str) -> None:
    os.chmod(place, 0o755)
    StateDirectory(place).release()
    assert mode(place) == 0o700


@pytest.mark.parametrize(
    "name",
    ["provd.log", "provd.log.1", "start.lock", "store", "store.format-1", "store.format-1.partial", "store.unusable-7"],
)
def test_what_provd_itself_made_there_is_nothing_of_others(place: str, name: str) -> None:
    open(os.path.join(place, name), "w").close()
    os.chmod(place, 0o755)
    StateDirectory(place).release()
    assert mode(place) == 0o700


@pytest.mark.parametrize("name", ["notes", "store.old", "provd.logs", "lock.1"])
def test_a_directory_of_others_things_keeps_its_mode(place: str, name: str) -> None:
    open(os.path.join(place, name), "w").close()
    os.chmod(place, 0o755)
    StateDirectory(place).release()
    assert mode(place) == 0o755


def test_a_second_holder_is_told_who_the_first_is_and_takes_nothing(place: str) -> None:
    first = StateDirectory(place)
    error = unusable(StateDirectory, place)
    assert str(os.getpid()) in error.message
    assert str(os.getpid()) in unusable(StateDirectory, place).message
    first.release()
    StateDirectory(place).release()


def test_a_lock_file_that_nobody_holds_is_no_lock(place: str) -> None:
    with open(os.path.join(place, "lock"), "w", encoding="ascii") as file:
        file.write("999999999999\n")
    held = StateDirectory(place)
    assert f"(pid {os.getpid()})" in unusable(StateDirectory, place).message
    held.release()


def test_a_lock_is_not_handed_on_to_children(place: str) -> None:
    held = StateDirectory(place)
    assert not os.get_inheritable(held._fd)
    held.release()


def test_a_state_directory_of_another_user_is_refused(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    os.chmod(place, 0o755)
    error = unusable(StateDirectory, place)
    assert "4242" in error.message
    assert str(os.stat(place).st_uid) in error.message
    assert (mode(place), os.listdir(place)) == (0o755, []), "nothing in it was touched"


def test_a_state_directory_on_a_network_file_system_is_refused(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def is_network(path: bytes) -> bool:
        asked.append(path)
        return True

    monkeypatch.setattr(filesystems, "is_network", is_network)
    assert "network" in unusable(StateDirectory, place).message
    assert asked == [os.fsencode(place)]
    assert os.listdir(place) == []


def test_a_state_directory_that_cannot_be_one_is_refused(place: str) -> None:
    path = os.path.join(place, "file")
    with open(path, "wb"):
        pass
    unusable(StateDirectory, path)
    unusable(StateDirectory, os.path.join(path, "below"))
    os.mkdir(os.path.join(place, "state"))
    os.mkdir(os.path.join(place, "state", "lock"))
    unusable(StateDirectory, os.path.join(place, "state"))


@pytest.mark.skipif(ROOT, reason="root may write everywhere")
def test_a_state_directory_where_nothing_may_be_made_is_refused(place: str) -> None:
    os.chmod(place, 0o500)
    try:
        unusable(StateDirectory, os.path.join(place, "state"))
    finally:
        os.chmod(place, 0o700)


def test_a_full_disk_is_a_full_store(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(errors.StoreFull):
        StateDirectory(place)
    monkeypatch.undo()
    StateDirectory(place).release()


# the socket


@pytest.fixture
def path(place: str) -> str:
    """Where a socket may be."""
    return os.path.join(place, "run", "s")


def listening(path: str) -> BoundSocket:
    """A socket of a daemon whose lock is where it should be."""
    held: Any = SimpleNamespace(astray=lambda: None)
    return BoundSocket(path, held)


@contextlib.contextmanager
def bound(path: str) -> Iterator[BoundSocket]:
    made = listening(path)
    try:
        yield made
    finally:
        made.socket.close()


def connects(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        try:
            client.connect(path)
        except ConnectionRefusedError:
            return False
        return True


def leave_stale(path: str) -> None:
    """A socket that nobody listens on any more."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(path)
        old.listen()


def test_a_socket_is_its_users_alone_whatever_the_umask(path: str) -> None:
    before = os.umask(0)
    try:
        with bound(path) as made:
            assert (mode(path), mode(os.path.dirname(path))) == (0o600, 0o700)
            made.socket.listen()
            assert connects(path)
        assert os.umask(0) == 0, "the umask is as it was"
    finally:
        os.umask(before)


def test_a_socket_path_of_107_bytes_is_taken_and_a_longer_one_refused(place: str) -> None:
    longest = os.path.join(place, "x" * (MAX_SOCKET_PATH - len(place) - 1))
    assert len(longest) == 107
    with bound(longest) as made:
        made.socket.listen()
        assert connects(longest)
    assert "108" in unusable(listening, longest + "x").message


def test_the_length_of_a_socket_path_is_in_bytes(place: str) -> None:
    path = os.path.join(place, "\u00e4" * 50)
    assert len(path) < 107 < len(os.fsencode(path))
    unusable(listening, path)


@pytest.mark.parametrize("what", ["file", "directory", "link to nothing", "link to a socket", "pipe"])
def test_what_is_no_socket_is_left_alone(path: str, what: str) -> None:
    os.makedirs(os.path.dirname(path))
    match what:
        case "file":
            with open(path, "wb") as file:
                file.write(b"mine")
        case "directory":
            os.mkdir(path)
        case "link to nothing":
            os.symlink("nowhere", path)
        case "link to a socket":
            leave_stale(path + "2")
            os.symlink("s2", path)
        case _:
            os.mkfifo(path)
    before = os.lstat(path)
    names = os.listdir(os.path.dirname(path))
    assert path in unusable(listening, path).message
    after = os.lstat(path)
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (before.st_ino, before.st_mode, before.st_mtime_ns)
    assert os.listdir(os.path.dirname(path)) == names


def test_a_socket_that_somebody_listens_on_is_left_alone(path: str) -> None:
    with bound(path) as living:
        living.socket.listen()
        inode = os.stat(path).st_ino
        unusable(listening, path)
        assert os.stat(path).st_ino == inode
        assert connects(path)


def test_a_socket_that_cannot_be_asked_is_left_alone(path: str) -> None:
    """Somebody takes datagrams there: it refuses the connection in another way than a dead one."""
    os.makedirs(os.path.dirname(path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(path)
        inode = os.stat(path).st_ino
        unusable(listening, path)
        assert os.stat(path).st_ino == inode


def test_a_stale_socket_is_replaced(path: str) -> None:
    leave_stale(path)
    old = os.stat(path)
    assert not connects(path)
    with bound(path) as made:
        made.socket.listen()
        assert connects(path)
        assert (mode(path), os.stat(path).st_ctime_ns > old.st_ctime_ns) == (0o600, True)


def test_a_socket_directory_that_cannot_be_made_is_refused(place: str) -> None:
    with open(os.path.join(place, "file"), "wb"):
        pass
    unusable(listening, os.path.join(place, "file", "s"))


def test_a_socket_is_removed_by_who_made_it(path: str) -> None:
    with bound(path) as made:
        made.remove()
        assert not os.path.lexists(path)
        made.remove()


def test_a_socket_of_somebody_else_is_not_removed(path: str) -> None:
    with bound(path) as made:
        os.rename(path, path + "2")  # keeps its inode, so that no other can have the same
        with bound(path):
            inode = os.stat(path).st_ino
            made.remove()
            assert os.stat(path).st_ino == inode


def test_a_file_in_place_of_the_socket_is_not_removed(path: str) -> None:
    with bound(path) as made:
        os.rename(path, path + "2")
        with open(path, "wb"):
            pass
        made.remove()
        assert os.path.exists(path)


def test_a_locked_socket_directory_is_waited_for_a_while(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockfile, "_PATIENCE", 0.05)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    directory = os.open(os.path.dirname(path), os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_SH)
    assert "is locked" in unusable(listening, path).message
    os.close(directory)
    made = listening(path)
    made.socket.close()
    made.remove()


def test_who_gives_the_lock_back_is_not_in_it_any_more(place: str) -> None:
    directory = StateDirectory(os.path.join(place, "state"))
    directory.note_socket("/s")
    directory.release()
    assert os.path.getsize(os.path.join(place, "state", "lock")) == 0


def test_who_lost_the_lock_binds_no_socket(place: str, path: str) -> None:
    directory = StateDirectory(os.path.join(place, "state"))
    made = BoundSocket(path, directory)
    os.unlink(path)
    os.unlink(directory.lock)
    assert "it was removed or moved" in unusable(made.again).message
    assert "it was removed or moved" in unusable(BoundSocket, path, directory).message
    StateDirectory(directory.path).release()
    assert "another file lies there now" in unusable(made.again).message
    assert not os.path.lexists(path)
    made.socket.close()
    directory.release()


@pytest.mark.parametrize("error", [OSError(5, "a fault"), MemoryError("a fault")])
def test_a_socket_that_was_bound_and_fails_is_not_left_behind(
    path: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with bound(path) as made:
        os.unlink(path)
        looked = os.stat

        def fails(at: Any, **others: Any) -> os.stat_result:
            if at == path:
                raise error
            return looked(at, **others)

        monkeypatch.setattr(os, "stat", fails)
        with pytest.raises((errors.StoreUnusable, MemoryError)):
            made.again()
        monkeypatch.undo()
        assert not os.path.lexists(path)
        anew = made.again()
        assert anew is not None
        with anew:
            assert connects(path)
