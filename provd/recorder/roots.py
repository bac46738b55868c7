"""The roots: kept across restarts, given to the watchers, and scanned.

Rule: what is recorded comes first and is durable; watching begins after it, and a second gap marks the moment from
which all of it is watched. What goes wrong with one root is told in its state and tried again; others go on.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, Protocol
from weakref import WeakValueDictionary

import msgspec
import structlog

from provd.core import errors
from provd.core.dependency import is_under, up_to
from provd.disk import Directory, IgnoreRules, Workers
from provd.ignoring import DEFAULT_PATTERNS
from provd.recorder.rootrecords import Change, adding, covering, removing
from provd.store import Store
from provd.store.keys import Root
from provd.watch.base import Ignored, RootState, Uncovered, Watcher
from provd.watch.nesting import Nesting
from provd.watch.presence import Found, Identity, Presence, Standing, identity_of

WATCHED: Final = "watched from here on"
_PATIENCE: Final = 2.0
"""Seconds for which a root's directory is waited for."""
_AT_ONCE: Final = 8
"""Roots that are taken up at the same time when there are many to take up."""
_IS_DIRECTORY: Final = True
log = structlog.get_logger("roots")

_Work = Callable[[], Awaitable[None]]


class Scanner(Protocol):
    """Who keeps the table of files: the pump."""

    async def scan(self, path: bytes, *, first: bool = False) -> None:
        """Compares the tree at `path` with the table; with `first` its coverage is recorded afterwards."""

    async def forget(self, root: bytes, keep: Sequence[bytes] = ()) -> None:
        """Drops what is known of a tree, but not of the roots `keep`."""


_ANY_NAME: Final = b"/\x01"
"""In a root: a name that no pattern means which does not mean all."""


