"""Which threads of a job leave it again, since the interpreter is what it takes and not the disk.

Rule: one thread too many costs everybody else. Who waits for the interpreter asks for it only where nobody got it for a
while; two threads that make one system call after the other hand it to each other all the time, and whoever answers
questions waits for tens of milliseconds.
"""

from __future__ import annotations

import threading
import time
from typing import Final

_LOOK: Final = 20
"""Steps of its own after which a thread looks whether it is needed."""
_TAKEN: Final = 0.5
"""The part of the time for which the threads of a job have the interpreter, from which on one of them would do."""


class Company:
    """The threads of one job. Any of them may ask."""

    def __init__(self) -> None:
        self.left = 0
        """Threads that went since they were too many."""
        self.inside = 0
        """Threads that take part."""
        self._lock = threading.Lock()

    def join(self) -> Member:
        """One more thread takes part."""
        with self._lock:
            self.inside += 1
        return Member(self)

    def go(self, *, needless: bool) -> bool:
        """One thread goes; False where it is the last one, and so not `needless`."""
        with self._lock:
            if needless and self.inside < 2:  # noqa: PLR2004  itself and another
                return False
            self.inside -= 1
            self.left += needless
            return True


class Member:
    """One thread in the company; used by that thread alone."""

    def __init__(self, company: Company) -> None:
        self._company = company
        self._own = 0
        self._steps = -1
        self._since = self._worked = 0.0
        self._is_inside = True

    def goes(self, steps: int) -> bool:
        """Whether this thread is to go after one more step of its own, where the job has made `steps` in all.

        It is where others get on, too, and all of them wait for each other rather than for a disk: who hangs is no
        company.
        """
        if self._steps < 0:  # what was done before it came says nothing of now
            self._steps, self._since, self._worked = steps - 1, time.monotonic(), time.thread_time()
        self._own += 1
        if self._own < _LOOK:
            return False
        now, worked = time.monotonic(), time.thread_time()
        own, others = self._own, steps - self._steps - self._own
        taken = (worked - self._worked) * self._company.inside > (now - self._since) * _TAKEN
        self._own, self._steps, self._since, self._worked = 0, steps, now, worked
        if taken and others >= own // 2 and self._company.go(needless=True):
            self._is_inside = False
            return True
        return False

    def end(self) -> None:
        """It takes part no more, for whatever reason."""
        if self._is_inside:
            self._is_inside = False
            self._company.go(needless=False)
