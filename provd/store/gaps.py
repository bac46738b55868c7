"""How often nobody vouched for something since the start, and why: the gaps, counted by their reasons.

Rule: a gap counts when it is durable. What differs from one to the next (a directory, an error's text) stands behind a
colon in the reason and is left out, so that there are few reasons.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Final

from provd.core.records import Gap, to_wire

_MOST: Final = 64
"""Reasons that are told apart."""
OTHER: Final = "other"


class GapCounts:
    """Counts gaps; the newest of each reason is kept. The writer's thread counts, the loop reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._newest: dict[str, tuple[int, Gap]] = {}

    def add(self, gaps: Iterable[tuple[int, Gap]]) -> None:
        """These gaps are durable, each with its position."""
        with self._lock:
            for position, gap in gaps:
                reason = gap.reason.partition(":")[0]
                if reason == "events lost":  # what lost them matters, and there are few ways
                    reason = gap.reason[:100]
                if reason not in self._counts and len(self._counts) >= _MOST:
                    reason = OTHER
                self._counts[reason] = self._counts.get(reason, 0) + 1
                self._newest[reason] = (position, gap)

    def told(self) -> list[dict[str, Any]]:
        """As the status has it: `{reason, count, last}`, where `last` is the newest record of that reason."""
        with self._lock:
            return [
                {"reason": reason, "count": count, "last": to_wire(*self._newest[reason])}
                for reason, count in self._counts.items()
            ]
