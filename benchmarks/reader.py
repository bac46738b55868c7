"""A peer for `benchmarks/watch`: a bare reader of inotify in a process of its own, which counts and does nothing else.

    reader.py ROOT LAST

Prints `ready` when it watches, and at the file LAST in ROOT one line: events, overflows, watched directories.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

MASK = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800 | 0x1000000
OVERFLOW = 0x4000
NEW_DIRECTORY = 0x40000000
APPEARED = 0x100 | 0x80


class Reader:
    """Watches `root` and all directories in it until `last` appears."""

    def __init__(self, root: bytes, last: bytes) -> None:
        self.root = root
        self.last = last
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(0)
        self.paths: dict[int, bytes] = {}
        self.events = 0
        self.overflows = 0
        self.done = False

    def watch(self, path: bytes) -> None:
        """Watches a directory and what is in it; git's own things count for nobody."""
        if path.endswith(b"/.git"):
            return
        wd = self.libc.inotify_add_watch(self.fd, path, MASK)
        if wd < 0:
            return
        self.paths[wd] = path
        try:
            with os.scandir(path) as found:
                below = [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return
        for directory in below:
            self.watch(directory)

    def run(self) -> None:
        """Reads until the last file was seen, or events were lost and it is there."""
        while not self.done:
            data = os.read(self.fd, 1 << 20)
            at = 0
            while at < len(data):
                wd, mask, _, length = struct.unpack_from("iIII", data, at)
                name = data[at + 16 : at + 16 + length].rstrip(b"\0")
                at += 16 + length
                self.take(wd, mask, name)

    def take(self, wd: int, mask: int, name: bytes) -> None:
        """One event."""
        self.events += 1
        if mask & OVERFLOW:
            self.overflows += 1
            self.done = self.done or os.path.exists(os.path.join(self.root, self.last))
        elif mask & NEW_DIRECTORY and mask & APPEARED:
            self.watch(os.path.join(self.paths.get(wd, self.root), name))
        elif name == self.last and self.paths.get(wd) == self.root:
            self.done = True


def main() -> None:
    """See the module."""
    reader = Reader(os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2]))
    sys.setrecursionlimit(100_000)
    reader.watch(reader.root)
    print("ready", flush=True)
    reader.run()
    print(reader.events, reader.overflows, len(reader.paths), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
