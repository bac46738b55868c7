"""Records of a story, and what the log tells of the content that paths had before them.

Rule: a digest is known only where a record of that very path tells it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from provd.cli.screens.birth import ABSENT
from provd.cli.words import records
from provd.client import local_path

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterator

Json = dict[str, Any]

_NOBODY: Final = {"unknown": True}


@dataclass
class Event:
    """One record of the story, and the digest that was known of its path before; `via`: what led to it.

    `declared` is the action that named the path afterwards, of a mutation that is nobody's by its own record; `asked`:
    whether such actions were looked for. `blamed`: whether what led to it is dirty by it.
    """

    record: Json
    known: str | None = None
    via: str = ""
    declared: Json | None = None
    blamed: bool = True
    asked: bool = True

    @property
    def seq(self) -> int:
        """The number of its record; 0 where it has none."""
        return int(self.record.get("seq") or 0)

    @property
    def same(self) -> bool:
        """Whether it left the content as it was known before."""
        return self.known is not None and self.record.get("digest") == self.known

    @property
    def anonymous(self) -> bool:
        """Whether it is a mutation of which the record does not say who made it."""
        return self.record.get("type") == "mutation" and (self.record.get("actor") or _NOBODY) == _NOBODY

    @property
    def nobodys(self) -> bool:
        """Whether it is one that no action declared, as far as the log knows."""
        return self.anonymous and self.asked and self.declared is None


class Past:
    """What the newest of the log tells of the content of paths, by the number of each change of it."""

    def __init__(self) -> None:
        self._states: dict[bytes, dict[int, str | None]] = {}
        self._begun: set[bytes] = set()  # made where nothing was, as far as the first record tells

    def take(self, record: Json) -> None:
        """Takes a mutation that is more than `attrib`."""
        for place in records.places(record):
            if place not in self._states and record.get("kind") == "created":
                self._begun.add(place)
            self._states.setdefault(place, {})[int(record.get("seq") or 0)] = state(record, place)

    def hashed(self, record: Json) -> None:
        """Takes a digest that was found later."""
        states = self._states.get(local_path(record["path"]), {})
        if record.get("of") in states:
            states[record["of"]] = record.get("digest")

    def before(self, place: bytes, seq: int) -> str | None:
        """What it was just before that record: a digest or `absent`; None where that is not known."""
        return next((known for number, known in self._backwards(place) if number < seq), None)

    def knows(self, place: bytes, seq: int) -> bool:
        """Whether there is any change of it before that record."""
        return any(number < seq for number, _ in self._backwards(place))

    def several(self, place: bytes, seq: int) -> bool:
        """Whether it held more than one content before that record, as far as can be told."""
        seen = [digest for number, digest in self._backwards(place) if number < seq and digest != ABSENT]
        unknown = seen.count(None) + (bool(seen) and place not in self._begun)
        return len(set(seen) - {None}) + unknown > 1

    def _backwards(self, place: bytes) -> Iterator[tuple[int, str | None]]:
        return reversed(self._states.get(place, {}).items())


def state(record: Json, place: bytes) -> str | None:
    """What a mutation left at a place that it names: a digest or `absent`; None where that is not known."""
    named = records.places(record)
    if record.get("kind") == "deleted" or any(records.is_below(place, source) for source in named[1:]):
        return ABSENT
    return record.get("digest") if place == named[0] or not records.is_below(place, named[0]) else None


def made(record: Json) -> bool:
    """Whether it is the making of what has no content of its own: a directory, or a link."""
    return record.get("kind") == "created" and record.get("size") is None and record.get("digest") is None


def note(events: deque[Event], event: Event, *, same: bool) -> None:
    """Keeps a change of a place, or takes it away where its digest shows now that it was none."""
    if same and event in events:
        events.remove(event)
    elif not same and event not in events:
        events.append(event)
