"""Which file systems are windows into the kernel, and which lie across a network.

Rule: a file on a kernel file system is never opened. Reading there can block, act on hardware or change
what is read, and its size and times say nothing about its content.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from typing import Final

KERNEL: Final = frozenset(
    {
        0x00001CD1,  # devpts
        0x00009FA0,  # proc
        0x00009FA1,  # openpromfs
        0x00009FA2,  # usbdevfs
        0x00687970,  # s390_hypfs
        0x0027E0EB,  # cgroup
        0x07655821,  # resctrl
        0x09041934,  # anonymous inodes
        0x0BAD1DEA,  # futexfs
        0x19800202,  # mqueue
        0x23C9B64E,  # spufs
        0x2BAD1DEA,  # inotifyfs
        0x42494E4D,  # binfmt_misc
        0x43415D53,  # smackfs
        0x444D4142,  # dma-buf
        0x454D444D,  # device memory
        0x474D454D,  # guest memory
        0x50494446,  # pidfs
        0x50495045,  # pipefs
        0x5345434D,  # secret memory
        0x534F434B,  # sockfs
        0x5A3C69F0,  # apparmorfs
        0x6165676C,  # pstore
        0x62646576,  # block devices
        0x62656570,  # configfs
        0x62656572,  # sysfs
        0x63677270,  # cgroup2
        0x64626720,  # debugfs
        0x65735543,  # fusectl
        0x67596969,  # rpc_pipefs
        0x6C6F6F70,  # binderfs
        0x6E667364,  # nfsd
        0x6E736673,  # nsfs
        0x73636673,  # securityfs
        0x74726163,  # tracefs
        0xABBA1974,  # xenfs
        0xCAFE4A11,  # bpf
        0xDE5E81E4,  # efivarfs
        0xF97CFF8C,  # selinuxfs
    }
)
NETWORK: Final = frozenset(
    {
        0x0000564C,  # ncp
        0x00006969,  # nfs
        0x0000517B,  # smb
        0x00C36400,  # ceph
        0x01021997,  # 9p
        0x01161970,  # gfs2
        0x0BD00BD0,  # lustre
        0x47504653,  # gpfs
        0x5346414F,  # afs
        0x65735546,  # fuse: nobody knows what stands behind it
        0x6B414653,  # kafs
        0x73757245,  # coda
        0x7461636F,  # ocfs2
        0x786F4256,  # vboxsf
        0xBACBACBC,  # vmhgfs
        0xFE534D42,  # smb2
        0xFF534D42,  # cifs
    }
)
BTRFS: Final = 0x9123683E

_STATFS_BYTES: Final = 512
"""More than any `struct statfs`; only its first field, the type, is looked at."""
_TYPE: Final = ctypes.c_uint if platform.machine().startswith("s390") else ctypes.c_long
_LIBC: Final = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def magic(path: bytes) -> int | None:
    """The magic number of the file system that `path` (links followed) lies on; None where there is none to ask.

    Raises OSError as `stat` would.
    """
    if _LIBC is None:
        return None
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if _LIBC.statfs(ctypes.c_char_p(path), buffer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return int(_TYPE.from_buffer(buffer).value) & 0xFFFFFFFF


def magic_of(descriptor: int) -> int | None:
    """The magic number of the file system of an open file; None where there is none to ask. Raises OSError."""
    if _LIBC is None:
        return None
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if _LIBC.fstatfs(descriptor, buffer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(_TYPE.from_buffer(buffer).value) & 0xFFFFFFFF


def is_network(path: bytes) -> bool:
    """Whether `path` lies on a file system whose changes others can make unseen; raises OSError."""
    return magic(path) in NETWORK


class FileSystems:
    """Remembers for one job which devices are kernel file systems.

    Not for longer: the kernel gives the number of an unmounted file system to another one.
    """

    def __init__(self) -> None:
        self._kernel: dict[int, bool] = {}

    def is_kernel(self, device: int, path: bytes) -> bool:
        """Whether `path`, whose `st_dev` is `device`, lies on a kernel file system; raises OSError."""
        if os.major(device) != 0:  # all kernel file systems have anonymous devices; disks do not pay for the question
            return False
        known = self._kernel.get(device)
        if known is None:
            known = self._kernel[device] = magic(path) in KERNEL
        return known
