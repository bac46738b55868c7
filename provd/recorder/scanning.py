"""Comparing trees with the table of files: the scans that are wanted, and one step of them at a time.

Rule: what a listing found is compared before any notice that came after it is taken, so that it never overwrites
what is newer; where that cannot be (a thread lists), a directory that was touched meanwhile is listed again.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import structlog

from provd.core.dependency import is_under
from provd.core.mutation import DIRECTORY, State
from provd.core.notice import Notice
from provd.core.records import Coverage, Gap, Origin
from provd.disk.states import SLICE, Listing, Unlisted, look, look_closely
from provd.disk.workers import Workers
from provd.recorder.doubts import Doubts, shakes
from provd.recorder.items import Contents, Item, Outcome
from provd.recorder.lister import CHUNK, Lister

_DOUBTFUL: Final = 16
_DOUBLED: Final = 20
"""How often the wait is doubled: far more than it takes to come to the longest."""
_FORGIVEN: Final = 60.0
_REMEMBERED: Final = 1000
_LONGEST: Final = 30.0
_AHEAD: Final = 8
"""Pieces of a tree that are compared in one go, where nothing happens meanwhile."""

log = structlog.get_logger("pump")


class Applies(Protocol):
    """What writes items; the outcomes come piece by piece."""

    def __call__(self, items: Sequence[Item]) -> Awaitable[list[Outcome]]:
        """Writes them."""


class Scan:
    """One scan: of which tree, from when on (seconds of the loop), and who waits for it."""

    def __init__(self, path: bytes, at: float, *, first: bool = False) -> None:
        self.path = path
        self.at = at
        self.first = first
        self.stack: list[bytes] = []
        self.begun = False
        self.waiting: list[asyncio.Future[None]] = []

    def done(self) -> None:
        """Tells who waits."""
        for future in self.waiting:
            if not future.done():
                future.set_result(None)


class Scanning:
    """The scans to come and the one that is under way, and the places in doubt."""

    def __init__(
        self,
        workers: Workers,
        apply: Applies,
        waits: Callable[[], bool],
        kick: Callable[[], None],
        own: Sequence[bytes],
    ) -> None:
        self.coverage: Callable[[bytes], tuple[str, str]] = lambda _path: ("none", "")
        self.now: Callable[[], int] = lambda: 0
        self.backoff = 0.5
        self.begun: Callable[[], None] = lambda: None
        self.ahead: Callable[[], list[Notice] | None] = list
        self.doubts = Doubts()
        self.lister = Lister(workers, waits, kick, own)
        self._apply = apply
        self._waits = waits
        self._kick = kick
        self._queue: deque[Scan] = deque()
        self._current: Scan | None = None
        self._lost: dict[bytes, tuple[int, float]] = {}
        self._remembered = _REMEMBERED
        self._timer: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether anything is still to be compared."""
        return bool(self._queue or self._current or self.doubts)

    # what is wanted

    def want(self, path: bytes, *, first: bool = False, delay: float = 0.0) -> Scan:
        """A scan of the tree at `path`, together with one of it or of a tree above that has not begun."""
        at = asyncio.get_running_loop().time() + delay
        for scan in self._queue:
            if is_under(path, scan.path) and (scan.path == path or not first):
                scan.first = scan.first or first
                if not delay:
                    scan.at = min(scan.at, at)
                return scan
        new = Scan(path, at, first=first)
        for scan in [s for s in self._queue if is_under(s.path, path) and not s.first]:
            self._queue.remove(scan)
            if scan.waiting:  # who waits for it waits no longer for this
                new.at = min(new.at, scan.at)
            new.waiting += scan.waiting
        self._queue.append(new)
        return new

    def lost(self, path: bytes) -> None:
        """Events were lost: a scan, and ever later where that happens again and again."""
        self.want(path, delay=self._delay(path))

    def _delay(self, path: bytes) -> float:
        """Seconds until the next scan of a tree that is not the first one in a short time."""
        now = asyncio.get_running_loop().time()
        times, last = self._lost.get(path, (0, now))
        times = 0 if now - last > _FORGIVEN else times
        self._lost[path] = (times + 1, now)
        if len(self._lost) > self._remembered:
            self._lost = {at: lost for at, lost in self._lost.items() if now - lost[1] <= _FORGIVEN}
            self._remembered = max(_REMEMBERED, 2 * len(self._lost))
        return float(min(self.backoff * 2 ** min(times - 1, _DOUBLED), _LONGEST)) if times else 0.0

    def touched(self, directory: bytes) -> None:
        """Something happened in this directory."""
        self.lister.touched(directory)

    def moved(self, source: bytes, path: bytes) -> None:
        """A directory got another name: what was looked at by the old one may have been something else."""
        self.doubts.moved(source, path, asyncio.get_running_loop().time())
        for scan in (*self._queue, *((self._current,) if self._current else ())):
            if scan.begun and (is_under(source, scan.path) or is_under(path, scan.path)):
                scan.stack.append(path)
        self.lister.shaken()

    def quiet(self) -> None:
        """All that happened until now was taken: what was looked at by its path was what it seemed to be."""
        self.doubts.quiet(asyncio.get_running_loop().time())

    def hasten(self) -> None:
        """Somebody waits for what is put off: it is due now."""
        for scan in self._queue:
            scan.at = min(scan.at, asyncio.get_running_loop().time())

    def forget(self, root: bytes, keep: Sequence[bytes] = ()) -> None:
        """No scan of a root that was removed, nor of anything in it that is not in one of the roots `keep`."""

        def is_left(scan: Scan) -> bool:
            return is_under(scan.path, root) and not any(is_under(scan.path, kept) for kept in keep)

        for scan in [scan for scan in self._queue if is_left(scan)]:
            self._queue.remove(scan)
            scan.done()
        if self._current is not None and is_left(self._current):
            self._finish(self._current)

    def close(self) -> None:
        """Tells who waits, and gives up."""
        if self._timer is not None:
            self._timer.cancel()
        for scan in (*self._queue, *((self._current,) if self._current else ())):
            scan.done()
        self._queue.clear()
        self._current = None
        self.doubts.forget()

    # working

    async def step(self) -> bool:
        """Does a piece of what there is to do; False if there is nothing to do at this moment."""
        if self.doubts:
            await self.check()
            return True
        scan = self._current or self._next()
        if scan is None:
            return False
        self._current = scan
        if not scan.begun:
            await self._begin(scan)
            return True
        if scan.stack:
            return await self._visit(scan)
        await self._end(scan)
        return True

    def _next(self) -> Scan | None:
        loop = asyncio.get_running_loop()
        ready = [scan for scan in self._queue if scan.at <= loop.time()]
        if ready:
            self._queue.remove(ready[0])
            return ready[0]
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._queue:
            self._timer = loop.call_at(min(scan.at for scan in self._queue), self._due)
        return None

    def _due(self) -> None:
        self._timer = None
        self._kick()

    async def check(self, *, urgent: bool = False) -> None:
        """Looks at some of the places in doubt; it counts where no notice that waits is about the way there.

        Somebody waits for it where it is `urgent`: what is looked at in vain again and again becomes a gap.
        """
        some = self.doubts.first(_DOUBTFUL)
        found: list[tuple[bytes, Sequence[Item]]] = []
        for path, doubt in some:
            self.doubts.looked(path)
            if self.lister.may_hang(path):
                self.want(path)
                self.doubts.settle(path)
            else:
                found.append((path, await self._doubted(path, inside=doubt.inside)))
        notices = self.ahead()
        if notices is None:
            return
        shaken = shakes(notices)
        items: list[Item] = []
        for path, contents in found:
            if not any(is_under(path, place) for place in shaken):
                self.doubts.settle(path)
                items += contents
            elif self.doubts.in_vain(path, urgent=urgent):
                items.append(Gap(self.now(), path, "it was moved each time it was looked at"))
        self.doubts.cause = min((doubt.number for _, doubt in some), default=0)
        try:
            for outcome in await self._apply(items):
                for directory in outcome.below:
                    self.doubts.add(directory, inside=True)
        finally:
            self.doubts.cause = 0

    async def _doubted(self, path: bytes, *, inside: bool) -> Sequence[Item]:
        found = await self.lister.in_slices(path) if inside else Unlisted(gone=True, why="")
        if isinstance(found, Listing):
            return await self.lister.contents(path, found, guarded=True)
        if self.lister.aside(path, is_dir=inside):
            return []
        now = look_closely(path) if found.gone else found
        if isinstance(now, Unlisted) and not now.gone:
            return [Gap(self.now(), path, f"it cannot be looked at: {now.why}")]
        return [_name(path, None if isinstance(now, Unlisted) else now)]

    async def _begin(self, scan: Scan) -> None:
        self.begun()
        scan.begun = True
        if self.lister.may_hang(scan.path):
            scan.stack = [scan.path]  # whether it is there is found by listing it
            return
        now = look(scan.path)
        if scan.path != b"/":
            await self._apply([_name(scan.path, now)])
        if now is not None and now.sort == DIRECTORY:
            scan.stack.append(scan.path)

    async def _visit(self, scan: Scan) -> bool:
        """Compares some of the tree; what is listed next is listed while what was listed before is written.

        All of it is written when this returns, and that is before anything is taken of what happened meanwhile.
        """
        writing: asyncio.Future[list[Outcome]] | None = None
        more: bool | None = True
        try:
            for _ in range(_AHEAD):
                items, more = await self._list_some(scan)
                if writing is not None:
                    await writing
                writing = asyncio.ensure_future(self._apply(items)) if items else None
                if not more or not scan.stack:
                    break
        finally:
            if writing is not None:
                await writing
        return more is not None

    async def _list_some(self, scan: Scan) -> tuple[list[Item], bool | None]:
        """What about a CHUNK of names are, and whether more can be listed before others have their turn.

        None where a thread lists what comes next.
        """
        items: list[Item] = []
        size, turn = 0, SLICE
        while scan.stack and size < CHUNK:
            if size >= turn:
                turn = size + SLICE
                await asyncio.sleep(0)
            directory = scan.stack.pop()
            if self.lister.may_hang(directory):
                if items:
                    scan.stack.append(directory)
                    return items, True
                found = self.lister.apart(directory)
                if found is None:
                    scan.stack.append(directory)
                    return items, None
            else:
                found = await self.lister.in_slices(directory)
            if isinstance(found, Listing):
                contents = await self.lister.contents(directory, found)
                items += contents
                size += len(found.names) + 1
                prefix = directory.rstrip(b"/") + b"/"
                below = [n for item in contents for n, state in item.names.items() if state.sort == DIRECTORY]
                scan.stack += [prefix + n for n in reversed(below)]
            elif not found.gone:
                log.info("a directory cannot be listed", path=os.fsdecode(directory), why=found.why)
            if self._waits():
                return items, False
        return items, True

    async def _end(self, scan: Scan) -> None:
        if scan.first:
            coverage, why = self.coverage(scan.path)
            await self._apply([Coverage(self.now(), scan.path, coverage, why)])
        self._finish(scan)

    def abandon(self) -> None:
        """Gives up what is under way, since it failed; the scan is wanted anew, ever later."""
        self.doubts.forget()
        scan, self._current = self._current, None
        self.lister.drop()
        if scan is not None:
            self._lost.setdefault(scan.path, (1, asyncio.get_running_loop().time()))
            again = self.want(scan.path, first=scan.first, delay=self._delay(scan.path))
            again.waiting += scan.waiting

    def _finish(self, scan: Scan) -> None:
        self._current = None
        self.lister.drop()
        scan.done()

    # listing

    async def list_for(self, directory: bytes, but: frozenset[bytes], at: bytes) -> Sequence[Item] | None:
        """What a directory that has appeared holds; `at` is where it should be by now. None where it is not there."""
        self.touched(at)
        if self.lister.may_hang(at):
            self.want(directory)
            return []
        found = await self.lister.in_slices(at)
        if isinstance(found, Listing):
            return await self.lister.contents(directory, found, but=but, origin=Origin.WATCH)
        if not found.gone:
            return [Gap(self.now(), directory, f"it cannot be listed: {found.why}")]
        return None


def _name(path: bytes, now: State | None) -> Contents:
    """What one name is, as contents of the directory that holds it."""
    directory, _, name = path.rpartition(b"/")
    names = {} if now is None else {name: now}
    return Contents(directory or b"/", names, name, name + b"\0", origin=Origin.SCAN, last=False, guarded=True)
