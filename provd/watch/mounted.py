"""What is mounted where, and between two looks: where that changed.

Rule: a mount hides what it covers without any event, so each change of the table counts as a loss at its place.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

_TABLE: Final = "/proc/self/mountinfo"
_FIELDS: Final = 5
_ESCAPE: Final = re.compile(rb"\\([0-7]{3})")


class Mount(msgspec.Struct, frozen=True):
    """What tells one mount from another (proc(5)): its number, device, which directory of it is shown, its type."""

    number: bytes
    device: bytes
    shown: bytes
    kind: str

    def is_other(self, mount: Mount | None) -> bool:
        """Whether it shows another file system than `mount`."""
        return mount is None or (self.device, self.kind) != (mount.device, mount.kind)


class MountPoints(msgspec.Struct, frozen=True):
    """The mounts of one moment: what lies on top at each mount point, and the last names of all of these."""

    points: Mapping[bytes, tuple[Mount, ...]] = {}
    names: frozenset[bytes] = frozenset()

    @classmethod
    def now(cls, path: bytes | str = _TABLE) -> MountPoints:
        """What is mounted now; nothing where that cannot be read."""
        try:
            return cls.read(path)
        except OSError:
            return NOTHING

    @classmethod
    def read(cls, path: bytes | str = _TABLE) -> MountPoints:
        """What is mounted now; nothing where there is no table. Raises OSError where it cannot be read now."""
        try:
            with open(path, "rb") as table:
                return parse(table)
        except (FileNotFoundError, PermissionError):
            return NOTHING

    def at(self, path: bytes) -> Mount | None:
        """What is mounted at `path` itself."""
        found = self.points.get(path)
        return found[-1] if found else None

    def holding(self, path: bytes) -> Mount | None:
        """The mount on which the absolute, real `path` lies; None where nothing is known."""
        while True:
            mount = self.at(path or b"/")
            if mount is not None or path in {b"", b"/"}:
                return mount
            path = path.rpartition(b"/")[0]

    def differing(self, other: MountPoints) -> list[bytes]:
        """The mount points at which the two tables differ, shortest first."""
        places = self.points.keys() | other.points.keys()
        return sorted((p for p in places if self.points.get(p) != other.points.get(p)), key=lambda p: (len(p), p))


NOTHING: Final = MountPoints()


def parse(mountinfo: Iterable[bytes]) -> MountPoints:
    """What the lines of a mountinfo say; lines that nobody can read are left out."""
    points: dict[bytes, tuple[Mount, ...]] = {}
    for line in mountinfo:
        before, _, after = line.partition(b" - ")
        fields = before.split(b" ")
        if len(fields) < _FIELDS:
            continue
        point = _unescaped(fields[4])
        mount = Mount(fields[0], fields[2], fields[3], after.split(b" ", 1)[0].decode("ascii", "replace").strip())
        points[point] = (*points.get(point, ()), mount)
    return MountPoints(points, frozenset(point.rpartition(b"/")[2] for point in points))


class MountTable:
    """The table, and whether the kernel says that it changed.

    A descriptor of mountinfo tells of a change once, so who waits in a loop and who asks have one each. Making one
    raises OSError where the system has the table and gives no descriptor: it would have changed at each look.
    """

    def __init__(self, path: bytes | str = _TABLE) -> None:
        self._path = path
        self._changed = False
        self._fd = self._other = self._waiting = -1
        if hasattr(select, "epoll"):
            with contextlib.suppress(FileNotFoundError, PermissionError):  # no proc: then it is read at each look
                self._other = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if self._other >= 0:
                self._listen()
            self.current = MountPoints.read(path)
        except BaseException:
            self.close()
            raise

    def _listen(self) -> None:
        self._epoll = select.epoll()
        self._epoll.register(self._other, select.EPOLLPRI | select.EPOLLERR)
        self._waiting = self._epoll.fileno()
        self._poll = select.poll()
        self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        self._poll.register(self._fd, select.POLLPRI)

    def fileno(self) -> int:
        """A descriptor that becomes readable once after a change; -1 where there is none."""
        return self._waiting

    def changed(self) -> bool:
        """Whether it may have changed since `look`; the kernel tells a descriptor once, this remembers."""
        if not self._changed:
            self._changed = self._fd < 0 or bool(self._poll.poll(0))
        return self._changed

    def look(self) -> list[bytes]:
        """Reads the table again; the mount points that differ from before.

        Where it cannot be read now all is as before, and it is still said to have changed.
        """
        before = self.current
        self._changed = True
        try:
            self.current = MountPoints.read(self._path)
        except OSError:
            return []
        self._changed = False
        return self.current.differing(before)

    def close(self) -> None:
        """Lets go of the descriptors."""
        if self._waiting >= 0:
            self._epoll.close()
        for fd in (self._fd, self._other):
            if fd >= 0:
                os.close(fd)
        self._fd = self._other = self._waiting = -1


def _unescaped(field: bytes) -> bytes:
    """A path with its spaces, tabs, line ends and backslashes, which the kernel writes as octal numbers."""
    return _ESCAPE.sub(lambda found: bytes([int(found[1], 8) & 0xFF]), field)
