"""Who has, or had, the lock of a state directory, as that daemon wrote it there.

Rule: the lock itself is never tried, since that could refuse a daemon that starts.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from provd.ownfile import open_file
from provd.places import LOCK_NAME

_MOST: Final = 8192
"""Bytes of the file that are looked at."""


class Written(NamedTuple):
    """What the lock file says: a process and its socket, each as text, empty where it is not told.

    And which file it is: its device as `os.stat` has it, and its inode.
    """

    pid: str
    socket: str
    device: int
    inode: int


def written(state: str) -> Written | None:
    """What stands in the lock file of a state directory; None where it cannot be read, or somebody else put it there.

    The directory may be one that others write to as well, so nothing there is waited for or believed unseen.
    """
    try:
        handle = open_file(os.path.join(state, LOCK_NAME), os.O_RDONLY | os.O_NOFOLLOW)
        with open(handle, "rb") as file:
            st = os.fstat(handle)
            if os.geteuid() and st.st_uid != os.geteuid():
                return None
            pid, socket = [*os.fsdecode(file.read(_MOST)).split("\n"), "", ""][:2]
    except OSError:
        return None
    return Written(pid, socket, st.st_dev, st.st_ino)
