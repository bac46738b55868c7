"""Whether a path stays among the mounts that this process knows.

Rule: what is read in the loop may not lead away. The links of proc (`/proc/PID/root`, `cwd`, `fd`) lead into other
namespaces, with mounts that nobody here has heard of; and a path that is deep takes long to follow.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from typing import Final

_DEPTH: Final = 64
_OPENAT2: Final = 437
"""The same number on all architectures (Linux 5.6)."""
_AT_FDCWD: Final = -100
_O_PATH: Final = getattr(os, "O_PATH", 0)
_NO_MAGICLINKS: Final = 0x02
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES})


class _How(ctypes.Structure):
    """struct open_how of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_HOW: Final = _How(_O_PATH | os.O_CLOEXEC, 0, _NO_MAGICLINKS)
_SYSCALL: Final = ctypes.CDLL(None, use_errno=True).syscall if sys.platform == "linux" else None


def is_near(path: bytes) -> bool:
    """Whether `path` is not deep and leads through no link of proc; False where the system cannot tell."""
    if _SYSCALL is None or path.count(b"/") > _DEPTH:
        return False
    found = _SYSCALL(
        _OPENAT2, _AT_FDCWD, ctypes.c_char_p(path), ctypes.byref(_HOW), ctypes.c_size_t(ctypes.sizeof(_HOW))
    )
    if found < 0:
        return ctypes.get_errno() in _GONE  # then there is nothing to hang on; a loop takes long to follow
    os.close(found)
    return True
