"""Waiting for what other processes do to files, without looking again and again.

Nothing of the product is imported: the kernel is asked by hand.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import time
from typing import TYPE_CHECKING, Final

from wire_by_hand import HANG

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

_MODIFY, _MOVED, _CREATE, _DELETE = 0x2, 0xC0, 0x100, 0x200
_EVENTS: Final = _MODIFY | _MOVED | _CREATE | _DELETE
_MOST: Final = 65536
_PAUSE: Final = 0.005
"""Seconds between two looks where the kernel does not tell (other systems than Linux)."""


def until(question: Callable[[], bool], directory: str, process: subprocess.Popen[bytes] | None = None) -> None:
    """Waits until the answer is yes; asks at once, and again whenever something changed directly in `directory`.

    Raises AssertionError where that takes longer than HANG seconds, or `process` ends before the answer is yes.
    """
    deadline = time.monotonic() + HANG
    with _told(directory) as descriptor, _ended(process) as end:
        told = [each for each in (descriptor, end) if each is not None]
        ended = False
        while not question():
            assert not ended, "the process ended instead"
            left = deadline - time.monotonic()
            assert left > 0, f"not within {HANG} s"
            ready, _, _ = select.select(told, [], [], left if descriptor is not None else _PAUSE)
            ended = end in ready
            if descriptor in ready:
                os.read(descriptor, _MOST)


@contextlib.contextmanager
def _told(directory: str) -> Iterator[int | None]:
    """A descriptor that is readable when something changed; None where the kernel has no inotify."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        yield None
        return
    descriptor = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    assert descriptor >= 0, os.strerror(ctypes.get_errno())
    try:
        assert libc.inotify_add_watch(descriptor, os.fsencode(directory), _EVENTS) > 0, os.strerror(ctypes.get_errno())
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes] | None) -> Iterator[int | None]:
    """A descriptor that is readable when the process has ended; None where there is none."""
    if process is None or process.returncode is not None or not hasattr(os, "pidfd_open"):
        yield None
        return
    descriptor = os.pidfd_open(process.pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
