"""The log as a file that does not grow for ever: at a size it gets the name NAME.1, and a new one begins.

Rule: standard error is that file, so that what the interpreter says of a crash lies there too. A full disk, a name that
cannot be given, a directory that is gone: the file is written on as far as that goes, and nothing is raised.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from typing import Final

MOST: Final = 10 * 1024 * 1024
"""Bytes after which a new file begins."""
KEPT: Final = 3
"""Old files: NAME.1 is the newest."""
_MODE: Final = 0o600


class LogFile:
    """The file at `path`, open as `descriptor`. Raises OSError where it cannot be opened at first."""

    def __init__(self, path: str, *, most: int = MOST, descriptor: int = 2) -> None:
        self._path = os.path.abspath(path)
        self._most = most
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._full = most  # at this size it is time for another file
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        self._open()
        if os.path.isfile(
            self._path
        ):  # what a link leads to turns, and the link stays; a pipe or a device has no place
            self._path = os.path.realpath(self._path)

    def write(self, data: bytes) -> None:
        """Adds some lines; drops what cannot be written."""
        with self._lock, contextlib.suppress(OSError):
            size = os.fstat(self._descriptor).st_size  # others write there too: the interpreter, a library in C
            if size and size + len(data) > self._full:
                self._turn(size)
            left = memoryview(data)
            while left:
                left = left[os.write(self._descriptor, left) :]

    def _turn(self, size: int) -> None:
        """Begins another file, or goes on with this one until it has grown by as much again."""
        try:
            if stat.S_ISREG(os.lstat(self._path).st_mode):  # a pipe or a device stays
                for number in range(KEPT - 1, 0, -1):
                    with contextlib.suppress(FileNotFoundError):
                        os.rename(f"{self._path}.{number}", f"{self._path}.{number + 1}")
                os.rename(self._path, f"{self._path}.1")
                self._open()
                return
        except FileNotFoundError:  # somebody took it away: that is as good
            with contextlib.suppress(OSError):
                self._open()
                return
        except OSError:
            pass
        self._full = size + self._most

    def _open(self) -> None:
        """Opens the file and puts it in the place of what was written to."""
        # Not blocking, so that neither opening a pipe nor writing to one waits for its reader.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
        fd = os.open(self._path, flags, _MODE)
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                with contextlib.suppress(OSError):  # one that was there before may be somebody else's
                    os.fchmod(fd, _MODE)
            if fd != self._descriptor:
                os.dup2(fd, self._descriptor)
        finally:
            if fd != self._descriptor:
                os.close(fd)
        self._full = self._most
