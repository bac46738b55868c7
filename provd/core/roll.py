"""The bytes that a set's digest is made of, kept so that it costs little to make it again when few members changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate

from provd.core.dependency import Member, hasher, member_bytes


class Roll:
    """The bytes of a set's members, in byte order of name. Only raw digests can be exchanged, for others as long."""

    def __init__(self, members: Iterable[Member]) -> None:
        pieces = [member_bytes(member) for member in members]
        self._data = bytearray(b"".join(pieces))
        self._ends = list(accumulate(map(len, pieces)))

    def exchange(self, raws: Mapping[int, bytes]) -> dict[int, bytes]:
        """Gives members, by number, other raw digests; returns those that they had."""
        had = {}
        for index, raw in raws.items():
            end = self._ends[index] - 1  # what ends a member's bytes is a NUL
            place = slice(end - len(raw), end)
            had[index] = bytes(self._data[place])
            self._data[place] = raw
        return had

    def digest(self, algorithm: str) -> str:
        """The digest of the set, as `dependency.set_digest` gives it."""
        h = hasher(algorithm)
        h.update(self._data)
        return f"{algorithm}:{h.digest().hex()}"
