"""Whose a state directory is, which daemon holds its lock now, and whether that one's socket is gone.

Rule: the lock itself is never tried, since that could refuse a daemon that starts. What stands in its file is only
believed while the lock is held: a daemon that was killed leaves it there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from provd import holders, reach
from provd.cli import output
from provd.cli.command import Failure
from provd.cli.processes.process import STOPPED, next_step
from provd.client import ProvdUnreachable
from provd.holders import Written
from provd.places import START_LOCK_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

NOBODY: Final = frozenset({"absent", "stale", "file"})
"""Why nobody was reached, where nobody listens."""
_COLUMNS: Final = 8


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
    rows = _rows()
    held = None if rows is None else holding(lock, rows)
    if rows is not None and held is None:
        return None  # where no system tells, it is held: a daemon that ends empties the file
    return Holder(int(lock.pid), lock.socket, held == int(lock.pid))


def holding(lock: Written, rows: Iterable[str]) -> int | None:
    """The process that holds that lock by the rows of /proc/locks, as it is numbered here; None where none does.

    An inode is one file on one device only. But some file systems (btrfs, overlay) tell `stat` another device than they
    have in that table: there it is held where the row has the very process that wrote itself into the file.
    """
    device = f"{os.major(lock.device):02x}:{os.minor(lock.device):02x}"
    for row in rows:
        # Number, kind, mode, way, pid, device:inode, start, end; who waits for one has "->" before the kind.
        words = row.split()
        if len(words) < _COLUMNS or words[1] != "FLOCK" or not words[4].isdigit():
            continue
        at, _, inode = words[5].rpartition(":")
        if inode == str(lock.inode) and (at == device or (words[4] == lock.pid and reach.runs(int(lock.pid)))):
            return int(words[4])
    return None


def starts(state: str) -> bool:
    """Whether another `provd start` is at work on a state, as far as the system tells: a daemon is to come."""
    try:
        st = os.stat(os.path.join(state, START_LOCK_NAME))
    except OSError:
        return False
    return holding(Written("", "", st.st_dev, st.st_ino), _rows() or []) not in {None, os.getpid()}


def _rows() -> list[str] | None:
    """The table of locks; None on a system that has none."""
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as locks:
            return list(locks)
    except OSError:
        return None


def bereft(error: ProvdUnreachable, held: Holder | None, socket: str, state: str) -> ProvdUnreachable:
    """The same, of kind `gone` and with what to do, where a daemon runs that had this socket and has it no more.

    `held`: who held the lock of that state. What lies there now may be the socket of who came after it.
    """
    if held is None or held.socket != socket or error.kind not in NOBODY:
        return error
    if os.path.lexists(socket) and not reach.lies_at(socket) and holder(state) != held:
        return error
    return ProvdUnreachable(lost(held), anew(held), "gone")


def lost(held: Holder) -> str:
    """That a daemon runs and its socket is not at its place, and what is there instead."""
    does = "is stopped" if reach.state(held.pid) in STOPPED else "runs"
    there = reach.lies_at(held.socket) or "something else"
    how = f"{there} lies in place of its socket" if os.path.lexists(held.socket) else "its socket is gone"
    return f"process {held.pid} {does}, {how}: {held.socket}"


def anew(held: Holder) -> str:
    """What to do so that a daemon makes its socket anew, which it does where nothing lies at its path."""
    there = output.quoted(held.socket)
    away = f"mv {there} {there}.other && " if os.path.lexists(held.socket) else ""
    return next_step(held.pid, f"{away}kill -HUP {held.pid}  # it makes its socket anew")


def must_be_own(state: str) -> None:
    """Raises Failure where a state directory is there and another user's: nothing in it is touched then."""
    try:
        owner = os.stat(state).st_uid
    except OSError:  # it is to be made, or whoever uses it tells why it cannot be
        return
    if owner != os.geteuid():
        message = f"the state directory {state} belongs to user {owner}, this is user {os.geteuid()}"
        raise Failure(message, f"sudo -u '#{owner}' provd status  # as that user\nprovd start --state DIR")
