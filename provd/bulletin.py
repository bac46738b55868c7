"""What the service manager knows of a running daemon: that it is ready, how it does in one line, that it lives.

Rule: the line is made anew when the log has grown, some time later and once for all that came together; no timer runs
while nothing happens, and nothing is made where no manager listens.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Final

from provd.heartbeat import Heartbeat
from provd.live import Live
from provd.notify import Notifier
from provd.store import Store
from provd.watch.base import RootState

_LATER: Final = 1.0
"""Seconds from a change until it is told: what comes in between is told with it."""
_NOTABLE: Final = ("scanning", "degraded", "gone")


class Bulletin:
    """Tells a manager of a daemon, from `ready` to `stopping`."""

    def __init__(self, notifier: Notifier, store: Store, live: Live) -> None:
        self._notifier = notifier
        self._live = live
        self._heartbeat = Heartbeat(notifier, store, live.pump, live.read)
        self._beating: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._told = ""

    def ready(self) -> None:
        """The socket answers. Also when a reload is done."""
        self._told = self._line()
        self._notifier.ready(self._told)
        if self._beating is None and self._notifier.watchdog is not None:
            self._beating = asyncio.ensure_future(self._heartbeat.run())

    def reloading(self) -> None:
        """The settings are being read again; `ready` ends it."""
        self._notifier.reloading()

    def changed(self) -> None:
        """Something was recorded: it may be time for another line."""
        if self._timer is None and self._notifier.listens:
            self._timer = asyncio.get_running_loop().call_later(_LATER, self._tell)

    def stopping(self) -> None:
        """The daemon ends."""
        if self._timer is not None:
            self._timer.cancel()
        if self._beating is not None:
            self._beating.cancel()
        self._notifier.stopping()
        self._notifier = Notifier()  # that was the last word

    def _tell(self) -> None:
        self._timer = None
        line = self._line()
        if line != self._told:
            self._told = line
            self._notifier.status(line)

    def _line(self) -> str:
        kept = self._live.kept
        states = ((kept.state(path), kept.lies_in_another(path)) for path in kept.paths)
        return headline(states) if self._notifier.listens else ""


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
