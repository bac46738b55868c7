"""Clocks of this daemon: positions to tokens and back, over all the runs that the log knows.

Rule: several tokens may share a position. What is compared with the times of files is the earliest moment at which
any of them was given out, and only as long as the wall clock was not set and nothing was mounted: a mount that came
and went moves no time, makes no event and leaves no trace in the table of mounts. After that all tokens of the position
are *spent*, those too that are given out later: nothing tells them apart.
"""

from __future__ import annotations

import bisect
import itertools
import threading
import time
from collections import ChainMap
from typing import Final

import msgspec

from provd.core import clock
from provd.core.clock import Clock, Since, Span
from provd.disk import MountWatch
from provd.store import Store

REMEMBERED: Final = 100_000
"""Positions whose moment is remembered."""
_SLACK: Final = 5_000_000
"""Nanoseconds by which two measures of the wall clock's distance from boot differ though nobody set it."""
_LOOKS: Final = 5
_CLOCK_BOOTTIME: Final = getattr(time, "CLOCK_BOOTTIME", None)


class Moment(msgspec.Struct, frozen=True, array_like=True):
    """A moment: CLOCK_REALTIME in nanoseconds, how far that was from CLOCK_BOOTTIME, and how often mounts had changed.

    Changes between which nobody asked count as one.
    """

    at: int
    offset: int
    mounts: int = 0


def moment() -> Moment:
    """This moment."""
    at = time.time_ns()
    if _CLOCK_BOOTTIME is None:
        return Moment(at, 0)
    offset = 0
    for _ in range(_LOOKS):
        before = time.clock_gettime_ns(_CLOCK_BOOTTIME)
        offset = time.time_ns() - before
        if time.clock_gettime_ns(_CLOCK_BOOTTIME) - before < _SLACK // 5:  # else this thread was held up in between
            break
    return Moment(at, offset)


class Clocks:
    """Tokens of the log that `store` holds, in its run `run` (16 hex digits), whose opening gap is durable."""

    def __init__(self, store: Store, run: str) -> None:
        self._store = store
        self.run = run
        with store.view() as view:
            self._runs = view.runs()
        self._firsts = sorted((span.first, name) for name, span in self._runs.items())
        self._begun = moment()
        self._lock = threading.Lock()  # tokens are made in the writer's thread too
        self._watch = MountWatch()
        self._mounts = 0
        self._given: dict[int, Moment] = {}
        self._forgotten = self.started - 1  # positions up to here may have been given out earlier than is known

    def token(self, position: int) -> str:
        """The token of a position, told by the run that it belongs to."""
        first, run = self._run_of(position)
        position = max(position, first)
        if position > self._forgotten and position not in self._given:
            with self._lock:
                self._remember(position)
        return str(Clock(self._store.log_id, run, position))

    def name(self, position: int) -> str | None:
        """The token of a position as a name for it, which nobody reads anything by; None before the first run."""
        first, run = self._run_of(position)
        return None if position < first else str(Clock(self._store.log_id, run, position))

    def _run_of(self, position: int) -> tuple[int, str]:
        at = bisect.bisect_right(self._firsts, (position, "g")) - 1  # run ids are hex: "g" sorts after each
        return self._firsts[max(at, 0)]

    def _remember(self, position: int) -> None:
        if len(self._given) >= REMEMBERED:
            oldest = list(itertools.islice(self._given, REMEMBERED // 2))
            self._forgotten = max(self._forgotten, *oldest)
            self._given = {at: when for at, when in self._given.items() if at > self._forgotten}
        if position > self._forgotten:
            self._given.setdefault(position, msgspec.structs.replace(moment(), mounts=self._mounted()))

    def _mounted(self) -> int:
        """How often what is mounted has changed until now, as far as anybody asked; with the lock held."""
        self._mounts += self._watch.changed()
        return self._mounts

    def given(self, position: int) -> int | None:
        """A time (ns of CLOCK_REALTIME) before which no token of this position was given out; None if nobody knows.

        Nobody does where the position is spent, or is of another run.
        """
        when = self._when(position)
        return when.at if isinstance(when, Moment) else None

    def spent(self, position: int) -> str:
        """Why a token of this position shows nothing, where it is one of `clock.SPENT`; else empty."""
        when = self._when(position)
        return when if isinstance(when, str) else ""

    def _when(self, position: int) -> Moment | str | None:
        """The moment of the first token of a position, or why that says nothing any more; None if nobody knows."""
        if position < self.started or _CLOCK_BOOTTIME is None:
            return None
        when = self._given.get(position)
        if when is None:  # its record is older than every token of it
            with self._store.view() as view:
                record = view.record(position)
            if record is None:
                return None
            when = Moment(record.at, self._begun.offset)
        with self._lock:
            mounts = self._mounted()
        if when.mounts != mounts:
            return clock.MOUNTED
        return clock.SET if abs(moment().offset - when.offset) > _SLACK else when

    def since(self, token: str, head: int | None = None) -> Since:
        """What a client's token is worth here; raises ClockMalformed. Any thread but the loop's gives the `head`."""
        asked = clock.parse(token)
        if head is None:
            head = self._store.head
            if asked.position > head:
                head = self.head()
        runs = ChainMap({self.run: Span(self.started, head)}, self._runs)
        return clock.resolve(asked, log=self._store.log_id, run=self.run, runs=runs)

    def head(self) -> int:
        """The newest position: a view may have told of a commit that the loop has not heard of yet."""
        with self._store.view() as view:
            return view.head()

    @property
    def stepped(self) -> int:
        """Nanoseconds by which the wall clock was set forward since the start (below 0: back); 0 if nobody knows."""
        if _CLOCK_BOOTTIME is None:
            return 0
        by = moment().offset - self._begun.offset
        return by if abs(by) > _SLACK else 0

    @property
    def begun(self) -> int:
        """When this run began: nanoseconds of the wall clock as it was then."""
        return self._begun.at

    @property
    def started(self) -> int:
        """The position of the gap that began this run."""
        return self._runs[self.run].first
