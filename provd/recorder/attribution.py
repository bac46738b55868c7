"""Who made a mutation, as far as actions that are open declared it.

Rule: of several actions that named a path, or something above or below it, the one that began last is meant.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from provd.core.dependency import with_above
from provd.core.records import Actor
from provd.store.keys import OpenAction

NOBODY: Final = Actor()


class Attribution:
    """What the actions that are open at one moment (oldest first) say of paths."""

    def __init__(self, actions: Sequence[OpenAction]) -> None:
        self._by_path: dict[bytes, OpenAction] = {}
        for action in actions:
            for path in action.paths:
                self._by_path[path] = action
        self._sorted = sorted(self._by_path)

    def actor(self, path: bytes, source: bytes | None = None) -> Actor:
        """The actor of a mutation of `path`, which `source` became where it was moved."""
        if not self._by_path:
            return NOBODY
        newest: OpenAction | None = None
        for place in (path, source):
            for action in () if place is None else self._naming(place):
                if newest is None or action.id > newest.id:
                    newest = action
        return NOBODY if newest is None else Actor(newest.session, newest.turn, newest.id)

    def _naming(self, path: bytes) -> list[OpenAction]:
        found = [self._by_path[at] for at in with_above(path) if at in self._by_path]
        prefix = path.rstrip(b"/") + b"/"
        for at in self._sorted[bisect_left(self._sorted, prefix) :]:
            if not at.startswith(prefix):
                break
            found.append(self._by_path[at])
        return found
