"""Whose a state directory is, and which daemon holds its lock now.

Rule: the lock itself is never tried, since that could refuse a daemon that starts. What stands in its file is only
believed while the lock is held: a daemon that was killed leaves it there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from provd import holders
from provd.cli.command import Failure


@dataclass(frozen=True)
class Holder:
    """The process that holds the lock, and its socket, "" while it has none."""

    pid: int
    socket: str


def holder(state: str) -> Holder | None:
    """The process that holds the lock of a state directory now; where no system tells, the one that says so."""
    lock = holders.written(state)
    if lock is None or not lock.pid.isdigit() or not _is_held(lock.inode):
        return None
    return Holder(int(lock.pid), lock.socket)


def _is_held(inode: int) -> bool:
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as locks:
            rows = [line.split() for line in locks]
    except OSError:  # another system: a daemon that ends empties the file
        return True
    return any("FLOCK" in row and any(word.endswith(f":{inode}") for word in row) for row in rows)


def must_be_own(state: str) -> None:
    """Raises Failure where a state directory is there and another user's: nothing in it is touched then."""
    try:
        owner = os.stat(state).st_uid
    except OSError:  # it is to be made, or whoever uses it tells why it cannot be
        return
    if owner != os.geteuid():
        message = f"the state directory {state} belongs to user {owner}, this is user {os.geteuid()}"
        raise Failure(message, "run as that user, or give another --state")
