"""What the tests of the store share: stores, commands that wait for each other, and entries made by hand."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hypothesis import strategies as st

from provd.core import errors
from provd.core.dependency import parse
from provd.core.entry import Entry, EntryId, Kept
from provd.core.records import EntryChange, EntryEvent, Gap
from provd.store import Store, View, Writer
from provd.store.keys import Stored

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

T = TypeVar("T")
SCOPE: Final = b"/r"
ONE: Final = "xxh3:" + "1" * 32
RUN: Final = "0123456789abcdef"
MEMORY: Final = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@contextmanager
def opened(directory: str, **more: Any) -> Iterator[Store]:
    """A store without a loop: commands go through `run`."""
    store = Store(directory, **more)
    try:
        yield store
    finally:
        store.stop()


@contextmanager
def scratch() -> Iterator[Store]:
    """A store for one example of a property, in memory where that is possible: there are many."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory, opened(os.path.join(directory, "store")) as store:
        yield store


def in_loop(directory: str, body: Callable[[Store], Awaitable[T]], **more: Any) -> T:
    """Runs `body` with a store whose writer thread runs."""

    async def main() -> T:
        store = Store(directory, **more)
        store.start(asyncio.get_running_loop())
        try:
            return await body(store)
        finally:
            store.stop()

    return asyncio.run(main())


def gap(reason: str = "x", scope: bytes = b"/r") -> Gap:
    return Gap(1, scope, reason)


def appending(reason: str = "x") -> Callable[[Writer], int]:
    return lambda writer: writer.append(gap(reason))


def log_of(view: View) -> list[tuple[int, str]]:
    return [(at, one.reason if isinstance(one, Gap) else "") for at, one in view.records(0, 100_000)]


def entry(key: str, *deps: Kept, version: int = 5, at: int = 10, scope: bytes = SCOPE) -> Entry:
    return Entry(EntryId(scope, key), version, max(version, at), at, deps, 0)


def kept(text: bytes, real: bytes | None = None, **more: Any) -> Kept:
    return Kept(parse(text, SCOPE), real=real, **more)


def put(writer: Writer, *some: Entry) -> None:
    for one in some:
        writer.put_entry(one, Stored(b"1", None), {})


class Gate:
    """A command that holds the writer until it is opened, so that what comes meanwhile is one group."""

    def __init__(self) -> None:
        self.held = threading.Event()
        self._open = threading.Event()

    def __call__(self, _: Writer) -> None:
        self.held.set()
        assert self._open.wait(60)

    async def closed(self, store: Store) -> asyncio.Future[None]:
        future = store.submit(self)
        await asyncio.to_thread(self.held.wait, 60)
        return future

    def open(self) -> None:
        self._open.set()


async def together(store: Store, *commands: Callable[[Writer], Any]) -> list[Any]:
    """What becomes of commands that are carried out as one group."""
    gate = Gate()
    first = await gate.closed(store)
    futures = [store.submit(command) for command in commands]
    gate.open()
    await first
    return list(await asyncio.gather(*futures, return_exceptions=True))


def refusing(_: Writer) -> None:
    raise errors.EntryConflict("no", "no")


def crashing_late(writer: Writer) -> None:
    writer.append(gap("never"))
    raise ZeroDivisionError


parts = st.sampled_from([b"a", b"b", b"a", b"b", b"ab", b".c", b"a" * 250])
some_paths = st.lists(parts, max_size=3).map(lambda p: b"/" + b"/".join(p))
patterns = st.sampled_from([b"*", b"a*", b"**", b"**/b", b"*/b", b"b"])


@st.composite
def path_deps(draw: st.DrawFn) -> Kept:
    kind = draw(st.sampled_from(["file", "dir", "tree", "names", "glob"]))
    path = draw(some_paths)
    if kind in {"names", "glob"}:
        path = path.rstrip(b"/") + b"/" + draw(patterns)
    return kept(kind.encode() + b":" + path, draw(st.none() | some_paths))


small_keys = st.sampled_from("klmnop")
ANY_DEPS: Final = st.one_of(
    path_deps(),
    path_deps(),
    st.sampled_from([b"object:x", b"object:y", b"entry:k", b"entry:l"]).map(kept),
)


def change(op: bytes = b"", at: int = 1) -> EntryChange:
    return EntryChange(at, EntryEvent.PUT, SCOPE, "k", 1, op=op)
