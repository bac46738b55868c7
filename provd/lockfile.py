"""The daemon's places on disk: the state directory with its lock, and the socket.

Rule: the lock is held for life, and only its holder replaces a socket that nobody listens on. Anything else at
that path is left alone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
import time
from collections.abc import Iterator
from typing import Final

from provd import filesystems, places, refusals
from provd.core import errors
from provd.ownfile import NotAFile, open_file
from provd.quoting import quoted
from provd.store.trouble import full_or_unusable

_PATIENCE: Final = 10.0
"""Seconds for which another daemon may clear and bind a socket."""
_NAP: Final = 0.02
_MODE: Final = 0o600
_ANOTHER: Final = "provd start --state DIR"
_ANOTHER_SOCKET: Final = "provd start --socket PATH"
"""Of the socket: who may write to it may ask."""
MAX_SOCKET_PATH: Final = 107
"""Bytes of a socket's path that Linux takes (macOS: 103)."""


class StateDirectory:
    """The state directory, locked until `release`.

    Raises StoreUnusable where it belongs to somebody else, lies on a network file system, cannot be made, or is
    in use by another daemon; StoreFull where the disk is full.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = os.path.join(path, places.LOCK_NAME)
        try:
            refusals.make_directory(path)
            st = os.stat(path)
            names = set(os.listdir(path))
        except OSError as e:
            raise self._unusable(e) from e
        if st.st_uid != os.geteuid():
            raise errors.StoreUnusable(
                f"the state directory {path} belongs to user {st.st_uid}, this is user {os.geteuid()}",
                f"sudo -u '#{st.st_uid}' provd start  # as that user\n{_ANOTHER}",
            )
        if filesystems.is_network(os.fsencode(path)):
            raise errors.StoreUnusable(
                f"the state directory {path} lies on a network file system, where the store is not safe",
                _ANOTHER + "  # on a local disk",
            )
        try:
            if all(map(places.is_ours, names)):  # a directory of others' things keeps its mode
                os.chmod(path, 0o700)
            self._fd = open_file(self.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        except OSError as e:
            raise self._unusable(e) from e
        self._lock()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            if e.errno not in {errno.EWOULDBLOCK, errno.EACCES}:
                os.close(self._fd)
                raise self._unusable(e) from e
            holder, _, socket_path = os.pread(self._fd, 4096, 0).decode("utf-8", "replace").partition("\n")
            os.close(self._fd)
            there = f" --socket {quoted(socket_path.strip())}" if socket_path.strip() else ""
            raise errors.StoreUnusable(
                f"another daemon (pid {holder.strip() or 'unknown'}) uses the state directory {self.path}",
                f"provd status{there}  # ask that one\nprovd stop{there}\n{_ANOTHER}  # a second one",
            ) from None
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        except OSError as e:
            os.close(self._fd)
            raise self._unusable(e) from e
        held = os.fstat(self._fd)
        self._identity = (held.st_dev, held.st_ino)

    def astray(self) -> errors.StoreUnusable | None:
        """Why the lock keeps nobody out any more: its file is not the one at its place. None where it is."""
        try:
            there = os.lstat(self.lock)
        except (FileNotFoundError, NotADirectoryError):
            became = "it was removed or moved"
        except OSError:  # a directory above that is closed for a while, a disk that fails: nothing says that it went
            return None
        else:
            if (there.st_dev, there.st_ino) == self._identity:
                return None
            became = "another file lies there now"
        return errors.StoreUnusable(
            f"the lock of this daemon (pid {os.getpid()}) is not at {self.lock} any more ({became}): another may use "
            "that state directory, so this one answers nothing more and ends",
            "provd start  # then ask again",
        )

    def _unusable(self, error: OSError) -> errors.ProvdError:
        if isinstance(error, NotAFile):
            return errors.StoreUnusable(f"the state directory {self.path} cannot be used: {error.strerror}", error.hint)
        told = full_or_unusable(error, self.path)
        if isinstance(told, errors.StoreFull):
            return told
        if (refusal := refusals.of(error, self.path)) is not None:
            return errors.StoreUnusable(f"{refusal.what}: no daemon starts there", f"{refusal.hint}\n{_ANOTHER}")
        closed = places.shut(self.path)
        hint = f"chmod 700 {quoted(closed)}" if closed else f"ls -ld {quoted(self.path)}  # may this user write?"
        at = f" ({error.filename})" if error.filename not in {None, self.path} else ""
        return errors.StoreUnusable(
            f"the state directory {self.path} cannot be used: {error.strerror or error}{at}",
            f"{hint}\n{_ANOTHER}",
        )

    def note_socket(self, path: str) -> None:
        """Writes where the holder answers beside its pid, for whoever finds the lock held."""
        with contextlib.suppress(OSError):
            os.pwrite(self._fd, b"%d\n%b\n" % (os.getpid(), os.fsencode(path)), 0)

    def release(self) -> None:
        """Gives the lock back; whoever reads it then finds nobody."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
        os.close(self._fd)


