"""A large store, made in little time: rows are written through the store's own writer while no daemon has it open."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence

import msgspec

from provd import places
from provd.core.entry import EntryId
from provd.core.records import DigestState, Hashed, Mutation, MutationKind, Record
from provd.store import Store, Writer

_LOT = 5_000
"""Rows in one transaction."""


def opened(state: str) -> Store:
    """The store of a state directory. No daemon may have it open."""
    return Store(os.path.join(state, places.STORE_NAME))


def copies(store: Store, patterns: Sequence[EntryId], count: int) -> None:
    """So many more entries, each a copy of one of those under a key of its own."""
    with store.view() as view:
        found = [(entry, view.stored(entry.id)) for entry in map(view.entry, patterns) if entry is not None]
    for first in range(0, count, _LOT):

        def put(writer: Writer, numbers: range = range(first, min(first + _LOT, count))) -> None:
            for number in numbers:
                entry, stored = found[number % len(found)]
                copied = EntryId(entry.id.scope, f"copy{number}")
                writer.put_entry(msgspec.structs.replace(entry, id=copied), stored, {})

        store.run(put)


def events(paths: Sequence[str], count: int, first_position: int) -> Iterator[Record]:
    """So many records of files that are written again and again: of each a mutation, and later its digest."""
    for number in range(count):
        path = os.fsencode(paths[number // 2 % len(paths)])
        digest = "xxh3:" + hashlib.blake2b(b"%d" % number, digest_size=16).hexdigest()
        now = time.time_ns()
        if number % 2:
            yield Hashed(now, first_position + number - 1, path, digest, DigestState.DONE)
        else:
            pending = DigestState.PENDING
            yield Mutation(now, MutationKind.MODIFIED, path, mtime_ns=now, size=4096, digest_state=pending)


def append(store: Store, records: Iterator[Record], keep: int | None = None) -> None:
    """Appends all; with `keep` what is over so many is trimmed as it goes."""
    more = True

    def fill(writer: Writer) -> bool:
        for _ in range(_LOT):
            if (record := next(records, None)) is None:
                return False
            writer.append(record)
        return True

    while more:
        more = store.run(fill)
        while keep is not None and store.run(lambda writer: writer.trim(keep, 0)):
            pass
