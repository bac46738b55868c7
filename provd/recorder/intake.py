"""What the watcher tells, in order: taken in batches, or looked at ahead.

Rule: reading is cheap and is done often, by whoever needs it; all of it is done here, since what was read wakes nobody
any more. What was taken ahead is recorded before what comes later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from provd.core.notice import Notice
from provd.watch.base import Watcher

_AHEAD: Final = 4096
"""Notices that are looked at before they are recorded, at most."""
_MUCH: Final = 512
"""Notices that are more than one batch of the pump records in a moment."""


class Intake:
    """The notices of a watcher. `stir` has `wake` called soon: something was read."""

    def __init__(self, watcher: Watcher, stir: Callable[[], None]) -> None:
        self._watcher = watcher
        self._stir = stir
        self._early: list[Notice] = []
        self.turns = 0
        """How often the pump came by, to take something or to see whether anything waits, or got on otherwise."""

    def read(self) -> int:
        """Takes what the system has to tell into memory; about how many notices that lies there makes."""
        waiting = self._watcher.read()
        if waiting:
            self._stir()
        return waiting

    def wake(self) -> bool:
        """Reads, and has done what cannot wait; whether so much waits that some should be taken at once."""
        self._watcher.read()
        return self._watcher.pressing()

    def is_much(self) -> bool:
        """Whether more waits than one batch of the pump records in a moment."""
        return self.count() > _MUCH

    def count(self) -> int:
        """Reads; about how many notices are not taken."""
        return self.read() + len(self._early)

    def waits(self) -> bool:
        """Reads; whether anything waits."""
        self.turns += 1
        return self.read() > 0 or bool(self._early)

    def left(self) -> bool:
        """Whether something that was read is not taken."""
        return bool(self._early) or self._watcher.waiting()

    def take(self, limit: int) -> tuple[list[Notice], bool]:
        """Up to about `limit` notices, and whether those are all that there are by now."""
        self.read()
        notices, self._early = self._early[:limit], self._early[limit:]
        if len(notices) < limit:
            notices += self._watcher.take(limit - len(notices))
        self.turns += 1
        return notices, not self.left()

    def ahead(self) -> list[Notice] | None:
        """All that waits by now; it is taken later. None where that is too much to be looked at, or not all of it."""
        self.read()
        while len(self._early) < _AHEAD and (more := self._watcher.take(_AHEAD)):
            self._early += more
        return None if self._watcher.waiting() else self._early
