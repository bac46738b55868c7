"""Who has, or had, the lock of a state directory, as that daemon wrote it there.

Rule: the lock itself is never tried, since that could refuse a daemon that starts.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from provd.places import LOCK_NAME

_MOST: Final = 8192
"""Bytes of the file that are looked at."""


class Written(NamedTuple):
    """What the lock file says: a process and its socket, each as text, empty where it is not told; and its inode."""

    pid: str
    socket: str
    inode: int


def written(state: str) -> Written | None:
    """What stands in the lock file of a state directory; None where it cannot be read."""
    try:
        with open(os.path.join(state, LOCK_NAME), "rb") as file:
            inode = os.fstat(file.fileno()).st_ino
            pid, socket = [*os.fsdecode(file.read(_MOST)).split("\n"), "", ""][:2]
    except OSError:
        return None
    return Written(pid, socket, inode)
