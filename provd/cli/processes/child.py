"""Another program run in our place: its streams are ours, signals for us are for it.

Rule: it is as if it had been started without us. Signals that a terminal sends reach it anyhow, since it is in our
process group; those that somebody sends to us alone are handed on.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Final

from provd import codes
from provd.cli.processes import orphans

if TYPE_CHECKING:
    from collections.abc import Sequence

_FORWARDED: Final = {
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
}
_WAITED: Final = _FORWARDED | {signal.SIGCHLD}
_KEYS: Final = {signal.SIGINT, signal.SIGQUIT}
"""What a terminal's keys send to the whole group; that it hung up it says to the leader of a session alone."""
_BY_KERNEL: Final = 128
"""`si_code` of a signal that no process sent: Ctrl-C, say."""


class NotStarted(Exception):
    """The program could not be started; `code` is what a shell would exit with."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def run(command: Sequence[str], *, wait: bool = False) -> int:
    """Run a program until it ends; its exit code, 128 + N where signal N ended it. Raises NotStarted.

    With `wait` until all have ended that it left (`orphans`), or somebody signals that he does not want to wait longer.
    To be called in the main thread of a process that has no other children.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a caller that ignores it would have us never told
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
    try:
        return _wait(_start(command, before), for_all=wait)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(command: Sequence[str], mask: set[int | signal.Signals]) -> int:
    """Start it with the signals as they were before Python and we changed them; its process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    restored = [signal.SIGPIPE, *([signal.SIGXFSZ] if hasattr(signal, "SIGXFSZ") else [])]
    try:
        return os.posix_spawnp(command[0], list(command), os.environ, setsigmask=mask, setsigdef=restored)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotStarted(f"cannot run {command[0]!r}: {error.strerror}", codes.NOT_FOUND) from None
    except (OSError, ValueError) as error:
        if isinstance(error, PermissionError) and not _on_path(command[0]):
            raise NotStarted(f"cannot run {command[0]!r}: no such command", codes.NOT_FOUND) from None
        raise NotStarted(
            f"cannot run {command[0]!r}: {getattr(error, 'strerror', error)}", codes.NOT_EXECUTABLE
        ) from None


def _on_path(name: str) -> bool:
    """Whether a program is there, so that it was the one that was denied and not a directory of the PATH."""
    return "/" in name or any(os.path.exists(os.path.join(place, name)) for place in os.get_exec_path())


def _wait(pid: int, *, for_all: bool) -> int:
    code: int | None = None
    while True:
        number, alone = _next_signal()
        ended, others = orphans.reap()
        if pid in ended:
            code = os.waitstatus_to_exitcode(ended[pid])
            code = code if code >= 0 else 128 - code
        if code is not None and not (for_all and others and number == signal.SIGCHLD):
            return code
        if number != signal.SIGCHLD and alone:
            os.kill(pid, number)  # it is not waited for yet, so the number is still its own


def _next_signal() -> tuple[int, bool]:
    """Waits for a signal: its number, and whether it was sent to us alone."""
    if sys.platform == "darwin":
        number = int(signal.sigwait(_WAITED))
        return number, number not in _KEYS or not _in_foreground()
    info = signal.sigwaitinfo(_WAITED)
    return info.si_signo, info.si_signo not in _KEYS or info.si_code != _BY_KERNEL


def _in_foreground() -> bool:
    """Whether the terminal, if there is one, sends its signals to our process group."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False
