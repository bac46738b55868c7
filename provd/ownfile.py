"""Opening a file at one of provd's own paths, where somebody may have put anything.

Rule: nothing is waited for, as a pipe would be, and nothing but a regular file is taken. What stands there instead is
said. Standard library only.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

from provd.quoting import quoted

_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotAFile(OSError):
    """Something else than a regular file is at `filename`: `strerror` says what, `hint` what to do next."""

    def __init__(self, path: str, mode: int) -> None:
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        super().__init__(errno.EINVAL, f"{path} is {kind}, where provd has a file", path)
        name = quoted(path)
        self.hint = f"mv {name} {name}.other  # then provd makes its own"


def open_file(path: str, flags: int, mode: int = 0o600) -> int:
    """A descriptor of the regular file at `path`, closed in children; `flags` and `mode` are those of `os.open`.

    Raises NotAFile, else OSError. With O_NOFOLLOW a link is no file, whatever it leads to.
    """
    try:
        fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
    except OSError as error:
        check(path, follow=not flags & os.O_NOFOLLOW)  # a pipe without a reader is "no such device" to the system
        raise error from None
    there = os.fstat(fd).st_mode
    if not stat.S_ISREG(there):
        os.close(fd)
        raise NotAFile(path, there)
    return fd


def check(path: str, *, follow: bool = True) -> None:
    """Raises NotAFile where something else than a regular file is at `path`."""
    try:
        there = os.stat(path, follow_symlinks=follow).st_mode
    except OSError:
        return
    if not stat.S_ISREG(there):
        raise NotAFile(path, there)
