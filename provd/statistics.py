"""How long verdicts take: percentiles since the start, in a fixed amount of memory.

Rule: buckets grow by a sixteenth, so a percentile is right to about 6 %.
"""

from __future__ import annotations

import math
from typing import Final

_STEP: Final = math.log(1 + 1 / 16)


class Durations:
    """Counts durations, in seconds."""

    def __init__(self) -> None:
        self.count = 0
        self._buckets: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        """Counts one duration."""
        self.count += 1
        bucket = int(math.log(max(seconds, 1e-7) / 1e-7) / _STEP)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    def percentile_us(self, share: float) -> float | None:
        """The duration, in microseconds, under which `share` (0 to 1) of them lie; None where there are none."""
        left = share * self.count
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return round(0.1 * math.exp((bucket + 1) * _STEP), 1)
        return None
