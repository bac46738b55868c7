"""What voids all seals at once: something was mounted or unmounted, or the wall clock was set.

With it, in the same call, goes the question whether a watcher has anything to tell.

Rule: both are told by the kernel, exactly and before the call that did it returns, so a question asks before it looks
at a file. Where the kernel does not tell of the clock there is no epoch, and nothing is sealed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import sys
import threading
import time
from typing import Final

_TABLE: Final = "/proc/self/mountinfo"
_NONBLOCK: Final = os.O_NONBLOCK
_CLOEXEC: Final = os.O_CLOEXEC if hasattr(os, "O_CLOEXEC") else 0
_ABSTIME: Final = 1
_CANCEL_ON_SET: Final = 2
_FAR: Final = 1 << 40
"""Seconds since 1970 that are never reached."""
_LIBC: Final = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    """struct itimerspec of timerfd_create(2)."""

    _fields_ = (("it_interval", _Timespec), ("it_value", _Timespec))


_NEVER: Final = _Itimerspec(_Timespec(0, 0), _Timespec(_FAR, 0))


class Epoch:
    """Counts the times that all seals were voided. Any thread may ask. `table` and `clock` are for tests."""

    def __init__(self, table: str = _TABLE, clock: int | None = None) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._mounts = self._clock = -1
        self._poll = select.poll()
        try:
            self._clock = clock_watch() if clock is None else clock
            self._mounts = os.open(table, os.O_RDONLY | _CLOEXEC)
            self._poll.register(self._mounts, select.POLLPRI)
            self._poll.register(self._clock, select.POLLIN)
        except (OSError, AttributeError):  # another system, an old kernel, no proc, or no descriptor left
            self.close()

    def now(self) -> int:
        """The number of this moment, which differs from that of any moment before a mount or a set clock; 0: unknown.

        Equal before and after means that neither happened in between.
        """
        if self._clock < 0:
            return 0
        with self._lock:
            self._take(self._poll.poll(0))
            return self._count if self._clock >= 0 else 0

    def is_still(self, number: int) -> bool:
        """Whether `number` is that of this moment still, and what was added has nothing to tell. One system call."""
        with self._lock:
            told = self._poll.poll(0)
            if told:
                self._take(told)
                return False
            return number == self._count and self._clock >= 0

    def void(self) -> None:
        """From now on it is another epoch, whatever the kernel tells."""
        with self._lock:
            self._count += 1

    def add(self, descriptor: int) -> None:
        """From now on `is_still` looks at this one too: a watcher's, readable where it has something to tell."""
        if descriptor >= 0:
            self._poll.register(descriptor, select.POLLIN)

    def _take(self, told: list[tuple[int, int]]) -> None:
        descriptors = {descriptor for descriptor, _ in told}
        if descriptors & {self._mounts, self._clock} or not self._count:
            self._count += 1
        if self._clock in descriptors:
            self._rearm()

    def _rearm(self) -> None:
        """Takes what the clock's descriptor told; ECANCELED is what it tells."""
        with contextlib.suppress(OSError):
            os.read(self._clock, 8)
        try:
            _arm(self._clock)
        except OSError:
            self.close()

    def close(self) -> None:
        """Lets go of the descriptors; from now on nothing is known."""
        for descriptor in (self._mounts, self._clock):
            if descriptor >= 0:
                with contextlib.suppress(KeyError):
                    self._poll.unregister(descriptor)
                os.close(descriptor)
        self._mounts = self._clock = -1


def clock_watch() -> int:
    """A descriptor that becomes readable when the wall clock is set (timerfd_create(2)); raises OSError."""
    if _LIBC is None:
        raise OSError("no timerfd on this system")
    descriptor = int(_LIBC.timerfd_create(time.CLOCK_REALTIME, _NONBLOCK | _CLOEXEC))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create")
    try:
        _arm(descriptor)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _arm(descriptor: int) -> None:
    assert _LIBC is not None
    if _LIBC.timerfd_settime(descriptor, _ABSTIME | _CANCEL_ON_SET, ctypes.byref(_NEVER), None) != 0:
        number = ctypes.get_errno()
        if number != errno.ECANCELED:  # armed, but the clock was set once more just now
            raise OSError(number, "timerfd_settime")
