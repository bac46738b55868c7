"""What a command leaves running when it has ended.

Rule: on Linux an orphan becomes the child of a process that asked for it, here of ours, however often it forked and
whatever session it made. Elsewhere it is nobody's that we know, and nothing is noticed. What another service starts for
the command (systemd, a container's daemon) was never its child.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Final

_SET_CHILD_SUBREAPER: Final = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""
_ENDED: Final = b"ZX"
"""What the system calls processes that have ended."""


def adopt() -> bool:
    """From now on orphans below this process are its own; whether that is possible here."""
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415 - takes longer than what else `exec` imports

    try:
        return bool(ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def reap() -> tuple[dict[int, int], bool]:
    """The children that ended since the last time, with their wait status, and whether there are others."""
    ended: dict[int, int] = {}
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return ended, True
            ended[pid] = status
    except ChildProcessError:
        return ended, False


def left() -> list[int] | None:
    """The processes below this one that go on, None where there is none; empty where their numbers cannot be seen."""
    if not reap()[1]:
        return None
    below: dict[int, list[int]] = {}
    for name in _listed():
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
            if state not in _ENDED:
                below.setdefault(int(parent), []).append(int(name))
    found = below.get(os.getpid(), [])
    for pid in found:  # grows as it goes
        found.extend(below.get(pid, ()))
    return sorted(found)


def _listed() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []
