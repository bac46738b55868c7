"""Asking about paths without reading them: where they really are, whether they are there, what `stat` says.

Rule: each of these functions asks about one path, and any of them may hang; so they are called in workers only, and
those about many paths as one job, in which a path that hangs holds nothing but itself.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from provd.core.reading import Signature
from provd.disk.files import signature
from provd.disk.places import Entry, Turn

_Result = TypeVar("_Result")


class Directory(msgspec.Struct, frozen=True):
    """An existing directory: its real path, device and inode."""

    path: bytes
    dev: int
    ino: int


def signature_of(path: bytes) -> Signature | None:
    """The signature of what is at `path`, links followed; None where it is absent. Raises OSError."""
    try:
        return signature(os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def real_directory(path: bytes) -> tuple[bytes, Directory | None]:
    """The real path of `path`, and the directory there, None where there is none. Raises OSError, ValueError."""
    real = os.path.realpath(path)
    try:
        st = os.stat(real)
    except (FileNotFoundError, NotADirectoryError):
        return real, None
    return real, Directory(real, st.st_dev, st.st_ino) if stat.S_ISDIR(st.st_mode) else None


class RealPaths:
    """Gives the real paths of many paths. Each directory is resolved once."""

    def __init__(self) -> None:
        self._directories: dict[bytes, bytes] = {}

    def __call__(self, path: bytes) -> bytes:
        """The real path of `path`; raises OSError."""
        parent, _, name = path.rpartition(b"/")
        if name in {b"", b".", b".."} or os.path.islink(path):
            return os.path.realpath(path)
        real = self._directories.get(parent)
        if real is None:
            real = self._directories[parent] = os.path.realpath(parent or b"/")
        return real.rstrip(b"/") + b"/" + name


class LookingJob(Generic[_Result]):
    """One function to be called for each of some paths, by any number of threads.

    `results` holds what was given, `errors` what was raised. Without `place` the function is about none.
    """

    def __init__(
        self,
        function: Callable[[bytes], _Result],
        paths: Iterable[bytes],
        place: Callable[[bytes], bytes] | None,
    ) -> None:
        self.results: dict[bytes, _Result] = {}
        self.errors: dict[bytes, BaseException] = {}
        self._function = function
        self._place = place
        self._paths = deque(dict.fromkeys(paths))
        self._count = len(self._paths)
        self.steps = 0
        self._cancelled = False
        self._lock = threading.Lock()

    @property
    def finished(self) -> bool:
        """Whether every path was asked about."""
        return len(self.results) + len(self.errors) == self._count

    @property
    def shared(self) -> bool:
        """Whether there is work for more threads than one."""
        return self._count > 1

    def run(self, turn: Turn | None = None) -> None:
        """Takes part in the job until there is nothing left to take."""
        while not self._cancelled and (path := self._take(turn)) is not None:
            try:
                self.results[path] = self._function(path)
            except Exception as error:  # noqa: BLE001 - it belongs to who asked
                self.errors[path] = error
            if turn is not None and turn.is_needless(self.steps):
                return

    def cancel(self) -> None:
        """Ends the work of all threads as soon as they can."""
        self._cancelled = True

    def cut(self) -> None:
        """There is nothing to confirm: what is known is known."""

    def _take(self, turn: Turn | None) -> bytes | None:
        with self._lock:
            for _ in range(len(self._paths)):
                path = self._paths.popleft()
                entry = Entry.IN if turn is None or self._place is None else turn.go(self._place(path))
                if entry is Entry.IN:
                    self.steps += 1
                    return path
                if entry is Entry.FULL:
                    self._paths.append(path)
                else:
                    self.errors[path] = TimeoutError("its file system hangs")
            if turn is not None:
                turn.end()
            return None
