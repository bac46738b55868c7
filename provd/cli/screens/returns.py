"""Which moves of directories brought files back to where they were, by all that the log tells.

Rule: what was touched on its way, under whatever name, did not come back; nor did what the log may not have seen move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from provd.cli.words import records

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]


class Returns:
    """Follows what some paths held at a position of the log through the moves of directories above them."""

    def __init__(self, members: Iterable[bytes], position: int) -> None:
        self.whole = False
        """Whether the records began at the position, or before."""
        self._position = position
        self._where = {member: member for member in members}
        self._began = False
        self._back: dict[int, set[bytes]] = {}

    def take(self, record: Json) -> None:
        """Takes the next of all records of the log, without holes."""
        seq = int(record.get("seq") or 0)
        if not self._began:
            self._began, self.whole = True, seq <= self._position + 1
        if seq > self._position and record.get("type") == "mutation" and record.get("kind") != "attrib":
            self._follow(record, seq)

    def back(self, member: bytes, seq: int) -> bool:
        """Whether with that record it is again what it was at the position, untouched."""
        return self.whole and member in self._back.get(seq, ())

    def _follow(self, record: Json, seq: int) -> None:
        named = records.places(record)
        for member, at in list(self._where.items()):
            carried = len(named) > 1 and at != named[1] and records.is_below(at, named[1])
            if carried:
                self._where[member] = named[0] + at[len(named[1]) :]
                if self._where[member] == member:
                    self._back.setdefault(seq, set()).add(member)
            elif any(records.is_below(at, place) for place in named):
                del self._where[member]  # touched by its own name, or what lay above it was replaced
