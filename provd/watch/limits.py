"""The limits of inotify: what the system allows, and what the daemon's user namespace does where that is less.

Rule: what cannot be read is not told, and nothing is made up for it.
"""

from __future__ import annotations

from typing import Final

_SYSTEM: Final = "/proc/sys/fs/inotify"
_OF_NAMESPACE: Final = "/proc/sys/user/max_inotify_watches"
_NAMES: Final = ("max_user_watches", "max_user_instances", "max_queued_events")
OWN: Final = "max_inotify_watches"


def inotify_limits() -> dict[str, int]:
    """The system's limits of inotify, by their names under fs.inotify, as far as they are known.

    `max_inotify_watches` is that of the daemon's user namespace, where it is lower than the system's.
    """
    limits = {name: limit for name in _NAMES if (limit := _number_in(f"{_SYSTEM}/{name}")) is not None}
    own = _number_in(_OF_NAMESPACE)
    if own is not None and own < limits.get("max_user_watches", own + 1):
        limits[OWN] = own
    return limits


def of_watches() -> str:
    """The setting that limits watches here, with its value, in words for the reason of a place that is not watched."""
    limits = inotify_limits()
    if OWN in limits:
        return f"user.{OWN} (now {limits[OWN]}) of the daemon's user namespace"
    now = f" (now {limits['max_user_watches']})" if "max_user_watches" in limits else ""
    return f"fs.inotify.max_user_watches{now} or user.{OWN}"


def _number_in(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None
