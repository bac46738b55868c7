"""Digests that come later: which files wait for theirs, and reading them when they are at rest.

Rule: nothing is hashed while notices wait, and a digest is kept only for the mutation that it was read for: what was
touched since is superseded.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from provd.core.mutation import State
from provd.core.records import DigestState, Hashed, Mutation, MutationKind, Origin
from provd.disk.calmly import lower_priority
from provd.disk.states import BIGGEST, SMALL, TICK, Sum, Summed, summed
from provd.disk.workers import Workers
from provd.recorder.renames import Renames
from provd.store import Writer
from provd.store.files import UNSEEN, Files, Row

SLICE: Final = 64
"""Files that are hashed in one go."""
_SLICE_BYTES: Final = 2 << 20
_BATCH: Final = 512
_BATCH_SECONDS: Final = 0.1
_TRIES: Final = 3
_REMOTE_SECONDS: Final = 30.0
_MOVES: Final = 1000
"""Renamed directories that are remembered, at least, before what is not needed is forgotten."""


class _Waiting(NamedTuple):
    path: bytes  # as it was when the mutation was recorded
    due: float
    tries: int = 0  # how often it was read in vain


class Result(NamedTuple):
    """What hashing gave for the mutation `of` of a path, as the path was then. `again`: it was read before, in vain."""

    of: int
    path: bytes
    summed: Summed
    again: bool = False


class Kept(msgspec.Struct):
    """What became of results: those in `again` are to be tried once more, the paths in `unsure` to be looked at."""

    recorded: int = 0
    hashed: int = 0
    again: list[int] = []
    unsure: list[bytes] = []


class Keep:
    """The command that records results. `quiet` says that no notices came until they were read."""

    def __init__(self, results: Sequence[Result], *, quiet: bool) -> None:
        self._results = results
        self._quiet = quiet

    def __call__(self, writer: Writer) -> Kept:
        """Carries it out."""
        kept, files = Kept(), Files(writer)
        for result in self._results:
            row = files.get(result.path)
            if row is None or row.of != result.of or not row.pending:
                continue  # the mutation that came in between has told that it is superseded
            self._keep(writer, files, result, row, kept)
        return kept

    def _keep(self, writer: Writer, files: Files, result: Result, row: Row, kept: Kept) -> None:
        of, path, found, again = result
        if found.sum is not Sum.DONE:
            if not self._quiet and found.sum is Sum.GONE:
                kept.again.append(of)
                return
            writer.append(Hashed(writer.now, of, path, None, DigestState.UNREADABLE))
            was = UNSEEN if found.sum is Sum.GONE else row.state
            files.put(path, msgspec.structs.replace(row, pending=False, state=was))
            if found.sum is Sum.GONE:
                kept.unsure.append(path)
            return
        text, state = f"xxh3:{found.digest.hex()}", found.state
        assert state is not None
        if state != row.state:
            # Where a file is cut short it has its new size before its new times, and before anybody is told.
            halfway = not again and (state.ino, state.ctime_ns) == (row.state.ino, row.state.ctime_ns)
            if halfway or not self._quiet:  # what waits will tell
                kept.again.append(of)
                return
            writer.append(Hashed(writer.now, of, path, None, DigestState.SUPERSEDED))
            of = writer.append(_unseen(writer.now, path, state, text))  # a store through a mapping makes no event
            kept.recorded += 1
            kept.unsure.append(path)
        else:
            writer.append(Hashed(writer.now, of, path, text, DigestState.DONE))
        files.put(path, Row(state, of, pending=False, digest=found.digest))
        kept.hashed += 1


def _unseen(at: int, path: bytes, state: State, digest: str) -> Mutation:
    kind, done = MutationKind.MODIFIED, DigestState.DONE
    return Mutation(at, kind, path, None, state.mtime_ns, state.size, digest, done, Origin.SCAN)


class Hashing:
    """The files that wait. `rest` is for how many seconds nothing may have happened to one.

    `kick` is called in the loop when there is something to do again.
    """

    def __init__(self, workers: Workers, kick: Callable[[], None]) -> None:
        self.rest = 0.05
        self._workers = workers
        self._kick = kick
        # The first one is taken again and again: of a plain dict that walks over all that were taken before.
        self._waiting: OrderedDict[int, _Waiting] = OrderedDict()
        self._big: OrderedDict[int, _Waiting] = OrderedDict()
        self._moves = Renames()
        self._most = _MOVES
        self._flying: int | None = None
        self._landed: list[Result] = []
        self._task: asyncio.Task[None] | None = None
        self._thread = _Thread()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def ripe(self) -> float:
        """Seconds for which nothing may have happened to a file that is read: after a tick its times tell of more."""
        return min(self.rest, TICK)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._big) + len(self._landed) + (self._flying is not None)

    def add(self, of: int, path: bytes) -> None:
        """The mutation at position `of` waits for the digest of `path`."""
        if not len(self):
            self._moves.clear()
        if of not in self._waiting and of not in self._big and of != self._flying:
            self._waiting[of] = _Waiting(path, asyncio.get_running_loop().time() + self.rest)

    def superseded(self, of: int) -> None:
        """Something newer happened to its path."""
        if self._waiting.pop(of, None) is None:
            self._big.pop(of, None)

    def moved(self, position: int, source: bytes, path: bytes) -> None:
        """A directory got another name by the record at `position`: what waits below is found there."""
        if not len(self):
            return
        self._moves.add(position, source, path)
        if len(self._moves) > self._most:  # something may always wait: what all of it came after is of no use
            flying = () if self._flying is None else (self._flying,)
            self._moves.forget(min((*self._waiting, *self._big, *flying, *(result.of for result in self._landed))))
            self._most = max(_MOVES, 2 * len(self._moves))

    def close(self) -> None:
        """Gives up what waits."""
        self._thread.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        self._waiting.clear()

    # working

    async def read(self, waits: Callable[[], bool]) -> list[Result]:
        """Hashes what is due, a batch at most, and stops where notices wait; what is not due sets a timer."""
        loop = asyncio.get_running_loop()
        results, self._landed = self._landed, []
        end = loop.time() + _BATCH_SECONDS
        while len(results) < _BATCH and loop.time() < end:
            some = self._slice(loop.time())
            if not some:
                break
            results += some
            await asyncio.sleep(0)
            if waits():
                return results
        if not results:
            self._fly()
            self._set_timer(loop)
        return results

    def again(self, results: Sequence[Result], which: Sequence[int]) -> None:
        """These results came to nothing: they are read once more."""
        paths = {result.of: result.path for result in results}
        for of in which:
            self._waiting[of] = _Waiting(paths[of], self._later(), 1)

    def _later(self) -> float:
        return asyncio.get_running_loop().time() + self.ripe

    def _slice(self, now: float) -> list[Result]:
        """The results of up to a slice of small files that are due."""
        some: list[Result] = []
        left = _SLICE_BYTES
        mounts, tick = self._workers.mounts.now(), self.ripe
        while self._waiting and len(some) < SLICE and left > 0:
            of, waiting = next(iter(self._waiting.items()))
            if waiting.due > now:
                break
            del self._waiting[of]
            path = self.now(of, waiting.path)
            if mounts.may_hang_at(path) is not None:
                self._big[of] = waiting
                continue
            found = summed(path, SMALL, tick)
            if found.sum is Sum.BIG:
                self._big[of] = waiting
            elif found.sum is Sum.MOVING and waiting.tries + 1 < _TRIES:
                self._waiting[of] = _Waiting(waiting.path, self._later(), waiting.tries + 1)
            else:
                left -= found.state.size if found.state is not None else 0
                some.append(Result(of, waiting.path, found, waiting.tries > 0))
        return some

    def now(self, of: int, path: bytes) -> bytes:
        """Where the path of the mutation `of` is by now."""
        return self._moves.now(path, of)

    def _fly(self) -> None:
        """Begins to hash one big file."""
        if self._flying is None and self._big:
            of, waiting = self._big.popitem(last=False)
            self._flying = of
            self._task = asyncio.ensure_future(self._hash_apart(of, waiting))

    async def _hash_apart(self, of: int, waiting: _Waiting) -> None:
        found = Summed(Sum.UNREADABLE)
        try:
            for _ in range(_TRIES):
                found = await self._once_apart(self.now(of, waiting.path))
                if found.sum is not Sum.MOVING:
                    break
                await asyncio.sleep(self.ripe)
        except (TimeoutError, OSError):
            found = Summed(Sum.UNREADABLE)
        finally:
            self._flying = None
            self._landed.append(Result(of, waiting.path, found, waiting.tries > 0))
            self._kick()

    async def _once_apart(self, path: bytes) -> Summed:
        tick = self.ripe
        if self._workers.mounts.now().may_hang_at(path) is not None:
            return await self._workers.call(summed, path, BIGGEST, tick, timeout=_REMOTE_SECONDS, about=path)
        return await self._thread.summed(path, tick)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            self._timer = loop.call_at(next(iter(self._waiting.values())).due, self._due)

    def _due(self) -> None:
        self._timer = None
        self._kick()


class _Thread:
    """The one thread that hashes big files, with low priority; it is there while there is something to hash."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[bytes, float, asyncio.Future[Summed]] | None] = queue.SimpleQueue()
        self._started = False

    async def summed(self, path: bytes, tick: float) -> Summed:
        """Hashes one file there."""
        if not self._started:
            threading.Thread(target=self._serve, name="provd-hasher", daemon=True).start()
            self._started = True
        future: asyncio.Future[Summed] = asyncio.get_running_loop().create_future()
        self._queue.put((path, tick, future))
        return await future

    def close(self) -> None:
        """Ends the thread."""
        if self._started:
            self._queue.put(None)

    def _serve(self) -> None:
        lower_priority()
        while (work := self._queue.get()) is not None:
            path, tick, future = work
            try:
                found = summed(path, BIGGEST, tick)
            except Exception:  # noqa: BLE001  whoever waits must be told, and the thread must go on
                found = Summed(Sum.UNREADABLE)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                future.get_loop().call_soon_threadsafe(_set, future, found)


def _set(future: asyncio.Future[Summed], found: Summed) -> None:
    if not future.done():
        future.set_result(found)
