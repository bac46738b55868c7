"""What questions need of the watcher: that what happened is recorded, and where silence proves something.

Rule: silence counts only where every name on the way to a thing, and what is below it, is watched.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from provd.core.dependency import PATTERN_KINDS, Kind, is_under, with_above
from provd.disk import IgnoreRules, Route
from provd.watch.base import Uncovered

PATIENCE: Final = 30.0
"""Seconds for which a clock or a page of the log waits for what happened to be recorded."""


class Watching(Protocol):
    """The watcher and the recorder of its notices, together."""

    @property
    def roots(self) -> Sequence[bytes]:
        """The real paths of the roots."""
        ...

    @property
    def mounted(self) -> int:
        """The position at or before which something was last mounted or unmounted anywhere; 0 if not in this run."""
        ...

    def read(self) -> None:
        """Takes what the system has to tell into memory: cheap, and done at each question."""
        ...

    def glance(self) -> tuple[int, int] | None:
        """See `watch.base.Telling`."""
        ...

    def fileno(self) -> int:
        """A descriptor that is readable where the system has something to tell; -1 where there is none."""
        ...

    async def recorded(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """Waits until everything that happened before the call is in the log; False if that takes too long."""
        ...

    def is_recorded(self) -> bool:
        """Whether all that was read is durable in the log."""
        ...

    def is_behind(self) -> bool:
        """Whether recording what was read takes longer than who can do without it waits."""
        ...

    async def scanned(self) -> None:
        """Waits until the roots that are polled were scanned."""
        ...

    def uncovered(self, path: bytes) -> list[Uncovered]:
        """The places at, above or below the real `path` that are not watched now; [] where all of it is."""
        ...


class Unwatched:
    """Nothing is watched: everything is uncovered, and everything that is ever told is in the log."""

    def __init__(self, roots: Callable[[], Sequence[bytes]] = tuple) -> None:
        self._roots = roots

    @property
    def roots(self) -> Sequence[bytes]:
        """See Watching."""
        return self._roots()

    @property
    def mounted(self) -> int:
        """See Watching."""
        return 0

    def read(self) -> None:
        """See Watching."""

    def glance(self) -> tuple[int, int] | None:
        """See Watching."""
        return None

    def fileno(self) -> int:
        """See Watching."""
        return -1

    async def recorded(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """See Watching."""
        del timeout
        return True

    def is_recorded(self) -> bool:
        """See Watching."""
        return True

    def is_behind(self) -> bool:
        """See Watching."""
        return False

    async def scanned(self) -> None:
        """See Watching."""

    def uncovered(self, path: bytes) -> list[Uncovered]:
        """See Watching."""
        return [Uncovered(path, "nothing is watched")]


class Coverage:
    """Where silence proves something at this moment; made anew for each question.

    `rules` say what sets leave out; it is needed where a set may be named through a link.
    """

    def __init__(self, watch: Watching, rules: IgnoreRules | None = None) -> None:
        self._watch = watch
        self._rules = rules
        self._roots = frozenset(watch.roots)
        self._above = frozenset(up for root in self._roots for up in with_above(root))
        self._hops: dict[bytes, Uncovered | None] = {}

    def lost_on(self, route: Route) -> Uncovered | None:
        """The first place on a way of which silence proves nothing, None where there is none.

        What lies above a root is vouched for by the watcher, as long as the way goes on into a root.
        """
        for hop in route.hops:
            lost = self._lost_at(hop)
            if lost is not None:
                return lost
        return None if self._in_root(route.at) else Uncovered(route.at, "outside the watched roots")

    def is_whole(self, route: Route, kind: Kind, base: bytes) -> bool:
        """Whether silence proves something of a dependency whose `base` has this way.

        What a set leaves out goes by the name that was written, what is not watched by the real one: so a set that is
        named through a link may hold what is not watched.
        """
        if self.lost_on(route) is not None:
            return False
        uncovered = self._watch.uncovered(route.at)
        if kind is Kind.TREE or kind in PATTERN_KINDS:
            return not uncovered and (not route.there or self._leaves_out_the_same(base, route.at))
        return not any(is_under(route.at, place.path) for place in uncovered)

    def _leaves_out_the_same(self, base: bytes, real: bytes) -> bool:
        if os.path.normpath(base) == real:
            return True
        return self._rules is not None and self._rules.are_alike(base, real)

    def _lost_at(self, hop: bytes) -> Uncovered | None:
        if hop not in self._hops:
            self._hops[hop] = self._look(hop)
        return self._hops[hop]

    def _look(self, hop: bytes) -> Uncovered | None:
        if hop in self._above:
            return None
        if not self._in_root(hop):
            return Uncovered(hop, "outside the watched roots")
        return next((place for place in self._watch.uncovered(hop) if is_under(hop, place.path)), None)

    def _in_root(self, path: bytes) -> bool:
        return any(place in self._roots for place in with_above(path))


async def scanned_and_recorded(watch: Watching) -> None:
    """Waits, as long as that is sensible, until a clock taken afterwards comes after all that happened before."""
    with contextlib.suppress(TimeoutError):  # a polled root is never covered, so nothing is lost by its silence
        await asyncio.wait_for(watch.scanned(), PATIENCE)
    await watch.recorded(PATIENCE)
