"""Roots on a store of their own, with a watcher and a scanner that keep what they were told."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from provd.core import records
from provd.disk import Workers, real_directory
from provd.recorder.roots import Roots
from provd.store import Store
from provd.watch.base import Ignored, RootState, Uncovered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path


class Fleet:
    """Watches wholly, in two steps, and keeps what it was told in order."""

    backend = "scripted"

    def __init__(self, told: list[tuple[str, bytes]]) -> None:
        self.told = told
        self.roots: dict[bytes, Ignored] = {}
        self.gone: set[bytes] = set()

    def add(self, root: bytes, ignored: Ignored) -> Iterator[None]:
        self.told.append(("watch", root))
        self.gone.discard(root)
        yield
        self.roots[root] = ignored
        yield

    def remove(self, root: bytes) -> None:
        self.told.append(("unwatch", root))
        self.roots.pop(root, None)

    def state(self, root: bytes) -> RootState:
        if root in self.gone:
            return RootState("scripted", "gone", "none", (Uncovered(root, "it is gone"),))
        if root in self.roots:
            return RootState("scripted", "watching", "whole", directories=1)
        return RootState("scripted", "scanning", "none", (Uncovered(root, "not scanned yet"),))

    def fileno(self) -> int:
        return -1

    def read(self) -> int:
        return 0

    def take(self, limit: int) -> list[Any]:
        return []

    def pressing(self) -> bool:
        return self.waiting()

    def waiting(self) -> bool:
        return False

    def check(self, *, mounts: bool = True) -> None:
        pass

    def uncovered(self, path: bytes) -> list[Uncovered]:
        return []

    def close(self) -> None:
        pass


class Scanner:
    """Keeps what was to be scanned; a scan waits where there is a gate for its root, and fails where it should."""

    def __init__(self, told: list[tuple[str, bytes]]) -> None:
        self.told = told
        self.gates: dict[bytes, asyncio.Event] = {}
        self.begun = asyncio.Event()
        self.failing: list[Exception] = []
        self.keep: list[bytes] = []

    async def scan(self, path: bytes, *, first: bool = False) -> None:
        assert first, "its coverage is recorded"
        self.told.append(("scan", path))
        self.begun.set()
        if self.failing:
            raise self.failing.pop()
        if path in self.gates:
            await self.gates[path].wait()

    async def forget(self, root: bytes, keep: Sequence[bytes] = ()) -> None:
        self.told.append(("forget", root))
        self.keep = list(keep)
        if root in self.gates:
            self.begun.set()
            await self.gates[root].wait()


class Bench:
    def __init__(self, store: Store, own: bytes) -> None:
        self.told: list[tuple[str, bytes]] = []
        self.store = store
        self.own = own
        self.fleet = Fleet(self.told)
        self.scanner = Scanner(self.told)
        self.workers = Workers()
        self.roots = Roots(store, own, self.fleet, self.scanner, self.workers)

    async def add(self, path: bytes, *ignore: str, wait: bool = True) -> None:
        _, directory = real_directory(path)
        assert directory is not None
        await self.roots.add(directory, ignore or None, wait=wait)

    def log(self) -> list[tuple[str, bytes]]:
        """The records: what each says, and of which place."""
        with self.store.view() as view:
            return [said(record) for _, record in view.records(0, 10_000)]


def said(record: records.Record) -> tuple[str, bytes]:
    match record:
        case records.Gap():
            return record.reason, record.scope
        case records.RootChange():
            return record.event, record.path
        case _:
            raise AssertionError(record)


def made(tmp_path: Path, *names: str) -> list[bytes]:
    paths = [tmp_path / name for name in names]
    for path in paths:
        path.mkdir(parents=True, exist_ok=True)
    return [os.fsencode(path) for path in paths]


def run_with_roots(state: bytes, body: Callable[[Bench], Awaitable[None]]) -> None:
    """Runs a test with roots whose store lies in the directory `state`."""

    async def main() -> None:
        store = Store(os.fsdecode(state) + "/store")
        store.start(asyncio.get_running_loop())
        bench = Bench(store, state)
        try:
            await body(bench)
        finally:
            await bench.roots.close()
            bench.workers.close()
            store.stop()

    asyncio.run(main())


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Callable[[Bench], Awaitable[None]]], None]:
    """Runs a test with roots on a store of its own; again, with what the last one left."""
    state = os.fsencode(tmp_path / "state")
    os.mkdir(state)
    return partial(run_with_roots, state)
