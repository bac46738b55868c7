"""Looking at one path and reading one file, so that what is found was true at one moment.

Rule: nothing is opened before a `stat` has said that it is a regular file of an ordinary file system, and
the content counts only if the descriptor's `stat` is the same before and after it was read.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from provd.core import dependency
from provd.core.reading import Found, Signature
from provd.disk.calmly import BIG, calmly
from provd.disk.lease import Pen
from provd.disk.mounts import UNKNOWN, Mounts
from provd.disk.places import Turn
from provd.filesystems import FileSystems

if TYPE_CHECKING:
    from provd.disk.seals import Sealer
    from provd.disk.trail import Trails, Way

PIECE: Final = 4 << 20
"""Bytes that are read at once, and between which a cancelled job ends. Each piece takes the interpreter twice."""

_OPEN: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LIST: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CHECKED: Final = 64
"""Names of a directory between which a cancelled job ends."""
_ENCODING: Final = sys.getfilesystemencoding()
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
_REPLACED: Final = _GONE | {errno.ELOOP, errno.ENXIO}
_SECOND: Final = 1_000_000_000
_TICK: Final = 20_000_000
_CLOCK_REALTIME_COARSE: Final = 5 if sys.platform == "linux" else time.CLOCK_REALTIME


class Cancelled(Exception):
    """The job was told to stop."""


class NotQuick(Exception):
    """It takes longer than a quick attempt may: a file is too big, or a tick has to pass."""


class Changed(Exception):
    """`path` changed while it was read: what was read proves nothing."""

    def __init__(self, path: bytes) -> None:
        super().__init__(path)
        self.path = path


class Sort(StrEnum):
    """What a path is; the first four are the types of members."""

    FILE = "f"
    DIRECTORY = "d"
    LINK = "l"
    SPECIAL = "s"
    ABSENT = "absent"
    LOOP = "loop"


class Look(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What one `stat` said, and the coarse clock just before it."""

    sort: Sort
    signature: Signature | None
    at: int


class Seen(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One path as a reading found it, to be looked at again when everything is read.

    `signature` is set where the content was read: then `raw` is its digest. For a link that was read `raw` is
    its target. `young`: an equal `stat` later would not prove that nothing was written since. `sealed`: its seal
    stood for the content.
    """

    path: bytes
    follow: bool
    sort: Sort
    signature: Signature | None = None
    raw: bytes = b""
    young: bool = False
    sealed: bool = False


class Listing(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The names and types in one directory, as a reading found them, sorted. `at`: see `Look`."""

    path: bytes
    follow: bool
    signature: Signature
    entries: tuple[tuple[bytes, Sort], ...]
    young: bool
    at: int


class Attempt:
    """One attempt at one reading: how to hash, when to stop, and what was seen on the way.

    `known` holds what an earlier attempt saw: a file that has not changed since is not hashed again. With `trails`
    the way to each path is noted; without, one thing is read and its way does not matter. `most` bounds the bytes
    of one file (NotQuick). `turn` is told where it goes, where one of the `mounts` may hang. With a `sealer` what was
    read is sealed where that may be, and with `by_seal` what has a seal is not read: `sealed` says that it was so.
    Until it is `urgent` a big file is read with low priority.
    """

    def __init__(
        self,
        algorithm: str,
        systems: FileSystems,
        cancelled: Callable[[], bool],
        known: Mapping[bytes, Seen] | None = None,
        trails: Trails | None = None,
        most: int | None = None,
        turn: Turn | None = None,
        mounts: Mounts = UNKNOWN,
        sealer: Sealer | None = None,
        *,
        by_seal: bool = False,
        urgent: Callable[[], bool] = lambda: True,
    ) -> None:
        self.algorithm = algorithm
        self.urgent = urgent
        self.systems = systems
        self.known = known or {}
        self.seen: list[Seen | Listing] = []
        self.ways: list[Way] = []
        self.most = most
        self.mounted = mounts.names
        self.sealer = sealer
        self.sealed = False
        self._by_seal = by_seal
        self._turn = None if mounts.all_local else turn
        self._trails = trails
        self._cancelled = cancelled

    def follow(self, path: bytes, *, last: bool = True) -> None:
        """Notes how `path` is resolved, before it is looked at, where more than one thing is read.

        Without `last` a link at its end is not followed. Raises OSError, Hangs, NotQuick.
        """
        if self._trails is not None:
            if self._turn is not None:
                self._turn.cross(path)
            self.ways.append(self._trails.take(path, follow=last))

    def check(self) -> None:
        """Raises Cancelled if the job was told to stop."""
        if self._cancelled():
            raise Cancelled

    def by_seal(self, path: bytes, now: Signature) -> bytes | None:
        """The raw digest of a file that needs not be read: its seal holds."""
        if self.sealer is None or not self._by_seal:
            return None
        return self.sealer.find(path, now, self.algorithm)

    def look(self, path: bytes, *, follow: bool) -> Look:
        """What `path` is now; raises OSError where that cannot be said, Changed and Hangs."""
        if self._turn is not None:
            self._turn.cross(path)
        at = coarse_clock()
        try:
            result = os.stat(path, follow_symlinks=follow)
        except OSError as error:
            if error.errno in _GONE:
                return Look(Sort.ABSENT, None, at)
            if error.errno == errno.ELOOP:
                return Look(Sort.LOOP, None, at)
            raise
        try:
            return Look(self._sort(result, path), signature(result), at)
        except FileNotFoundError as error:  # it went between the two questions
            raise Changed(path) from error

    def _sort(self, result: os.stat_result, path: bytes) -> Sort:
        mode = result.st_mode
        if stat.S_ISREG(mode):
            return Sort.SPECIAL if self.systems.is_kernel(result.st_dev, path) else Sort.FILE
        if stat.S_ISDIR(mode):
            return Sort.DIRECTORY
        return Sort.LINK if stat.S_ISLNK(mode) else Sort.SPECIAL


def signature(result: os.stat_result) -> Signature:
    """The part of a `stat` that is kept and compared."""
    return Signature(
        result.st_dev, result.st_ino, result.st_mode, result.st_size, result.st_mtime_ns, result.st_ctime_ns
    )


def coarse_clock() -> int:
    """The clock by which most kernels stamp."""
    return time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)


