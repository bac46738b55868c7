"""Directories in directories: which of them holds a path most closely, and which lie below it.

Rule: nothing here takes time that grows with the number of directories, except adding one (a shift in memory).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator


class Nesting:
    """A set of absolute paths of directories."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._sorted: list[bytes] = []
        self._last: tuple[bytes, bytes | None] = (b"", None)

    def __contains__(self, path: bytes) -> bool:
        return path in self._known

    def __iter__(self) -> Iterator[bytes]:
        """The paths, in order; of a copy, so that they may change meanwhile."""
        return iter(list(self._sorted))

    def __len__(self) -> int:
        return len(self._sorted)

    def add(self, path: bytes) -> None:
        """Adds a path, once."""
        if path not in self._known:
            self._known.add(path)
            self._last = (b"", None)
            insort(self._sorted, path)

    def discard(self, path: bytes) -> None:
        """Takes a path out, if it is there."""
        if path in self._known:
            self._known.discard(path)
            self._last = (b"", None)
            del self._sorted[bisect_left(self._sorted, path)]

    def longest(self, path: bytes) -> bytes | None:
        """The deepest one that is `path` or above it."""
        if path in self._known:
            return path
        if path in {b"", b"/"}:
            return None
        directory = path.rpartition(b"/")[0] or b"/"
        if directory != self._last[0]:  # who asks for one name of a directory mostly asks for the next
            self._last = (directory, self._at_or_above(directory))
        return self._last[1]

    def _at_or_above(self, path: bytes) -> bytes | None:
        while path not in self._known:
            if path in {b"", b"/"}:
                return None
            path = path.rpartition(b"/")[0] or b"/"
        return path

    def below(self, path: bytes) -> list[bytes]:
        """Those strictly below `path`, in order."""
        start = path if path.endswith(b"/") else path + b"/"
        low = bisect_left(self._sorted, start)
        high = bisect_left(self._sorted, start[:-1] + b"0")  # the byte after the slash
        return [one for one in self._sorted[low:high] if one != path]
