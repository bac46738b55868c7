"""How a client gets at the daemon's socket, and what is said where it does not.

Rule: each way to fail has a message of where and why, and a hint of what to do; clients say them, and invent none.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Final

from provd import farend

NAME_IT: Final = "provd doctor  # tells where it is looked for; --socket, or $PROVD_SOCKET for all, names another place"

MAPPED: Final = "outside of it, or in a user namespace that has your number (unshare --user --map-root-user)"
"""Where one may be believed, and who listens may be."""


class ProvdUnreachable(Exception):
    """No daemon answers: no socket, refused, forbidden, vanished, or silent for too long.

    `message` says where the client looked and why it failed, `hint` what to do next, `kind` the same in one word:
    `absent stale file busy sandbox denied long stranger silent closed`, or `other`. `elsewhere` is the socket of
    another daemon of this user, where one seems to listen.
    """

    def __init__(self, message: str, hint: str, kind: str = "other", elsewhere: str | None = None) -> None:
        super().__init__(f"{message}; {hint}")
        self.message = message
        self.hint = hint
        self.kind = kind
        self.elsewhere = elsewhere


class Silent(ProvdUnreachable):
    """Nothing came in time."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__(
            f"the daemon at {path} did not answer within {seconds:g} s",
            "provd doctor  # tells whether it is stopped or hangs; then try again",
            "silent",
        )


def stranger(path: str) -> ProvdUnreachable:
    """What answers does not speak as provd does."""
    return ProvdUnreachable(f"what answers at {path} is not provd", NAME_IT, "stranger")


def connect(path: str, timeout: float | None) -> socket.socket:
    """A connected socket; raises ProvdUnreachable. `timeout`: seconds, None to wait for ever."""
    try:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise _unreachable(path, error) from None
    try:
        # Connected while blocking: without it a full queue of connections is an error instead of a wait.
        if timeout is not None:
            connection.setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(timeout), int(timeout % 1 * 1e6))
            )
        connection.connect(path)
        user = farend.doubtful(connection, path)
    except OSError as error:
        connection.close()
        raise _unreachable(path, error) from None
    if user is not None:
        connection.close()
        raise _not_believed(path, user)
    return connection


def _not_believed(path: str, user: int) -> ProvdUnreachable:
    if user != os.geteuid():
        told = f"who listens at {path} is user {user}, and this is user {os.geteuid()}: what he says is not believed"
        return ProvdUnreachable(told, NAME_IT, "stranger")
    told = f"in this user namespace you have no number, as others: who listens at {path} may be anybody (user {user})"
    return ProvdUnreachable(told, f"provd status  # {MAPPED}", "stranger")


def runs(pid: int) -> bool:
    """Whether a process exists and is more than what its parent has not asked about yet."""
    try:
        os.getpgid(pid)  # needs no permission, as kill(pid, 0) does
    except ProcessLookupError:
        return False
    return state(pid) not in {"Z", "X"}  # where nothing is told it ended just now, or the next look tells


def state(pid: int) -> str:
    """The letter that the system has for what a process does (`T` is stopped); empty where it is not told."""
    return (stat_of(pid) or [""])[0]


def is_killed(pid: int) -> bool:
    """Whether a process was sent SIGKILL and is still there: the kernel holds it, as a file system that hangs does."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            pending = [line.split()[1] for line in file if line.startswith((b"SigPnd:", b"ShdPnd:"))]
    except OSError:
        return False
    return any(int(signals, 16) >> 8 & 1 for signals in pending)  # SIGKILL is the ninth


def stat_of(pid: int) -> list[str]:
    """The fields of a process behind its name (proc(5): its state, its parent, ...); [] where they are not told."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode().split()
    except OSError:
        return []


def _unreachable(path: str, error: OSError) -> ProvdUnreachable:
    """Why there is no connection, and what to do about it."""
    run_it = f"provd start\n{NAME_IT}"
    allow_it = f"in an agent's sandbox, allow Unix sockets in {os.path.dirname(path)} or run the command outside it"
    reason = error.strerror or str(error)
    forbidden = f"not allowed to connect to {path} ({reason})", f"a sandbox forbids it: {allow_it}", "sandbox"
    known = {
        errno.ENOENT: (f"no daemon: there is no socket at {path}", run_it, "absent"),
        errno.ECONNREFUSED: (f"no daemon: nobody listens at {path} any more", run_it, "stale"),
        errno.EAGAIN: (
            f"the daemon at {path} takes no new connections",
            "provd status  # again in a moment: it is overloaded, or stopped",
            "busy",
        ),
        errno.EPERM: forbidden,
        errno.EAFNOSUPPORT: forbidden,  # a filter of families: RestrictAddressFamilies
        errno.EACCES: (
            f"not allowed to connect to {path} ({reason})",
            f"run as the daemon's user; {allow_it}",
            "denied",
        ),
        # Python's own error, without a number: the path does not fit the kernel's address.
        None: (f"the socket's path is too long for the system: {path}", NAME_IT, "long"),
    }
    message, hint, kind = known.get(error.errno, (f"cannot connect to {path}: {reason}", run_it, "other"))
    if error.errno in {errno.ECONNREFUSED, errno.ENOENT} and (other := lies_at(path)):
        from provd.quoting import quoted  # noqa: PLC0415

        look = f"ls -ld {quoted(path)}  # what lies there; --socket, or $PROVD_SOCKET for all, names another place"
        message, hint, kind = f"no daemon: {path} is {other}, not a socket", look, "file"
    if kind == "denied" and (closed := _shut(path)):
        hint = f"chmod 700 {closed}  # its directory is closed to its own user"
    there = _elsewhere(path) if kind in {"absent", "stale", "file"} else None
    return ProvdUnreachable(message, hint if there is None else ask_it(there), kind, there)


def lies_at(path: str) -> str:
    """What is at the path, where that is something else than a socket; empty where it is one, or cannot be seen."""
    import stat  # noqa: PLC0415  (only where nobody answers)

    try:
        mode = os.stat(path).st_mode
    except OSError:
        return "a link that leads nowhere" if os.path.islink(path) else ""
    if stat.S_ISSOCK(mode):
        return ""
    return "a directory" if stat.S_ISDIR(mode) else "a file" if stat.S_ISREG(mode) else "a special file"


def _elsewhere(path: str) -> str | None:
    from provd import elsewhere  # noqa: PLC0415  (only where nobody answers)

    return elsewhere.listening(path)


def _shut(path: str) -> str:
    from provd import places  # noqa: PLC0415
    from provd.quoting import quoted  # noqa: PLC0415

    closed = places.shut(path)
    return quoted(closed) if closed else ""


def ask_it(path: str) -> str:
    """What to do where a daemon listens at another socket than the one that was asked."""
    from provd.quoting import quoted  # noqa: PLC0415

    return f"export PROVD_SOCKET={quoted(path)}  # a daemon of yours listens there"
