"""The calls of inotify, which Python's library does not have.

Rule: one small class stands between the watcher and the kernel, so that a test can let any call fail. What fails
raises OSError, as everywhere.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from typing import Final

if sys.platform != "win32":
    import fcntl
    import termios

MODIFY: Final = 0x2
ATTRIB: Final = 0x4
CLOSE_WRITE: Final = 0x8
MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
CREATE: Final = 0x100
DELETE: Final = 0x200
DELETE_SELF: Final = 0x400
MOVE_SELF: Final = 0x800
UNMOUNT: Final = 0x2000
Q_OVERFLOW: Final = 0x4000
IGNORED: Final = 0x8000
ISDIR: Final = 0x40000000

_ONLYDIR: Final = 0x01000000
_DONT_FOLLOW: Final = 0x02000000
_EXCL_UNLINK: Final = 0x04000000
_MASK_ADD: Final = 0x20000000
_CONTENT: Final = CREATE | DELETE | MODIFY | CLOSE_WRITE | ATTRIB | MOVED_FROM | MOVED_TO
_SELF: Final = MOVE_SELF | DELETE_SELF
WHOLE: Final = _CONTENT | _SELF | _ONLYDIR | _DONT_FOLLOW
"""The mask of a directory of a root; what is written to names that are unlinked already is nobody's dependency."""
PASSAGE: Final = _SELF | _ONLYDIR | _DONT_FOLLOW
"""The mask of a directory that only leads to a root."""
KEEP: Final = _MASK_ADD
"""Added to a mask: what the directory is watched for already stays."""

_INT: Final = bytes(4)
_STATX_BTIME: Final = 0x800
_AT_SYMLINK_NOFOLLOW: Final = 0x100
_AT_EMPTY_PATH: Final = 0x1000
_STATX_SIZE: Final = 256
_TIME: Final = struct.Struct("qI")
_BTIME_AT: Final = 0x50


class Kernel:
    """The calls themselves; raises AttributeError where the system has no inotify."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._init = libc.inotify_init1
        self._add = libc.inotify_add_watch
        self._add.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
        self._remove = libc.inotify_rm_watch
        self._remove.argtypes = (ctypes.c_int, ctypes.c_int)
        self._proc = os.path.exists("/proc/self/fd")
        self._statx = getattr(libc, "statx", None)
        self._buffer = ctypes.create_string_buffer(_STATX_SIZE)

    def init(self) -> int:
        """A new descriptor of inotify that never blocks."""
        return _checked(self._init(os.O_NONBLOCK | os.O_CLOEXEC), None)

    def add(self, fd: int, path: bytes, mask: int, opened: int = -1) -> int:
        """The watch of the directory `path`: a new one, or the one that its inode has already.

        Where it is `opened`, the watch is that of the very directory that is open, whatever `path` means by now.
        """
        if opened >= 0 and self._proc:
            return _checked(self._add(fd, b"/proc/self/fd/%d/." % opened, mask), path)
        return _checked(self._add(fd, path, mask), path)

    def remove(self, fd: int, watch: int) -> bool:
        """Ends a watch; False where the kernel did so already."""
        return bool(self._remove(fd, watch) == 0)

    def waiting(self, fd: int) -> int:
        """How many bytes there are to read."""
        return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, _INT), sys.byteorder)

    def read(self, fd: int, size: int) -> bytes:
        """Whole events, `size` bytes of them at most; raises BlockingIOError where there are none."""
        return os.read(fd, size)

    def born(self, directory: int, name: bytes = b"") -> int | None:
        """When an open directory, or what `name` is in it, was made, in ns; None where nobody knows."""
        if self._statx is None:
            return None
        flags = _AT_SYMLINK_NOFOLLOW | (0 if name else _AT_EMPTY_PATH)
        if self._statx(directory, name, flags, _STATX_BTIME, self._buffer) != 0:
            return None
        raw = self._buffer.raw
        if not int.from_bytes(raw[:4], sys.byteorder) & _STATX_BTIME:
            return None
        seconds, nanoseconds = _TIME.unpack_from(raw, _BTIME_AT)
        return int(seconds) * 1_000_000_000 + int(nanoseconds)


def _checked(result: int, path: bytes | None) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result
