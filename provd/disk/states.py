"""What lies at a path or in a directory now, and the digest of one file at rest: for the log, not for verdicts.

Rule: nothing is followed and nothing is opened that is not a directory or a regular file. What is mounted in a listed
directory and may hang is not looked at: of it the listing says only that it is there. A digest counts only where
the `stat` of the descriptor is the same before and after, and old enough that a later write would show.
"""

from __future__ import annotations

import errno
import heapq
import os
import stat
import sys
from collections.abc import Generator, Iterator
from enum import StrEnum
from typing import Final, Protocol

import msgspec
import xxhash

from provd.core.mutation import DIRECTORY, FILE, LINK, SPECIAL, State
from provd.disk.files import PIECE, coarse_clock
from provd.disk.mounts import UNKNOWN, Mounts
from provd.filesystems import FileSystems

SLICE: Final = 256
"""Names of a directory that are looked at in one go."""
PILE: Final = 2048
"""Names that are sorted in one go."""
SMALL: Final = 1 << 20
"""Bytes of a file that is read in one go."""
BIGGEST: Final = 1 << 30
"""Bytes of a file above which nothing is hashed."""
_NO_INODE: Final = -1
"""A number that no inode has, as 1 is that of the top of a tmpfs."""
MOUNTED: Final = State(DIRECTORY, 0, 0, 0, _NO_INODE)
"""A directory on which something is mounted that may hang: what that is like is not known."""
_MOUNTED_FILE: Final = State(SPECIAL, 0, 0, 0, _NO_INODE)
TICK: Final = 0.02
"""Seconds within which a kernel may stamp two changes alike."""

_ENCODING: Final = sys.getfilesystemencoding()
_SECOND: Final = 1_000_000_000
_LIST: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_NOATIME: Final = getattr(os, "O_NOATIME", 0)
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_BUSY: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN})


class Points(Protocol):
    """What tells the mount points that may hang: a table that is looked at anew, or that of one moment."""

    @property
    def hanging(self) -> frozenset[bytes]:
        """The last parts of their paths."""

    def is_hanging_point(self, path: bytes) -> bool:
        """Whether the path is one."""


class Unlisted(msgspec.Struct, frozen=True):
    """A directory that could not be listed: `gone` if it is not there (any more), else `why`."""

    gone: bool
    why: str


class Listing(msgspec.Struct, frozen=True):
    """What a directory holds, by name in order, and the directory's own inode."""

    ino: int
    names: dict[bytes, State]


