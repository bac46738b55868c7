"""Whether this daemon still is the one of its state directory: it is as long as the lock that it holds lies there.

Rule: a lock whose file was removed keeps nobody out. Another daemon may then serve the same places and acknowledge
what this one never hears of, so who finds it gone answers nothing more, binds no socket and ends. It is looked at
before each request; the kernel's word of it wakes a daemon that nobody asks, and no timer does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Final

from provd.core import errors
from provd.lockfile import StateDirectory
from provd.store import Store
from provd.watch import syscalls

_GONE: Final = syscalls.ATTRIB | syscalls.MOVE_SELF | syscalls.DELETE_SELF
"""What tells that a file lost its name: its count of links changes, since it is open here."""
_MOST: Final = 65536


class Tenure:
    """Looks at the lock of `directory`; where it is gone, `store` is lost, which ends the daemon."""

    def __init__(self, directory: StateDirectory, store: Store) -> None:
        self._directory = directory
        self._store = store
        self._fd = -1

    def over(self) -> errors.StoreUnusable | None:
        """Why this daemon may not answer any more, None while it may; a look costs a microsecond."""
        if (astray := self._directory.astray()) is not None:
            self._store.lose(astray.message)
        return astray

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Has the kernel tell that the lock, its directory or one above went; where it cannot, the next look does."""
        with contextlib.suppress(OSError, AttributeError):  # no inotify, or no instance left
            kernel = syscalls.Kernel()
            self._fd = kernel.init()
            loop.add_reader(self._fd, self._told)
            kernel.add(self._fd, os.fsencode(self._directory.lock), _GONE)
            at = os.fsencode(os.path.realpath(self._directory.path))
            while at != b"/":
                kernel.add(self._fd, at, syscalls.PASSAGE)
                at = os.path.dirname(at)
        self.over()  # it may have gone before

    def _told(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, _MOST)
        if self.over() is not None:
            self.close()

    def close(self) -> None:
        """Listens no more."""
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
