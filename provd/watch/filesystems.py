"""How each type of file system is watched, and why, in words for people.

Rule: inotify is relied on only where every change of names and contents goes through this kernel and is told. What
is not in the tables is polled.
"""

from __future__ import annotations

from typing import Final

from provd.watch.mounted import MountPoints

INOTIFY: Final = "inotify"
POLL: Final = "poll"

RELIABLE: Final = frozenset(
    (
        *("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "zfs", "jfs", "nilfs2", "reiserfs", "tmpfs"),
        *("ramfs", "rootfs", "squashfs", "erofs", "iso9660", "udf"),
    )
)
"""Local types: all that changes them is this kernel."""

FOLDING: Final = frozenset(("vfat", "exfat", "msdos", "ntfs3", "hfsplus"))
"""Local types that find a name however its letters are written: events tell it in one way, dependencies in any."""

_ELSEWHERE: Final = "is changed by other machines too, and nobody tells this one"
_HOST: Final = "is shared with the host of this machine, whose changes are not told here"
_KERNEL: Final = "is a window into the kernel, which changes it without telling"

REASONS: Final = {
    **dict.fromkeys(
        (
            *(
                "nfs",
                "nfs4",
                "cifs",
                "smb3",
                "smbfs",
                "ceph",
                "afs",
                "coda",
                "ncpfs",
                "lustre",
                "gpfs",
                "ocfs2",
                "gfs2",
            ),
            *("orangefs", "beegfs", "glusterfs", "fuse.glusterfs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone"),
        ),
        _ELSEWHERE,
    ),
    **dict.fromkeys(("9p", "virtiofs", "vboxsf", "vmhgfs", "fuse.vmhgfs-fuse", "prl_fs", "drvfs"), _HOST),
    **dict.fromkeys(("fuse", "fuseblk", "fuse.*"), "is served by a program, and its own changes are not told"),
    "overlay": "hides changes of the layers below it and stores through mappings",
    "aufs": "hides changes of the layers below it",
    "ecryptfs": "hides changes of the encrypted files below it",
    "autofs": "mounts other file systems when it is looked at",
    **dict.fromkeys(
        (
            *("proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "configfs", "devpts", "bpf"),
            *("devtmpfs", "mqueue", "pstore", "efivarfs", "fusectl", "binfmt_misc", "hugetlbfs", "selinuxfs"),
        ),
        _KERNEL,
    ),
}


def backend_of_type(kind: str) -> tuple[str, str]:
    """How a file system of the type `kind` (as mountinfo names it) is watched: `(backend, why)`.

    `why` is "" for the reliable ones. With `inotify` it says why silence proves nothing all the same.
    """
    if kind in RELIABLE:
        return INOTIFY, ""
    if kind in FOLDING:
        return INOTIFY, f"{kind} finds names in upper and lower case alike, so events may name a file in another way"
    reason = REASONS.get(kind) or (REASONS["fuse.*"] if kind.startswith("fuse.") else None)
    if reason is None:
        return POLL, f"{kind or 'an unnamed type'} is not known to tell of all changes"
    return POLL, f"{kind} {reason}"


def backend_of(path: bytes, points: MountPoints | None = None) -> tuple[str, str]:
    """How the real, absolute `path` is watched: `(backend, why)`; reads the mount table unless it is given."""
    table = MountPoints.now() if points is None else points
    mount = table.holding(path)
    if mount is None:
        return POLL, "the table of mounts cannot be read, so nobody knows what lies there"
    return backend_of_type(mount.kind)
