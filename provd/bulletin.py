"""What the service manager knows of a running daemon: that it is ready, how it does in one line, that it lives.

Rule: the line is made anew when the log has grown, some time later and once for all that came together; no timer runs
while nothing happens, and nothing is made where no manager listens. With thousands of roots it is made seldom, and
never in one go: others have their turn in between.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from provd.heartbeat import Heartbeat
from provd.lasting import lasting
from provd.live import Live
from provd.notify import Notifier
from provd.store import Store
from provd.watch.base import RootState

_LATER: Final = 1.0
"""Seconds from a change until it is told: what comes in between is told with it."""
_EACH: Final = 0.002
"""As much for each root where that is longer."""
_IN_TIME: Final = 4
"""The part of the watchdog's time after which signs of life that failed are begun anew: however often they did."""
_SLICE: Final = 100
"""Roots that are looked at in one go."""
_NOTABLE: Final = ("scanning", "degraded", "gone")


class Bulletin:
    """Tells a manager of a daemon, from `ready` to `stopping`."""

    def __init__(self, notifier: Notifier, store: Store, live: Live) -> None:
        self._notifier = notifier
        self._live = live
        self._heartbeat = Heartbeat(notifier, store, live.pump, live.read)
        self._beating: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None
        self._told = ""

    def ready(self) -> None:
        """The socket answers. Also when a reload is done."""
        self._told = self._line()
        self._notifier.ready(self._told)
        if self._beating is None and self._notifier.watchdog is not None:
            longest = self._notifier.watchdog / _IN_TIME
            self._beating = asyncio.ensure_future(lasting("signs of life", self._heartbeat.run, longest))

    def reloading(self) -> None:
        """The settings are being read again; `ready` ends it."""
        self._notifier.reloading()

    def changed(self) -> None:
        """Something was recorded: it may be time for another line."""
        if self._timer is None and self._notifier.listens:
            later = max(_LATER, len(self._live.kept.paths) * _EACH)
            self._timer = asyncio.get_running_loop().call_later(later, self._tell)

    def stopping(self) -> None:
        """The daemon ends."""
        if self._timer is not None:
            self._timer.cancel()
        for task in (self._beating, self._telling):
            if task is not None:
                task.cancel()
        self._notifier.stopping()
        self._notifier = Notifier()  # that was the last word

    def _tell(self) -> None:
        self._timer = None
        if self._telling is not None and not self._telling.done():
            self.changed()  # what came since is told in the next line
            return
        self._telling = asyncio.ensure_future(self._tell_slowly())

    async def _tell_slowly(self) -> None:
        """Makes the line by slices; says it where it is another one."""
        states = []
        for number, each in enumerate(self._states(), 1):
            states.append(each)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        line = headline(states)
        if line != self._told:
            self._told = line
            self._notifier.status(line)

    def _line(self) -> str:
        return headline(self._states()) if self._notifier.listens else ""

    def _states(self) -> Iterator[tuple[RootState, bool]]:
        """How each root is watched, and whether it lies in another; one that went meanwhile is left out."""
        kept = self._live.kept
        return ((kept.state(path), kept.lies_in_another(path)) for path in kept.paths if path in kept)


def headline(roots: Iterable[tuple[RootState, bool]]) -> str:
    """One line of how roots are watched; each comes with whether it lies in another one, which watches for both.

    For example `watching 3 roots, 12,345 directories; 1 scanning`.
    """
    states = list(roots)
    directories = _count(sum(state.directories for state, inside in states if not inside), "directory", "directories")
    counts = Counter(state.state for state, _ in states)
    notable = "".join(f"; {counts[name]} {name}" for name in _NOTABLE if counts[name])
    if not states:
        return "watching nothing: provd watch add DIR"
    return f"watching {_count(len(states), 'root', 'roots')}, {directories}{notable}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