def is_young(of: Signature, at: int) -> bool:
    """Whether an equal `stat` later would not prove that nothing was written after the look `at`.

    Many kernels and file systems stamp by the timer's tick (up to 10 ms apart), and some by the second: a
    second write in the same step leaves `stat` as it was. Only what was stamped before the step that the look
    fell in is sure to show a later write. Stamps without a fraction are taken to be of the coarse sort.
    """
    step = _TICK if of.ctime_ns % _SECOND else 2 * _SECOND + _TICK
    return at - of.ctime_ns < step


def read_file(path: bytes, attempt: Attempt) -> Found:
    """What reading `path` gives, links followed; raises Changed, Cancelled, NotQuick, OSError."""
    attempt.follow(path)
    now = attempt.look(path, follow=True)
    if now.sort is Sort.FILE:
        seen = read_content(path, now, attempt, follow=True)
        return Found(f"{attempt.algorithm}:{seen.raw.hex()}", signature=seen.signature, sealed=attempt.sealed)
    attempt.seen.append(Seen(path, follow=True, sort=now.sort))
    return Found(_WITHOUT_CONTENT[now.sort], signature=now.signature)


_WITHOUT_CONTENT: Final = {
    Sort.ABSENT: dependency.ABSENT,
    Sort.DIRECTORY: dependency.TYPE_DIR,
    Sort.LOOP: dependency.TYPE_LOOP,
    Sort.SPECIAL: dependency.TYPE_SPECIAL,
}


def read_content(path: bytes, now: Look, attempt: Attempt, *, follow: bool) -> Seen:
    """Reads the regular file that a look has just found; raises Changed, Cancelled, OSError."""
    assert now.signature is not None
    known = attempt.known.get(path)
    if known is not None and known.signature == now.signature and known.follow == follow and not known.young:
        seen = known
    elif (sealed := attempt.by_seal(path, now.signature)) is not None:
        seen = Seen(path, follow, Sort.FILE, now.signature, sealed, sealed=True)
    else:
        raw, found, written = _hash_file(path, now, attempt, follow=follow)
        seen = Seen(path, follow, Sort.FILE, found, raw, written or is_young(found, now.at))
    attempt.sealed = attempt.sealed or seen.sealed
    attempt.seen.append(seen)
    return seen


