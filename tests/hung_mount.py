"""A file system that stops answering: FUSE spoken by hand, just enough to be mounted, looked at and read.

Rule: only for a mount namespace of one's own (`unshare -Urm`). All calls on it end when this process does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import struct
import threading
from typing import Final

_LOOKUP, _GETATTR, _OPEN, _STATFS, _INIT, _OPENDIR = 1, 3, 14, 17, 26, 27
_ROOT, _FILE = 1, 2
_FORCE, _DETACH = 1, 2
_ATTRIBUTES: Final = {
    _ROOT: struct.pack("<6Q10I", _ROOT, *[0] * 8, 0o40755, 2, *[0] * 5),
    _FILE: struct.pack("<6Q10I", _FILE, *[0] * 8, 0o100644, 1, *[0] * 5),
}


class Hung:
    """A directory mounted at `path`, which answers until `hangs` is set.

    It lists nothing; each name that begins with `f` is an empty file.
    """

    def __init__(self, path: str) -> None:
        self.hangs = False
        self._path = path
        self.unanswered: queue.SimpleQueue[int] = queue.SimpleQueue()
        """The operations that were read while it hung, in turn."""
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"hung", os.fsencode(path), b"fuse", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "this cannot be mounted")
        threading.Thread(target=self._serve, daemon=True).start()

    def end(self) -> None:
        """Lets go of all that waits, with an error, and takes the mount away."""
        ctypes.CDLL(None).umount2(os.fsencode(self._path), _FORCE | _DETACH)

    def _serve(self) -> None:
        while True:
            try:
                request = os.read(self._device, 1 << 20)
            except OSError:  # it was taken away
                return
            _, operation, number, node = struct.unpack("<IIQQ", request[:24])
            if operation == _INIT:
                self._answer(number, struct.pack("<IIIIHHIIHH28x", 7, 31, 65536, 0, 12, 9, 65536, 1, 1, 0))
            elif self.hangs:
                self.unanswered.put(operation)
            elif operation == _GETATTR:
                self._answer(number, struct.pack("<QII", 0, 0, 0) + _ATTRIBUTES[node])
            elif operation in {_OPENDIR, _OPEN}:
                self._answer(number, struct.pack("<QII", 1, 0, 0))
            elif operation == _LOOKUP and request[40:41] == b"f":
                self._answer(number, struct.pack("<4Q2I", _FILE, 0, 0, 0, 0, 0) + _ATTRIBUTES[_FILE])
            elif operation == _STATFS:
                self._answer(number, bytes(80))
            elif operation == _LOOKUP:
                self._answer(number, error=2)
            else:
                self._answer(number)

    def _answer(self, number: int, data: bytes = b"", error: int = 0) -> None:
        with contextlib.suppress(OSError):  # nobody waits for an answer, or any more
            os.write(self._device, struct.pack("<IiQ", 16 + len(data), -error, number) + data)
