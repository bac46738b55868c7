"""A file system that stops answering, whose files cannot be read, or change while all that `stat` tells of them stays.

FUSE by hand, just enough for looking and reading.

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

_LOOKUP, _GETATTR, _OPEN, _READ, _STATFS, _INIT, _OPENDIR = 1, 3, 14, 15, 17, 26, 27
_UNCACHED: Final = 1
"""Of an open file: each reading comes to us."""
_ROOT, _FILE = 1, 2
_FORCE, _DETACH = 1, 2
_MODES: Final = {_ROOT: (0o40755, 2), _FILE: (0o100644, 1)}


class Hung:
    """A directory mounted at `path`, which answers until `hangs` is set.

    It lists nothing; each name that begins with `f` is a file that holds `content`, and cannot be read where `error`
    is a number of errno. Its times stay the same, whatever becomes of it; so is, for the seconds that it `keeps`, what
    was told of it last believed.
    """

    def __init__(self, path: str, content: bytes = b"", *, keeps: int = 0) -> None:
        self.hangs = False
        self.content = content
        self.error = 0
        self._keeps = keeps
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
                self._answer(number, struct.pack("<QII", self._keeps, 0, 0) + self._attributes(node))
            elif operation in {_OPENDIR, _OPEN}:
                self._answer(number, struct.pack("<QII", 1, _UNCACHED if operation == _OPEN else 0, 0))
            elif operation == _READ:
                at, size = struct.unpack("<QI", request[48:60])
                self._answer(number, b"" if self.error else self.content[at : at + size], self.error)
            elif operation == _LOOKUP and request[40:41] == b"f":
                keeps = self._keeps
                self._answer(number, struct.pack("<4Q2I", _FILE, 0, keeps, keeps, 0, 0) + self._attributes(_FILE))
            elif operation == _STATFS:
                self._answer(number, bytes(80))
            elif operation == _LOOKUP:
                self._answer(number, error=2)
            else:
                self._answer(number)

    def _attributes(self, node: int) -> bytes:
        size = len(self.content) if node == _FILE else 0
        return struct.pack("<6Q10I", node, size, *[0] * 7, *_MODES[node], *[0] * 5)

    def _answer(self, number: int, data: bytes = b"", error: int = 0) -> None:
        with contextlib.suppress(OSError):  # nobody waits for an answer, or any more
            os.write(self._device, struct.pack("<IiQ", 16 + len(data), -error, number) + data)
