"""What is at some paths, as far as that can be seen in a moment.

Rule: a mount may hang, and a call on it may not even be ended by a signal. So a child looks, and is left behind where
it does not come back; once that happened nothing more is looked at, so that it costs its moment once.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import stat
import struct
import time
import warnings
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

BOUND: Final = 0.3
"""Seconds for which all looks of this process may hang, together."""
_DESCRIPTORS: Final = 1024
"""More than a command has open."""
_PIECE: Final = 65536
_SIZE: Final = struct.Struct("i")
"""What comes before each thing that the child tells: its bytes, or that it could not be seen."""
_ROW: Final = struct.Struct("iiqB")
_NOTHING: Final = -1
_UNSEEN: Final = -2
_ROUND: Final = -3
"""A mode of what is a link and leads to itself."""
_READABLE: Final = 1
_ENTERED: Final = 2
_hung = False


class Seen(NamedTuple):
    """The modes at a path: that of the name itself, and that of what it leads to; None for what is not there.

    `loops` tells that it is a link that leads to itself, so that nothing is at its end.
    `owner` is the user that the name belongs to (-1 where it is not there); `readable` and `entered` tell what this
    user may do with what it leads to: read it; search it, where it is a directory.
    """

    name: int | None
    end: int | None
    owner: int = -1
    readable: bool = False
    entered: bool = False
    loops: bool = False

    @property
    def is_link(self) -> bool:
        """Whether the name is a symbolic link."""
        return self.name is not None and stat.S_ISLNK(self.name)


def look(paths: Iterable[bytes]) -> dict[bytes, Seen]:
    """What is at each path; what cannot be seen, or not in time, is missing."""
    rows = {path: _ROW.unpack(row) for path, row in _told(_row, paths).items()}
    return {
        path: Seen(_mode(name), _mode(end), owner, bool(may & _READABLE), bool(may & _ENTERED), end == _ROUND)
        for path, (name, end, owner, may) in rows.items()
        if _UNSEEN not in {name, end}
    }


def is_directory(path: bytes) -> bool:
    """Whether a path leads to a directory, as far as that can be seen in a moment."""
    end = look([path]).get(path, Seen(None, None)).end
    return end is not None and stat.S_ISDIR(end)


def hangs(path: bytes, seconds: float) -> bool:
    """Whether no look at what is at a path comes back while nothing else holds it up for so many seconds."""
    return _asked(_row, [path], seconds)[1]


def real_path(path: bytes) -> bytes:
    """The real path of an absolute one; the path as it is where that cannot be seen in time."""
    return real_paths([path])[0]


def real_paths(paths: Sequence[bytes]) -> list[bytes]:
    """The same for each of some."""
    real = _told(os.path.realpath, paths)
    return [real.get(path, path) for path in paths]


def _told(function: Callable[[bytes], bytes], paths: Iterable[bytes]) -> dict[bytes, bytes]:
    """What `function`, which makes system calls only, gives for each path; what it fails at, or is late with, lacks."""
    global _hung
    wanted = list(dict.fromkeys(path for path in paths if b"\0" not in path))
    if not wanted or _hung:
        return {}
    said, _hung = _asked(function, wanted, BOUND)
    seen = zip(wanted, _pieces(said), strict=False)  # what comes after a path that hangs is missing
    return {path: told for path, told in seen if told is not None}


def _asked(function: Callable[[bytes], bytes], wanted: Sequence[bytes], seconds: float) -> tuple[bytes, bool]:
    """What a child tells of paths, and whether it hangs for so long; nothing where there cannot be one."""
    try:
        reader, writer = os.pipe()
    except OSError:  # too many files are open
        return b"", False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the child makes system calls only
            child = os.fork()
    except OSError:
        os.close(writer)
        os.close(reader)
        return b"", False
    if child == 0:
        _child(function, wanted, writer)
    os.close(writer)
    hung = True
    try:
        said, hung = _read(reader, child, seconds)
    finally:
        os.close(reader)
        _reap(child, hung=hung)
    return said, hung


def _pieces(said: bytes) -> Iterator[bytes | None]:
    """What a child told, piece by piece, without a last one that is not whole."""
    at = 0
    while len(said) >= at + _SIZE.size:
        size, start = _SIZE.unpack_from(said, at)[0], at + _SIZE.size
        at = start + max(size, 0)
        if at > len(said):
            return
        yield None if size == _UNSEEN else said[start:at]


def _child(function: Callable[[bytes], bytes], paths: Sequence[bytes], writer: int) -> None:
    """Looks, and tells it row by row. It holds nothing that anybody could wait for, and never returns."""
    try:
        empty = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(empty, standard)
        os.closerange(3, writer)
        os.closerange(writer + 1, _DESCRIPTORS)
        for path in paths:
            try:
                told = function(path)
                told = _SIZE.pack(len(told)) + told
            except (OSError, ValueError):
                told = _SIZE.pack(_UNSEEN)
            os.write(writer, told)
    finally:
        os._exit(0)


def _row(path: bytes) -> bytes:
    (name, owner), (end, _) = _found(os.lstat, path), _found(os.stat, path)
    may = os.access(path, os.R_OK) * _READABLE | os.access(path, os.X_OK) * _ENTERED
    return _ROW.pack(name, end, owner, may)


def _found(function: Callable[[bytes], os.stat_result], path: bytes) -> tuple[int, int]:
    """The mode and the owner of what is at a path."""
    try:
        status = function(path)
    except (FileNotFoundError, NotADirectoryError):
        return _NOTHING, -1
    except OSError as error:
        return (_ROUND if error.errno == errno.ELOOP and function is os.stat else _UNSEEN), -1
    except ValueError:
        return _UNSEEN, -1
    return status.st_mode, status.st_uid


def _mode(told: int) -> int | None:
    return None if told in {_NOTHING, _ROUND} else told


def _read(reader: int, child: int, seconds: float) -> tuple[bytes, bool]:
    """What comes in time, and whether not all did. A machine that is busy has more time than a mount that hangs."""
    told = b""
    deadline = time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        if ready:
            some = os.read(reader, _PIECE)
            if not some:
                return told, False
            told += some
        elif _waits(child):
            return told, True
        else:
            deadline = time.monotonic() + seconds


def _waits(child: int) -> bool:
    """Whether the child waits for something else than its turn."""
    try:
        with open(f"/proc/{child}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"R"
    except (OSError, IndexError):  # there is no /proc
        return True


def _reap(child: int, *, hung: bool) -> None:
    """Takes the child's end; one that hangs is init's once this process ends."""
    with contextlib.suppress(OSError):
        if hung:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, os.WNOHANG if hung else 0)
