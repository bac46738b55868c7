"""From threads to the loop: things in order, and a descriptor that is readable while there are some.

Rule: putting never blocks, never raises and takes no more than a bounded amount of memory; what does not fit is
counted as lost, and that is told.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Final, Generic, TypeVar

_Item = TypeVar("_Item")

MOST: Final = 200_000
"""Things that may wait; a busy build makes so many in some seconds."""


class Inbox(Generic[_Item]):
    """Any thread puts, the loop's thread takes."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._items: list[_Item] = []
        self._lost = False
        self._rung = False
        self._reader, self._writer = _descriptors()

    def fileno(self) -> int:
        """The descriptor; -1 when it is closed."""
        return self._reader

    def put(self, item: _Item) -> None:
        """Adds a thing; it is lost where too many wait."""
        with self._lock:
            if self._reader < 0:
                return
            if len(self._items) < self._most:
                self._items.append(item)
            else:
                self._lost = True
            if not self._rung:
                self._rung = True
                os.write(self._writer, b"\1\0\0\0\0\0\0\0")

    def take(self) -> tuple[list[_Item], bool]:
        """All that waits, in order, and whether something after it was lost."""
        with self._lock:
            if not self._rung:
                return [], False
            self._rung = False
            with contextlib.suppress(BlockingIOError):
                os.read(self._reader, 8)
            items, lost = self._items, self._lost
            self._items, self._lost = [], False
            return items, lost

    def close(self) -> None:
        """Gives the descriptors back; what is put later is dropped."""
        with self._lock:
            for fd in {self._reader, self._writer} - {-1}:
                os.close(fd)
            self._reader = self._writer = -1
            self._rung = False


def _descriptors() -> tuple[int, int]:
    """Where to read and where to write; one and the same where the system has event descriptors."""
    if hasattr(os, "eventfd"):
        fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        return fd, fd
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    return reader, writer
