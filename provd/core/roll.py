"""The bytes that a set's digest is made of, kept so that it costs little to make it again when few members changed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from provd.core.dependency import Member, hasher, member_bytes


class Roll:
    """The bytes of a set's members, in byte order of name. Only raw digests can be exchanged, for others as long."""

    def __init__(self, members: Iterable[Member]) -> None:
        pieces = [member_bytes(member) for member in members]
        self._data = bytearray(b"".join(pieces))
        self._ends = list(accumulate(map(len, pieces)))

    def exchange(self, index: int, raw: bytes) -> None:
        """Gives member number `index` another raw digest."""
        end = self._ends[index] - 1  # what ends a member's bytes is a NUL
        self._data[end - len(raw) : end] = raw

    def digest(self, algorithm: str) -> str:
        """The digest of the set, as `dependency.set_digest` gives it."""
        h = hasher(algorithm)
        h.update(self._data)
        return f"{algorithm}:{h.digest().hex()}"
