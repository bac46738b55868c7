"""One directory at the moment when its watching begins: pinned, listed, asked for what was missed.

Rule: what a descriptor says is of one inode, whatever its name means by now.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from typing import Final, Self

from provd.watch.limits import of_watches
from provd.watch.mounted import MountPoints
from provd.watch.syscalls import Kernel

_REALTIME_COARSE: Final = 5 if sys.platform == "linux" else time.CLOCK_REALTIME
_TICK: Final = int(time.clock_getres(_REALTIME_COARSE) * 1.5e9)
"""Nanoseconds by which two stamps of one call may differ, where one is of the tick (which may be late) and one fine."""
_FEW: Final = 256
"""In a directory with more members than this nobody looks when each was made."""
_OPENING: Final = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0)
PIN: Final = _OPENING | getattr(os, "O_PATH", 0)
"""Opens a directory only to look from there."""
_PATH_MAX: Final = 4096
_REFUSALS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENAMETOOLONG, errno.EACCES})
READ: Final = _OPENING | getattr(os, "O_NONBLOCK", 0)
"""Opens a directory for listing."""


class Directory:
    """A directory that is open inside the `with`, or `error` says why it is not."""

    __slots__ = ("dev", "error", "fd", "ino")

    def __init__(self, path: bytes, flags: int, parent: int | None = None) -> None:
        self.fd = -1
        self.dev = self.ino = -1
        self.error: OSError | None = None
        try:
            self.fd = os.open(path, flags, dir_fd=parent)
            found = os.fstat(self.fd)
        except OSError as error:
            self.error = error
            if self.fd >= 0:
                os.close(self.fd)
                self.fd = -1
            return
        self.dev, self.ino = found.st_dev, found.st_ino

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def is_inode(self, dev: int, ino: int) -> bool:
        """Whether it is that one."""
        return self.fd >= 0 and (self.dev, self.ino) == (dev, ino)

    def is_also(self, path: bytes) -> bool:
        """Whether `path` names it, too."""
        try:
            found = os.lstat(path)
        except OSError:
            return False
        return self.is_inode(found.st_dev, found.st_ino)

    def member(self, name: bytes) -> os.stat_result | None:
        """What `name` is in it, None where there is nothing; raises OSError where nobody may look."""
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None


def subdirectories(fd: int, prefix: bytes, mounts: MountPoints) -> tuple[list[str], list[bytes]]:
    """The names in an open directory, and those that are directories or have something mounted over them."""
    names: list[str] = []
    below: list[bytes] = []
    mounted = {os.fsdecode(name) for name in mounts.names}
    with os.scandir(fd) as entries:
        for entry in entries:
            name = entry.name
            names.append(name)
            # Asking what something is that is mounted over the name may hang.
            if name in mounted and mounts.at(prefix + os.fsencode(name)) is not None:
                below.append(os.fsencode(name))
                continue
            try:
                is_dir = entry.is_dir(follow_symlinks=False)
            except OSError:
                is_dir = True
            if is_dir:
                below.append(os.fsencode(name))
    return names, below


def evidence(kernel: Kernel, fd: int, changed: int, names: list[str]) -> str:
    """Why things may have come and gone in a directory that was made just now; "" for no sign.

    `changed` is its mtime (ns) after it was watched and before it was listed. That is when the last name came or went
    that no event tells of: so it is when the directory was made, or one of its members, unless something is gone
    again. Where the times cannot be had, any content is a sign. Within a tick of the kernel's clock (some ms) times
    tell nothing, since one may be stamped by the tick and the other finely: what came and went so soon after the
    directory was made, before it was watched, leaves no sign.
    """
    born = kernel.born(fd)
    if not names or (born is not None and changed <= born):
        return "" if born is None or changed <= born else "something was removed before it was watched"
    if len(names) > _FEW:
        return "too much was in it already when it was watched"
    for name in names:
        born = kernel.born(fd, os.fsencode(name))
        if born is None:
            return "something was in it already when it was watched"
        if changed - _TICK < born <= changed:
            return ""
    return "something was removed or renamed before it was watched"


LIMIT: Final = "watch limit reached"


def reason_of(error: OSError) -> str:
    """Why a directory cannot be watched, with what helps."""
    match error.errno:
        case errno.ENOSPC:
            return f"{LIMIT}: raise {of_watches()}"
        case errno.EACCES | errno.EPERM:
            return "no permission to read the directory: give the daemon's user read and search permission"
        case errno.ENOMEM:
            return "the kernel has no memory for another watch: free some"
        case errno.ENAMETOOLONG:
            return "the path is longer than the system takes: shorten it, or add a root deeper down"
        case errno.EMFILE | errno.ENFILE:
            return "no descriptors are left: raise the limit of open files"
        case _:
            return f"cannot be watched: {error.strerror or error}"


def must_be_sayable(path: bytes) -> None:
    """Raises OSError for a path that is longer than the system takes."""
    if len(path) >= _PATH_MAX:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))


def is_refusal(error: OSError) -> bool:
    """Whether a path cannot be opened for a reason that no rename explains, nor takes away."""
    return error.errno in _REFUSALS


def is_symlink(status: os.stat_result | None) -> bool:
    """Whether a member is a symbolic link."""
    return status is not None and stat.S_ISLNK(status.st_mode)
