"""Long work with low priority, so that what is asked meanwhile comes first.

A thread with the usual priority holds its CPU for milliseconds before the kernel lets the one that answers have it. Not
the policy SCHED_IDLE, which would do even better on a machine at rest: on a busy one such a thread gets nothing for
half a second, and it may hold the interpreter then.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from typing import Final, TypeVar

BIG: Final = 16 << 20
"""Bytes from which the content of a file is long work; less is hashed in some milliseconds."""

_NICE: Final = 10

_Result = TypeVar("_Result")


def lower_priority() -> None:
    """Lowers the priority of this thread, for ever: few processes may raise one again."""
    if sys.platform == "linux":  # elsewhere it would be that of the process
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def calmly(work: Callable[[], _Result]) -> _Result:
    """What `work` returns or raises, done by a thread of its own with low priority.

    This thread waits for it: where that one hangs both do, and whoever counts this one counts both.
    """
    done: list[_Result] = []
    failed: list[BaseException] = []

    def serve() -> None:
        lower_priority()
        try:
            done.append(work())
        except BaseException as error:  # noqa: BLE001  it belongs to who waits
            failed.append(error)

    try:
        thread = threading.Thread(target=serve, name="provd-calm-reader", daemon=True)
        thread.start()
    except RuntimeError:  # the system gives no more threads
        return work()
    thread.join()
    for error in failed:
        raise error
    return done[0]
