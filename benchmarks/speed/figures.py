"""What was measured: samples as figures, figures against limits, both for people and as JSON."""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

Ask = Callable[[], object]
NANOSECONDS: Final = {"µs": 1e3, "ms": 1e6, "s": 1e9}


def measure(ask: Ask, count: int, seconds: float) -> list[int]:
    """Nanoseconds of each of `count` calls, or of as many as fit into the seconds, but at least two."""
    clock = time.perf_counter_ns
    samples: list[int] = []
    end = clock() + int(seconds * 1e9)
    for number in range(count):
        start = clock()
        if start > end and number > 1:
            break
        ask()
        samples.append(clock() - start)
    return samples


def in_turn(asks: dict[str, Ask], rounds: int, count: int, seconds: float) -> dict[str, list[int]]:
    """Nanoseconds of each call, by name. All take turns in rounds, so that a slow moment meets all of them.

    `count` and `seconds` bound the turn of one.
    """
    samples: dict[str, list[int]] = {name: [] for name in asks}
    for ask in asks.values():
        measure(ask, count // 4, seconds)  # warm
    gc.disable()
    try:
        for _ in range(rounds):
            for name, ask in asks.items():
                samples[name] += measure(ask, count, seconds)
    finally:
        gc.enable()
    return samples


def quantile(samples: Sequence[float], share: float) -> float:
    """What this share of the samples is below."""
    ordered = sorted(samples)
    return float(ordered[min(len(ordered) - 1, int(len(ordered) * share))])


@dataclasses.dataclass(frozen=True)
class Line:
    """One thing measured, in the unit of its table; `ratio` is of the medians, to the table's base."""

    name: str
    min: float
    p50: float
    p99: float
    samples: int
    ratio: float | None


@dataclasses.dataclass(frozen=True)
class Limit:
    """One thing that must be reached; `met` is None where it was not measured, and `value` None with it."""

    what: str
    value: float | None
    at_most: float | None
    at_least: float | None
    met: bool | None

    def __str__(self) -> str:
        bound = f"at most {self.at_most:.3g}" if self.at_most is not None else f"at least {self.at_least:.3g}"
        if self.value is None:
            return f"  {self.what}: not measured, {bound}"
        return f"  {self.what}: {self.value:.3g}, {bound}: {'met' if self.met else 'NOT MET'}"


class Table:
    """One table of a row of the suite: figures of one kind, a base that they are compared with, and limits.

    `unit` is one of NANOSECONDS for durations, which are added as nanoseconds; figures in any other unit are added as
    they are.
    """

    def __init__(self, row: str, title: str, unit: str = "µs", base: str = "") -> None:
        self.row = row
        self.title = title
        self.unit = unit
        self.base = base
        self.lines: dict[str, Line] = {}
        self.limits: list[Limit] = []
        self.remarks: list[str] = []

    def add(self, name: str, samples: Sequence[float]) -> None:
        """A line. The base is added before what is compared with it."""
        unit = NANOSECONDS.get(self.unit, 1)
        low, p50, p99 = (quantile(samples, share) / unit for share in (0, 0.5, 0.99))
        base = self.lines.get(self.base)
        ratio = p50 / base.p50 if base is not None and base.p50 else None
        self.lines[name] = Line(name, low, p50, p99, len(samples), ratio)

    def add_all(self, samples: dict[str, list[int]]) -> Table:
        """A line for each, in order."""
        for name, found in samples.items():
            self.add(name, found)
        return self

    def p50(self, name: str) -> float | None:
        """The median of a line, or None where there is none."""
        return self.lines[name].p50 if name in self.lines else None

    def p99(self, name: str) -> float | None:
        """The 99th percentile of a line, or None where there is none."""
        return self.lines[name].p99 if name in self.lines else None

    def at_most(self, what: str, value: float | None, bound: float) -> None:
        """A limit from above."""
        self.limits.append(Limit(what, value, bound, None, None if value is None else value <= bound))

    def at_least(self, what: str, value: float | None, bound: float) -> None:
        """A limit from below."""
        self.limits.append(Limit(what, value, None, bound, None if value is None else value >= bound))

    def __str__(self) -> str:
        head = f"row {self.row}: {self.title}"
        names = f"  {self.unit:34}{'min':>10}{'p50':>10}{'p99':>10}" + (f"  x {self.base}" if self.base else "")
        lines = [
            f"  {line.name:34}{line.min:10.1f}{line.p50:10.1f}{line.p99:10.1f}"
            + (f"{line.ratio:8.2f}" if line.ratio is not None else "")
            for line in self.lines.values()
        ]
        remarks = [f"  {remark}" for remark in self.remarks]
        return "\n".join([head, names, *lines, *map(str, self.limits), *remarks])

    def json(self) -> dict[str, Any]:
        """The same for programs."""
        told = {name: getattr(self, name) for name in ("row", "title", "unit", "base", "remarks")}
        return told | {
            "lines": [dataclasses.asdict(line) for line in self.lines.values()],
            "limits": [dataclasses.asdict(limit) for limit in self.limits],
        }


def ratio(value: float | None, base: float | None) -> float | None:
    """One through the other, or None where either is missing."""
    return None if value is None or not base else value / base
