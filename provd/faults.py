"""Named points at which a test can make the daemon kill itself, or hang.

Rule: without `$PROVD_KILL_AT` and `$PROVD_HANG_AT` a point does nothing. `PROVD_KILL_AT=commit.before:3` is SIGKILL at
the third passing of that point, so that tests can show what a crash exactly there leaves behind.
`PROVD_HANG_AT=pump.take:/some/file` hangs for ever at the first passing of that point at which the file is there, and
removes it, so that a test can choose the moment, and see that it has come.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading

_name, _, _nth = os.environ.get("PROVD_KILL_AT", "").partition(":")
_left = int(_nth or 1) if _name else 0
_hangs, _, _sign = os.environ.get("PROVD_HANG_AT", "").partition(":")


def point(name: str) -> None:
    """Marks a place in the code; kills the process, or hangs the thread, where a test armed this name."""
    global _left  # noqa: PLW0603  counting passings is this module's one state
    if name == _name and _left:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    if name == _hangs and _is_time():
        threading.Event().wait()


async def stall(name: str) -> None:
    """Marks a place in a task; only the task hangs where a test armed this name, and the loop goes on."""
    if name == _hangs and _is_time():
        await asyncio.Event().wait()


def _is_time() -> bool:
    try:
        os.unlink(_sign)
    except OSError:
        return False
    return True
