"""A daemon in the background, where no service manager runs one.

Rule: what is started here outlives the shell that asked: a session of its own, `/` as its directory, nothing of the
caller's open, its words in a log file. One at a time is started for a state directory; whoever comes second finds the
first.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from provd import refusals
from provd.cli import output, steps
from provd.cli.command import Failure, least
from provd.cli.processes.holding import NOBODY, Holder, anew, holder, lost, must_be_own
from provd.cli.processes.process import NAP, hung, next_step
from provd.client import Client, ProvdUnreachable, RpcError
from provd.farend import has_number
from provd.ownfile import NotAFile, open_file
from provd.places import LOG_NAME, START_LOCK_NAME, shut
from provd.reach import MAPPED, lies_at
from provd.services import ServiceError, itself

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENDING: Final = 10.0
"""Seconds for which a daemon may hold its lock without its socket: it ends."""
_PAUSE: Final = 0.2
"""Seconds between two starts while another daemon ends."""
_TOLD: Final = 4096
"""Bytes of a log's end that are looked at for why it ended."""
_LAST_LINES: Final = 5
_MANAGERS: Final = frozenset(
    ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "JOURNAL_STREAM")
)
"""What a service manager says to the caller, and not to a daemon that the caller starts."""


_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))
_FREE: Final = "provd start  # when there is space on that disk"
_ANOTHER: Final = "provd start --state DIR"
SHUTDOWN: Final = "shutdown"
"""The code of a daemon's refusal that ends."""
_HELD: Final = "uses the state directory"
"""What a daemon says that finds the lock held."""


class _Held(Failure):
    """The lock of the state directory is held by another daemon."""


@dataclass(frozen=True)
class Wanted:
    """The daemon to start: absolute places, absolute roots, the way of watching if one was chosen."""

    state: str
    socket: str
    roots: tuple[bytes, ...] = ()
    backend: str | None = None

    @property
    def log(self) -> str:
        """Where it logs."""
        return os.path.join(self.state, LOG_NAME)


def reached(path: str, timeout: float) -> Client | None:
    """A connection to the daemon at `path`; None where nobody listens there, or who does ends.

    `timeout`: seconds for each answer.

    Raises ProvdUnreachable where somebody may: silent, forbidden, not provd.
    """
    try:
        client = Client(path, least(timeout))
    except ProvdUnreachable as error:
        if error.kind in NOBODY or nobody(path):  # by now somebody may: then the next look finds him
            return None
        raise
    try:
        client.hello()
    except RpcError as error:
        client.close()
        if error.code == SHUTDOWN:  # it ends, as if it were gone
            return None
        raise
    except ProvdUnreachable as error:
        pid = client.peer_pid()
        client.close()
        if nobody(path):  # it ended while it was asked
            return None
        raise hung(error, pid) from None
    client.timeout = timeout
    return client


