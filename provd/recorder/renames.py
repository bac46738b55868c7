"""Paths in trees that are renamed: where a path is by now, and which of many lie below a directory.

Rule: an answer takes as long as a path has names, however many directories were renamed and however many paths are
known.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

_Value = TypeVar("_Value")
_FEW: Final = 32


class Renames:
    """Directories that got other names, each with its number; numbers grow."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, list[int]] = {}
        self._targets: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._targets)

    def add(self, number: int, source: bytes, path: bytes) -> None:
        """The directory `source` became `path`."""
        self._numbers.setdefault(source, []).append(number)
        self._targets[number] = path

    def now(self, path: bytes, number: int) -> bytes:
        """Where that is which was at `path` when the rename `number` had happened and none after it."""
        while self._targets:
            source, number = self._first(path, number)
            if not number:
                break
            path = self._targets[number] + path[len(source) :]
        return path

    def _first(self, path: bytes, after: int) -> tuple[bytes, int]:
        """The first rename after another one that took a path along; its number is 0 where there is none."""
        found = (b"", 0)
        at = path
        while at:
            numbers = self._numbers.get(at, ())
            index = bisect_right(numbers, after)
            if index < len(numbers) and (not found[1] or numbers[index] < found[1]):
                found = (at, numbers[index])
            at = at.rpartition(b"/")[0]
        return found

    def forget(self, number: int) -> None:
        """Nobody asks any more for what was before the rename `number` or at it."""
        self._targets = {at: path for at, path in self._targets.items() if at > number}
        left = ((source, [at for at in numbers if at > number]) for source, numbers in self._numbers.items())
        self._numbers = {source: numbers for source, numbers in left if numbers}

    def clear(self) -> None:
        """Forgets all of them."""
        self._numbers.clear()
        self._targets.clear()


class Below(Generic[_Value]):
    """Values by path, in the order in which they came, of which those below a directory are found."""

    def __init__(self) -> None:
        self._values: dict[bytes, _Value] = {}
        self._sorted: list[bytes] = []  # what was taken out may be in it still
        self._placed: set[bytes] = set()
        self._new: list[bytes] = []

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[tuple[bytes, _Value]]:
        """Paths and values, in order."""
        return iter(self._values.items())

    def values(self) -> Iterator[_Value]:
        """The values, in order."""
        return iter(self._values.values())

    def get(self, path: bytes) -> _Value | None:
        """The value of a path, None where there is none."""
        return self._values.get(path)

    def put(self, path: bytes, value: _Value) -> None:
        """Keeps a value."""
        self._values[path] = value
        if path not in self._placed:
            self._placed.add(path)
            self._new.append(path)

    def pop(self, path: bytes) -> _Value | None:
        """Takes a value out; None where there is none."""
        return self._values.pop(path, None)

    def at_or_below(self, directory: bytes) -> list[bytes]:
        """The paths that are `directory` or lie below it."""
        if not self._values:
            return []
        self._sort()
        prefix = directory.rstrip(b"/")
        low = bisect_left(self._sorted, prefix + b"/")
        high = bisect_left(self._sorted, prefix + b"0")  # the byte after the slash
        found = [path for path in self._sorted[low:high] if path in self._values]
        return [directory, *found] if directory in self._values and directory != b"/" else found

    def _sort(self) -> None:
        if len(self._sorted) > 2 * len(self._values) + _FEW:
            self._sorted = [path for path in self._sorted if path in self._values]
            self._new = [path for path in self._new if path in self._values]
            self._placed = {*self._sorted, *self._new}
        if len(self._new) > _FEW:
            self._sorted.extend(self._new)
            self._sorted.sort()
        else:
            for path in self._new:
                insort(self._sorted, path)
        self._new.clear()

    def clear(self) -> None:
        """Takes all out."""
        self._values.clear()
        self._sorted.clear()
        self._placed.clear()
        self._new.clear()
