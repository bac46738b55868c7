"""Which moves of directories brought files back to where they were, and with what, by all that the log tells.

Rule: what was touched on its way, under whatever name, did not come back as it was; nor did what the log may not have
seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provd.cli.words import records

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]


@dataclass
class Held:
    """What one path held at a position: where it is now, and what the last record that touched it left."""

    at: bytes
    touched: bool = False
    digest: str | None = None


class Returns:
    """Follows what some paths held at a position of the log through the moves of directories above them."""

    def __init__(self, members: Iterable[bytes], position: int) -> None:
        self.whole = False
        """Whether the records began at the position, or before."""
        self._position = position
        self._held = {member: Held(member) for member in members}
        self._began = False
        self._back: dict[tuple[bytes, int], Held] = {}
        self._by: dict[int, Held] = {}  # what each record left that touched one

    def take(self, record: Json) -> None:
        """Takes the next of all records of the log, without holes."""
        seq = int(record.get("seq") or 0)
        if not self._began:
            self._began, self.whole = True, seq <= self._position + 1
        if record.get("type") == "hashed":
            if (held := self._by.get(record["of"])) is not None:
                held.digest = record.get("digest")
        elif seq > self._position and record.get("type") == "mutation" and record.get("kind") != "attrib":
            self._follow(record, seq)

    def back(self, member: bytes, seq: int) -> Held | None:
        """What came back with that record to where it was; None where nothing did, as far as is known."""
        return self._back.get((member, seq)) if self.whole else None

    def _follow(self, record: Json, seq: int) -> None:
        named = records.places(record)
        if record.get("size") is not None and not any(held.at in named for held in self._held.values()):
            return  # a file, and none of them
        for member, held in list(self._held.items()):
            if len(named) > 1 and held.at != named[1] and records.is_below(held.at, named[1]):
                held.at = named[0] + held.at[len(named[1]) :]
                if held.at == member:
                    self._back[member, seq] = held
            elif held.at == named[0] and record.get("kind") in {"created", "modified"}:
                self._by[seq] = self._held[member] = Held(held.at, touched=True, digest=record.get("digest"))
            elif any(records.is_below(held.at, place) for place in named):
                del self._held[member]  # gone, or moved alone: that its own records tell
