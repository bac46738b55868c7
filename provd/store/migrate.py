"""A store of an older format becomes one of this format.

Rule: the old store is copied first; then everything happens in one transaction, which also writes the new format. So
a store has the old format and all its rows as they were, or the new one and all steps done. A step repairs what
today's code would read wrongly, and nothing else: fields that older rows lack have the value that claims least.

Formats, each as it was released:

1 without a watcher: no `files`, `touched`, `gaps`; what is kept of a dependency has no `shown` and no `proven`.
1 with the watcher: all of these. Entries of before keep their short rows: not shown, and silence proves nothing of
  them until they were read again.
2 `gaps` knows every gap and every change of coverage that the log holds, and `imports` what was imported from where.
3 mutations and their digests are packed, and `touched` and `gaps` repeat no path that is their key. Rows of before are
  read as well, and go when they are trimmed or written anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import lmdb
import msgspec

from provd import faults
from provd.core import errors, records
from provd.store import keeping
from provd.store.decoding import Damaged
from provd.store.writes import Writer

if TYPE_CHECKING:
    from provd.store.commit import Store
    from provd.store.environment import Environment
    from provd.store.reads import View

Step = Callable[[Writer], None]
_SLICE: Final = 10_000
"""Rows that are read, or records of which the mentions are held in memory, in one go."""
_BYTES: Final = 16 * 1024 * 1024
"""Bytes of rows that are read in one go: as long as a view is open, no page of the store is used again."""
_LONG: Final = 24 * 3600.0
"""Seconds after which a run proves a migrated store even if it never ends orderly."""


def from_1(writer: Writer) -> None:
    """Gaps and coverage of the log, those too that were recorded before there was an index of them.

    Mutations were never recorded without their index. What the log no longer holds stays as it is in the index.
    """
    waiting = 0
    for position, record in writer.all_records():
        if isinstance(record, records.Gap | records.Coverage):
            writer.index_again(position, record)
            waiting += 1
            if waiting == _SLICE:
                writer.finish()
                writer.going_on()
                waiting = 0


def from_2(_: Writer) -> None:
    """Nothing is to be repaired: only what reads format 2 cannot read what is written from now on."""


STEPS: Final[Mapping[int, Step]] = {1: from_1, 2: from_2}
"""From each older format to the next one."""


def migrate(environment: Environment, old: int, new: int) -> None:
    """Brings an open environment from format `old` to `new`, and keeps a copy of what it was.

    Raises StoreFull, StoreUnusable, lmdb.Error, OSError; then the store is as it was.
    """
    environment.going_on()
    kept = keeping.keep(environment.env, environment.directory, old)
    with _told(environment.directory, kept, old, new), environment.env.begin(write=True) as txn:
        environment.going_on()
        environment.open_tables(txn)
        writer = Writer(environment, txn, time.time_ns())
        for number in range(old, new):
            STEPS[number](writer)
            writer.finish()
            environment.going_on()
        keeping.remember(writer, keeping.Migrated(old, writer.now, os.path.basename(kept)))
        writer.put_meta(b"format", b"%d" % new)
        faults.point("migrate.before")
    faults.point("migrate.after")


@contextlib.contextmanager
def _told(directory: str, kept: str, old: int, new: int) -> Iterator[None]:
    """What a step stumbles over is told as the store's; LMDB's and the system's errors are told by who opens it."""
    try:
        yield
    except (errors.ProvdError, OSError, lmdb.Error, Damaged):
        raise
    except Exception as e:
        raise errors.StoreUnusable(
            f"the store in {directory} could not be brought from format {old} to {new}: {e!r}: nothing was changed",
            f"run the provd that wrote it, or give another --state; a copy of it is {kept}",
        ) from e


def told(view: View, directory: str) -> dict[str, Any] | None:
    """What the status says while the old store is kept: `{from, at, kept}`; None otherwise."""
    migrated = keeping.remembered(view)
    if migrated is None:
        return None
    kept = os.path.join(os.path.dirname(directory), migrated.kept)
    return {"from": migrated.before, "at": str(migrated.at), "kept": kept}


async def settle(store: Store, run: str) -> str | None:
    """Called by a run that answers: removes the copy of a migrated store that an earlier run has proved.

    It reads the whole store before, a slice at a time. Returns the name of the copy that it removed, None if none.
    Raises StoreFull, StoreUnusable, OSError; then the copy stays and a later run tries again.
    """
    with store.view() as view:
        migrated = keeping.remembered(view)
    if migrated is None or migrated.up in {"", run}:
        return None
    kept = migrated.kept
    for table in store.environment.tables:
        low: bytes | None = b""
        while low is not None:
            low = await asyncio.to_thread(_walk, store, table, low)
    await asyncio.to_thread(keeping.drop, store.environment.directory, kept)
    await store.submit(lambda writer: keeping.remember(writer, None))
    return kept


def prove(writer: Writer, run: str) -> None:
    """Notes that a run proved a migrated store: it ends orderly, or was there long. One that crashes proves nothing."""
    migrated = keeping.remembered(writer)
    if migrated is not None and not migrated.up:
        keeping.remember(writer, msgspec.structs.replace(migrated, up=run))


async def prove_in_time(store: Store, run: str, seconds: float = _LONG) -> None:
    """Proves a migrated store when this run was there long; raises StoreFull, StoreUnusable."""
    await asyncio.sleep(seconds)
    await store.submit(lambda writer: prove(writer, run))


def _walk(store: Store, table: str, low: bytes) -> bytes | None:
    with store.thread_view() as view:
        return view.walk(table, low, _SLICE, _BYTES)
