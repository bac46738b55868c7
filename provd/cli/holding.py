"""Whose a state directory is, which daemon holds its lock now, and whether that one's socket is gone.

Rule: the lock itself is never tried, since that could refuse a daemon that starts. What stands in its file is only
believed while the lock is held: a daemon that was killed leaves it there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from provd import holders
from provd.cli import output
from provd.cli.command import Failure
from provd.cli.process import next_step
from provd.client import ProvdUnreachable

NOBODY: Final = frozenset({"absent", "stale", "file"})
"""Why nobody was reached, where nobody listens."""


@dataclass(frozen=True)
class Holder:
    """The process that holds the lock, and its socket, "" while it has none; `sure`: the kernel says the same."""

    pid: int
    socket: str
    sure: bool = False


def holder(state: str) -> Holder | None:
    """The process that holds the lock of a state directory now; where no system tells, the one that says so."""
    lock = holders.written(state)
    if lock is None or not lock.pid.isdigit():
        return None
    held = _held_by(lock.inode)
    return None if held is not None and not held else Holder(int(lock.pid), lock.socket, lock.pid in (held or ()))


def _held_by(inode: int) -> list[str] | None:
    """The processes that hold a lock of a file, by their numbers here; None where no system tells."""
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as locks:
            rows = [line.split() for line in locks]
    except OSError:  # another system: a daemon that ends empties the file
        return None
    held = [row for row in rows if "FLOCK" in row and any(word.endswith(f":{inode}") for word in row)]
    return [row[row.index("FLOCK") + 3] for row in held]  # FLOCK  ADVISORY  WRITE  PID


def bereft(error: ProvdUnreachable, held: Holder | None, socket: str) -> ProvdUnreachable:
    """The same, of kind `gone` and with what to do, where a daemon runs that had this socket and has it no more."""
    if held is None or held.socket != socket or error.kind not in NOBODY:
        return error
    return ProvdUnreachable(f"process {held.pid} runs, its socket is gone: {socket}", anew(held), "gone")


def anew(held: Holder) -> str:
    """What to do so that a daemon makes its socket anew, which it does where nothing lies at its path."""
    away = f"move away what lies at {output.quoted(held.socket)}, then " if os.path.lexists(held.socket) else ""
    return next_step(held.pid, f"{away}kill -HUP {held.pid}: it makes its socket anew")


def must_be_own(state: str) -> None:
    """Raises Failure where a state directory is there and another user's: nothing in it is touched then."""
    try:
        owner = os.stat(state).st_uid
    except OSError:  # it is to be made, or whoever uses it tells why it cannot be
        return
    if owner != os.geteuid():
        message = f"the state directory {state} belongs to user {owner}, this is user {os.geteuid()}"
        raise Failure(message, "run as that user, or give another --state")
