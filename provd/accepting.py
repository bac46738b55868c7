"""Who connects is let in at once, with all who wait.

Rule: the loop's own way to listen takes in one a turn, so that whoever comes would wait behind the work of all who came
before. Where no descriptor is left who comes is hung up on, by the one that is kept for that, and waits for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable
from typing import Final

import structlog

_AT_ONCE: Final = 256
"""Connections that are taken in one go."""
_PAUSE: Final = 0.1
"""Seconds after which it is listened again, where the system can take in nobody."""
log = structlog.get_logger("server")


class Listener:
    """Takes in whoever connects to a bound socket; `make` gives what serves him. Where it fails he is hung up on."""

    def __init__(self, listening: socket.socket, make: Callable[[], asyncio.Protocol], backlog: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = listening
        self._make = make
        self._coming: set[asyncio.Task[None]] = set()
        self._spare = _spare()
        self._again: asyncio.TimerHandle | None = None
        listening.setblocking(False)  # noqa: FBT003
        listening.listen(backlog)
        self._loop.add_reader(listening, self._accept)

    def close(self) -> None:
        """Lets in nobody any more."""
        if self._again is not None:
            self._again.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()
        self._let_go()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection = self._socket.accept()[0]
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except Exception as e:  # noqa: BLE001  whatever it is, the next one is let in
                self._refuse(e)
                return
            task = asyncio.ensure_future(self._let_in(connection))
            self._coming.add(task)  # the loop itself keeps no task alive
            task.add_done_callback(self._coming.discard)

    async def _let_in(self, connection: socket.socket) -> None:
        try:
            connection.setblocking(False)  # noqa: FBT003
            await self._loop.connect_accepted_socket(self._make, connection)
        except Exception as e:  # noqa: BLE001  nobody waits for it
            connection.close()
            with contextlib.suppress(Exception):
                log.warning("who connected cannot be served", reason=repr(e))

    def _refuse(self, error: Exception) -> None:
        """Hangs up on one who waits, where there is no descriptor for him; else waits a little."""
        if isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE} and self._spare >= 0:
            self._let_go()
            with contextlib.suppress(OSError):
                self._socket.accept()[0].close()
            self._spare = _spare()
            if self._spare >= 0:
                return
        self._loop.remove_reader(self._socket)
        self._again = self._loop.call_later(_PAUSE, self._listen_again)

    def _listen_again(self) -> None:
        self._again = None
        if self._spare < 0:
            self._spare = _spare()
        self._loop.add_reader(self._socket, self._accept)

    def _let_go(self) -> None:
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1


def _spare() -> int:
    """A descriptor of nothing; -1 where none is left."""
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
