"""What is on the disk and what the system holds of it in memory: making both the same, or forgetting the one."""

from __future__ import annotations

import contextlib
import os

from provd import ownfile


def read_anew(path: str) -> None:
    """Has the system forget what it holds of a file in memory: after a failed sync that may not be on the disk.

    A page that is written again over such a one may be lost too, and the sync is said to be good: on ext4 its place
    counts as never written. Who opens the file cannot know whether that happened to whoever had it before.
    """
    with contextlib.suppress(OSError, AttributeError):  # no such file, no such call here
        fd = ownfile.open_file(path, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def sync_names(directory: str) -> None:
    """Makes the names of a new store durable: a synced file in a directory that was not is lost with the power."""
    for path in (directory, os.path.dirname(directory), os.path.dirname(os.path.dirname(directory))):
        with contextlib.suppress(OSError):  # not readable for this user, or a file system that takes no such fsync
            fd = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
