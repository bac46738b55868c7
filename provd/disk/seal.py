"""Seals: what lets a `stat` stand for a file's content, and a directory's times for its names.

Rule: on one descriptor, in this order and no other: `fstat`, a read lease granted and given back, everything read
and hashed, `fstat`. A lease is refused while anybody has the file open for writing or mapped writable, so that
whatever is written later moves a time. On other file systems than those listed a granted lease proves nothing.
"""

from __future__ import annotations

import os
import stat
from typing import Final

import msgspec

from provd.core import dependency
from provd.core.reading import Signature
from provd.disk.files import PIECE, coarse_clock, read_piece, signature
from provd.disk.lease import Pen, can_lease, pen_of
from provd.disk.stamps import Stamps
from provd.filesystems import BTRFS, magic_of

SEALABLE: Final = frozenset({0xEF53, 0x58465342, BTRFS})
"""ext4 (and ext2, ext3), xfs, btrfs."""
STEP: Final = 2_000_000_000
"""Nanoseconds that a time must be older than a moment, so that a change after the moment gives another one."""
FINE_STEP: Final = 20_000_000
"""The same where the file system is known to stamp finer."""

_OPEN: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LOOK: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


class Seal(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A file at rest: its signature, the raw digest of its content, and how many names it has."""

    signature: Signature
    raw: bytes
    links: int


def seal(path: bytes, algorithm: str, before: int, stamps: Stamps) -> Seal | None:
    """The seal of the file at `path`, links followed, at rest since `before` (ns of CLOCK_REALTIME); None if it is not.

    Raises OSError where it cannot be opened.
    """
    if not can_lease():
        return None
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a device may have effects
        return None
    descriptor = os.open(path, _OPEN)
    try:
        return _seal(descriptor, path, algorithm, before, stamps)
    finally:
        os.close(descriptor)


def _seal(descriptor: int, path: bytes, algorithm: str, before: int, stamps: Stamps) -> Seal | None:
    first = os.fstat(descriptor)
    was = signature(first)
    if not stat.S_ISREG(was.mode) or magic_of(descriptor) not in SEALABLE or not is_older(was, path, before, stamps):
        return None
    if pen_of(descriptor) is not Pen.NOBODYS:
        return None
    raw = _digest(descriptor, was.size, algorithm)
    if signature(os.fstat(descriptor)) != was:
        return None
    return Seal(was, raw, first.st_nlink)


def _digest(descriptor: int, size: int, algorithm: str) -> bytes:
    hasher = dependency.hasher(algorithm)
    buffer = memoryview(bytearray(min(PIECE, size + 1)))
    while (count := read_piece(descriptor, buffer)) > 0:
        hasher.update(buffer[:count])
    return hasher.digest()


def at_rest(directory: bytes, before: int, stamps: Stamps) -> bool:
    """Whether the names in a directory are what they were at `before` (ns of CLOCK_REALTIME), by its times alone.

    Raises OSError where it is not there.
    """
    descriptor = os.open(directory, _LOOK)
    try:
        was = signature(os.fstat(descriptor))
        return magic_of(descriptor) in SEALABLE and is_older(was, directory, before, stamps)
    finally:
        os.close(descriptor)


def is_older(was: Signature, path: bytes, before: int, stamps: Stamps) -> bool:
    """Whether both times are older by the step than `before`, and than now."""
    step = FINE_STEP if stamps.fine(was, path) else STEP
    return max(was.mtime_ns, was.ctime_ns) + step <= min(before, coarse_clock())
