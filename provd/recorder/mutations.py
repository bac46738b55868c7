"""The pump: notices of a watcher become records of the log, and the table of files follows.

Rule: reading comes before parsing, parsing before scanning, scanning before hashing. One task does all of it, so that
what it found on the disk is written before it takes what happened later; it ends when there is nothing to do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, TypeVar

import structlog

from provd import faults
from provd.core.dependency import is_under
from provd.core.mutation import fold
from provd.core.notice import Lost, Moved, Notice, Scan
from provd.core.records import ALL
from provd.disk.workers import Workers
from provd.recorder.applying import Apply, Forget
from provd.recorder.barriers import Barriers
from provd.recorder.hashing import Hashing, Keep
from provd.recorder.intake import Intake
from provd.recorder.items import Counters, Item, NotWrittenError, Outcome, named
from provd.recorder.looking import Looking
from provd.recorder.owing import Owing, unwritten
from provd.recorder.scanning import Scanning
from provd.recorder.waking import Waking
from provd.store import Store, Writer
from provd.watch.base import Rules, Watcher

BATCH: Final = 1024
"""Notices that are taken at once."""
_MANY: Final = 64
"""Notices of one batch from which on more is expected."""
AT_ONCE: Final = 1 << 16
"""Bytes of a file whose digest goes into the record of what happened to it, where it is at rest by then."""
_LONGEST: Final = 30.0

T = TypeVar("T")
log = structlog.get_logger("pump")


class Pump:
    """The only consumer of a watcher. All methods are for the event loop's thread.

    `own` are the real paths of the daemon's own places, of which nothing is recorded. `roots` gives the roots of the
    moment, `rules` those for the names in a directory.
    """

    def __init__(
        self,
        store: Store,
        watcher: Watcher,
        workers: Workers,
        *,
        own: Sequence[bytes] = (),
        now: Callable[[], int] = time.time_ns,
        roots: Callable[[], Iterable[bytes]] = lambda: (),
        rules: Rules | None = None,
    ) -> None:
        self._store = store
        self._watcher = watcher
        self._intake = Intake(watcher, self._stir)
        self._own = tuple(own)
        self._now = now
        self._roots = roots
        self.counters = Counters()
        self.scanning = Scanning(workers, self._write, self._waits, self.kick, own)
        if rules is not None:
            self.scanning.lister.rules = rules
        self.scanning.coverage = self._coverage
        self.scanning.now = now
        self.scanning.begun = self._begun
        self.scanning.ahead = self._intake.ahead
        self.hashing = Hashing(workers, self.kick)
        self._looking = Looking(
            workers, self.scanning, now, self._intake.read, lambda: self.hashing.ripe, self._at_once
        )
        self.owing = Owing(store, self._paid)
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._closed = False
        self._waking = Waking(self._intake.wake, self.kick, self._presses)
        self._barriers = Barriers(self.scanning.doubts)
        self._settling: list[asyncio.Future[None]] = []
        self._forgets: list[tuple[bytes, tuple[bytes, ...], asyncio.Future[None]]] = []
        self._taken = 0  # notices that are not recorded yet
        self._calm = store.head  # all that had happened was recorded when the log ended there

    # what the daemon calls

    def start(self, loop: asyncio.AbstractEventLoop, descriptors: Iterable[int] | None = None) -> None:
        """Watches the watcher's descriptors."""
        self._waking.start(loop, list(descriptors or (self._watcher.fileno(),)))
        self.wake()

    def wake(self) -> None:
        """Reads at once what the system has to tell, and has it processed."""
        self.read()
        self.kick()

    def read(self) -> None:
        """Reads what the system has to tell; what cannot wait is done in the loop's next turn, the rest later."""
        self._intake.read()

    def kick(self) -> None:
        """Has the task look whether there is something to do."""
        if self._closed:
            return
        self._waking.hurry()
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._work())
        else:
            self._again = True

    async def recorded(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109  what is late is told
        """Waits until all that happened before the call is durable in the log; False if it is not in time.

        False as well where records were lost and the gap that says so could not be written.
        """
        if self._closed:
            return False
        self.read()
        if self.is_recorded():
            return True
        return await self._barriers.wait(self.kick, timeout)

    def is_recorded(self) -> bool:
        """Whether all that was read is durable in the log, and nothing was lost of which no gap tells yet."""
        return self.idle and not self.owing and not self.scanning.doubts

    def is_behind(self) -> bool:
        """Whether more waits to be recorded than takes a moment."""
        return self._waking.burst or self._taken >= _MANY or self._intake.is_much()

    async def scan(self, path: bytes, *, first: bool = False) -> None:
        """Compares the tree at `path` with the table and records what differs.

        `first`: its coverage is recorded afterwards. What was never listed before is only taken into the table.
        """
        scan = self.scanning.want(path, first=first)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        scan.waiting.append(future)
        self.kick()
        await future

    async def forget(self, root: bytes, keep: Sequence[bytes] = ()) -> None:
        """Takes a root that was removed out of the table, but not the roots `keep` at, above or below it."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._forgets.append((root, tuple(keep), future))
        self.scanning.forget(root, keep)
        self.kick()
        await future

    async def settled(self) -> None:
        """Waits until all is recorded, compared and hashed; what was put off is not waited for, but done."""
        self.read()
        self.owing.hasten()
        self.scanning.hasten()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._settling.append(future)
        self.kick()
        await future

    @property
    def turns(self) -> int:
        """How often it took what was read, or was answered by the writer; it stands still where the pump is stuck."""
        return self._intake.turns

    @property
    def idle(self) -> bool:
        """Whether there is nothing that was read and not taken, and nothing under way."""
        return (self._task is None or self._task.done()) and not self._intake.left()

    @property
    def behind(self) -> int:
        """About how many notices were seen and are not recorded, and how many files wait for their digest."""
        return self._intake.count() + self._taken + len(self.hashing)

    @property
    def rest(self) -> float:
        """Seconds for which nothing may have happened to a file before it is hashed."""
        return self.hashing.rest

    @rest.setter
    def rest(self, seconds: float) -> None:
        self.hashing.rest = seconds

    def close(self) -> None:
        """Ends all work; what was read and not recorded is told by the gap of the next run."""
        self._closed = True
        self._waking.close()
        self.scanning.close()
        self.hashing.close()
        self.owing.close()
        if self._task is not None:
            self._task.cancel()
            self._task.add_done_callback(lambda _: self._barriers.refuse())
        self._barriers.refuse()
        for waiting in (*self._settling, *(future for *_, future in self._forgets)):
            _answer(waiting, value=None)

    # the task

    async def _work(self) -> None:
        self._again = True
        while self._again and not self._closed:
            self._again = False
            try:
                while await self._piece():
                    pass
            except NotWrittenError:
                self.scanning.abandon()
            except Exception as error:
                self.scanning.abandon()
                self.owing.owe(self._roots(), f"internal: {error!r}")
                log.exception("the pump failed")

    async def _piece(self) -> bool:
        """Does the most urgent piece of work; False if there is nothing to do now."""
        if await self._notices():
            if self._barriers.press:
                await self.scanning.check(urgent=True)  # who waits is not to wait until nothing happens any more
            return True
        self.scanning.quiet()
        self._calm = self._store.head
        if await self._forget_one() or await self.scanning.step() or await self._hash():
            return True
        if not self.scanning.busy and not len(self.hashing) and not self.owing:
            for future in self._settling:
                _answer(future, value=None)
            self._settling.clear()
        return False

    async def _notices(self) -> bool:
        """Records a batch of what has happened; False where nothing waits, and then nothing else had its turn."""
        await faults.stall("pump.take")
        await self._waking.pause()
        newest = self._barriers.newest
        notices, all_taken = self._intake.take(BATCH)
        self._taken = len(notices)
        if all_taken:
            self._waking.taken()
        await self._waking.ripen(self.hashing.ripe, burst=len(notices) >= _MANY)
        if notices:
            await self._record(notices)
        elif not all_taken:
            await asyncio.sleep(0)
        self._barriers.recorded(newest, true=not self.owing, all_taken=all_taken)
        return not all_taken or bool(notices)

    def _stir(self) -> None:
        self._waking.stir()

    def _waits(self) -> bool:
        """Reads; whether anything or anybody waits."""
        return self._intake.waits() or bool(self._barriers)

    def _at_once(self) -> int:
        """Bytes of a file that is hashed before it is recorded: who waits for records does not wait for digests."""
        return 0 if self._awaited() else AT_ONCE

    def _presses(self) -> bool:
        """Whether there is a reason to go on at once."""
        return self._awaited() or self._intake.is_much()

    def _awaited(self) -> bool:
        """Whether somebody waits for what this task does, or it has more to do than to record."""
        return bool(self._barriers or self._settling or self._forgets or self.scanning.busy)

    async def _record(self, notices: list[Notice]) -> None:
        scopes = {place for notice in notices for place in _places(notice)}
        try:
            items, after = await self._looking.items(fold(notices, self._own))
            await self._write(items)
            self._looking.settle()
            for step in after:
                self._follow(step)
        except NotWrittenError:
            pass  # the gap that is owed brings a scan
        except Exception as error:
            self.owing.owe(self._roots_of(scopes), f"internal: {error!r}")
            log.exception("notices were not recorded")
        finally:
            self._taken = 0

    def _follow(self, step: Lost | Scan) -> None:
        if isinstance(step, Lost):
            self.counters.lost += 1
            self.scanning.lost(step.path)
        else:
            self.scanning.want(step.path)

    async def _write(self, items: Sequence[Item]) -> list[Outcome]:
        """Has items written, in as many commands as it takes.

        Raises NotWrittenError where that was refused; then a gap is owed for what was not written.
        """
        outcomes: list[Outcome] = []
        start = 0
        while start < len(items):
            try:
                outcome = await self._written(Apply(items, start, self._calm))
            except Exception as error:  # refused or failed: a gap says so when it can be written
                if not self.owing:  # a full disk is told once, not with each batch
                    log.warning("records could not be written", reason=str(error))
                self.owing.owe(self._roots_of({p for i in items[start:] for p in named(i)}), unwritten(error))
                raise NotWrittenError from error
            self._take_over(outcome)
            outcomes.append(outcome)
            start = outcome.next
        return outcomes

    async def _written(self, command: Callable[[Writer], T]) -> T:
        """What the writer answers. Each answer is progress: who has a thousand commands to go is not stuck."""
        answer = await self._store.submit(command)
        self._intake.turns += 1
        return answer

    def _take_over(self, outcome: Outcome) -> None:
        self.counters.recorded += outcome.recorded
        for of in outcome.superseded:
            self.hashing.superseded(of)
        superseded = set(outcome.superseded)
        for of, path in outcome.pending:
            if of not in superseded:
                self.hashing.add(of, path)
        for of, source, path in outcome.moved:
            self.hashing.moved(of, source, path)
            self.scanning.moved(source, path)
        for path in outcome.inside:
            self.scanning.doubts.add(path, inside=True)
        for path in outcome.unsure:
            self.scanning.doubts.add(path, inside=False)

    async def _forget_one(self) -> bool:
        if not self._forgets:
            return False
        root, keep, future = self._forgets.pop(0)
        try:
            while not (outcome := await self._written(Forget(root, keep))).next:
                self._take_over(outcome)
            self._take_over(outcome)
        except Exception as error:  # noqa: BLE001  rows that are left are found again when the root is added
            log.warning("rows of a removed root were left", reason=str(error))
        _answer(future, value=None)
        return True

    async def _hash(self) -> bool:
        found = await self.hashing.read(self._intake.waits)
        if not found:
            return False
        results = [result._replace(path=self.hashing.now(result.of, result.path)) for result in found]
        try:
            kept = await self._written(Keep(results, quiet=not self._intake.waits() and not self._intake.left()))
        except Exception as error:  # noqa: BLE001  the rows still say pending, and the next scan takes them up
            if not self.owing:
                log.warning("digests could not be written", reason=str(error))
            for root in self._roots_of(result.path for result in results):
                self.scanning.want(root, delay=_LONGEST)
            return True
        self.counters.hashed += kept.hashed
        self.counters.recorded += kept.recorded
        self.hashing.again(found, kept.again)
        for path in kept.unsure:
            self.scanning.doubts.add(path, inside=False)
        return True

    # what could not be told

    def _roots_of(self, paths: Iterable[bytes]) -> set[bytes]:
        """The roots that the paths lie in, the innermost ones; a path outside all of them stands for itself."""
        roots = sorted(self._roots(), key=len, reverse=True)
        return {next((root for root in roots if is_under(path, root)), path) for path in paths}

    def _paid(self, scopes: Collection[bytes]) -> None:
        """The gaps are durable; what was not recorded is found by a scan."""
        for path in self._roots() if ALL in scopes else scopes:
            self.scanning.lost(path)
        self.kick()

    def _begun(self) -> None:
        self.counters.scans += 1

    def _coverage(self, root: bytes) -> tuple[str, str]:
        state = self._watcher.state(root)
        return state.coverage, state.uncovered[0].why if state.uncovered else ""


def _places(notice: Notice) -> tuple[bytes, ...]:
    return (notice.source, notice.path) if isinstance(notice, Moved) else (notice.path,)


def _answer(future: asyncio.Future[T], *, value: T) -> None:
    if not future.done():
        future.set_result(value)
