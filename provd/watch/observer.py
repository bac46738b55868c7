"""Watching through watchdog: its events as notices.

Rule: what it tells is taken, what it does not tell proves nothing, so coverage is always partial. Events come late,
and there is no barrier: nobody waits for them.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Iterator
from typing import Final

from watchdog import events as dog
from watchdog.events import FileSystemEvent

from provd.core.notice import Appeared, Covered, Lost, Moved, Notice, Scan, Touched, What
from provd.watch.base import Ignored, RootState, Uncovered
from provd.watch.inbox import Inbox
from provd.watch.nesting import Nesting
from provd.watch.observing import Blind, Dead, Event, Item, LostAll, Observing, Scheduled
from provd.watch.presence import Found, Presence, Standing

SILENCE: Final = "watchdog's silence proves nothing"
_STARTING: Final = "watchdog has not begun to watch it yet"
_DIED: Final = "watchdog stopped watching: a thread of it died"
_FIRST: Final = 100
"""Directories that could not be watched and are named."""
_PATIENCE: Final = 2.0

_WHAT: Final = {
    dog.EVENT_TYPE_CREATED: What.CREATED,
    dog.EVENT_TYPE_MODIFIED: What.MODIFIED,
    dog.EVENT_TYPE_CLOSED: What.MODIFIED,
    dog.EVENT_TYPE_DELETED: What.DELETED,
    "attrib": What.ATTRIB,
}
"""Opening, and closing what was not written, change nothing."""


class _Watched:
    """A root: by which rules, in which round it was scheduled last, and what is wrong with it ("" if nothing is)."""

    def __init__(self, ignored: Ignored, number: int) -> None:
        self.ignored = ignored
        self.number = number
        self.presence = Presence()
        self.starting = True
        self.fault = ""
        self.blind: dict[bytes, str] = {}
        self.more = 0
        self._told = ""

    def covered(self, root: bytes) -> list[Covered]:
        """What is to be said of the coverage now, if it is not what was said last."""
        if self._told == self.why:
            return []
        self._told = self.why
        return [Covered(root, self.coverage, self.why)]

    @property
    def why(self) -> str:
        """Why silence proves nothing of it."""
        return self.presence.why or self.fault or (_STARTING if self.starting else SILENCE)

    @property
    def coverage(self) -> str:
        """How much of it is watched."""
        return "partial" if self.why == SILENCE else "none"


class ObserverWatcher:
    """All roots that are watched through watchdog. `observing` has its threads."""

    backend = "watchdog"

    def __init__(self, inbox: Inbox[Item] | None = None, observing: Observing | None = None) -> None:
        self._inbox: Inbox[Item] = inbox or Inbox()
        self._observing = observing or Observing(self._inbox)
        self._numbers = itertools.count(1)
        self._roots: dict[bytes, _Watched] = {}
        self._rounds: dict[int, bytes] = {}
        self._nesting = Nesting()
        self._items: deque[Item | Notice] = deque()
        self._dead = False

    @property
    def roots(self) -> list[bytes]:
        """The roots that are watched."""
        return list(self._roots)

    def fileno(self) -> int:
        """Readable when there is something to read."""
        return self._inbox.fileno()

    def add(self, root: bytes, ignored: Ignored) -> Iterator[None]:
        """Has watchdog begin; it takes its time, and a `Covered` with a `Scan` tells when it does watch."""
        known = self._roots.get(root)
        if known is not None and known.coverage == "partial":
            known.ignored = ignored  # watchdog watches everything below: rules are applied here
        else:
            self._nesting.add(root)
            if known is None:
                self._roots[root] = _Watched(ignored, 0)
            else:
                known.ignored = ignored
            self._schedule(root)
        yield

    def remove(self, root: bytes) -> None:
        """Ends watching `root`."""
        watched = self._roots.pop(root, None)
        if watched is not None:
            self._rounds.pop(watched.number, None)
            self._nesting.discard(root)
            self._observing.unschedule(root)

    def read(self) -> int:
        """Takes over what watchdog has told so far."""
        items, lost = self._inbox.take()
        self._items.extend(items)
        if lost:
            self._items.append(LostAll("events lost: they came faster than they were taken"))
        if not self._dead and not self._observing.is_alive():
            self._items.append(Dead(None, _DIED))
        return len(self._items)

    def take(self, limit: int) -> list[Notice]:
        """Notices of what was read, about `limit`."""
        notices: list[Notice] = []
        while self._items and len(notices) < limit:
            notices += self._notices_of(self._items.popleft())
        return notices

    def pressing(self) -> bool:
        """Nothing is lost by waiting."""
        return False

    def waiting(self) -> bool:
        """Whether something that was read is not taken yet."""
        return bool(self._items)

    def check(self, *, mounts: bool = True) -> None:  # noqa: ARG002  FSEvents tells of mounts, others do not
        """Begins anew where watchdog has given up."""
        if not self._dead and not self._observing.is_alive():
            self._items.extend(self._died(Dead(None, _DIED)))
        if self._dead:
            self._dead = False
            self._observing.restart()
            for root in self._roots:
                self._schedule(root)
            return
        for root, watched in self._roots.items():
            if watched.fault and watched.presence.standing is Standing.THERE:
                self._schedule(root)

    def looked(self, root: bytes, found: Found) -> bool:
        """Takes what looking at a root has given; returns whether it is there."""
        watched = self._roots.get(root)
        if watched is None:
            return False
        if watched.presence.looked(found):
            standing = watched.presence.standing
            if standing is Standing.THERE:
                self._schedule(root)  # what is watched may be the directory that went away
            else:
                if standing is Standing.GONE:
                    self._items.append(Lost(root, watched.presence.why))
                self._items.extend(watched.covered(root))
        return watched.presence.standing is Standing.THERE

    def uncovered(self, path: bytes) -> list[Uncovered]:
        """The root that holds `path` and those below it, all of them; `path` itself where none holds it."""
        holder = self._nesting.longest(path)
        if holder is None:
            return [Uncovered(path, "it lies outside the watched roots")]
        return [Uncovered(root, self._roots[root].why) for root in (holder, *self._nesting.below(path))]

    def state(self, root: bytes) -> RootState:
        """How `root` is watched."""
        watched = self._roots.get(root)
        if watched is None:
            return RootState(self.backend, "gone", "none", (Uncovered(root, "it is not watched"),))
        blind = [Uncovered(path, why) for path, why in watched.blind.items() if not self._ignores(path, is_dir=True)]
        if watched.presence.standing is Standing.GONE:
            state = "gone"
        elif watched.starting and not watched.presence.why:
            state = "scanning"
        else:
            state = "degraded" if watched.fault or watched.presence.why or blind else "watching"
        return RootState(self.backend, state, watched.coverage, (Uncovered(root, watched.why), *blind), watched.more)

    def close(self) -> None:
        """Ends watchdog's threads; those that hang are left to end with the process."""
        self._observing.close(_PATIENCE)
        self._inbox.close()
        self._roots.clear()
        self._rounds.clear()
        self._items.clear()

    def _schedule(self, root: bytes) -> None:
        watched = self._roots[root]
        self._rounds.pop(watched.number, None)
        watched.number = next(self._numbers)
        watched.starting, watched.fault = True, ""
        watched.blind, watched.more = {}, 0
        self._rounds[watched.number] = root
        self._observing.schedule(root, watched.number)

    def _notices_of(self, item: Item | Notice) -> list[Notice]:
        match item:
            case Event():
                root = self._rounds.get(item.number)
                return [] if root is None else self._told(root, item.event)
            case Scheduled():
                return self._scheduled(item)
            case Blind():
                return self._blind(item)
            case Dead():
                return self._died(item)
            case LostAll():
                return [Lost(root, item.reason) for root in self._roots]
            case _:
                return [item]

    def _scheduled(self, item: Scheduled) -> list[Notice]:
        root = self._rounds.get(item.number)
        if root is None:
            return []
        watched = self._roots[root]
        watched.starting, watched.fault = False, item.why
        return [*watched.covered(root), *([] if item.why else [Scan(root)])]

    def _blind(self, item: Blind) -> list[Notice]:
        root = self._nesting.longest(item.path)
        if root is None:
            return []
        watched = self._roots[root]
        if item.path in watched.blind:
            return []
        if len(watched.blind) < _FIRST:
            watched.blind[item.path] = item.why
        else:
            watched.more += 1
        return [Covered(item.path, "none", item.why)]

    def _died(self, item: Dead) -> list[Notice]:
        if item.root is None:
            if self._dead:
                return []
            self._dead = True
        roots = list(self._roots) if item.root is None else [item.root]
        notices: list[Notice] = []
        for root in roots:
            watched = self._roots.get(root)
            if watched is not None and not watched.starting and not watched.fault:
                watched.fault = item.why
                notices += [Lost(root, item.why), *watched.covered(root)]
        return notices

    # events

    def _told(self, root: bytes, event: FileSystemEvent) -> list[Notice]:
        """An event that the watch of `root` told; what lies in a root below is left to that one's own watch."""
        if event.event_type == dog.EVENT_TYPE_MOVED:
            return self._moved(root, event)
        what = _WHAT.get(event.event_type)
        path = os.fsencode(event.src_path)
        if what is None or (event.is_directory and what is What.MODIFIED):
            return []  # a directory is modified with each name in it, and names are told of themselves
        if self._nesting.longest(path) != root or self._ignores(path, is_dir=event.is_directory):
            return []
        return _touched(path, what, is_dir=event.is_directory)

    def _moved(self, root: bytes, event: FileSystemEvent) -> list[Notice]:
        if event.is_synthetic:
            return []  # a directory that moved took all below it along
        source, path, is_dir = os.fsencode(event.src_path), os.fsencode(event.dest_path), event.is_directory
        if root not in {self._nesting.longest(source), self._nesting.longest(path)}:
            return []
        went = not source or self._ignores(source, is_dir=is_dir)
        came = not path or self._ignores(path, is_dir=is_dir)
        if went and came:
            return []
        if went:
            return _touched(path, What.CREATED, is_dir=is_dir)
        if came:
            return _touched(source, What.DELETED, is_dir=is_dir)
        return [Moved(source, path, is_dir)]

    def _ignores(self, path: bytes, *, is_dir: bool) -> bool:
        """Whether a place is ignored, or lies in one that is, or in no root."""
        root = self._nesting.longest(path)
        if root is None:
            return True
        ignored = self._roots[root].ignored
        at = path
        while len(at) > len(root):
            if ignored(at, is_dir or at is not path):
                return True
            at = at.rpartition(b"/")[0]
        return False


def _touched(path: bytes, what: What, *, is_dir: bool) -> list[Notice]:
    """The notices of one name; a directory that came may hold what nobody told of."""
    touched = Touched(path, what, is_dir)
    return [touched, Appeared(path)] if is_dir and what is What.CREATED else [touched]