def nobody(path: str) -> bool:
    """Whether nobody listens at a path."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0)
        try:
            probe.connect(path)
        except OSError as error:
            return error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED}
    return False


def silent(held: Holder, state: str) -> Failure:
    """The failure where a daemon holds the lock of a state directory and cannot be reached."""
    where = held.socket or "any socket yet"
    message = f"another daemon (pid {held.pid}) uses the state directory {state} and does not answer at {where}"
    if held.socket and nobody(held.socket):
        return Failure(lost(held) if lies_at(held.socket) else message, anew(held))
    return Failure(message, next_step(held.pid, f"kill {held.pid}  # or see what it logs"))


def start(wanted: Wanted, timeout: float) -> tuple[int, bool]:
    """Starts a daemon and waits until it answers; its pid, and whether it was started here. In a `turn` of its own.

    One that is there already is as good. Raises Failure where it ended or is not ready in time, ProvdUnreachable
    where something else is at the socket.
    """
    begun = time.monotonic()
    deadline = begun + timeout
    while True:
        there = _pid_at(wanted.socket, timeout)
        if there is not None:
            return there, False
        held = holder(wanted.state)
        try:
            if held is None or _answers(held, timeout):  # the second is refused with what to do
                return _once(wanted, deadline)
        except _Held:
            if time.monotonic() >= deadline or _answers(holder(wanted.state), timeout):
                raise
        if held is not None and (
            lies_at(held.socket)  # it makes no socket there
            or time.monotonic() >= min(deadline, begun + _ENDING if held.socket else deadline)
        ):
            raise silent(held, wanted.state)
        time.sleep(_PAUSE)  # it still ends, or begins


def _answers(held: Holder | None, timeout: float) -> bool:
    return held is not None and bool(held.socket) and _pid_at(held.socket, timeout) is not None


@contextlib.contextmanager
def turn(state: str, timeout: float) -> Iterator[None]:
    """Holds the right to start a daemon on this state; raises Failure. What is made meanwhile is for this user.

    Who restarts one has it from before the end of the old one until all is said of the new one, so that no other ends
    that meanwhile. `timeout`: seconds to wait for it.
    """
    if not has_number():
        message = "no daemon was started: in this user namespace you are known by no number of your own"
        raise Failure(message, f"provd start  # {MAPPED}")
    must_be_own(state)
    mask = os.umask(0o077)
    try:
        with _lock_held(state, time.monotonic() + timeout):
            yield
    finally:
        os.umask(mask)


def _once(wanted: Wanted, deadline: float) -> tuple[int, bool]:
    log = _log(wanted.log)
    try:
        before = os.fstat(log).st_size
        process = _launch(wanted, log)
    finally:
        os.close(log)
    try:
        return _wait(process, wanted, before, deadline)
    except KeyboardInterrupt:
        process.terminate()
        raise


@contextlib.contextmanager
def _lock_held(state: str, deadline: float) -> Iterator[None]:
    try:
        refusals.make_directory(state)
        lock = open_file(os.path.join(state, START_LOCK_NAME), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    except NotAFile as error:
        raise Failure(f"the state directory {state} cannot be used: {error.strerror}", error.hint) from None
    except OSError as error:
        raise _unusable(error, state) from None
    try:
        while not _locked(lock):
            if time.monotonic() >= deadline:
                message = f"another provd start or restart is at work on {state} and does not end"
                raise Failure(
                    message, f"fuser {output.quoted(state)}/{START_LOCK_NAME}  # which process it is: end that"
                )
            time.sleep(NAP)
        yield
    finally:
        os.close(lock)


def _unusable(error: OSError, state: str) -> Failure:
    """Why no daemon can be started there: its disk, or the rights of this user."""
    if (refusal := refusals.of(error, state)) is not None:
        return Failure(f"{refusal.what}: no daemon starts there", f"{refusal.hint}\n{_ANOTHER}")
    if error.errno in _FULL:
        hint = _FREE
    elif closed := shut(state):
        hint = f"chmod 700 {output.quoted(closed)}"
    else:
        hint = f"ls -ld {output.quoted(state)}  # may this user write?\n{_ANOTHER}"
    return Failure(f"the state directory {state} cannot be used: {error.strerror}", hint)


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pid_at(path: str, timeout: float) -> int | None:
    client = reached(path, timeout)
    if client is None:
        return None
    with client:
        pid: int = client.hello()["pid"]
        return pid


def _log(path: str) -> int:
    try:
        return open_file(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)
    except NotAFile as error:
        raise Failure(f"the daemon has nowhere to log to: {error.strerror}", error.hint) from None
    except OSError as error:
        if refusals.of(error, path) is not None:
            raise _unusable(error, os.path.dirname(path)) from None
        hint = _FREE if error.errno in _FULL else "see what stands there"
        raise Failure(f"the log {path} cannot be written: {error.strerror}", hint) from None


def _launch(wanted: Wanted, log: int) -> subprocess.Popen[bytes]:
    try:
        words = itself.words()
    except ServiceError as error:
        raise Failure(error.message, error.hint) from None
    run = itself.run_words(wanted.roots, wanted.state, wanted.socket, wanted.backend)
    kept = {name: value for name, value in os.environ.items() if name not in _MANAGERS}
    return subprocess.Popen(
        [*words, *run, "--log-file", wanted.log],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=log,
        cwd="/",
        env={**kept, **itself.search_path()},
        umask=0o077,
        start_new_session=True,
    )


def _wait(process: subprocess.Popen[bytes], wanted: Wanted, before: int, deadline: float) -> tuple[int, bool]:
    """Waits until the process answers, or ended and another answers; raises Failure."""
    while True:
        code = process.poll()
        with contextlib.suppress(ProvdUnreachable):
            there = _pid_at(wanted.socket, max(NAP, deadline - time.monotonic()))
            if there == process.pid:
                process.returncode = 0  # it is let go of: nobody here waits for its end
                return there, True
            if there is not None and code is not None:
                return there, False
        if code is not None:
            raise _ended(code, wanted.log, before)
        if time.monotonic() >= deadline:
            message = f"the daemon (pid {process.pid}) does not answer yet at {wanted.socket}; it was left running"
            process.returncode = 0
            raise Failure(message, next_step(process.pid, _see(wanted.log)))
        time.sleep(NAP)


def _unwritable(path: str) -> int | None:
    """The number of the error where the disk or the quota has no room for another byte of a log, else None."""
    log = _log(path)
    try:
        os.write(log, b"\n")
    except OSError as error:
        return error.errno if error.errno in _FULL else None
    finally:
        os.close(log)
    return None


def _see(log: str) -> str:
    return f"tail {output.quoted(log)}  # what it logged"


def _ended(code: int, path: str, before: int) -> Failure:
    """Why a daemon ended at once, in its own words."""
    with open(open_file(path, os.O_RDONLY), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(before if before <= size else 0, size - _TOLD))
        lines = file.read().decode(errors="replace").splitlines()
    told = next((number for number, line in reversed(list(enumerate(lines))) if line.startswith("provd: ")), None)
    if told is None and (full := _unwritable(path)) is not None:  # then its last words are lost
        why = f"{os.strerror(full)} ({errno.errorcode[full]})"
        return Failure(f"the daemon ended with code {code} and could not log why to {path}: {why}", _FREE)
    if told is None:
        said = " / ".join(lines[-_LAST_LINES:]) or "nothing"
        return Failure(f"the daemon ended with code {code}; it said: {said}", _see(path))
    hint = steps.told_in(lines[told + 1 :])
    kind = _Held if _HELD in lines[told] else Failure
    return kind(f"the daemon did not start: {lines[told].removeprefix('provd: ')}", hint or _see(path))
