"""What a put without digests shows all the same: that nothing changed from its clock to the put.

Rule: no single sign is believed. A put takes the digest of now for that of the clock only if what it names was at
rest since before the clock (times older by the step, a lease granted, one name), every name on the way to it is
watched, and neither a mutation nor a gap after the clock concerns it. Whatever is missing leaves it *unproven*.

Why that is enough: what is written with an event is a record, or a gap; a change of coverage is a gap too, so that
what is covered now, with no gap since, was covered since. What makes no event (a store through a mapping, AIO)
moves a time, unless it goes through a mapping that was live before, and then no lease is granted. Everything is
looked at before the second barrier, so that what changed before the looks is recorded when the transaction asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from provd.clocks import Clocks
from provd.core.clock import Since
from provd.core.dependency import Dependency
from provd.core.entry import Kept
from provd.core.reading import Found, Reading
from provd.disk import IgnoreRules, Rest, RestLooker, Workers, base_of
from provd.inquiry import is_quiet
from provd.store import Writer
from provd.watching import Coverage, Watching

BARRIER: Final = 2.0
"""Seconds for which a put waits for what happened to be recorded."""


class Showing:
    """Looks, for puts, at what was at rest since their clocks. `rules` gives the ignore rules of the moment."""

    def __init__(self, workers: Workers, clocks: Clocks, watch: Watching, rules: Callable[[], IgnoreRules]) -> None:
        self._workers = workers
        self._clocks = clocks
        self._watch = watch
        self._rules = rules

    async def at_rest(
        self,
        since: Since | None,
        found: Mapping[Reading, Found],
        patience: float,
    ) -> Mapping[Reading, Rest]:
        """What was at rest since the clock, of what was `found` after a first barrier, and is wholly watched."""
        if since is None or not since.exact or not found or not self._watch.roots:
            return {}
        before = self._clocks.given(since.position)
        if before is None:
            return {}
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        looker = RestLooker(found, before, self._rules(), self._workers.mounts.now(), deadline)
        told = await self._workers.each(looker, looker.paths, patience)
        rests: Mapping[Reading, Rest] = {reading: rest for one in told.values() for reading, rest in one.items()}
        rests = self._covered(
            rests
        )  # before the barrier: the gap of what is covered again only now is not recorded yet
        if not rests or not await self._watch.recorded(BARRIER) or self._clocks.given(since.position) is None:
            return {}
        return self._covered(rests)

    def _covered(self, rests: Mapping[Reading, Rest]) -> Mapping[Reading, Rest]:
        coverage = Coverage(self._watch, self._rules())
        return {r: rest for r, rest in rests.items() if coverage.is_whole(rest.route, r.kind, base_of(r))}


class Shown(msgspec.Struct, frozen=True):
    """What a put shows, and the position of its clock: enough to decide inside the transaction."""

    since: int = 0
    rests: Mapping[Reading, Rest] = {}

    def kept(self, writer: Writer, dep: Dependency, reading: Reading, found: Found) -> Kept | None:
        """The dependency as it is kept, None where the log knows of a change since the clock."""
        rest = self.rests.get(reading)
        if rest is None or found.digest is None or self.since < writer.oldest() - 1:
            return None
        kept = Kept(dep, found.digest, real=rest.route.at, signature=rest.signature, shown=True)
        return kept if is_quiet(writer, kept, rest.route, self.since) else None
