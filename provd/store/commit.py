"""The store as the daemon holds it: views for questions, and one writer thread that commits in groups.

Rule: a command is a function of a Writer. Those that wait while a transaction is synced share the next one; each
is answered after its transaction is durable, and the event loop never waits for the disk. LMDB's write
transactions belong to a thread, so the same one opens, fills and commits them.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

import lmdb

from provd import faults
from provd.core import errors
from provd.core.records import Gap
from provd.store import migrate
from provd.store.environment import DEFAULT_MAP, Environment
from provd.store.gaps import GapCounts
from provd.store.reads import View
from provd.store.trouble import DAMAGE, full_or_unusable
from provd.store.writes import Writer

T = TypeVar("T")
Command = Callable[[Writer], T]
_GROUP: Final = 512
_HARMLESS: Final = (lmdb.MapFullError, lmdb.TxnFullError, lmdb.BadValsizeError)
"""Errors that leave the environment as it was."""


class _Waiting(NamedTuple):
    command: Command[Any]
    future: asyncio.Future[Any]


class _Outcome(NamedTuple):
    future: asyncio.Future[Any]
    result: Any
    error: BaseException | None


class _RedoAloneError(Exception):
    """A command failed after it had written, or the whole transaction did: nothing of the group may stand.

    `filled` is what the transaction would have done, where it was the commit that failed.
    """

    def __init__(self, error: BaseException, filled: tuple[list[_Outcome], int] | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.filled = filled


class Store:
    """The store, open. Views are for the event loop's thread; commands run in the writer's.

    `head` is the position of the newest durable record. `on_commit` is called in the loop after each commit
    that moved it, `going_on` while opening takes long and gets on (a migration). Raises StoreFull, StoreUnusable,
    VersionMismatch when it cannot be opened.
    """

    def __init__(
        self,
        directory: str,
        map_size: int = DEFAULT_MAP,
        clock: Callable[[], int] = time.time_ns,
        going_on: Callable[[], None] = lambda: None,
    ) -> None:
        self.environment = Environment(directory, map_size, going_on)
        self._clock = clock
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.on_commit: Callable[[int], None] = lambda _: None
        self.reopened = 0
        self.gaps = GapCounts()
        self.run_id = ""
        """The run that has this store, once it began in it: where it is not in the store any more, another store is."""
        self.lost: str | None = None
        self.on_lost: Callable[[], None] = lambda: None
        self._reopening = threading.Lock()
        self._settled = 0  # the head before the transaction that is under way
        self._filled: list[tuple[int, Gap]] = []  # the gaps of that transaction
        self.head = self._written = 0  # what was acknowledged, and what the writer left
        self._committed = 0  # transactions, by their number in the store
        try:
            self._take_up()
        except errors.StoreDamaged as e:  # else no start would ever come further
            self.begin_anew(e.message)

    def _take_up(self) -> None:
        """Takes the head; raises StoreDamaged where what each start needs cannot be read."""
        with self.view() as view:
            view.look_at_needs()
            self.head = self._written = view.head()
        self._committed = self.environment.commits()

    def begin_anew(self, trouble: str) -> None:
        """Before `start`: sets the store aside, where what a start needs of it is damaged, and begins a new one."""
        self.environment.begin_anew(trouble)
        self._take_up()

    @property
    def damaged(self) -> str | None:
        """What was last met of a page or row that is not as it was written, None where nothing was."""
        return self.environment.damaged

    @property
    def log_id(self) -> str:
        """The log's id, 16 hex digits."""
        return self.environment.log_id

    def migrated(self) -> dict[str, Any] | None:
        """`{from, at, kept}` while the store of an older format, from which this one was made, is still kept."""
        with self.view() as view:
            return migrate.told(view, self.environment.directory)

    @contextmanager
    def view(self) -> Iterator[View]:
        """One moment of what is durable. Read from it, leave it, and only then open files.

        Raises StoreUnusable where it has less than was acknowledged, or is another run's: somebody wrote over it, and
        it is lost.
        """
        acknowledged = self.head
        try:
            txn = self.environment.env.begin()
        except lmdb.Error as e:  # a commit has just failed, and the environment is not reopened yet
            raise full_or_unusable(e, self.environment.directory) from e
        with txn:
            view = View(self.environment, txn)
            faults.point("view.read")
            try:
                self._check_own(view, acknowledged)
                yield view
            except DAMAGE as e:
                raise self._told_as(e) from e
            finally:
                view.release()

    @contextmanager
    def thread_view(self) -> Iterator[View]:
        """A view for another thread than the loop's; the environment is not reopened under it."""
        with self._reopening, self.view() as view:
            yield view

    def run(self, command: Command[T]) -> T:
        """Carries out one command in this thread and waits until it is durable: for starting and stopping.

        Raises what the command raises, StoreFull, StoreUnusable.
        """
        try:
            outcomes, head = self._attempt([_Waiting(command, None)])  # type: ignore[arg-type]
        except _RedoAloneError as failed:
            raise self._told_as(failed.error) from failed
        self.head = head
        if outcomes[0].error is not None:
            raise self._told_as(outcomes[0].error)
        result: T = outcomes[0].result
        return result

    # the writer thread

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts the writer thread; from now on commands come through `submit`."""
        self._loop = loop
        self._thread = threading.Thread(target=self._work, name="provd-writer", daemon=True)
        self._thread.start()

    def submit(self, command: Command[T]) -> asyncio.Future[T]:
        """Hands a command to the writer; the future is done when its transaction is durable, or refused."""
        if self._loop is None:
            raise errors.Internal("the store takes no commands yet")
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Waiting(command, future))
        return future

    def stop(self) -> None:
        """Carries out what was submitted, ends the thread and closes the environment."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        self.environment.close()

    def lose(self, why: str) -> None:
        """In the loop: nothing more may be built on this store, and nothing more is written; ends the daemon."""
        if self.lost is None:
            self.lost = why
            self.on_lost()

    def is_own(self) -> bool:
        """Whether the file that is open still holds what this run was told is durable: what is said from memory needs
        that. A look costs two microseconds. False too where that cannot be read: a view tells why.
        """
        environment, run = self.environment, self.run_id.encode()
        try:
            with environment.env.begin() as txn:
                return View(environment, txn).head() >= self.head and (
                    not run or txn.get(run, db=environment.tables["runs"]) is not None
                )
        except DAMAGE:
            return False

    def _check_own(self, view: View, acknowledged: int) -> None:
        """Nothing may be built on a store that lacks what was acknowledged. In any thread. Raises StoreUnusable."""
        there = view.head()
        if self.run_id and not view.has_run(self.run_id):
            why = f"another store lies in its place, which ends at record {there}: this run never began in it"
        elif there < acknowledged:
            why = f"the store came back at record {there}, {acknowledged} was acknowledged"
        else:
            return
        if self.lost is None:
            self.lost = why
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self.on_lost)
        raise errors.StoreUnusable(self.lost, "provd restart")

    def waits_for_disk(self) -> bool:
        """Whether the writer's thread waits inside the kernel at this moment, for a disk that does not answer.

        It cannot be ended then, and a new process would wait for the same disk. False where that cannot be known.
        """
        if self._thread is None or self._thread.native_id is None:
            return False
        try:
            with open(f"/proc/self/task/{self._thread.native_id}/stat", "rb") as f:
                return f.read().rpartition(b")")[2].split()[:1] == [b"D"]  # proc(5): uninterruptible
        except OSError:
            return False

    def _work(self) -> None:
        while True:
            group, last = self._take()
            if group:
                try:
                    self._commit(group)
                except Exception as e:  # noqa: BLE001  whoever waits must be told, and the thread must go on
                    self._tell([_Outcome(waiting.future, None, errors.Internal(f"{e!r}")) for waiting in group], None)
            if last:
                return

    def _take(self) -> tuple[list[_Waiting], bool]:
        group: list[_Waiting] = []
        waiting = self._queue.get()
        while waiting is not None:
            group.append(waiting)
            if len(group) == _GROUP:
                return group, False
            try:
                waiting = self._queue.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _commit(self, group: list[_Waiting]) -> None:
        try:
            outcomes, head = self._attempt(group)
        except _RedoAloneError as failed:
            if isinstance(failed.error, lmdb.Error | OSError) and not isinstance(failed.error, _HARMLESS):
                self._reopen()
                if failed.filled is not None and self._is_there(failed.filled[1]):
                    self.gaps.add(self._filled)
                    self._tell(*failed.filled)  # it was written all the same: it must not be carried out twice
                    return
            again = isinstance(failed.error, lmdb.ReadonlyError) and self.environment.reading_only is None
            if len(group) == 1 and not again:  # else it was open for reading alone, and takes changes again
                self._tell([_Outcome(group[0].future, None, self._told_as(failed.error))], None)
            else:
                for waiting in group:  # whoever is at fault is at fault alone
                    self._commit([waiting])
        else:
            self._tell(outcomes, head)

    def _is_there(self, head: int) -> bool:
        """Whether the store that was reopened holds a group that moved the head to `head`."""
        if self.lost is not None or head == self._settled:
            return False
        with self.thread_view() as view:
            return view.head() >= head

    def note_damage(self, what: str) -> None:
        """Something that was read from it is not as it was written: told as all other damage is."""
        self.environment.damaged = what

    def _told_as(self, error: BaseException) -> BaseException:
        """An error as it is told to who waits."""
        if isinstance(error, lmdb.ReadonlyError) and self.environment.reading_only is not None:
            return self.environment.reading_only
        if not isinstance(error, (OSError, *DAMAGE)):
            return error
        told = full_or_unusable(error, self.environment.directory)
        if isinstance(told, errors.StoreDamaged):
            self.note_damage(str(error))
        return told

    def _attempt(self, group: list[_Waiting]) -> tuple[list[_Outcome], int]:
        if self.lost is not None:
            raise _RedoAloneError(errors.StoreUnusable(self.lost, "stop the daemon and look at its disk"))
        outcomes: list[_Outcome] = []
        filled: tuple[list[_Outcome], int] | None = None
        try:
            with self.environment.env.begin(write=True) as txn:
                faults.point("commit.begin")
                writer = Writer(self.environment, txn, self._clock())
                self._settled = writer.head()
                try:
                    self._check_own(writer, self._written)
                except errors.StoreUnusable as e:
                    raise _RedoAloneError(e) from e
                for command, future in group:
                    outcomes.append(self._carry_out(writer, command, future))
                writer.finish()
                faults.point("commit.filled")
                if (astray := self.environment.astray()) is not None:
                    raise _RedoAloneError(astray)
                filled = (outcomes, writer.head())
                self._filled = writer.gaps
                faults.point("commit.before")
        except (OSError, *DAMAGE) as e:
            raise _RedoAloneError(e, filled) from e
        self._written, self._committed = filled[1], self.environment.commits()
        self.gaps.add(self._filled)
        faults.point("commit.after")
        if (astray := self.environment.astray(written=True)) is not None:  # it went while it was synced
            return [done._replace(result=None, error=done.error or astray) for done in outcomes], self._settled
        return filled

    @staticmethod
    def _carry_out(writer: Writer, command: Command[Any], future: asyncio.Future[Any]) -> _Outcome:
        before = writer.wrote
        try:
            return _Outcome(future, command(writer), None)
        except (lmdb.Error, OSError):
            raise
        except Exception as e:
            if writer.wrote != before:
                raise _RedoAloneError(e) from e
            return _Outcome(future, None, e)

    def _tell(self, outcomes: list[_Outcome], head: int | None) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._told, outcomes, head)
        except RuntimeError:
            if not self._loop.is_closed():  # where it is, nobody waits any more
                raise

    def _told(self, outcomes: list[_Outcome], head: int | None) -> None:
        """In the loop: the answers may go out, since what they say is durable."""
        moved = head is not None and head > self.head
        if head is not None and moved:
            self.head = head
        if self.lost is not None:
            self.on_lost()
        for future, result, error in outcomes:
            if future.done():
                continue
            if error is not None:
                future.set_exception(self._told_as(error))
            else:
                future.set_result(result)
        if moved:
            self.on_commit(self.head)

    def _reopen(self) -> None:
        """After a failed write or sync: no view is open between two callbacks of the loop, so there it is reopened."""
        assert self._loop is not None
        done = threading.Event()

        def reopen() -> None:
            try:
                with self._reopening:
                    self.environment.reopen()
                    if self.environment.commits() != self._committed:  # one that failed is there: in memory at least
                        self.environment.prove()
                    self._committed = self.environment.commits()
                self.reopened += 1
                with self.view() as view:
                    self._written = view.head()
            except (errors.ProvdError, lmdb.Error) as e:
                self.lost = self.lost or f"the store could not be opened again: {e}"
            finally:
                done.set()

        try:
            self._loop.call_soon_threadsafe(reopen)
        except RuntimeError:
            reopen()
        while not done.wait(1.0):
            if self._loop.is_closed():  # it ended before the callback: then no view is open either
                reopen()
