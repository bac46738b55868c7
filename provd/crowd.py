"""What a crowd of clients took of the memory, or one that did not read, is given back when it has gone.

Rule: the C library keeps what lies below anything that is still in use; of it only who asks gets something back.
"""

from __future__ import annotations

import asyncio
import ctypes
from typing import Final

_CROWD: Final = 64
"""Connections that may have left something worth the look, some milliseconds of one processor."""
_SOON: Final = 1.0
"""Seconds after which what they left is looked for: the last of them may still be told something."""
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's alone


class Crowd:
    """Is told how many connections there are, whenever one has come or gone. In the event loop's thread only."""

    def __init__(self) -> None:
        self._most = 0

    def are(self, count: int) -> None:
        """So many are there now."""
        self._most = max(self._most, count)
        if self._most >= _CROWD and count <= self._most // 4:
            self._most = count
            soon()


def soon() -> None:
    """Has what is left of somebody who has gone given back."""
    asyncio.get_running_loop().call_later(_SOON, give_back)


def give_back() -> None:
    """Gives the system the pages of memory that hold nothing, where the C library can."""
    if _trim is not None:
        _trim(0)
