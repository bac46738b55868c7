"""The daemon of this user that listens at another socket than the one asked for: for hints, never to be asked instead.

A shell without $XDG_RUNTIME_DIR (cron, su, an agent) looks in the state directory, and a unit of the system has a
place of its own: there one would start a second daemon, with a second memory, beside the one that runs.

Rule: the standard library only, imported where nobody answered. Where somebody named the place, that is the place.
"""

from __future__ import annotations

import errno
import os
import pwd
import socket
from typing import TYPE_CHECKING

from provd import holders, places

if TYPE_CHECKING:
    from collections.abc import Iterator


def listening(asked: str) -> str | None:
    """The socket, other than the one that was asked, where a daemon of this user seems to listen."""
    return next((path for path in dict.fromkeys(_candidates(asked)) if path != asked and answers(path)), None)


def beside_variable() -> str | None:
    """The socket of a daemon of this user that listens where it would be asked, did $PROVD_SOCKET not name another.

    Where none does, that of the daemon which has the state directory.
    """
    asked = places.socket_place()
    if asked.source != "$PROVD_SOCKET":
        return None
    found = (places.usual_socket(), *_written(places.state_dir()))
    return next((path for path in found if path != asked.path and answers(path)), None)


def _candidates(asked: str) -> Iterator[str]:
    """In a directory its socket; what the locks of the state directories say; then the places of the units."""
    if os.path.isdir(asked):
        yield os.path.join(asked, places.SOCKET_NAME)
    yield from _written(os.path.dirname(asked))
    place = places.socket_place()
    if asked != place.path or place.source == "$PROVD_SOCKET":
        return
    yield from _written(places.state_dir())
    if not place.named:
        yield os.path.join(places.DESKTOP_RUNTIME, str(os.getuid()), "provd", places.SOCKET_NAME)
        try:
            yield places.system_socket(pwd.getpwuid(os.getuid()).pw_name)
        except KeyError:  # a number without a name, as containers have it
            return


def _written(state: str) -> Iterator[str]:
    """The socket of the daemon that has, or had, the lock of a state; none where it is not told."""
    lock = holders.written(state)
    if lock is not None and lock.socket:
        yield lock.socket


def answers(path: str) -> bool:
    """Whether somebody of this user listens there, or is too busy to take one more; it is not waited for."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0)
        try:
            if os.stat(path).st_uid != os.geteuid():
                return False
            probe.connect(path)
        except OSError as error:
            return error.errno == errno.EAGAIN
    return True
