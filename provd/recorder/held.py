"""What connections hold: that it is let go when they close, whatever the store says at first.

Rule: an action that nobody holds any more is open until its end is durable. So that is tried until it is, ever more
seldom; meanwhile what it names counts as being written, and it is told among the open actions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from provd.lasting import rested
from provd.store import Store, Writer
from provd.watching import Watching

BARRIER: Final = 5.0
"""Seconds for which a begin or an end waits for what happened before it to be recorded."""
_AGAIN: Final = 0.25
_LONGEST: Final = 30.0
"""Seconds until it is tried again, at first and at most."""
log = structlog.get_logger("actions")


class Held:
    """Which holders have open actions, and the tasks that let them go."""

    def __init__(self, store: Store, watch: Watching) -> None:
        self._store = store
        self._watch = watch
        self._tasks: set[asyncio.Task[None]] = set()

    def holds(self, holder: int) -> bool:
        """Whether this holder has an open action. Raises StoreUnusable."""
        with self._store.view() as view:
            return any(action.hold and action.holder == holder for action in view.actions())

    def let_go(self, holder: int, command: Callable[[Writer], None]) -> asyncio.Task[None]:
        """Carries out what ends the actions of a holder, when what happened before is recorded."""
        task = asyncio.ensure_future(self._let_go(holder, command))
        self._tasks.add(task)  # the loop itself keeps no task alive
        task.add_done_callback(self._tasks.discard)
        return task

    async def _let_go(self, holder: int, command: Callable[[Writer], None]) -> None:
        pause = _AGAIN
        while self._store.lost is None:
            try:
                if self.holds(holder):
                    await self._watch.recorded(BARRIER)
                await self._store.submit(command)
            except Exception as e:  # noqa: BLE001  nobody waits for it
                if pause == _AGAIN:
                    log.warning("actions that nobody holds any more are not ended yet", reason=repr(e))
                await rested(pause)
                pause = min(2 * pause, _LONGEST)
            else:
                return
