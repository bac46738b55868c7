"""The rooms that a question goes through, without a socket, with real files and a watcher that does as it is told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from provd.clocks import Clocks
from provd.core import params
from provd.core.dependency import is_under
from provd.core.entry import Entry, EntryId
from provd.core.facts import Question
from provd.core.records import Gap, Mutation, MutationKind, Outcome, Record
from provd.core.verdict import Judgement
from provd.daemon import begin_run
from provd.disk import IgnoreRules, Workers
from provd.ground import Ground
from provd.inquiry import Inquiry
from provd.reader import Reader
from provd.recorder import Actions, Entries
from provd.resolver import Resolver
from provd.responder import Responder
from provd.selfcheck import SelfCheck
from provd.settings import Settings
from provd.shortcut import Shortcut
from provd.showing import Showing
from provd.store import Store, View, Writer
from provd.subscriptions import Subscriptions
from provd.watch.base import Uncovered
from provd.watch.inotify import InotifyWatcher
from provd.watching import Watching


class Scripted:
    """A watcher that covers its roots but for `lost`, and records what is `told` at the next barrier.

    `at_barrier` is called with the number of each barrier (from 1), before what is told is recorded. With `slow` no
    barrier is reached in time.
    """

    def __init__(self, *roots: bytes) -> None:
        self.roots: Sequence[bytes] = roots
        self.lost: list[Uncovered] = []
        self.told: list[Record] = []
        self.slow = self.behind = False
        self.reads = self.scans = self.barriers = 0
        self.timeouts: list[float | None] = []
        self.at_barrier: Callable[[int], None] = lambda _: None
        self.store: Store | None = None

    def read(self) -> None:
        self.reads += 1

    def glance(self) -> tuple[int, int] | None:
        return None

    def fileno(self) -> int:
        return -1

    def is_recorded(self) -> bool:
        return True

    def is_behind(self) -> bool:
        return self.behind

    async def recorded(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        self.barriers += 1
        self.timeouts.append(timeout)
        self.at_barrier(self.barriers)
        if self.slow:
            return False
        told, self.told = self.told, []
        assert self.store is not None
        if told:
            await self.store.submit(lambda writer: [writer.append(record) for record in told])
        return True

    async def scanned(self) -> None:
        self.scans += 1

    mounted = 0

    def uncovered(self, path: bytes) -> list[Uncovered]:
        root = max((root for root in self.roots if is_under(path, root)), key=len, default=None)
        if root is None:
            return [Uncovered(path, "outside")]
        above = [u for u in self.lost if is_under(path, u.path) and is_under(u.path, root)]
        return above + [u for u in self.lost if is_under(u.path, path) and u not in above]


class Listening(Scripted):
    """One that hears what happens in its roots, once they are `begun`."""

    def __init__(self, *roots: bytes) -> None:
        super().__init__(*roots)
        self.watcher = InotifyWatcher()

    def begin(self, ignored: Callable[[bytes, bool], bool] = lambda *_: False) -> Iterator[None]:
        """Takes up the roots by these rules, step by step."""
        for root in self.roots:
            yield from self.watcher.add(root, ignored)

    def begun(self, ignored: Callable[[bytes, bool], bool] = lambda *_: False) -> Listening:
        """The same at once."""
        for _ in self.begin(ignored):
            pass
        self.settle()
        return self

    def settle(self) -> None:
        """Takes all that there is to tell."""
        if self.watcher.mounts_changed():
            self.watcher.check()
        while True:
            self.watcher.read()
            if not self.watcher.take(512) and not self.watcher.busy and self.watcher.read() == 0:
                return

    def read(self) -> None:
        super().read()
        self.watcher.read()

    def glance(self) -> tuple[int, int] | None:
        return self.watcher.glance()

    def fileno(self) -> int:
        return self.watcher.fileno()

    def uncovered(self, path: bytes) -> list[Uncovered]:
        return self.watcher.uncovered(path)

    async def recorded(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        self.settle()
        return await super().recorded(timeout)


class Desk:
    """A store, a root with files, and the rooms around them."""

    def __init__(self, home: Path, watch: Watching, workers: Workers | None = None) -> None:
        self.root = home / "root"
        self.root.mkdir()
        settings = Settings(state=str(home), socket="", roots=(os.fsencode(self.root),))
        self.store = Store(str(home / "store"))
        run = begin_run(self.store, settings)
        self.workers = workers or Workers()
        self.watch = watch
        self.owed: list[tuple[list[bytes], str]] = []
        self.self_check = SelfCheck(
            self.store, self.workers, watch, IgnoreRules, 0, lambda *owed: self.owed.append(owed)
        )
        self.inquiry = Inquiry(self.store, Reader(self.workers, IgnoreRules), IgnoreRules, watch, self.self_check)
        resolver = Resolver(self.store, self.workers, lambda: [os.fsencode(self.root)])
        self.clocks = Clocks(self.store, run)
        self.showing = Showing(self.workers, self.clocks, watch, IgnoreRules)
        self.entries = Entries(self.store, self.inquiry, resolver, self.clocks, watch, self.showing)
        self.actions = Actions(self.store, self.inquiry, resolver, self.clocks, watch)
        shortcut = Shortcut(self.store, self.workers.seals, Ground(self.workers, watch))
        self.responder = Responder(
            self.store, self.inquiry, resolver, self.clocks, watch, shortcut, self.showing, self.self_check
        )
        self.subscriptions = Subscriptions(self.store, self.clocks, watch)
        self.store.on_commit = lambda _: self.subscriptions.committed()

    def close(self) -> None:
        self.store.stop()
        self.workers.close()

    def path(self, name: str) -> bytes:
        return os.fsencode(self.root / name)

    async def clock(self) -> str:
        token = (await self.responder.clock())["clock"]
        assert isinstance(token, str)
        return token

    async def put(self, key: str, **fields: Any) -> Any:
        given = {"value": msgspec.Raw(b"1")} | fields
        return await self.entries.put(params.EntryPut(key=key, **given), foreign=False)

    async def check(self, key: str, **fields: Any) -> Any:
        told = await self.responder.check(params.EntryCheck(key=key, **fields), foreign=False)
        return msgspec.json.decode(bytes(told)) if isinstance(told, msgspec.Raw) else told

    async def found(self, key: str, **fields: Any) -> tuple[str, str, str]:
        told = await self.check(key, **fields)
        return told["verdict"], told["why"], told["checked"]

    def entry(self, key: str) -> Entry:
        with self.store.view() as view:
            there = view.entry(EntryId(os.fsencode(self.root), key))
        assert there is not None
        return there

    async def judge(self, key: str, **question: Any) -> Judgement:
        entry_id = EntryId(os.fsencode(self.root), key)

        def targets(view: View) -> dict[EntryId, Any]:
            return {entry_id: view.entry(entry_id)}

        answer = await self.inquiry.judge(targets, Question(**question), 10)
        return answer.judgements[entry_id]

    async def write(self, *writes: str) -> None:
        asked = params.ActionRecord(writes=list(writes), outcome=Outcome.DONE.value)
        await self.actions.begin(asked, holder=1, foreign=False)

    async def log(self, *some: Record) -> None:
        def command(writer: Writer) -> None:
            for record in some:
                writer.append(record)

        await self.store.submit(command)

    def mutation(self, name: str, kind: MutationKind = MutationKind.MODIFIED, source: str | None = None) -> Mutation:
        return Mutation(1, kind, self.path(name), None if source is None else self.path(source))

    def gap(self, name: str = "") -> Gap:
        return Gap(1, self.path(name) if name else os.fsencode(self.root), "lost")


def impatient(directory: Path) -> Iterator[Desk]:
    """A desk that pays what it owes to the store at once, as the generator of a fixture."""
    watch = Scripted()
    desk = Desk(directory, watch)
    desk.actions.unwritten.owing.retry = 0.0
    watch.store = desk.store
    yield desk
    desk.close()


def run(desk: Desk, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs `work` in a loop in which the store takes commands."""

    async def main() -> None:
        desk.store.start(asyncio.get_running_loop())
        await work()

    asyncio.run(main())
