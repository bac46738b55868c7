"""The terminal that a process was started in, and the signal that tells of its end.

Rule: standard library only, and quick: it is asked before the daemon is even loaded.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Final

_TERMINAL: Final = "/dev/tty"


def has_terminal() -> bool:
    """Whether this process has a controlling terminal now; the kernel takes it away before it sends SIGHUP."""
    try:
        os.close(os.open(_TERMINAL, os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


@contextlib.contextmanager
def hangups_held() -> Iterator[bool]:
    """Inside, the kernel keeps a SIGHUP until `take_hangups`, where it would have ended the process.

    Gives whether the end of a terminal is to end the process: it has one, and was not started by `nohup`.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield has_terminal() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def take_hangups() -> None:
    """What came meanwhile is handled now, and what comes at once."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