class Roots:
    """The roots; `own` is the daemon's state directory, which is never part of them.

    `changed` is called when there are other roots than before, or another one is watched.
    """

    def __init__(self, store: Store, own: bytes, fleet: Watcher, scanner: Scanner, workers: Workers) -> None:
        self._store = store
        self._own = [own, os.path.realpath(own)]
        self._fleet = fleet
        self._scanner = scanner
        self._workers = workers
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._locks: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()
        self._taken: set[bytes] = set()  # those that the fleet has
        self._absent: dict[bytes, Presence] = {}
        self._failed: dict[bytes, str] = {}
        self._young: set[bytes] = set()  # watched, but the gap that says from when on is not durable yet
        self._predicates: dict[bytes, Ignored] = {}
        self._rules: IgnoreRules | None = None
        self._nesting = Nesting()
        self._roots: dict[bytes, Root] = {}
        self.changed: Callable[[], None] = lambda: None
        with store.view() as view:
            for root in view.roots():
                self._keep(root)

    # what there is

    @property
    def paths(self) -> list[bytes]:
        """The paths of the roots, in order."""
        return list(self._nesting)

    def __contains__(self, path: bytes) -> bool:
        return path in self._roots

    @property
    def kept(self) -> list[Root]:
        """The roots, in order of path."""
        return [self._roots[path] for path in self._nesting]

    @property
    def rules(self) -> IgnoreRules:
        """What the roots ignore; the same object until something changes."""
        if self._rules is None:
            self._rules = IgnoreRules([(root.path, _patterns(root)) for root in self._roots.values()], self._own)
        return self._rules

    def ignored(self, path: bytes, is_dir: bool) -> bool:
        """Whether a place is left out by the rules of its longest root; those above it are not asked about."""
        root = self._nesting.longest(path)
        return root is not None and self._predicate(root)(path, is_dir)

    def rules_in(self, directory: bytes) -> Ignored:
        """The same for the names directly in a directory, for who asks about many of them at once."""
        if self._nesting.below(directory):
            return self.ignored
        root = self._nesting.longest(directory)
        return _nothing if root is None else self._predicate(root)

    def leaves_all_out(self, path: bytes) -> bool:
        """Whether the rules of a root leave out every name that there may be in it."""
        ignored = self._predicate(path)
        some = path.rstrip(b"/") + _ANY_NAME
        excepting = any(rule.startswith("!") for rule in _patterns(self._roots[path]))
        return not excepting and all(ignored(some, is_directory) for is_directory in (False, True))

    def holder(self, path: bytes) -> bytes | None:
        """The innermost root at or above `path`; None where it lies outside of all."""
        return self._nesting.longest(path)

    def lies_in_another(self, path: bytes) -> bool:
        """Whether `path` lies below a root."""
        return path != b"/" and self._nesting.longest(os.path.dirname(path)) is not None

    def state(self, path: bytes) -> RootState:
        """How a root is watched now."""
        absent = self._absent.get(path)
        if absent is not None:
            name = "gone" if absent.standing is Standing.GONE else "degraded"
            return RootState("none", name, "none", (Uncovered(path, absent.why),))
        failed = self._failed.get(path)
        if failed is not None:
            return RootState("none", "degraded", "none", (Uncovered(path, failed),))
        if path not in self._taken:
            return RootState("none", "scanning", "none", (Uncovered(path, "not watched yet"),))
        state = self._fleet.state(path)
        return msgspec.structs.replace(state, state="scanning") if path in self._tasks else state

    def young(self, path: bytes) -> list[Uncovered]:
        """The roots at, above or below `path` whose silence proves nothing yet."""
        young = (root for root in self._young if is_under(path, root) or is_under(root, path))
        return [Uncovered(root, "its watching has only begun") for root in young]

    # changing it

    async def add(self, directory: Directory, ignore: tuple[str, ...] | None, *, wait: bool = True) -> None:
        """Adds a directory as a root, or gives it other ignore rules; with `wait` returns when it is scanned.

        Who stops waiting stops nothing. Raises StoreFull, StoreUnusable.
        """
        path = directory.path
        self._added(*await self._store.submit(adding(directory, ignore)))
        while wait and path in self._roots and path in self._tasks:  # another request may have begun it anew
            await asyncio.wait([self._tasks[path]])

    async def add_all(self, directories: Sequence[Directory]) -> None:
        """Adds directories as roots, all of them or none; they are taken up in the background.

        Raises StoreFull, StoreUnusable.
        """
        commands = [adding(directory, None) for directory in directories]
        for root, change in await self._store.submit(lambda writer: [command(writer) for command in commands]):
            self._added(root, change)

    def _added(self, root: Root, change: Change | None) -> None:
        """What is to be done where a root was recorded."""
        self._keep(root)
        if change is Change.REPLACED:
            self._give_up(root.path)
        if change is not None or root.path in self._failed or self._is_away(root.path):
            self._begin(root.path, partial(self._take_up, root.path))

    def _is_away(self, path: bytes) -> bool:
        """Whether a root was not there when it was looked at last, so that it is to be looked at now."""
        return path in self._absent or (path not in self._tasks and self.state(path).state == "gone")

    async def remove(self, path: bytes) -> None:
        """Removes a root; raises RootMissing."""
        await self._store.submit(removing(path))
        root = self._roots.pop(path, None)
        if root is None:  # another request has removed it at the same time
            return
        self._nesting.discard(path)
        self._rules = None
        self._predicates.pop(path, None)
        self._absent.pop(path, None)
        self._failed.pop(path, None)
        self._give_up(path)
        self._begin(path, partial(self._leave, root))
        self._leaving.add(self._tasks[path])
        self.changed()
        await asyncio.wait([self._tasks[path]])

    def start(self) -> None:
        """Takes up all roots, in the background; `state` tells how far it is."""
        for path in self._nesting:
            self._begin(path, partial(self._in_turn, path))

    async def check(self) -> None:
        """Looks at the roots that are not watched, and takes up those that are there again."""
        found = await self._look([path for path in self._absent if path not in self._tasks])
        for path, presence in list(self._absent.items()):
            if path in found and presence.looked(found[path]) and presence.standing is Standing.THERE:
                self._begin(path, partial(self._in_turn, path))
        for path in list(self._failed):
            if path not in self._tasks:
                self._begin(path, partial(self._in_turn, path))

    async def settled(self) -> None:
        """Waits until nothing is being taken up or left."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def close(self) -> None:
        """Ends what is under way."""
        for task in self._tasks.values():
            task.cancel()
        await self.settled()

    # one root

    def _keep(self, root: Root) -> None:
        before = self._roots.get(root.path)
        self._roots[root.path] = root
        if before is None or before.ignore != root.ignore:
            self._nesting.add(root.path)
            self._predicates.pop(root.path, None)
            self._rules = None

    def _begin(self, path: bytes, work: _Work) -> None:
        """Does `work` for a root after what is under way for it: taking up is cut short, leaving is not."""
        before = self._tasks.get(path)
        if before is not None and before not in self._leaving:
            before.cancel()
        task = self._tasks[path] = asyncio.ensure_future(self._alone(path, work))
        task.add_done_callback(partial(self._ended, path))

    async def _alone(self, path: bytes, work: _Work) -> None:
        lock = self._locks.setdefault(path, asyncio.Lock())
        try:
            async with lock:
                await work()
        except Exception as e:  # noqa: BLE001  it is told in the state of the root, and tried again
            log.warning("a root was not taken up", root=os.fsdecode(path), reason=str(e) or repr(e))
            if path in self._roots:
                self._failed[path] = _words(e)

    def _ended(self, path: bytes, task: asyncio.Task[None]) -> None:
        self._leaving.discard(task)
        if self._tasks.get(path) is task:
            del self._tasks[path]

    async def _in_turn(self, path: bytes) -> None:
        """Takes up one of many: each waits for its turn, so that one that is added now need not wait for them."""
        async with self._slots:
            await self._take_up(path)

    async def _take_up(self, path: bytes) -> None:
        """Watches and scans one root, if it is the directory that was added."""
        root = self._roots.get(path)
        if root is None:
            return
        presence = Presence((root.dev, root.ino))
        presence.looked((await self._look([path]))[path])
        self._failed.pop(path, None)
        if presence.standing is not Standing.THERE:
            self._absent[path] = presence
            self._give_up(path)
            return
        self._absent.pop(path, None)
        self._taken.add(path)
        self._young.add(path)
        for _ in self._fleet.add(path, self._predicate(path)):
            await asyncio.sleep(0)
        self.changed()
        covered = await self._store.submit(covering(path, WATCHED))
        self._young.discard(path)
        if covered is not None:
            self._roots[path] = covered
        await self._scanner.scan(path, first=True)

    def _give_up(self, path: bytes) -> None:
        """Ends watching a root, if it is watched."""
        self._young.discard(path)
        if path in self._taken:
            self._taken.discard(path)
            self._fleet.remove(path)

    async def _leave(self, root: Root) -> None:
        """Forgets what is known of a root that was removed, as far as no other root holds it."""
        self._young.discard(root.path)
        holder = self._nesting.longest(root.path)
        inner = self._nesting.below(root.path)
        if holder is None:
            await self._scanner.forget(root.path, inner)
            return
        ignored = self._predicate(holder)
        if any(ignored(place, _IS_DIRECTORY) for place in up_to(holder, root.path)):
            await self._scanner.forget(root.path, inner)
        if self._roots[holder].ignore != root.ignore:  # its rules hold here now
            self._begin(holder, partial(self._take_up, holder))

    async def _look(self, paths: Iterable[bytes]) -> dict[bytes, Found]:
        """What is at each path; looking may hang, so it is done in threads."""
        wanted = list(paths)
        found: dict[bytes, Identity | str] = {}
        if wanted:
            found = await self._workers.each(identity_of, wanted, _PATIENCE, apart=True)
        return {path: found.get(path) for path in wanted}

    def _predicate(self, path: bytes) -> Ignored:
        """What the root at `path` ignores: the daemon's own places always."""
        predicate = self._predicates.get(path)
        if predicate is None:
            if any(is_under(path, own) for own in self._own):
                predicate = _everything
            else:
                predicate = IgnoreRules([(path, _patterns(self._roots[path]))], self._own).for_set(path)
            self._predicates[path] = predicate
        return predicate


def _words(error: Exception) -> str:
    """Why a root was not taken up."""
    if isinstance(error, errors.ProvdError):
        return error.message
    return str(error) if isinstance(error, OSError) else f"internal: {error!r}"


def _patterns(root: Root) -> Sequence[str]:
    return DEFAULT_PATTERNS if root.ignore is None else root.ignore


def _nothing(_path: bytes, _is_dir: bool) -> bool:
    return False


def _everything(_path: bytes, _is_dir: bool) -> bool:
    return True
