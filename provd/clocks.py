"""Clocks of this daemon: positions to tokens and back, over all the runs that the log knows."""

from __future__ import annotations

import bisect

from provd.core import clock
from provd.core.clock import Clock, Since, Span
from provd.store import Store


class Clocks:
    """Tokens of the log that `store` holds, in its run `run` (16 hex digits), whose opening gap is durable."""

    def __init__(self, store: Store, run: str) -> None:
        self._store = store
        self.run = run
        with store.view() as view:
            self._runs = view.runs()
        self._firsts = sorted((span.first, name) for name, span in self._runs.items())

    def token(self, position: int) -> str:
        """The token of a position, told by the run that it belongs to."""
        at = bisect.bisect_right(self._firsts, (position, "g")) - 1  # run ids are hex: "g" sorts after each
        first, run = self._firsts[max(at, 0)]
        return str(Clock(self._store.log_id, run, max(position, first)))

    def since(self, token: str) -> Since:
        """What a client's token is worth here; raises ClockMalformed."""
        asked = clock.parse(token)
        head = self._store.head
        if asked.position > head:  # a view may have told of a commit that the loop has not heard of yet
            with self._store.view() as view:
                head = view.head()
        self._runs[self.run] = Span(self._runs[self.run].first, head)
        return clock.resolve(asked, log=self._store.log_id, run=self.run, runs=self._runs)

    @property
    def started(self) -> int:
        """The position of the gap that began this run."""
        return self._runs[self.run].first
