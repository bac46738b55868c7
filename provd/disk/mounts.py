"""What is mounted, and whether a call on any of it may hang.

Rule: where nothing that is mounted can hang, small files are read at once, without a thread. One mount of a type
that is not known to be local ends that for all, since a symlink may lead there from anywhere.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterable
from typing import Final

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


class MountTable:
    """The mounts of this process's namespace; read again only after the kernel says that they changed."""

    def __init__(self, path: str = "/proc/self/mountinfo") -> None:
        self._poll = select.poll()
        self._all_local = False
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # another system than Linux: nothing is known
            self._fd = -1
        else:
            self._poll.register(self._fd, select.POLLPRI)
            self._read()

    def all_local(self) -> bool:
        """Whether no call on any mounted file system may hang."""
        if self._fd >= 0 and self._poll.poll(0):
            self._read()
        return self._all_local

    def _read(self) -> None:
        os.lseek(self._fd, 0, os.SEEK_SET)
        pieces = []
        while piece := os.read(self._fd, 1 << 16):
            pieces.append(piece)
        self._all_local = all_local(b"".join(pieces).splitlines())


def all_local(mountinfo: Iterable[bytes]) -> bool:
    """Whether every line of a mountinfo names a local type (proc(5): the first field after the lone dash)."""
    for line in mountinfo:
        before, _, after = line.partition(b" - ")
        kind = after.split(b" ", 1)[0].decode("ascii", "replace")
        if kind not in LOCAL and not (kind == "autofs" and _AUTOMOUNTED_BY_SYSTEMD in before.split(b" ")):
            return False
    return True
