"""The daemon's process from outside: whether it has ended.

Rule: only a process that is known to be the daemon's is waited for. One that cannot be seen from here counts as
ended: who waits then has the end of the connection to go by.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import TYPE_CHECKING, Final, Self

from provd import reach
from provd.reach import ProvdUnreachable

if TYPE_CHECKING:
    from provd.client import Client

NAP: Final = 0.01
"""Seconds between two looks at what cannot tell when it is ready."""


THERE: Final = frozenset({"silent", "busy"})
"""Why nobody was reached, where a daemon seems to be there and does nothing."""
STOPPED: Final = frozenset("Tt")
"""What the system calls a process that a signal or a debugger stopped."""


class Process:
    """A process to wait for; None where it cannot be seen. Make it while the process is sure to run."""

    def __init__(self, pid: int | None) -> None:
        self.pid = pid
        self._handle: int | None = None
        if pid is not None and hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):  # an old kernel, a sandbox, or no such process
                self._handle = os.pidfd_open(pid)

    @classmethod
    def of(cls, client: Client) -> Process:
        """The process of the daemon at the other end, where both say the same of it.

        Another number by the system means another namespace, where the daemon's own number means nothing here.
        """
        pid = (client.greeting or client.hello())["pid"]
        return cls(pid if client.peer_pid() in (pid, None) else None)

    def __enter__(self) -> Self:
        """The process itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of it."""
        if self._handle is not None:
            os.close(self._handle)

    def ended(self, deadline: float) -> bool:
        """Waits for the end; false where it still runs at the deadline (of `time.monotonic`)."""
        if self.pid is None:
            return True
        if self._handle is not None:
            ready, _, _ = select.select([self._handle], [], [], max(0.0, deadline - time.monotonic()))
            return bool(ready)
        while reach.runs(self.pid):
            if time.monotonic() >= deadline:
                return False
            time.sleep(NAP)
        return True


def hung(error: ProvdUnreachable, pid: int | None) -> ProvdUnreachable:
    """The same, with what to do about the process `pid` that listens, where it is one that does not answer."""
    if error.kind not in THERE or not pid:
        return error
    hint = next_step(pid, f"provd doctor  # tells more; then try again\nkill -9 {pid}  # ends its process")
    return ProvdUnreachable(error.message, hint, error.kind)


def next_step(pid: int | None, otherwise: str) -> str:
    """What to do about a daemon's process that does not do what it was told: let it go on where it is stopped.

    One that was killed and is still there needs no signal more.
    """
    if pid and reach.is_killed(pid):
        return f"provd doctor  # process {pid} is killed already, and ends when the file system that holds it answers"
    if pid and reach.state(pid) in STOPPED:
        return f"kill -CONT {pid}  # it is stopped, by a signal or a debugger: this lets it go on"
    return otherwise
