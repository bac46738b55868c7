"""Looking at what notices name: the steps of a batch become items that a command can write.

Rule: a notice names a path as it was then: a directory that a later one of the batch moves is looked for where it is by
now. Small slices in the loop, and the kernel's queue is read between them; where a path may hang, a thread looks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from provd.core.mutation import FILE, Change, Listed, State, Step
from provd.core.notice import Covered, Lost, Moved, Scan
from provd.core.records import Coverage, Gap
from provd.disk.states import MOUNTED, Unlisted, look, look_and_sum
from provd.disk.workers import Workers
from provd.recorder.items import Contents, Item, Looked
from provd.recorder.renames import Renames
from provd.recorder.scanning import Scanning

SLICE: Final = 0.0005
"""Seconds for which paths are looked at in one go."""
MISSED: Final = "something may have come and gone here unseen"
_PATIENCE: Final = 2.0


class Looking:
    """Looks at paths. `read` reads what the system has to tell.

    A file of up to `most()` bytes to which nothing happened for `rest()` seconds is hashed where it is looked at.
    """

    def __init__(
        self,
        workers: Workers,
        scanning: Scanning,
        now: Callable[[], int],
        read: Callable[[], object],
        rest: Callable[[], float],
        most: Callable[[], int],
    ) -> None:
        self._workers = workers
        self._scanning = scanning
        self._now = now
        self._read = read
        self._rest = rest
        self._most = most
        self._end = 0.0
        # By the paths that hold when all of the batch has happened: directories that were looked in, or not found.
        self._seen: dict[bytes, None] = {}
        self._gone: list[bytes] = []

    async def items(self, steps: Sequence[Step]) -> tuple[list[Item], list[Lost | Scan]]:
        """What lies at the paths of the steps, and what is to be done when that is written."""
        items: list[Item] = []
        after: list[Lost | Scan] = []
        way = _Way(steps)
        self._seen, self._gone = {}, []
        far = await self._look_apart(steps, way)
        for number, step in enumerate(steps):
            await self._turn()
            match step:
                case Change() | Moved():
                    items.append(self._look(step, way.now(step.path, number), far))
                case Listed():
                    if step.missed:
                        items.append(Gap(self._now(), step.path, f"{MISSED}: {step.missed}"))
                    items += await self._list(step, way.now(step.path, number))
                case Lost():
                    items.append(Gap(self._now(), step.path, step.reason))
                    after.append(step)
                case Covered():
                    why = step.why or f"coverage is {step.coverage} from here on"
                    items.append(Coverage(self._now(), step.path, step.coverage, step.why))
                    items.append(Gap(self._now(), step.path, why))
                case Scan():
                    after.append(step)
        return items, after

    async def _turn(self) -> None:
        """Where a slice is over, others have their turn."""
        if time.perf_counter() > self._end:
            await asyncio.sleep(0)
            self._read()
            self._end = time.perf_counter() + SLICE

    def _look(self, step: Change | Moved, path: bytes, far: dict[bytes, State | None] | None) -> Looked | Gap:
        directory = path.rpartition(b"/")[0] or b"/"
        if directory not in self._seen:
            self._seen[directory] = None
            self._scanning.touched(directory)
        if far is not None:
            return Looked(step, far.get(path), isinstance(step, Moved) and far.get(step.source) is not None)
        now, digest = look_and_sum(path, self._most(), self._rest())
        if isinstance(now, Unlisted) and not now.gone:  # nobody may look, or the path is too long: it is not gone
            return Gap(self._now(), directory, f"a name in it cannot be looked at: {now.why}")
        there = None if isinstance(now, Unlisted) else now
        return Looked(step, there, isinstance(step, Moved) and look(step.source) is not None, digest)

    async def _list(self, step: Listed, path: bytes) -> Sequence[Item]:
        self._seen[path] = None
        found = await self._scanning.list_for(step.path, step.but, path)
        if found is None:
            self._gone.append(path)
        return [await self._summed(item, path) if isinstance(item, Contents) else item for item in found or ()]

    async def _summed(self, contents: Contents, path: bytes) -> Contents:
        """The same with digests, as far as they can be had by now; `path` is where the directory is."""
        prefix, digests = path.rstrip(b"/") + b"/", {}
        for name, state in contents.names.items():
            if state.sort == FILE and name not in contents.but and state.size <= self._most():
                await self._turn()
                now, digest = look_and_sum(prefix + name, self._most(), self._rest())
                if now == state:
                    digests[name] = digest
        return msgspec.structs.replace(contents, digests=digests)

    def settle(self) -> None:
        """The items are written: later notices may say that what was looked at was something else."""
        for directory in self._seen:
            self._scanning.doubts.looked(directory)
        for directory in self._gone:
            self._scanning.doubts.add(directory, inside=True)
        self._seen, self._gone = {}, []

    async def _look_apart(self, steps: Sequence[Step], way: _Way) -> dict[bytes, State | None] | None:
        """What lies at all the paths, from threads, if one of them may hang; what hangs is missing."""
        if any(isinstance(step, Moved) and step.is_dir for step in steps):
            self._workers.mounts.renamed()
        mounts = self._workers.mounts.now()
        if mounts.all_local:
            return None
        paths = {way.now(step.path, number) for number, step in enumerate(steps)}
        paths |= {step.source for step in steps if isinstance(step, Moved)}
        if all(mounts.may_hang_at(path) is None for path in paths):
            return None
        points = {path for path in paths if mounts.is_hanging_point(path)}  # of what hangs nobody says that it is gone
        return await self._workers.each(look, sorted(paths - points), _PATIENCE) | dict.fromkeys(points, MOUNTED)


class _Way:
    """Where the paths of a batch are, when all of it has happened: the steps that move directories."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._renames = Renames()
        for number, step in enumerate(steps, 1):
            if isinstance(step, Moved) and step.is_dir:
                self._renames.add(number, step.source, step.path)

    def now(self, path: bytes, number: int) -> bytes:
        """Where the path of step `number` (from 0 on) is by now, as far as the batch tells."""
        return self._renames.now(path, number + 1)