def state_of(found: os.stat_result) -> State:
    """The part of an `lstat` that is kept."""
    mode = found.st_mode
    if stat.S_ISDIR(mode):
        return State(DIRECTORY, 0, 0, 0, found.st_ino)
    sort = FILE if stat.S_ISREG(mode) else LINK if stat.S_ISLNK(mode) else SPECIAL
    return State(sort, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def is_as(now: State, was: State) -> bool:
    """Whether a name is what it was, as far as anybody has looked."""
    return now == was or (now in {MOUNTED, _MOUNTED_FILE} and (now.sort == DIRECTORY) == (was.sort == DIRECTORY))


def look(path: bytes) -> State | None:
    """What lies at `path`, links not followed; None where nothing does or nobody can say."""
    try:
        return state_of(os.lstat(path))
    except OSError:
        return None


def look_closely(path: bytes) -> State | Unlisted:
    """The same, or why there is nothing to tell."""
    try:
        return state_of(os.lstat(path))
    except OSError as error:
        return _unlisted(error)


def look_and_sum(path: bytes, most: int, tick: float) -> tuple[State | Unlisted, bytes]:
    """The same, with the raw digest of a regular file of up to `most` bytes that was not changed for `tick` seconds.

    It is of the content while the file was as the state says; empty where it is to be had later, or not at all.
    """
    clock = coarse_clock()
    try:
        found = os.lstat(path)
    except OSError as error:
        return _unlisted(error), b""
    state = state_of(found)
    if state.sort != FILE or state.size > most or not most:
        return state, b""
    try:
        if _is_young(found, clock, tick) or FileSystems().is_kernel(found.st_dev, path):
            return state, b""
        descriptor = _open(path)
    except OSError:
        return state, b""
    try:
        summed = _read(descriptor, found, most, tick)
    except OSError:
        return state, b""
    finally:
        os.close(descriptor)
    return state, summed.digest if summed.state == state else b""


def listing(path: bytes, mounts: Points = UNKNOWN) -> Iterator[Listing | Unlisted | None]:
    """Lists one directory: None after each slice of names, in the end what it holds."""
    try:
        descriptor = os.open(path, _LIST)
    except OSError as error:
        yield _unlisted(error)
        return
    names: dict[bytes, State] = {}
    try:
        own, prefix, hanging = os.fstat(descriptor), path.rstrip(b"/") + b"/", mounts.hanging
        with os.scandir(descriptor) as entries:
            for entry in entries:
                name = entry.name.encode(_ENCODING, "surrogateescape")
                if name in hanging and mounts.is_hanging_point(prefix + name):
                    names[name] = MOUNTED if entry.is_dir(follow_symlinks=False) else _MOUNTED_FILE
                    continue
                try:
                    names[name] = state_of(entry.stat(follow_symlinks=False))
                except FileNotFoundError:  # it went meanwhile
                    continue
                if len(names) % SLICE == 0:
                    yield None
                    hanging = mounts.hanging
    except OSError as error:
        yield _unlisted(error)
        return
    finally:
        os.close(descriptor)
    yield Listing(own.st_ino, (yield from _in_order(names)))


def _in_order(names: dict[bytes, State]) -> Generator[None, None, dict[bytes, State]]:
    """The same by name in order; sorted a piece at a time, since a hundred thousand at once take long."""
    some = list(names)
    if len(some) < PILE:
        return {name: names[name] for name in sorted(some)}
    pieces = [sorted(some[:PILE])]
    for at in range(PILE, len(some), PILE):
        yield None
        pieces.append(sorted(some[at : at + PILE]))
    ordered: dict[bytes, State] = {}
    for name in heapq.merge(*pieces):
        ordered[name] = names[name]
        if len(ordered) % PILE == 0:
            yield None
    return ordered


def listing_at_once(path: bytes, mounts: Mounts = UNKNOWN) -> Listing | Unlisted:
    """The same in one go, for a thread."""
    found: Listing | Unlisted | None = None
    for found in listing(path, mounts):  # noqa: B007  the last one counts
        pass
    assert found is not None
    return found


def _unlisted(error: OSError) -> Unlisted:
    return Unlisted(error.errno in _GONE, error.strerror or str(error))


class Sum(StrEnum):
    """How hashing a file ended."""

    DONE = "done"
    MOVING = "moving"
    """It changed, or it is too young: try again."""
    BIG = "big"
    """It is bigger than was allowed."""
    GONE = "gone"
    UNREADABLE = "unreadable"


class Summed(msgspec.Struct, frozen=True):
    """The end of one attempt; `digest` (raw) and `state` are set where it is DONE."""

    sum: Sum
    digest: bytes = b""
    state: State | None = None


def summed(path: bytes, most: int = SMALL, tick: float = TICK) -> Summed:
    """Hashes the regular file at `path` where it has up to `most` bytes and was not changed for `tick` seconds."""
    try:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode) or FileSystems().is_kernel(found.st_dev, path):
            return Summed(Sum.UNREADABLE)
        if found.st_size > most:
            return Summed(Sum.BIG if found.st_size <= BIGGEST else Sum.UNREADABLE)
        descriptor = _open(path)
    except OSError as error:
        return _failed(error)
    try:
        return _read(descriptor, found, most, tick)
    except OSError as error:
        return _failed(error)
    finally:
        os.close(descriptor)


def _open(path: bytes) -> int:
    try:
        return os.open(path, _READ | _NOATIME)
    except PermissionError:  # only the owner may leave the time of access alone
        return os.open(path, _READ)


def _read(descriptor: int, found: os.stat_result, most: int, tick: float) -> Summed:
    clock = coarse_clock()
    before = os.fstat(descriptor)
    if _is_young(before, clock, tick) or (before.st_dev, before.st_ino) != (found.st_dev, found.st_ino):
        return Summed(Sum.MOVING)
    digest = _digest(descriptor, before.st_size, most)
    if digest is None or not _same(before, os.fstat(descriptor)):
        return Summed(Sum.MOVING)
    return Summed(Sum.DONE, digest, state_of(before))


def _is_young(found: os.stat_result, clock: int, tick: float) -> bool:
    """Whether it was changed less than `tick` seconds before `clock`, and not by a clock that was stepped since.

    `clock` is read before the `stat`: what is written afterwards gets another stamp.
    """
    return tick > 0 and -_SECOND < clock - found.st_ctime_ns < tick * _SECOND


def _digest(descriptor: int, size: int, most: int) -> bytes | None:
    """The digest of all there is to read; None where that is more than `most` bytes."""
    if size <= SMALL:
        data = os.read(descriptor, size + 1)
        if len(data) == size:
            return xxhash.xxh3_128_digest(data)
        return None
    hasher, total = xxhash.xxh3_128(), 0
    buffer = memoryview(bytearray(PIECE))
    while (count := os.readv(descriptor, [buffer])) > 0:
        hasher.update(buffer[:count])
        total += count
        if total > most:
            return None
    return hasher.digest()


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    return state_of(before) == state_of(after)


def _failed(error: OSError) -> Summed:
    if error.errno in _GONE:
        return Summed(Sum.GONE)
    return Summed(Sum.MOVING if error.errno in _BUSY else Sum.UNREADABLE)
