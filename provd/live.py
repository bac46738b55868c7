"""The watching of a running daemon: its watchers, the pump behind them and its roots put together.

Rule: a question first takes what the system has to tell. What is mounted is looked at before events are, since a mount
makes none. When nothing happens, nothing is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import structlog

from provd.disk import Workers
from provd.lasting import lasting
from provd.recorder import Roots
from provd.recorder.mutations import Pump
from provd.settings import Settings
from provd.store import Store
from provd.watch.base import Ignored, Uncovered, Watcher
from provd.watch.filesystems import backend_of
from provd.watch.fleet import Fleet
from provd.watch.polling import Polling
from provd.watching import PATIENCE

_LOOK_EVERY: Final = 10.0
_GLANCE: Final = 0.5
"""Seconds for which a status waits for what looking at the roots has shown."""
_PATIENCE: Final = 2.0
"""Seconds for which a clock waits for roots to be taken up."""
_QUIET: Final = 2.0
"""Seconds for which an audit waits for files to be at rest and hashed."""
log = structlog.get_logger("live")


def _inotify() -> Watcher:
    from provd.watch.inotify import InotifyWatcher  # noqa: PLC0415  it is not there on every platform

    return InotifyWatcher()


def _watchdog() -> Watcher:
    from provd.watch.observer import ObserverWatcher  # noqa: PLC0415  few need it, and it takes long to load

    return ObserverWatcher()


WATCHERS: Final = {"inotify": _inotify, "watchdog": _watchdog}


class Live:
    """See `watching.Watching`. `kept` has the roots, `pump` what becomes of their notices."""

    def __init__(self, settings: Settings, store: Store, workers: Workers) -> None:
        named = (os.fsencode(settings.state), os.fsencode(settings.socket))
        self._own = frozenset([*named, *map(os.path.realpath, named)])
        self._fleet = Fleet(settings.backend, backend_of, WATCHERS, seconds=settings.poll_seconds)
        self.pump = Pump(
            store,
            self._fleet,
            workers,
            own=sorted(self._own),
            roots=lambda: self.kept.paths,
            rules=self._rules_in,
        )
        self.kept = Roots(store, named[0], self._fleet, self.pump, workers)
        self._polling = Polling(self._fleet, workers, self.pump.scan, self.pump.wake, seconds=settings.poll_seconds)
        self.kept.changed = self._polling.changed
        self._store = store
        self.mounted = 0
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, grown: asyncio.Event) -> None:
        """Begins to watch; `grown` is set whenever the log has grown."""
        loop = asyncio.get_running_loop()
        self.pump.start(loop)
        if self._fleet.mounts_fileno() >= 0:
            loop.add_reader(self._fleet.mounts_fileno(), self._look_at_mounts)
        self.kept.start()
        works = (lasting("polling", self._polling.run), lasting("looking at roots", partial(self._look, grown)))
        self._tasks = [asyncio.ensure_future(work) for work in works]

    async def close(self) -> None:
        """Ends watching; what was read and is not recorded is told by the gap of the next run."""
        for task in self._tasks:
            task.cancel()
        await self._polling.close()
        await self.kept.close()
        if self._fleet.mounts_fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._fleet.mounts_fileno())
        self.pump.close()
        self._fleet.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def pace(self, seconds: float) -> None:
        """From now on polled roots are scanned so often."""
        self._fleet.pace(seconds)
        self._polling.pace(seconds)

    async def look(self) -> None:
        """Looks at all roots now, for who asks how they are."""
        self._fleet.check()
        self.pump.kick()
        await self.pump.recorded(_GLANCE)
        await self.kept.check()

    # what questions need

    @property
    def roots(self) -> Sequence[bytes]:
        """The real paths of the roots."""
        return self.kept.paths

    def read(self) -> None:
        """Takes what the system has to tell into memory."""
        self._look_at_mounts()
        self.pump.read()

    def glance(self) -> tuple[int, int] | None:
        """See `watch.base.Telling`; `fileno` says whether more waits to be read."""
        return self._fleet.glance()

    def fileno(self) -> int:
        """A descriptor that is readable where the system has something to tell; -1 where there is none."""
        return self._fleet.fileno()

    async def recorded(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """Waits until everything that happened before the call is in the log; False if that takes too long."""
        self._look_at_mounts()
        return await self.pump.recorded(timeout)

    def is_recorded(self) -> bool:
        """Whether all that was read is durable in the log."""
        return self.pump.is_recorded()

    def is_behind(self) -> bool:
        """Whether recording what was read takes longer than who can do without it waits."""
        return self.pump.is_behind()

    async def scanned(self) -> None:
        """Waits until the roots that are polled were scanned, and a little for those that are being taken up."""
        await self._taken_up()
        await self._polling.scan_now()

    async def _taken_up(self) -> None:
        """A clock from before a root is wholly watched proves nothing of it, so it is worth a moment."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await self.kept.settled()
        except TimeoutError:
            return

    async def settled(self) -> None:
        """Waits until log and disk agree: all is scanned, recorded and hashed.

        Where something is written all the time that is never so: then it is enough that what happened is recorded.
        """
        await self._polling.scan_now()
        self._look_at_mounts()
        await self.kept.settled()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_QUIET):
                await self.pump.settled()
        await self.pump.recorded(PATIENCE)

    def uncovered(self, path: bytes) -> list[Uncovered]:
        """The places at, above or below the real `path` that are not watched now; [] where all of it is."""
        return [*self.kept.young(path), *self._fleet.uncovered(path)]

    def ignored(self, path: bytes, is_dir: bool) -> bool:
        """Whether a place is left out: by the rules of the roots, or since it is the daemon's own."""
        return path in self._own or self.kept.ignored(path, is_dir)

    def _rules_in(self, directory: bytes) -> Ignored:
        return self.kept.rules_in(directory)  # the roots come after the pump

    def renew(self, paths: Iterable[bytes]) -> None:
        """Has some paths looked at again, and recorded what differs from their rows, as a scan does."""
        for path in paths:
            self.pump.scanning.doubts.add(path, inside=False)
        self.pump.kick()

    def _look_at_mounts(self) -> None:
        """Looks at the roots again where something was mounted or unmounted."""
        if self._fleet.mounts_changed():
            self.mounted = self._store.head  # one that came and went hid what it covered, and is told by nothing else
            self._fleet.check()
            self.pump.kick()

    async def _look(self, grown: asyncio.Event) -> None:
        """Looks whether roots went or came back, some time after anything happened and as long as one is not whole."""
        while True:
            if all(self.kept.state(path).state == "watching" for path in self.kept.paths):
                grown.clear()
                await grown.wait()
            await asyncio.sleep(_LOOK_EVERY)
            try:
                self._fleet.check()
                self.pump.kick()
                await self.kept.check()
            except Exception as e:  # noqa: BLE001  they are looked at again
                log.warning("the roots were not looked at", reason=repr(e))
