"""What the times of a file system say: whether an equal `stat` shows that nothing happened since.

Rule: a kernel that stamps by the timer's tick may leave a `stat` as it was over a second change in the same tick.
From Linux 6.13 on some file systems stamp finer where it matters: a change after a `stat` has asked for the times
always gets another one. They are known by name; of all others, and of older kernels, the coarse sort is expected.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Final

from provd.core.reading import Signature
from provd.disk.mounts import Mounts
from provd.filesystems import BTRFS, magic

FINE: Final = frozenset({"ext4", "xfs", "btrfs", "tmpfs"})
"""Types whose times move at each change after a `stat`, on kernels that can do it."""
FOLLOWS_NAMES: Final = frozenset({"ext2", "ext3", "ext4", "btrfs", "tmpfs"})
"""Types that move the ctime of an inode whenever a name of it is moved, exchanged, made or taken away.

Not xfs, which lets two inodes exchange their names in one directory without a trace on them, nor overlay, below which
xfs may lie, nor vfat.
"""
_SINCE: Final = (6, 13)


def kernel_is_fine() -> bool:
    """Whether this kernel stamps finer than the tick where a `stat` has asked."""
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return os.uname().sysname == "Linux" and found is not None and (int(found[1]), int(found[2])) >= _SINCE


class Stamps:
    """Knows for one job how the file systems that it meets stamp."""

    def __init__(self, mounts: Mounts) -> None:
        self._fine = kernel_is_fine()
        self._kinds = dict(mounts.kinds)

    def fine(self, of: Signature, path: bytes) -> bool:
        """Whether any change after a `stat` of `path` moves its times."""
        # Times without a fraction are of a file system made for whole seconds, whatever its type.
        return self._fine and self._kind(of, path) in FINE and of.ctime_ns % 1_000_000_000 != 0

    def follow_names(self, of: Signature, path: bytes) -> bool:
        """Whether whatever happens to a name of the inode moves the inode's times."""
        return self._kind(of, path) in FOLLOWS_NAMES

    def _kind(self, of: Signature, path: bytes) -> str:
        kind = self._kinds.get(of.dev)
        if kind is None:
            if not stat.S_ISDIR(of.mode):  # the directory above was asked about before
                return ""
            kind = self._kinds[of.dev] = "btrfs" if _is_btrfs(of.dev, path) else ""
        return kind


def _is_btrfs(device: int, path: bytes) -> bool:
    """Its devices are not those of the mount table: each subvolume has its own."""
    try:
        return os.major(device) == 0 and magic(path) == BTRFS
    except OSError:
        return False
