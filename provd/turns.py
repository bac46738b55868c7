"""Who has many requests shares each turn of the loop with all others who have some.

Rule: what is not taken yet stays the bytes that it came as. So whoever comes waits for one turn of each who came
before, and a crowd costs no more memory than what it has sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

_TAKEN: Final = 64
"""Lines that are taken before the loop hears of anybody again."""
_SOON: Final = 16
"""Lines after which is seen to it that the next turn begins; of less nobody needs to know."""
_BEGUN: Final = 64
"""Requests that are begun at once, shared by the connections that have some, and one of each at least; the others wait,
since all that are begun have their turn before the loop hears of anybody."""


class Turns:
    """The turns of the running loop."""

    def __init__(self) -> None:
        self.busy = 0
        """Connections of which requests are begun."""
        self._taken = 0
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_due = False

    def take(self) -> bool:
        """Counts one more line of this turn; False if it must wait for the next."""
        if self._taken >= _TAKEN:
            return False
        self._taken += 1
        if self._taken == _SOON:
            self._ask_for_next()
        return True

    def share(self) -> int:
        """Lines that one connection may take now, before it waits for the others."""
        return max(1, _TAKEN // (1 + len(self._waiting)))

    def begun_of_each(self) -> int:
        """Requests that each busy connection may have begun."""
        return max(1, _BEGUN // max(1, self.busy))

    def wait(self, go_on: Callable[[], None]) -> None:
        """Has a connection go on when its turn comes."""
        self._waiting.append(go_on)
        self._ask_for_next()

    def _ask_for_next(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._is_due = False
        self._taken = 0
        try:
            for _ in range(len(self._waiting)):
                if self._taken >= _TAKEN:
                    break
                self._waiting.popleft()()
        finally:
            if self._waiting:
                self._ask_for_next()