def _hash_file(path: bytes, now: Look, attempt: Attempt, *, follow: bool) -> tuple[bytes, Signature, bool]:
    """The raw digest of a file, its signature, and whether somebody may write it without a trace in its times."""
    assert now.signature is not None
    try:
        descriptor = os.open(path, _OPEN if follow else _OPEN | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in _REPLACED:
            raise Changed(path) from error
        raise
    try:
        before = signature(os.fstat(descriptor))
        if not stat.S_ISREG(before.mode) or (before.dev, before.ino) != (now.signature.dev, now.signature.ino):
            raise Changed(path)
        if attempt.most is not None and before.size > attempt.most:
            raise NotQuick
        pen = Pen.UNKNOWN if attempt.sealer is None else attempt.sealer.pen(descriptor, path, before)
        raw = _hash(descriptor, before.size, attempt)
        if signature(os.fstat(descriptor)) != before:
            raise Changed(path)
        if pen is Pen.NOBODYS and attempt.sealer is not None:
            attempt.sealer.keep(path, before, attempt.algorithm, raw)
    finally:
        os.close(descriptor)
    return raw, before, pen is Pen.SOMEBODYS


def _hash(descriptor: int, size: int, attempt: Attempt) -> bytes:
    """The digest of everything up to the end; `size` only chooses the way."""
    hasher = dependency.hasher(attempt.algorithm)
    if size < PIECE:
        piece = read_whole(descriptor, size + 1)
        hasher.update(piece)
        if len(piece) == size:  # less than was asked for, so this is the end
            return hasher.digest()
        if attempt.most is not None:  # it grows, and nobody knows how far
            raise NotQuick
    buffer = memoryview(bytearray(PIECE))

    def reaches_end(stop: Callable[[], bool]) -> bool:
        while not stop():
            if (count := read_piece(descriptor, buffer)) == 0:
                return True
            hasher.update(buffer[:count])
            attempt.check()
        return False

    if size < BIG or attempt.urgent() or not calmly(lambda: reaches_end(attempt.urgent)):
        reaches_end(lambda: False)
    return hasher.digest()


def read_whole(descriptor: int, size: int) -> bytes:
    """One read of a small file."""
    return os.read(descriptor, size)


def read_piece(descriptor: int, buffer: memoryview) -> int:
    """One read of a piece of a big file."""
    return os.readv(descriptor, [buffer])


def list_directory(path: bytes, now: Look, attempt: Attempt, *, follow: bool) -> Listing:
    """The names and types in the directory that a look has just found; raises Changed, Cancelled, OSError.

    It is listed by descriptor, so that it is the one that was looked at, whatever is put in its place.
    """
    assert now.signature is not None
    regular = Sort.SPECIAL if attempt.systems.is_kernel(now.signature.dev, path) else Sort.FILE
    try:
        descriptor = os.open(path, _LIST if follow else _LIST | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in _REPLACED:
            raise Changed(path) from error
        raise
    try:
        if signature(os.fstat(descriptor)) != now.signature:
            raise Changed(path)
        entries = _entries(path, descriptor, regular, attempt)
        if signature(os.fstat(descriptor)) != now.signature:
            raise Changed(path)
    finally:
        os.close(descriptor)
    listing = Listing(path, follow, now.signature, entries, is_young(now.signature, now.at), now.at)
    attempt.seen.append(listing)
    return listing


def _entries(path: bytes, descriptor: int, regular: Sort, attempt: Attempt) -> tuple[tuple[bytes, Sort], ...]:
    """What is in a directory, sorted.

    A listing says what a name was made as, not what is mounted over it. Over a file that may be anything but a
    directory or a link, and what it is has to be asked; over a directory it can only be a directory.
    """
    mounted, start = attempt.mounted, path.rstrip(b"/") + b"/"
    entries = []
    with os.scandir(descriptor) as listed:
        for entry in listed:
            name = entry.name.encode(_ENCODING, "surrogateescape")
            sort = _entry_sort(entry, regular)
            if (mounted is None or name in mounted) and sort not in {Sort.DIRECTORY, Sort.LINK}:
                sort = attempt.look(start + name, follow=False).sort
                if sort is Sort.ABSENT:
                    raise Changed(path)
            entries.append((name, sort))
            if not len(entries) % _CHECKED:
                attempt.check()
    return tuple(sorted(entries))


def _entry_sort(entry: os.DirEntry[str], regular: Sort) -> Sort:
    if entry.is_symlink():
        return Sort.LINK
    if entry.is_dir(follow_symlinks=False):
        return Sort.DIRECTORY
    return regular if entry.is_file(follow_symlinks=False) else Sort.SPECIAL


def unchanged(seen: Seen | Listing, attempt: Attempt) -> bool:
    """Whether a path still is what it was when it was read; raises Cancelled."""
    try:
        now = attempt.look(seen.path, follow=seen.follow)
        if isinstance(seen, Listing):
            if now.signature != seen.signature:
                return False
            return not seen.young or list_directory(seen.path, now, attempt, follow=seen.follow).entries == seen.entries
        if now.sort is not seen.sort:
            return False
        if seen.sort is Sort.LINK and seen.raw:
            return os.readlink(seen.path) == seen.raw
        if seen.signature is None:
            return True
        if now.signature != seen.signature:
            return False
        return not seen.young or _hash_file(seen.path, now, attempt, follow=seen.follow)[0] == seen.raw
    except (Changed, OSError):
        return False
