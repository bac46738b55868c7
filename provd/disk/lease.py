"""Read leases: whether anybody has a file open for writing, or mapped writable.

Rule: a lease is never held. It is refused while anybody may write, so taking one and giving it back asks that.
"""

from __future__ import annotations

import errno
import fcntl
import signal
from enum import Enum, auto
from typing import Final

_SET_LEASE: Final = getattr(fcntl, "F_SETLEASE", None)


class Pen(Enum):
    """Whether anybody has a file open for writing, or mapped writable."""

    NOBODYS = auto()
    SOMEBODYS = auto()
    UNKNOWN = auto()


def ignore_lease_breaks() -> None:
    """Ignores SIGIO, which would end the process when somebody opens a file with our lease; for the main thread."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)


def can_lease() -> bool:
    """Whether this process may take leases: there are some, and a broken one does not end it."""
    return _SET_LEASE is not None and signal.getsignal(signal.SIGIO) is signal.SIG_IGN


def pen_of(descriptor: int) -> Pen:
    """Asks of an open file; only where `can_lease`."""
    assert _SET_LEASE is not None
    try:
        fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_UNLCK)
    except OSError as error:
        return Pen.SOMEBODYS if error.errno == errno.EAGAIN else Pen.UNKNOWN
    return Pen.NOBODYS
