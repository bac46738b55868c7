"""Named points at which a test can make the daemon kill itself.

Rule: without `$PROVD_KILL_AT` a point does nothing. `PROVD_KILL_AT=commit.before:3` is SIGKILL at the third
passing of that point, so that tests can show what a crash exactly there leaves behind.
"""

from __future__ import annotations

import os
import signal

_name, _, _nth = os.environ.get("PROVD_KILL_AT", "").partition(":")
_left = int(_nth or 1) if _name else 0


def point(name: str) -> None:
    """Marks a place in the code; kills the process where a test armed this name."""
    global _left  # noqa: PLW0603  counting passings is this module's one state
    if name == _name and _left:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
