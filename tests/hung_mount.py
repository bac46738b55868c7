"""A file system that stops answering: FUSE spoken by hand, just enough to be mounted and to be looked at.

Rule: only for a mount namespace of one's own (`unshare -Urm`). All calls on it end when this process does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import threading
from typing import Final

_LOOKUP, _GETATTR, _READDIR, _INIT, _OPENDIR = 1, 3, 28, 26, 27
_ATTRIBUTES: Final = struct.pack("<QII", 0, 0, 0) + struct.pack("<6Q10I", 1, *[0] * 8, 0o40755, 2, *[0] * 5)


class Hung:
    """An empty directory mounted at `path`, which answers until `hangs` is set."""

    def __init__(self, path: str) -> None:
        self.hangs = False
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"hung", os.fsencode(path), b"fuse", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "this cannot be mounted")
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            request = os.read(self._device, 1 << 20)
            _, operation, number = struct.unpack("<IIQ", request[:16])
            if operation == _INIT:
                self._answer(number, struct.pack("<IIIIHHIIHH28x", 7, 31, 65536, 0, 12, 9, 65536, 1, 1, 0))
            elif self.hangs:
                continue
            elif operation == _GETATTR:
                self._answer(number, _ATTRIBUTES)
            elif operation == _OPENDIR:
                self._answer(number, struct.pack("<QII", 1, 0, 0))
            elif operation == _LOOKUP:
                self._answer(number, error=2)
            else:
                self._answer(number)

    def _answer(self, number: int, data: bytes = b"", error: int = 0) -> None:
        with contextlib.suppress(OSError):  # nobody waits for an answer, or any more
            os.write(self._device, struct.pack("<IiQ", 16 + len(data), -error, number) + data)
