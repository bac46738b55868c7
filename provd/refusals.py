"""Why a file system takes no writes from anybody, and the next step: the same words for the daemon and for commands.

Rule: light. Who may not write there is another matter, and so is a disk that is full.
"""

from __future__ import annotations

import errno
import os
from typing import Final, NamedTuple

from provd.quoting import quoted

_READ_ONLY: Final = os.strerror(errno.EROFS)
_FAILS: Final = os.strerror(errno.EIO)


class Refusal(NamedTuple):
    """One for which no right helps: a word for it, what it is, and what to do."""

    code: str
    what: str
    hint: str


def of(error: object, path: str) -> Refusal | None:
    """What an error at `path` means, if it is such a one; LMDB's errors have the system's in their text alone."""
    number, text = getattr(error, "errno", None), str(error)
    if number == errno.EROFS or _READ_ONLY in text:
        return Refusal(
            "readonly",
            f"the file system of {path} is read-only",
            f"findmnt -T {quoted(path)}  # how it is mounted; where it turned so of itself, dmesg tells why, and fsck "
            "mends it",
        )
    if number == errno.EIO or _FAILS in text:
        return Refusal(
            "failing",
            f"the disk of {path} fails: {_FAILS}",
            f"findmnt -T {quoted(path)}  # which disk that is\nsudo dmesg | tail -n 20  # what the system says of it",
        )
    return None


def met(directory: str) -> Refusal | None:
    """What a file in the directory would meet now: one is made that has no name, and goes at once.

    A file system that turned read-only of itself does not say so in its flags.
    """
    try:
        if os.statvfs(directory).f_flag & os.ST_RDONLY:
            return of(OSError(errno.EROFS, _READ_ONLY), directory)
        if nameless := getattr(os, "O_TMPFILE", 0):
            os.close(os.open(directory, nameless | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        return of(error, directory)
    return None


def make_directory(path: str) -> None:
    """Makes a directory of this user's own, with those above it, where it is not there.

    Raises OSError: of one that is there and cannot be looked at what keeps us from it, not that it is there.
    """
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except FileExistsError:
        os.stat(path)
        raise
