"""The rows of the tables inside one transaction: what every view of the store is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from typing import TYPE_CHECKING, TypeVar, cast

import lmdb

from provd.store.decoding import Damaged

if TYPE_CHECKING:
    from provd.store.environment import Environment


T = TypeVar("T")
U = TypeVar("U")


class Rows:
    """The tables of one moment, inside one transaction."""

    def __init__(self, environment: Environment, txn: lmdb.Transaction) -> None:
        self._environment = environment
        self._txn = txn
        self._tables = environment.tables

    def release(self) -> None:
        """Lets go of the transaction: who keeps a view must not keep one of the environment's few readers."""
        del self._txn

    def _get(self, table: str, key: bytes) -> bytes | None:
        return cast("bytes | None", self._txn.get(key, db=self._tables[table]))

    def _or(self, read: Callable[[bytes], T], row: bytes, instead: U) -> T | U:
        """What a row holds; `instead` where it is damaged, which the status tells from then on."""
        try:
            return read(row)
        except Damaged as e:
            self._met(e)
            return instead

    def _met(self, damage: Damaged) -> None:
        """Has the status tell of it."""
        self._environment.damaged = str(damage)

    def _rows(self, table: str, low: bytes = b"", prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """The rows of a table in order, from `low` on, as long as their keys start with `prefix`."""
        cursor = self._txn.cursor(db=self._tables[table])
        if cursor.set_range(low) if low else cursor.first():
            for row in cursor:
                key, value = cast("tuple[bytes, bytes]", row)  # transactions without buffers give bytes
                if not key.startswith(prefix):
                    return
                yield key, value

    def indexed(
        self, table: str, key: bytes, after: tuple[bytes, bytes] | None, limit: int, *, below: bool
    ) -> list[tuple[bytes, bytes]]:
        """Up to `limit` rows of an index in order, those that come after the row `after`.

        They lie under `key`, or with `below` under all keys that start with it.
        """
        cursor = self._txn.cursor(db=self._tables[table])
        if after is None:
            there = cursor.set_range(key) if below else cursor.set_key(key)
        else:
            there = cursor.set_range_dup(after[0], after[1] + b"\0") or (below and cursor.set_range(after[0] + b"\0"))
        if not there:
            return []
        rows = cast("Iterator[tuple[bytes, bytes]]", islice(cursor if below else cursor.iternext_dup(keys=True), limit))
        return list(takewhile(lambda row: row[0].startswith(key), rows))

    def meta(self, name: bytes) -> bytes | None:
        """A small value by its name."""
        return self._get("meta", name)

    def walk(self, table: str, low: bytes, limit: int, most: int) -> bytes | None:
        """Reads up to `limit` rows of a table from `low` on, and not many more than `most` bytes of them.

        Returns the key to go on from, None at the end.
        """
        size = 0
        for number, (key, value) in enumerate(self._rows(table, low), 1):
            size += len(value)
            if number >= limit or size >= most:
                return key + b"\0"
        return None

    def count(self, table: str) -> int:
        """How many rows a table has."""
        count: int = self._txn.stat(self._tables[table])["entries"]
        return count
