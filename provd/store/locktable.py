"""LMDB's lock file, whose pages are stored into through a mapping at each question too.

Rule: where there is no room for a page that is stored into, SIGBUS kills the process. So its room is taken before it is
mapped, and on btrfs, which would write each page to a new place, it is marked as a file that stays where it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
from typing import Final

from provd import ownfile

NAME: Final = "lock.mdb"
_BYTES: Final = 8192
_GET_FLAGS: Final = 0x80006601 | struct.calcsize("l") << 16
_SET_FLAGS: Final = 0x40006602 | struct.calcsize("l") << 16
_IN_PLACE: Final = 0x00800000
"""FS_NOCOW_FL, which only an empty file takes."""


def allocate(directory: str) -> None:
    """Makes the lock file of the environment in a directory, where there is none; raises OSError."""
    fd = ownfile.open_file(os.path.join(directory, NAME), os.O_RDWR | os.O_CREAT)
    try:
        size = os.fstat(fd).st_size
        if not size:
            _stay_in_place(fd)
        if size < _BYTES and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, _BYTES)
    finally:
        os.close(fd)


def _stay_in_place(fd: int) -> None:
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):  # a file system that has no such flag
        flags = struct.unpack("i", fcntl.ioctl(fd, _GET_FLAGS, bytes(4)))[0]
        fcntl.ioctl(fd, _SET_FLAGS, struct.pack("i", flags | _IN_PLACE))
