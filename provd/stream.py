"""Lines to a descriptor that somebody else reads, or does not: a pipe, a terminal, a socket, a file.

Rule: nothing waits for the reader. A line for which there is no room is dropped; one that went out in part is ended
before the next one begins.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
from collections.abc import Callable
from typing import Final

_PIECE: Final = 4096
"""Bytes that a pipe takes at once where it takes any (PIPE_BUF of Linux; elsewhere pipes are larger than that, too)."""
_NOT_BLOCKING: Final = getattr(socket, "MSG_DONTWAIT", 0)


class Lines:
    """Writes to a descriptor that stays open; what else is written there is not disturbed."""

    def __init__(self, fd: int) -> None:
        self._ours = contextlib.ExitStack()
        self._send = _sender(fd, self._ours)
        self._cut = False  # the last line is not ended yet

    def write(self, data: bytes) -> None:
        """Writes some lines as far as there is room; raises OSError where there is none, or nobody reads any more."""
        whole = b"\n" + data if self._cut else data
        sent = self._send(whole)
        self._cut = sent < len(whole) and (sent > 0 or self._cut)

    def close(self) -> None:
        """Gives back what was opened beside the descriptor, which stays open."""
        self._ours.close()


def _sender(fd: int, ours: contextlib.ExitStack) -> Callable[[bytes], int]:
    """What writes there without waiting; it says how many bytes went, and may raise OSError.

    What it opens goes with `ours`.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISSOCK(mode):
        sock = ours.enter_context(socket.socket(fileno=os.dup(fd)))
        return lambda data: sock.send(data, _NOT_BLOCKING)
    if stat.S_ISREG(mode):
        return lambda data: os.write(fd, data)
    own = _opened_again(fd)
    if own is not None:
        ours.callback(os.close, own)
        return lambda data: os.write(own, data)
    return lambda data: _by_pieces(fd, data)


def _opened_again(fd: int) -> int | None:
    """The same pipe or terminal as a descriptor of our own that does not block; None where it cannot be had.

    To make `fd` itself so would make it so for all who have it: the shell, and who else writes to that terminal.
    """
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:  # another system, another user's terminal, a pipe that nobody reads
        return None


def _by_pieces(fd: int, data: bytes) -> int:
    """Writes as long as the system says that there is room for a piece."""
    waiter = select.poll()
    waiter.register(fd, select.POLLOUT)
    sent = 0
    while sent < len(data) and waiter.poll(0):
        sent += os.write(fd, data[sent : sent + _PIECE])
    return sent
