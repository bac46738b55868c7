"""Who is at the far end of a connected Unix socket, by the kernel's word.

Rule: no import that takes long, typing among them: a question asked as a whole process waits for it (`fastpath`).
"""

from __future__ import annotations

import _socket
import os
import stat
import sys

TYPE_CHECKING = False  # typing costs more than all that is here
if TYPE_CHECKING:
    from typing import Final, Protocol

    class Connected(Protocol):
        """A socket, of whichever module."""

        def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
            """The bytes of an option."""


_PEERCRED: Final = getattr(_socket, "SO_PEERCRED", None)
_UCRED: Final = 12
"""Bytes of Linux' struct ucred: the numbers of the process, the user and the group."""
_XUCRED: Final = 76
"""Bytes of macOS' struct xucred, which begins with a version and the user id (LOCAL_PEERCRED, level 0)."""
_WORD: Final = 4
_NOBODY: Final = 65534
"""The number of all users that a user namespace has none for."""


def who(connection: Connected) -> tuple[int, int]:
    """The process (0 where the system tells none) and the effective user of who connected, or of who listens."""
    if _PEERCRED is None:
        return 0, _word(connection.getsockopt(0, 1, _XUCRED), 1)
    told = connection.getsockopt(_socket.SOL_SOCKET, _PEERCRED, _UCRED)
    return _word(told, 0), _word(told, 1)


def doubtful(connection: Connected, path: str) -> int | None:
    """The user who listens at the `path` that was connected to, where nothing that he says may be believed; else None.

    He is neither this one nor root. To root a user may answer in a place of his own, as root asks in the name of
    others; not where others might have put his socket. Root of a user namespace alone is no more than its user.
    """
    user = who(connection)[1]
    if not is_another(user):
        return None
    if os.geteuid() == 0 and is_outermost() and _is_his(path, user):
        return None
    return user


def _is_his(path: str, user: int) -> bool:
    """Whether none but root and this user could put something at a path, which leads over no link."""
    place = os.path.abspath(path)
    if not stat.S_ISSOCK(os.lstat(place).st_mode):
        return False
    while place != "/":
        place = os.path.dirname(place)
        there = os.lstat(place)
        if not stat.S_ISDIR(there.st_mode) or there.st_uid not in {0, user} or there.st_mode & 0o022:
            return False
    return True


def is_another(user: int) -> bool:
    """Whether a user is neither this one nor root, as far as numbers tell: in a user namespace one stands for many."""
    if user != os.geteuid():
        return user != 0
    return user == _NOBODY and not is_outermost()


def has_number() -> bool:
    """Whether this user has a number of his own here, so that who listens and who connects may be told from others."""
    return not is_another(os.geteuid())


def is_outermost() -> bool:
    """Whether this process sees all users by their own numbers, in no namespace of users."""
    try:
        described = os.open("/proc/self/uid_map", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # another system, which has no such namespaces; else nobody can say
        return sys.platform != "linux"
    try:
        return os.read(described, 100).split() == [b"0", b"0", b"4294967295"]
    finally:
        os.close(described)


def _word(told: bytes, at: int) -> int:
    return int.from_bytes(told[at * _WORD : (at + 1) * _WORD], sys.byteorder)
