"""How many descriptors this process has open, and how many it may have."""

from __future__ import annotations

import contextlib
import os
import resource


def descriptors() -> dict[str, int]:
    """How many descriptors the daemon may have open (`limit`), and how many it has (`used`), where that is known."""
    told = {"limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0]}
    with contextlib.suppress(OSError):
        told["used"] = len(os.listdir("/dev/fd")) - 1  # one of them lists the others
    return told
