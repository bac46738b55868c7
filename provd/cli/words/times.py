"""Durations, ages and sizes in words.

Rule: two units at most; who wants digits asks with --json.
"""

from __future__ import annotations

from typing import Any, Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024


def duration(seconds: Any) -> str:
    """Seconds as people say them: 1 d 2 h."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s"))
    told = [f"{count} {unit}" for count, unit in parts if count]
    return " ".join(told[:2]) or "0 s"


def age(at: Any, now: int) -> float | None:
    """Seconds since `at` (nanoseconds as a decimal string); None where it is no time. `now` is in nanoseconds."""
    try:
        return max(0.0, (now - int(at)) / 1e9)
    except (TypeError, ValueError):
        return None


def micros(microseconds: Any) -> str:
    """Microseconds in words; empty where there are none."""
    if not isinstance(microseconds, int | float):
        return ""
    if microseconds >= 1_000_000:  # noqa: PLR2004
        return f"{microseconds / 1e6:.1f} s"
    return f"{microseconds / 1000:.{0 if microseconds >= 10_000 else 2}f} ms"  # noqa: PLR2004


def size(octets: int) -> str:
    """Bytes in the unit that fits: 4.2 MiB."""
    value = float(octets)
    for unit in _UNITS[:-1]:
        if value < _STEP:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= _STEP
    return f"{value:.1f} {_UNITS[-1]}"
