"""The tree as the records alone tell it, compared with the disk.

Rule: nothing but records is looked at here. A directory that is moved takes all below it along, and what stood at the
new place is gone.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import xxhash

from provd.core.records import DigestState, Hashed, Mutation, MutationKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from provd.core.records import Record

Known = tuple[int | None, str | None]
"""The size and the digest that the log tells of a name."""


class Story:
    """What is told. `before` is what was there, of which only the names are known."""

    def __init__(self, before: Iterable[bytes]) -> None:
        self.names: dict[bytes, Known | None] = dict.fromkeys(before)
        self._pending: dict[int, bytes] = {}

    def follow(self, records: Iterable[tuple[int, Record]]) -> Story:
        for at, record in records:
            if isinstance(record, Mutation):
                self._mutation(at, record)
            elif isinstance(record, Hashed) and record.of in self._pending:
                path = self._pending.pop(record.of)
                if record.digest_state is DigestState.DONE and path in self.names:
                    size, _ = self.names[path] or (None, None)
                    self.names[path] = (size, record.digest)
        return self

    def _mutation(self, at: int, record: Mutation) -> None:
        path = record.path
        if record.kind is MutationKind.MOVED:
            assert record.source is not None
            self._move(record.source, path)
        elif record.kind is MutationKind.DELETED:
            self._drop(path)
            return
        self.names[path] = (record.size, record.digest)
        if record.digest_state is DigestState.PENDING:
            self._pending[at] = path

    def _below(self, path: bytes) -> list[bytes]:
        return [name for name in self.names if name == path or name.startswith(path + b"/")]

    def _drop(self, path: bytes) -> None:
        for name in self._below(path):
            del self.names[name]

    def _move(self, source: bytes, path: bytes) -> None:
        taken = {path + name[len(source) :]: self.names[name] for name in self._below(source)}
        self._drop(path)
        self._drop(source)
        self.names.update(taken)
        for at, name in self._pending.items():
            if name == source or name.startswith(source + b"/"):
                self._pending[at] = path + name[len(source) :]

    def differs(self, root: bytes, *, digests: bool = True) -> list[str]:
        """Where the disk is not what is told."""
        there = {d + b"/" + name for d, directories, files in os.walk(root) for name in (*directories, *files)}
        mine = {name for name in self.names if name.startswith(root + b"/")}
        found = [f"not told: {name!r}" for name in there - mine] + [
            f"gone, not told: {name!r}" for name in mine - there
        ]
        for name in there & mine:
            known, status = self.names[name], os.lstat(name)
            if known is None or not stat.S_ISREG(status.st_mode):
                continue
            if known[0] != status.st_size:
                found.append(f"size of {name!r}: told {known[0]}, is {status.st_size}")
            elif digests:
                with open(name, "rb") as file:
                    content = "xxh3:" + xxhash.xxh3_128_hexdigest(file.read())
                if known[1] != content:
                    found.append(f"digest of {name!r}: told {known[1]}, is {content}")
        return found
