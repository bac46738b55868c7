"""Who is at the other end of a connection, and whether it sees the daemon's files by their paths.

Rule: where a client looks is asked at each of its requests, since a process may move to another mount namespace or root
directory on an open connection; one that cannot be looked at may be there. The connection is of the process that made
it: where that has ended, what was seen of it last holds for what it said before, and for who was handed the connection.
"""

from __future__ import annotations

import functools
import os
import socket
from typing import NamedTuple

from provd import farend


class Peer:
    """A process that connected, by the kernel's word: `pid` (0 where the system tells none) and `uid`."""

    def __init__(self, pid: int, uid: int) -> None:
        self.pid = pid
        self.uid = uid
        self._places = f"/proc/{pid}/ns/mnt", f"/proc/{pid}/root"
        self._foreign = True  # until it is looked at

    @property
    def foreign(self) -> bool:
        """Whether it may see other files than the daemon by the same paths, now (6 us).

        A thread of it that has a namespace of its own, and a process that it handed its connection to, are not seen.
        """
        self._foreign = self._look(ended=self._foreign)
        return self._foreign

    def _look(self, *, ended: bool) -> bool:
        """The same of this moment; `ended` where the process has."""
        if not hasattr(socket, "SO_PEERCRED"):
            return False
        try:
            own = _own()
        except OSError:  # no /proc: nobody can say
            return True
        try:
            for place, name in zip(self._places, own.names, strict=True):
                if os.readlink(place) != name:
                    return True
            there = os.stat(self._places[1])  # ours by its name: another one may hang, and with it whoever looks
        except (FileNotFoundError, ProcessLookupError):  # a zombie has no namespace any more
            return ended
        except OSError:
            return True
        return (there.st_dev, there.st_ino) != own.root


class _Own(NamedTuple):
    """The names of a mount namespace and of a root, and the root's device and inode: each may be alike alone."""

    names: tuple[str, str]
    root: tuple[int, int]


@functools.cache
def _own() -> _Own:
    """What this process sees itself, which moves nowhere while it serves."""
    there = os.stat("/proc/self/root")
    names = os.readlink("/proc/self/ns/mnt"), os.readlink("/proc/self/root")
    return _Own(names, (there.st_dev, there.st_ino))


def can_tell() -> bool:
    """Whether anything tells here what clients see: without a /proc nothing does, and all of them count as foreign."""
    try:
        _own()
    except OSError:
        return False
    return True


def peer_of(sock: socket.socket) -> Peer:
    """Who is at the other end of a Unix socket, looked at for the first time."""
    peer = Peer(*farend.who(sock))
    _ = peer.foreign
    return peer
