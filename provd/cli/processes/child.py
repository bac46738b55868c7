"""Another program run in our place: its streams are ours, signals for us are for it.

Rule: it is as if it had been started without us. Signals that a terminal sends reach it anyhow, since it is in our
process group; those that somebody sends to us alone are handed on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

from provd import codes
from provd.cli.processes import orphans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    with blocked() as mask:
        return shell_code(wait_for(start(command, mask), for_all=wait))


@contextlib.contextmanager
def blocked() -> Iterator[set[int | signal.Signals]]:
    """Meanwhile signals wait to be heard of by `wait_for`; the mask that was before is a program's own."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a caller that ignores it would have us never told
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def shell_code(code: int) -> int:
    """What a shell says of an exit code that is -N where signal N ended the process."""
    return code if code >= 0 else 128 - code


def start(command: Sequence[str], mask: set[int | signal.Signals]) -> int:
    """Start it with the signals as they were before Python and we changed them; its process id. Raises NotStarted."""
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


def wait_for(pid: int, *, for_all: bool = False, sender: int | None = None) -> int:
    """Waits until a child has ended, `for_all` as `wait` of `run`; its exit code, -N where signal N ended it.

    Signals are handed on to it; with a `sender` those of that process alone: what others send to the group it has.
    """
    code: int | None = None
    while True:
        number, alone, by = _next_signal()
        ended, others = orphans.reap()
        if pid in ended:
            code = os.waitstatus_to_exitcode(ended[pid])
        if code is not None and not (for_all and others and number == signal.SIGCHLD):
            return code
        if number == signal.SIGCHLD or not alone:
            continue
        if sender is None or by in {None, sender} or os.getpgid(pid) != os.getpgrp():
            os.kill(pid, number)  # it is not waited for yet, so the number is still its own


def wait_for_orphans() -> None:
    """Waits until all children have ended, or somebody signals."""
    while orphans.reap()[1] and _next_signal()[0] == signal.SIGCHLD:
        pass


def _next_signal() -> tuple[int, bool, int | None]:
    """Waits for a signal: its number, whether it was sent to us alone, and by whom where that is told."""
    if sys.platform == "darwin":
        number = int(signal.sigwait(_WAITED))
        return number, number not in _KEYS or not _in_foreground(), None
    info = signal.sigwaitinfo(_WAITED)
    return info.si_signo, info.si_signo not in _KEYS or info.si_code != _BY_KERNEL, info.si_pid


def _in_foreground() -> bool:
    """Whether the terminal, if there is one, sends its signals to our process group."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False