class BoundSocket:
    """A listening Unix socket at `path`, mode 0600, made by the holder of the state `directory`'s lock.

    Raises StoreUnusable where the path is too long, cannot be bound, or holds something else, or the lock is gone.
    """

    def __init__(self, path: str, directory: StateDirectory) -> None:
        self.path = path
        self._directory = directory
        self._identity = (0, 0)
        name = os.fsencode(path)
        if len(name) > MAX_SOCKET_PATH:
            raise errors.StoreUnusable(
                f"the socket path is {len(name)} bytes long, the system takes {MAX_SOCKET_PATH}: {path}",
                _ANOTHER_SOCKET + "  # a shorter path, for example in $XDG_RUNTIME_DIR",
            )
        with self._turn():
            self._clear()
            self.socket = self._bind()

    def again(self) -> socket.socket | None:
        """Another listening socket at the path, where nothing is any more; None where something is.

        Whoever waits at the first one is not turned away: it stays as it is. Raises StoreUnusable. To be called in a
        thread: it may wait for its turn.
        """
        with self._turn():
            return None if os.path.lexists(self.path) else self._bind()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Inside, no other daemon clears or binds a socket in the directory; raises StoreUnusable, also for OSError."""
        directory = os.path.dirname(self.path) or "."
        try:
            refusals.make_directory(directory)
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._take_turn(fd, directory)
                yield
            finally:
                os.close(fd)
        except OSError as e:
            raise errors.StoreUnusable(
                f"the socket {self.path} cannot be made: {e.strerror or e}",
                f"ls -ld {quoted(directory)}  # may this user write?\n{_ANOTHER_SOCKET}",
            ) from e

    def _take_turn(self, fd: int, directory: str) -> None:
        """Between two daemons that start one clears and binds at a time; neither takes long."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise errors.StoreUnusable(
                        f"the directory of the socket is locked for {_PATIENCE:g} s by another program: {directory}",
                        f"fuser {quoted(directory)}  # which one it is\n{_ANOTHER_SOCKET}",
                    ) from None
                time.sleep(_NAP)
            else:
                return

    def _clear(self) -> None:
        """Removes a socket that nobody listens on."""
        try:
            st = os.lstat(self.path)
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(st.st_mode):
            name = quoted(self.path)
            hint = f"mv {name} {name}.other  # if nobody needs it there\n{_ANOTHER_SOCKET}"
            if stat.S_ISDIR(st.st_mode):
                hint = f"provd start --socket {name}/{places.SOCKET_NAME}  # within that directory"
            raise errors.StoreUnusable(
                f"{self.path} is there and is no socket: it is left alone",
                hint,
            )
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(2)
            try:
                probe.connect(self.path)
            except OSError as e:
                if e.errno != errno.ECONNREFUSED:
                    raise errors.StoreUnusable(
                        f"somebody may listen on {self.path}: {e.strerror or e}", _ANOTHER_SOCKET
                    ) from None
                os.unlink(self.path)
                return
        raise errors.StoreUnusable(
            f"another program listens on {self.path}: it is left alone", _ANOTHER_SOCKET + "  # or stop that program"
        )

    def _bind(self) -> socket.socket:
        if (astray := self._directory.astray()) is not None:
            raise astray
        listening = socket.socket(socket.AF_UNIX)
        bound = False
        try:
            with contextlib.suppress(OSError):  # Linux makes it with this mode at once; the umask is all threads'
                os.fchmod(listening.fileno(), _MODE)
            listening.bind(self.path)
            bound = True
            listening.listen(1024)  # at once, so that nobody takes the socket for one that was left behind
            st = os.stat(self.path)
            if stat.S_IMODE(st.st_mode) != _MODE:
                os.chmod(self.path, _MODE)
        except BaseException:
            listening.close()
            if bound:  # nobody will ever listen there, and what lies there is never replaced
                with contextlib.suppress(OSError):
                    os.unlink(self.path)
            raise
        self._identity = (st.st_dev, st.st_ino)
        return listening

    def remove(self) -> None:
        """Removes the socket, if it is still the one that was made here."""
        with contextlib.suppress(OSError):
            st = os.lstat(self.path)
            if (st.st_dev, st.st_ino) == self._identity:
                os.unlink(self.path)
