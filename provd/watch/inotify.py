"""The watcher of Linux: events of inotify become notices, and the tree of watches follows the disk.

Rule: events about directories only say which slots to look at; what stands there decides. Nothing raises: a fault of
this code is a loss for all roots, and the tree is made anew.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from typing import Final

from provd.core.notice import Lost, Notice
from provd.watch import syscalls as sys
from provd.watch.base import Ignored, RootState, Uncovered
from provd.watch.coverage import Coverage
from provd.watch.events import Memory
from provd.watch.mounted import MountTable
from provd.watch.roots import Unseen
from provd.watch.slots import FOUND, is_limit
from provd.watch.translate import Events
from provd.watch.tree import Root

_SLICE: Final = 64
"""Directories that are looked at between two looks whether there is something to tell."""
_SILENT: Final = 512
"""Directories after which a `take` with nothing to tell comes back, to go on at the next wake-up."""
_STORM: Final = 20_000
"""Events after which directories are looked at though more events wait."""
_RETRIED: Final = 256
_AHEAD: Final = 8192
"""Notices that wait for who takes them; above that directories are not looked at before some are taken."""


class InotifyWatcher:
    """Watches by inotify. Making one raises OSError where the system gives no descriptor (the limit of instances).

    `table` and `kernel` are for tests.
    """

    backend = "inotify"

    def __init__(self, kernel: sys.Kernel | None = None, table: MountTable | None = None) -> None:
        self._kernel = sys.Kernel() if kernel is None else kernel
        self._table = MountTable() if table is None else table
        self._roots: dict[bytes, Root] = {}
        self._awake = False
        self._fresh = False
        self._fd = self._wake = -1
        self._before = 0
        try:
            self._epoll = select.epoll()
            self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self._epoll.register(self._wake, select.EPOLLIN)
            self._begin()
        except BaseException:
            self._let_go()
            raise

    def _begin(self) -> None:
        """A new descriptor with an empty tree."""
        fd = self._kernel.init()
        try:
            self._epoll.register(fd, select.EPOLLIN)
        except BaseException:
            os.close(fd)
            raise
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd
        self._memory = Memory(self._kernel, fd)
        self._places = Coverage(self._kernel, fd, {})
        self._places.roots = self._roots
        self._places.mounts = self._table.current
        self._since = 0
        self._resumed = -1
        self._events = Events(self._places, self._memory)

    # -- the protocol

    def fileno(self) -> int:
        """A descriptor that is readable when there is something to `read`, or when a `take` left work for later."""
        return self._epoll.fileno()

    def mounts_fileno(self) -> int:
        """A descriptor that becomes readable once when the mount table changed: time for `check`; -1 without one."""
        return self._table.fileno()

    def mounts_changed(self) -> bool:
        """Whether the mount table changed since `check` last looked; quick."""
        return self._table.changed()

    @property
    def busy(self) -> bool:
        """Whether a `take` would go on with work, though the last one had nothing to tell."""
        places = self._places
        return bool(places.told or places.work or places.adrift or places.parked)

    def add(self, root: bytes, ignored: Ignored) -> Iterator[None]:
        """Begins to watch `root`; see `base.Watcher`. Raises Unseen."""
        if self._table.changed():  # what may hang is known by the mount table
            self.check()
        places = self._places
        try:
            for _ in places.begin(root, ignored):
                yield
                if places is not self._places:  # all is made anew after a fault, this root too
                    break
        except Unseen:
            raise
        except Exception as error:  # noqa: BLE001 a fault here is a loss, never the end of the daemon
            self._fault(error)
        self._signal()

    def remove(self, root: bytes) -> None:
        """Ends watching `root`."""
        try:
            self._places.end(root)
        except Exception as error:  # noqa: BLE001
            self._fault(error)
        self._signal()

    def read(self) -> int:
        """Takes what waits at this moment into memory. Work that was left is still told by `fileno`."""
        self._fresh = True
        try:
            return self._memory.read() + len(self._places.told)
        except Exception as error:  # noqa: BLE001
            self._fault(error)
            return 0

    def glance(self) -> tuple[int, int] | None:
        """See `base.Telling`."""
        if self._places.told or self._places.work or self._memory.left():
            return None
        return self._shifts(), self._memory.heard

    def _shifts(self) -> int:
        """How often, in all, a directory lost its place, or something was lost or is watched no more."""
        return self._before + self._places.tree.lifts + self._places.losses

    def take(self, limit: int) -> list[Notice]:
        """Notices of what was read; [] when nothing is left, or when what is left has nothing to tell yet (`busy`)."""
        self._resume()
        try:
            self._take(limit)
        except Exception as error:  # noqa: BLE001
            self._fault(error)
        places = self._places
        told, places.told = places.told[:limit], places.told[limit:]
        self._events.taken()
        if not told:
            if self._fresh and not self.busy:
                self._fresh = False
                self._places.round += 1
            self._signal()
        return told

    def pressing(self) -> bool:
        """Watches at once the directories that were made or came; whether work is left, or too much waits.

        What is made in a directory before it is watched is not seen. What there is to tell waits for `take`.
        """
        resumed = self._resume()
        try:
            if self._memory.pressing() or self._places.work:
                self._take(_AHEAD)
        except Exception as error:  # noqa: BLE001
            self._fault(error)
        return resumed or bool(self._places.work) or len(self._places.told) >= _AHEAD

    def waiting(self) -> bool:
        """Whether events, or directories that they named, are not taken yet; what is looked at anew is not meant."""
        return bool(self._places.told or self._places.work or self._memory.left())

    def check(self, *, mounts: bool = True) -> None:
        """Looks at the roots, the mounts, and at what could not be watched."""
        places = self._places
        try:
            if mounts and self._table.changed():
                changed = self._table.look()
                places.mounts = self._table.current
                places.check_mounts(changed)
            places.check_roots()
            self._retry()
        except Exception as error:  # noqa: BLE001
            self._fault(error)
        self._signal()

    def uncovered(self, path: bytes) -> list[Uncovered]:
        """The places at, above or below `path` that are not watched now."""
        return self._places.uncovered(path)

    def state(self, root: bytes) -> RootState:
        """How `root` is watched."""
        return self._places.state(root)

    def close(self) -> None:
        """Lets go of all descriptors."""
        self._epoll.close()
        self._let_go()

    def _let_go(self) -> None:
        self._table.close()
        for fd in (self._fd, self._wake):
            if fd >= 0:
                os.close(fd)
        self._fd = self._wake = -1

    # -- work

    def _signal(self) -> None:
        """Makes the descriptor readable where work is left that no event will call for."""
        if self.busy and not self._awake and self._wake >= 0:
            self._awake = True
            os.eventfd_write(self._wake, 1)

    def _resume(self) -> bool:
        """Takes the signal back; whether there was one. Who only reads leaves it to who goes on with the work."""
        if not self._awake:
            return False
        self._awake = False
        os.eventfd_read(self._wake)
        return True

    def _take(self, limit: int) -> None:
        places, memory = self._places, self._memory
        while len(places.told) < limit:
            event = memory.next()
            if event is None:
                break
            self._since += 1
            self._events.handle(event)
            if self._since % _STORM == 0:
                places.step(places.work, _SLICE)
        else:
            return
        self._since = 0
        looked = 0
        while self._step() and len(places.told) < limit:
            looked += _SLICE
            if looked >= (_SLICE if places.told else _SILENT):
                return

    def _step(self) -> bool:
        """Some directories of the work that there is; whether there was any."""
        places = self._places
        if places.work:
            places.step(places.work, _SLICE)
        elif places.work.waits and self._resumed != places.tree.changes:
            self._resumed = places.tree.changes
            places.work.resume()
        elif places.adrift:
            root = next(iter(places.adrift))
            del places.adrift[root]
            places.look_for(root)
        elif places.parked:
            places.release(_SLICE)
        elif places.freed:
            places.freed = False
            self._retry_limited()
            return bool(places.work)
        else:
            return False
        return True

    def _retry(self) -> None:
        places = self._places
        self._resumed = -1  # what was deferred is looked at once more, though no event says that anything moved
        for (node, name), why in list(places.blinds.items())[:_RETRIED]:
            if not is_limit(why):
                places.work.ask(node, name, FOUND)
        self._retry_limited()

    def _retry_limited(self) -> None:
        """Tries one place that lacked a watch: if there is room now, the next is tried after it."""
        places = self._places
        for (node, name), why in places.blinds.items():
            if is_limit(why):
                places.work.ask(node, name, FOUND)
                return

    def _fault(self, error: Exception) -> None:
        """All roots lost events, and the tree is made anew."""
        self._before = self._shifts() + 1
        told = self._places.told
        told += (Lost(path, f"internal: {type(error).__name__}: {error}") for path in self._roots)
        for root in self._roots.values():
            root.node = None
            root.directories = 0
            root.scanning = False
        try:
            self._begin()
        except OSError as failed:
            for root in self._roots.values():
                root.why = f"internal: {failed.strerror}"
        self._places.told = told
        self._places.adrift = dict.fromkeys(self._roots.values())
