"""The sign of life that systemd's watchdog waits for: sent only after the daemon has shown that it works.

Rule: a sign is sent when all of this was seen to happen since the last one: what the kernel had to tell was read, the
store was read, the writer answered, the pump came by to take what was read, or got on with that. What is stuck never
does; then nothing is sent, and systemd starts a new daemon. What is slow does it late; what is refused (the disk is
full) is an answer too.

Nothing here looks at the wall clock: neither does systemd, and for both no time passes while a machine sleeps. Where no
watchdog is asked for there is no timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import structlog

from provd.notify import Notifier
from provd.store import Store

_PART: Final = 3
"""A sign is sent each third of the watchdog's time, so that a late one costs nothing."""
_LOOKS: Final = 30
"""The part of the watchdog's time after which is looked again at what has not shown itself."""
log = structlog.get_logger("heartbeat")


class Pumping(Protocol):
    """What a pump shows of itself."""

    @property
    def turns(self) -> int:
        """How often it came by to take what was read, or was answered by the writer."""

    @property
    def idle(self) -> bool:
        """Whether there is nothing that it should take or do."""

    def kick(self) -> None:
        """Has it look whether there is something to do."""


class Heartbeat:
    """Sends signs of life for as long as `run` runs. `read` takes what the kernel has to tell into memory.

    A writer that waits for the disk, inside the kernel, is not stuck: a new daemon would wait for the same disk, and
    questions are answered meanwhile. Neither is a pump that waits for such a writer.
    """

    def __init__(self, notifier: Notifier, store: Store, pump: Pumping, read: Callable[[], None]) -> None:
        self._notifier = notifier
        self._store = store
        self._pump = pump
        self._read = read
        self._asked: asyncio.Future[None] | None = None  # what the writer has not answered yet
        self._asked_at = 0.0
        self._turns = 0
        self._every = (notifier.watchdog or 0.0) / _PART
        self._again = (notifier.watchdog or 0.0) / _LOOKS

    async def run(self) -> None:
        """For ever; returns at once where no watchdog is asked for."""
        if self._notifier.watchdog is None:
            return
        while True:
            await self.beat()
            await asyncio.sleep(self._every)

    async def beat(self) -> None:
        """Waits until the daemon has shown that it works, and sends one sign."""
        await self._until("the kernel's queue cannot be read", self._drained)
        self._turns = self._pump.turns
        await self._until("the store cannot be read", self._looked_up)
        await self._until("the writer does not answer", self._answered)
        await self._until("the pump does not take what was read", self._taken)
        self._notifier.ping()

    async def _until(self, trouble: str, shown: Callable[[], Awaitable[bool]]) -> None:
        """Asks until something has shown itself; that it has not in a while is told once."""
        tries = 0
        while not await self._tried(shown):
            tries += 1
            if tries == _LOOKS // _PART:
                log.warning("no sign of life yet", why=trouble)

    async def _tried(self, shown: Callable[[], Awaitable[bool]]) -> bool:
        """One question; what fails has shown nothing, and is asked again a little later."""
        try:
            return await shown()
        except Exception as e:  # noqa: BLE001  whatever it is: without a sign systemd will see to it
            log.warning("no sign of life", why=repr(e))
            await asyncio.sleep(self._again)
            return False

    async def _drained(self) -> bool:
        self._read()
        return True

    async def _looked_up(self) -> bool:
        """A view is opened and read: a row by its key, and one by its place."""
        with self._store.view() as view:
            view.head()
            view.oldest()
        return True

    async def _answered(self) -> bool:
        """Whether the writer has answered, or its disk does not."""
        return await self._heard() or self._disk_is_waited_for()

    async def _heard(self) -> bool:
        """Whether the writer answers in a moment, whatever it says; it is asked again only when it has."""
        if self._asked is None:
            self._asked = self._store.submit(lambda _: None)
            self._asked_at = asyncio.get_running_loop().time()
        await asyncio.wait({self._asked}, timeout=self._again)
        if not self._asked.done():
            return False
        self._asked.exception()  # a refusal is an answer
        self._asked = None
        return True

    def _disk_is_waited_for(self) -> bool:
        """Whether the writer owes an answer for long and waits for the disk: every sync does so for a moment."""
        since = asyncio.get_running_loop().time() - self._asked_at
        return self._asked is not None and since >= self._every and self._store.waits_for_disk()

    async def _taken(self) -> bool:
        """Whether the pump came by since the kernel's queue was read, or has no reason to."""
        if self._moved():
            return True
        self._pump.kick()
        if not await self._heard():  # then the pump may wait for the writer
            return self._moved() or self._disk_is_waited_for()
        await asyncio.sleep(self._again)
        return self._moved()

    def _moved(self) -> bool:
        return self._pump.idle or self._pump.turns != self._turns
