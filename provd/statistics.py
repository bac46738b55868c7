"""How many verdicts were given, of which kind, and how long they took: since the start, in a fixed amount of memory.

Rule: buckets of percentiles grow by a sixteenth, so a percentile is right to about 6 %; those of the histogram never
change, since who draws them compares machines.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable
from typing import Any, Final

_STEP: Final = math.log(1 + 1 / 16)
_TOGETHER: Final = 256
BOUNDS_US: Final = (
    *(100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000),
    *(1_000_000, 2_500_000, 5_000_000, 10_000_000),
)
"""Upper bounds of the histogram's buckets, in microseconds; what took longer is in the total only."""


class Durations:
    """Counts durations, in seconds. `total` is their sum."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._new: list[float] = []
        self._buckets: dict[int, int] = {}
        self._within = [0] * (len(BOUNDS_US) + 1)

    def add(self, seconds: float) -> None:
        """Counts one duration; it is sorted in later, with others, since who was answered need not wait for that."""
        self.count += 1
        self.total += seconds
        self._new.append(seconds)
        if len(self._new) >= _TOGETHER:
            self._sort_in()

    def _sort_in(self) -> None:
        for seconds in self._new:
            bucket = int(math.log(max(seconds, 1e-7) / 1e-7) / _STEP)
            self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
            self._within[bisect.bisect_left(BOUNDS_US, seconds * 1e6)] += 1
        self._new.clear()

    def percentile_us(self, share: float) -> float | None:
        """The duration, in microseconds, under which `share` (0 to 1) of them lie; None where there are none."""
        self._sort_in()
        left = share * self.count
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return round(0.1 * math.exp((bucket + 1) * _STEP), 1)
        return None

    def histogram(self) -> list[tuple[int, int]]:
        """How many took at most so many microseconds: `(bound, count)`, each count with all that are smaller."""
        self._sort_in()
        return list(zip(BOUNDS_US, itertools.accumulate(self._within), strict=False))


class Verdicts:
    """Counts questions with how long each took, and the verdicts that they were answered with."""

    def __init__(self) -> None:
        self.durations = Durations()
        self.kinds = {"fresh": 0, "dirty": 0, "unknown": 0}

    def add(self, seconds: float, verdicts: Iterable[str]) -> None:
        """One question was answered; one of several keys has several verdicts."""
        self.durations.add(seconds)
        for verdict in verdicts:
            self.kinds[verdict] += 1

    def add_fresh(self, seconds: float, count: int) -> None:
        """One question about so many keys was answered, all fresh."""
        self.durations.add(seconds)
        self.kinds["fresh"] += count

    def told(self) -> dict[str, Any]:
        """As the status has it."""
        return {
            "count": self.durations.count,
            "p50_us": self.durations.percentile_us(0.5),
            "p99_us": self.durations.percentile_us(0.99),
            **self.kinds,
            "sum_us": round(self.durations.total * 1e6, 1),
            "buckets": [{"le_us": bound, "count": count} for bound, count in self.durations.histogram()],
        }
