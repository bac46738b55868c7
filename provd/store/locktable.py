"""LMDB's lock file, whose pages are stored into through a mapping at each question too.

Rule: where there is no room for a page that is stored into, SIGBUS kills the process. So its room is taken before it is
mapped, on btrfs, which would write each page to a new place, it is marked as a file that stays where it is, and its
pages are stored into once where that is an error and no signal. As soon as it is open its table lies in memory alone,
and a file system that has no room for it later ends no daemon by it.

What the file says of the newest commit is then of the past, and whoever believed it would write over newer ones. So who
holds the state directory begins the file anew, which has LMDB look into the data, whoever has the old one open; and
while the environment is open the file is no table to anybody else, who gets an error instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
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
_POPULATE_WRITE: Final = 23
"""MADV_POPULATE_WRITE, from Linux 5.14: faults as a store does, and fails where that would be killed."""
_MAP_FIXED: Final = 0x10
_MAGIC: Final = 8
"""Bytes at the start by which LMDB knows a table, and which form it has."""


def allocate(directory: str, *, anew: bool) -> None:
    """Makes the lock file of the environment in a directory, where there is none or `anew`, and tries its pages.

    To be called with the state directory's lock held, while this process has the environment not open. Raises OSError
    where there is none to be had that can be stored into.
    """
    path = os.path.join(directory, NAME)
    if anew:
        ownfile.check(path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    fd = ownfile.open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        size = os.fstat(fd).st_size
        if not size:
            _stay_in_place(fd)
        if size < _BYTES and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, _BYTES)
        if os.fstat(fd).st_size >= _BYTES:
            _try(fd)
    finally:
        os.close(fd)


def _stay_in_place(fd: int) -> None:
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):  # a file system that has no such flag
        flags = struct.unpack("i", fcntl.ioctl(fd, _GET_FLAGS, bytes(4)))[0]
        fcntl.ioctl(fd, _SET_FLAGS, struct.pack("i", flags | _IN_PLACE))


def _try(fd: int) -> None:
    """Raises OSError where a store into its pages would be SIGBUS: a quota is used up, or the disk fails."""
    if sys.platform != "linux":
        return
    with mmap.mmap(fd, _BYTES) as mapping:
        try:
            mapping.madvise(_POPULATE_WRITE)
        except OSError as error:
            if error.errno == errno.EINVAL:  # an older kernel
                return
            if error.errno != errno.EFAULT:
                raise
            os.pwrite(fd, os.pread(fd, 1, 0), 0)  # raises what is the matter, where a write meets it too
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), NAME) from error


def detach(directory: str) -> None:
    """Has the table of the environment there, which was just opened, lie in memory. No transaction may be open.

    Where that cannot be done it stays in its file. That is never opened here: as the first descriptor of it that is
    closed a process lets go of all its locks.
    """
    found = _mapped(os.path.join(directory, NAME))
    if found is None:
        return
    start, size = found
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    table = ctypes.string_at(start, size)
    ctypes.memset(start, 0, _MAGIC)
    flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _MAP_FIXED  # shared, as its mutexes are
    libc.mmap(start, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    ctypes.memmove(start, table, size)  # also where it could not be had: then it is as it was


def _mapped(path: str) -> tuple[int, int] | None:
    """Where this process has a file mapped to be stored into, and how long; None unless that is one place."""
    try:
        inode = os.stat(path).st_ino
        with open("/proc/self/maps", "rb") as file:
            rows = [line.split(None, 5) for line in file]
    except OSError:
        return None
    name = b"/" + os.fsencode(NAME)
    places = [
        row[0].split(b"-")
        for row in rows
        if row[1] == b"rw-s" and int(row[4]) == inode and row[-1].rstrip(b"\n").endswith(name)
    ]
    if len(places) != 1:
        return None
    start, end = (int(each, 16) for each in places[0])
    return start, end - start
