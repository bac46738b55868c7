"""What is mounted, and whether a call on any of it may hang.

Rule: where nothing that is mounted can hang, small files are read at once, without a thread. One mount of a type
that is not known to be local ends that for all, since a symlink may lead there from anywhere.

The table is also asked where a path lies, what stamps the times there, and which names something is mounted over:
of those a listing does not say the type.
"""

from __future__ import annotations

import os
import re
import select
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

LOCAL: Final = frozenset(
    (
        *("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "jfs", "vfat", "exfat", "iso9660", "udf"),
        *("squashfs", "erofs", "tmpfs", "ramfs", "rootfs", "overlay", "proc", "sysfs", "devtmpfs", "devpts", "cgroup"),
        *("cgroup2", "mqueue", "hugetlbfs", "debugfs", "tracefs", "securityfs", "pstore", "bpf", "configfs"),
        *("fusectl", "binfmt_misc", "efivarfs", "nsfs", "rpc_pipefs", "selinuxfs", "resctrl"),
    )
)
"""Types on which a call comes back as soon as the disk does (an overlay is taken to lie on such)."""

_AUTOMOUNTED_BY_SYSTEMD: Final = b"/proc/sys/fs/binfmt_misc"
_TABLE: Final = "/proc/self/mountinfo"
_FIELDS: Final = 5
_ESCAPE: Final = re.compile(rb"\\([0-7]{3})")


class Mounts(msgspec.Struct, frozen=True):
    """What is mounted at one moment.

    `points` says of each mount point whether calls on what is mounted there may hang. `names` are the last parts of
    all their paths, None where nothing is known. `kinds` gives the types of file systems by device. `hanging` are the
    last parts of the mount points at which calls may hang.
    """

    all_local: bool = False
    points: Mapping[bytes, bool] = {}
    names: frozenset[bytes] | None = None
    kinds: Mapping[int, str] = {}
    hanging: frozenset[bytes] = frozenset()

    def is_hanging_point(self, path: bytes) -> bool:
        """Whether what is mounted at the absolute, real `path` itself may hang."""
        return self.points.get(path, False)

    def may_hang_at(self, path: bytes) -> bytes | None:
        """The mount point of the mount that may hang and that holds the absolute `path` as it is written, if one does.

        The root is none: where it hangs, there is nothing left that does not.
        """
        if self.all_local or not self.points:
            return None
        if b"//" in path or b"/." in path:
            path = os.path.normpath(path)
        while path not in {b"", b"/"}:
            hangs = self.points.get(path)
            if hangs is not None:
                return path if hangs else None
            path = path.rpartition(b"/")[0]
        return None


UNKNOWN: Final = Mounts()
"""What is mounted where nobody can say."""


class MountTable:
    """The mounts of this process's namespace; read again only after the kernel says that they changed."""

    def __init__(self, path: str = _TABLE) -> None:
        self._mounts = UNKNOWN
        self._fd = -1
        if not hasattr(select, "poll") or not hasattr(select, "POLLPRI"):  # then it is another system than Linux
            return
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # nothing is known, and small files are read in threads like others
            return
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLPRI)
        self._read()

    def now(self) -> Mounts:
        """What is mounted; for one thread at a time."""
        if self._fd >= 0 and self._poll.poll(0):
            self._read()
        return self._mounts

    @property
    def hanging(self) -> frozenset[bytes]:
        """The last parts of the mount points at which calls may hang now."""
        return self.now().hanging

    def is_hanging_point(self, path: bytes) -> bool:
        """Whether what is mounted at `path` may hang, though a directory above it got another name a moment ago."""
        if path.rpartition(b"/")[2] not in self.hanging:
            return False
        if not self._mounts.is_hanging_point(path):
            self.renamed()
        return self.now().is_hanging_point(path)

    def renamed(self) -> None:
        """A directory got another name: with it mount points did, of which the kernel does not tell."""
        if self._fd >= 0 and self._mounts.hanging:
            self._read()

    def all_local(self) -> bool:
        """Whether no call on any mounted file system may hang."""
        return self.now().all_local

    def _read(self) -> None:
        os.lseek(self._fd, 0, os.SEEK_SET)
        pieces = []
        while piece := os.read(self._fd, 1 << 16):
            pieces.append(piece)
        self._mounts = parse(b"".join(pieces).splitlines())


class MountWatch:
    """Tells whether anything was mounted or unmounted since it was made, or since it told so.

    Without a descriptor for it anything may have been. On a system without the table nobody knows, and nothing is told.
    """

    def __init__(self, path: bytes | str = _TABLE) -> None:
        self._path = path
        self._fd = -1
        self._is_blind = self._is_closed = False
        self._look()

    def _look(self) -> None:
        self._is_blind = False
        try:
            self._poll = select.poll()
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            self._poll.register(self._fd, select.POLLPRI)
        except (FileNotFoundError, AttributeError):  # another system
            pass
        except OSError:
            self._is_blind = True
            self._let_go()

    def changed(self) -> bool:
        """Whether the mount table changed; poll(2) tells so once."""
        if self._is_closed:
            return True
        if self._is_blind:
            self._look()
            return True
        return self._fd >= 0 and bool(self._poll.poll(0))

    def close(self) -> None:
        """Gives the descriptor back. What was mounted from now on is not told, and may have been."""
        self._is_closed = True
        self._let_go()

    def _let_go(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        """The descriptor goes with it."""
        self.close()


def mounted() -> Mounts:
    """What is mounted now, for who asks once."""
    try:
        with open(_TABLE, "rb") as table:
            return parse(table)
    except OSError:
        return UNKNOWN


def parse(mountinfo: Iterable[bytes]) -> Mounts:
    """What the lines of a mountinfo say (proc(5): device, mount point, and the type after the lone dash)."""
    local = True
    points: dict[bytes, bool] = {}
    kinds: dict[int, str] = {}
    for line in mountinfo:
        before, _, after = line.partition(b" - ")
        fields = before.split(b" ")
        kind = after.split(b" ", 1)[0].decode("ascii", "replace")
        if len(fields) < _FIELDS or not kind:
            local = False
            continue
        point = _unescaped(fields[4])
        hangs = kind not in LOCAL and not (kind == "autofs" and point == _AUTOMOUNTED_BY_SYSTEMD)
        local = local and not hangs
        points[point] = hangs  # of mounts over each other the last is on top
        major, _, minor = fields[2].partition(b":")
        kinds[os.makedev(int(major), int(minor))] = kind
    names, hanging = _last(points), _last(point for point, hangs in points.items() if hangs)
    return Mounts(local, points, names, kinds, hanging)


def _last(points: Iterable[bytes]) -> frozenset[bytes]:
    return frozenset(point.rpartition(b"/")[2] for point in points)


def all_local(mountinfo: Iterable[bytes]) -> bool:
    """Whether every line of a mountinfo names a local type."""
    return parse(mountinfo).all_local


def _unescaped(field: bytes) -> bytes:
    """A path with its spaces, tabs, line ends and backslashes, which the kernel writes as octal numbers."""
    return _ESCAPE.sub(lambda found: bytes([int(found[1], 8) & 0xFF]), field)
