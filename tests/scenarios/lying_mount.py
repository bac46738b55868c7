"""A file system whose files change while all that `stat` tells of them stays: FUSE spoken by hand.

So are network ones within the time that their clients believe what they were told last. Only for a mount namespace of
one's own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import threading

_PAST_THE_CACHE = 1
_LONG = 3600


def _attributes(node: int, size: int, mode: int) -> bytes:
    return struct.pack("<6Q10I", node, size, 8, 1000, 1000, 1000, *[0] * 3, mode, 1, *[0] * 5)


_ATTRIBUTES = {1: _attributes(1, 0, 0o40755), 2: _attributes(2, 3, 0o100644)}


class Lying:
    """A directory mounted at `path` with one file, `f`, of three bytes: they are `content`, at any time."""

    def __init__(self, path: str) -> None:
        self.content = b"one"
        self._path = path
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"lying", os.fsencode(path), b"fuse", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "this cannot be mounted")
        threading.Thread(target=self._serve, daemon=True).start()

    def end(self) -> None:
        """Takes the mount away."""
        ctypes.CDLL(None).umount2(os.fsencode(self._path), 3)

    def _serve(self) -> None:
        while True:
            try:
                request = os.read(self._device, 1 << 20)
            except OSError:  # it was taken away
                return
            _, operation, number, node = struct.unpack("<IIQQ", request[:24])
            error, data = self._answer_to(operation, node, request[40:])
            with contextlib.suppress(OSError):  # nobody waits for an answer to what was forgotten
                os.write(self._device, struct.pack("<IiQ", 16 + len(data), -error, number) + data)

    def _answer_to(self, operation: int, node: int, rest: bytes) -> tuple[int, bytes]:
        match operation:
            case 26:  # INIT
                return 0, struct.pack("<IIIIHHIIHH28x", 7, 31, 65536, 0, 12, 9, 65536, 1, 1, 0)
            case 3:  # GETATTR
                return 0, struct.pack("<QII", _LONG, 0, 0) + _ATTRIBUTES[node]
            case 1 if rest == b"f\0":
                return 0, struct.pack("<4Q2I", 2, 0, _LONG, _LONG, 0, 0) + _ATTRIBUTES[2]
            case 1:  # LOOKUP
                return 2, b""
            case 14 | 27:  # OPEN, OPENDIR
                return 0, struct.pack("<QII", 1, _PAST_THE_CACHE, 0)
            case 15:  # READ
                return 0, self.content[struct.unpack_from("<QQ", rest)[1] :]
            case 17:  # STATFS
                return 0, bytes(80)
            case _:
                return 0, b""
