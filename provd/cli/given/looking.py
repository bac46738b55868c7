"""What is at some paths, as far as that can be seen in a moment.

Rule: a mount may hang, and a call on it may not even be ended by a signal. So a child looks, and is left behind where
it does not come back; once that happened nothing more is looked at, so that it costs its moment once.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import struct
import time
import warnings
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

BOUND: Final = 0.3
"""Seconds for which all looks of this process may hang, together."""
_DESCRIPTORS: Final = 1024
"""More than a command has open."""
_ROW: Final = struct.Struct("ii")
_NOTHING: Final = -1
_UNSEEN: Final = -2
_hung = False


class Seen(NamedTuple):
    """The modes at a path: that of the name itself, and that of what it leads to; None for what is not there."""

    name: int | None
    end: int | None

    @property
    def is_link(self) -> bool:
        """Whether the name is a symbolic link."""
        return self.name is not None and stat.S_ISLNK(self.name)


def look(paths: Iterable[bytes]) -> dict[bytes, Seen]:
    """What is at each path; what cannot be seen, or not in time, is missing."""
    wanted = list(dict.fromkeys(path for path in paths if b"\0" not in path))
    if not wanted or _hung:
        return {}
    try:
        reader, writer = os.pipe()
    except OSError:  # too many files are open
        return {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the child makes system calls only
            child = os.fork()
    except OSError:
        os.close(writer)
        os.close(reader)
        return {}
    if child == 0:
        _child(wanted, writer)
    os.close(writer)
    try:
        told = _read(reader, len(wanted) * _ROW.size, child)
    finally:
        os.close(reader)
        _reap(child)
    rows = _ROW.iter_unpack(told[: len(told) - len(told) % _ROW.size])
    seen = zip(wanted, rows, strict=False)  # what comes after a path that hangs is missing
    return {path: Seen(_mode(name), _mode(end)) for path, (name, end) in seen if _UNSEEN not in {name, end}}


def _child(paths: Sequence[bytes], writer: int) -> None:
    """Looks, and tells it row by row. It holds nothing that anybody could wait for, and never returns."""
    try:
        empty = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(empty, standard)
        os.closerange(3, writer)
        os.closerange(writer + 1, _DESCRIPTORS)
        for path in paths:
            os.write(writer, _ROW.pack(_told(os.lstat, path), _told(os.stat, path)))
    finally:
        os._exit(0)


def _told(function: Callable[[bytes], os.stat_result], path: bytes) -> int:
    try:
        return function(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return _NOTHING
    except (OSError, ValueError):
        return _UNSEEN


def _mode(told: int) -> int | None:
    return None if told == _NOTHING else told


def _read(reader: int, size: int, child: int) -> bytes:
    """What comes in time, up to `size` bytes. A machine that is busy has more time than a mount that hangs."""
    global _hung  # noqa: PLW0603  it is of the process
    told = b""
    deadline = time.monotonic() + BOUND
    while len(told) < size:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        if ready:
            some = os.read(reader, size - len(told))
            if not some:
                break
            told += some
        elif _waits(child):
            _hung = True
            break
        else:
            deadline = time.monotonic() + BOUND
    return told


def _waits(child: int) -> bool:
    """Whether the child waits for something else than its turn."""
    try:
        with open(f"/proc/{child}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"R"
    except (OSError, IndexError):  # there is no /proc
        return True


def _reap(child: int) -> None:
    """Takes the child's end; one that hangs is init's once this process ends."""
    with contextlib.suppress(OSError):
        if _hung:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, os.WNOHANG if _hung else 0)
