"""How a path was resolved, and whether it went the same way all the time.

Rule: that a file is the same before and after proves nothing of the path to it: a link or a directory on the way may
have pointed elsewhere and back. A name stood still if it names the same inode, and either its directory or that
inode has not changed: whoever renames, exchanges, links or unlinks moves the times of both. (A busy directory such
as /tmp changes all the time; what lies in it need not.) A name that was absent stood still if its directory did.
"""

from __future__ import annotations

import os
import stat
from typing import Final

import msgspec

from provd.core.reading import Signature

_LINKS: Final = 40
"""Links that the kernel follows in one path."""


class Step(msgspec.Struct, frozen=True, array_like=True):
    """One name on the way: `path` in the directory `parent`, both without links, and their signatures by `lstat`."""

    parent: bytes
    path: bytes
    parent_was: Signature | None
    was: Signature | None


class Trails:
    """The first and the second looks of one job at all the directories on its ways, each made once a round."""

    def __init__(self) -> None:
        self._first: dict[bytes, Signature | None] = {}
        self._second: dict[bytes, Signature | None] = {}

    def take(self, path: bytes) -> list[Step]:
        """The steps by which the absolute `path` is resolved now; raises OSError where that cannot be seen."""
        steps: list[Step] = []
        at, todo, links = b"/", path.split(b"/")[::-1], 0
        while todo:
            name = todo.pop()
            if name in {b"", b"."}:
                continue
            if name == b"..":
                at = os.path.dirname(at)
                continue
            full = at + name if at == b"/" else at + b"/" + name
            was = _look(full, self._first)
            steps.append(Step(at, full, _look(at, self._first), was))
            if was is None:
                break
            if not stat.S_ISLNK(was.mode):
                at = full
                continue
            links += 1
            if links > _LINKS:
                break
            target = os.readlink(full)
            at = b"/" if target.startswith(b"/") else at
            todo += target.split(b"/")[::-1]
        return steps

    def again(self) -> None:
        """Begins a round: looks that were made before count no more."""
        self._first = {}
        self._second = {}

    def end(self) -> None:
        """Begins the second looks of a round."""
        self._second = {}

    def held(self, step: Step) -> bool:
        """Whether a name stood still since it was taken; raises OSError where that cannot be seen."""
        now, parent = _look(step.path, self._second), _look(step.parent, self._second)
        if now is None or step.was is None:
            return now is step.was and parent == step.parent_was
        if (now.dev, now.ino, stat.S_IFMT(now.mode)) != (step.was.dev, step.was.ino, stat.S_IFMT(step.was.mode)):
            return False
        return now == step.was or parent == step.parent_was


def _look(path: bytes, looks: dict[bytes, Signature | None]) -> Signature | None:
    if path in looks:
        return looks[path]
    try:
        st = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        found = None
    else:
        found = Signature(st.st_dev, st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
    looks[path] = found
    return found
