"""What a clock without digests shows all the same: that nothing changed from the clock to the put, or the question.

Rule: no single sign is believed. The digest of now is taken for that of the clock only if what it names was at
rest since before the clock (times older by the step, a lease granted, one name), every name on the way to it is
watched, and neither a mutation nor a gap after the clock concerns it. Whatever is missing leaves it *unproven*.

Why that is enough: what is written with an event is a record, or a gap; a change of coverage is a gap too, so that
what is covered now, with no gap since, was covered since. What makes no event (a store through a mapping, AIO)
moves a time, unless it goes through a mapping that was live before, and then no lease is granted. Everything is
looked at before the second barrier, so that what changed before the looks is recorded when the transaction asks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from provd.clocks import Clocks
from provd.core import errors, records
from provd.core.clock import Since
from provd.core.dependency import PATH_KINDS, Dependency
from provd.core.entry import Kept
from provd.core.reading import Found, Reading
from provd.core.verdict import reading_of
from provd.disk import IgnoreRules, Rest, RestLooker, Workers, base_of, come_after
from provd.inquiry import is_quiet
from provd.store import Store, View, Writer
from provd.watching import PATIENCE, Coverage, Watching

BARRIER: Final = 2.0
"""Seconds for which is waited until what happened is recorded."""


class Showing:
    """Looks at what was at rest since a clock. `rules` gives the ignore rules of the moment."""

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
        found = {
            r: there for r, there in found.items() if there.digest is not None
        }  # the others may hang, and show nothing
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
        ways = {reading: {os.path.dirname(hop) for hop in rest.route.hops} for reading, rest in rests.items()}
        left = max(0.0, deadline - loop.time())
        passed = await self._workers.each(come_after, set().union(*ways.values()), left)
        rests = {reading: rest for reading, rest in rests.items() if ways[reading] <= passed.keys()}
        # Before the barrier: the gap of what is covered again only now is not recorded yet.
        rests = self._covered(rests)
        left = min(BARRIER, max(0.0, deadline - loop.time()))
        if not rests or not await self._watch.recorded(left) or self._clocks.given(since.position) is None:
            return {}
        return self._covered(rests)

    async def clock(self, store: Store) -> str:
        """The token of the newest position, which shows what rests.

        Where that is spent, a record makes another one: after a mount elsewhere nothing else would, as long as nothing
        happens in the roots. It is no gap, since no place and no object is concerned. Where it cannot be written the
        token shows nothing, which the put says.
        """
        with contextlib.suppress(errors.ProvdError, TimeoutError):
            with store.view() as view:
                ahead = view.head() > store.head
            if ahead:  # `action.list` may have shown it, and who then takes a clock takes it to lie after that
                await asyncio.wait_for(store.submit(lambda _: None), BARRIER)  # told after all that is committed
        head = store.head
        token = self._clocks.token(head)  # from here on it is known when it was first given out
        if not self._watch.roots or not self._clocks.spent(head):
            return token
        root = self._watch.roots[0]

        def renew(writer: Writer) -> None:
            if writer.head() == head:
                writer.append(records.RootChange(writer.now, records.RENEWED, root))

        with contextlib.suppress(errors.ProvdError, TimeoutError):
            await asyncio.wait_for(store.submit(renew), PATIENCE)
        return self._clocks.token(store.head)

    def spent(self, since: Since | None) -> str:
        """Why a clock shows nothing any more, where it is one of `clock.SPENT`; else empty."""
        return self._clocks.spent(since.position) if since is not None and since.exact else ""

    def _covered(self, rests: Mapping[Reading, Rest]) -> Mapping[Reading, Rest]:
        coverage = Coverage(self._watch, self._rules())
        return {r: rest for r, rest in rests.items() if coverage.is_whole(rest.route, r.kind, base_of(r))}


class Shown(msgspec.Struct, frozen=True):
    """What is shown since the position of a clock: enough to decide by one view, or inside a transaction.

    `spent` says why that clock shows nothing at all, where it is one of `clock.SPENT`.
    """

    since: int = 0
    rests: Mapping[Reading, Rest] = {}
    spent: str = ""

    def kept(self, view: View, dep: Dependency, reading: Reading, found: Found) -> Kept | None:
        """The dependency as it is kept, None where the log knows of a change since the clock."""
        rest = self.rests.get(reading)
        if rest is None or found.digest is None or self.since < view.oldest() - 1:
            return None
        kept = Kept(dep, found.digest, real=rest.route.at, signature=rest.signature, shown=True)
        return kept if is_quiet(view, kept, rest.route, self.since) else None

    def instead(self, view: View, kept: Kept, found: Mapping[Reading, Found], proven: int) -> Kept:
        """What nobody said the content of, with the digest that is shown; else as it was.

        What was `found` was read after the position `proven`.
        """
        there = found.get(reading_of(kept)) if is_unsaid(kept) else None
        shown = None if there is None else self.kept(view, kept.dep, reading_of(kept), there)
        if there is None or shown is None:
            return kept
        return msgspec.structs.replace(shown, proven=None if there.linked else proven)


def is_unsaid(kept: Kept) -> bool:
    """Whether nobody said what the content of a path was."""
    return kept.digest is None and kept.dep.kind in PATH_KINDS
