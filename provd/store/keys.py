"""The keys of the tables, and the values that only the store knows.

Rule: LMDB keys hold 511 bytes; keys and paths may be longer. What must be found in order keeps its first bytes,
the rest is a hash, and whoever reads compares the whole name that lies in the value.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from provd.core import entry as entries
from provd.core.facts import ObjectState

_SHORT: Final = 470
_HASH: Final = 16
_NUMBER: Final = 4
"""Bytes of a scope's number."""
BEGINS: Final = b"begins"
"""The row of `meta` with the position before the first record, where that is not 0."""
EVERY: Final = b""
"""Stands for all objects: none has this name."""
ORDERED: Final = 480
"""Bytes of a path by which keys are in path order."""
IMPORTED: Final = b"="
WANTED: Final = b"?"
WAITING: Final = b"!"
ORIGIN: Final = b"@"
"""How the names of the rows begin that say what an import is here, who waits for one, what an entry waits for, and how
the store called it that a precedent comes from.
"""


class PathState(msgspec.Struct, frozen=True, array_like=True):
    """What actions declared of one path: as ObjectState, without refusals."""

    path: bytes
    last_end: int = 0
    last_action: int | None = None
    open: tuple[int, ...] = ()


class OpenAction(msgspec.Struct, frozen=True, array_like=True):
    """An action that has begun and not ended. `objects` and `paths` are what its `writes` mean.

    `holder` is the number of the connection with which a held one ends, `op` the key of the answer to its begin.
    """

    id: int
    at: int
    writes: tuple[bytes, ...]
    objects: tuple[bytes, ...]
    paths: tuple[bytes, ...]
    hold: bool = False
    session: str | None = None
    turn: int | str | None = None
    note: str | None = None
    holder: int = 0
    op: bytes = b""


class Root(msgspec.Struct, frozen=True, array_like=True):
    """A watched directory: its real path, device and inode, and its ignore rules (None: the default ones).

    `gap` is the position of its own newest gap.
    """

    path: bytes
    dev: int
    ino: int
    ignore: tuple[str, ...] | None = None
    gap: int = 0


class Waits(msgspec.Struct, frozen=True, array_like=True):
    """What an imported entry waits for, as long as its newest record is at `renewed`.

    Each ground is the index of the dependency, the key that it names, and the token of the version that it names.
    """

    renewed: int
    grounds: tuple[tuple[int, str, str], ...]


class Archived(msgspec.Struct, frozen=True, array_like=True):
    """A precedent that is not active, and why."""

    entry: entries.Entry
    reason: str
    value: bytes | None
    meta: bytes | None


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """A value and its meta as raw JSON, None where there is none."""

    value: bytes | None
    meta: bytes | None


class Answered(msgspec.Struct, frozen=True, array_like=True):
    """The first answer to an op, and what stands for the request: empty in rows of before that was kept."""

    position: int
    answer: bytes
    asked: bytes = b""


__all__ = ["Answered", "Archived", "ObjectState", "OpenAction", "PathState", "Root", "Stored"]


def short_hash(data: bytes) -> bytes:
    """Sixteen bytes that stand for `data`."""
    return hashlib.blake2b(data, digest_size=_HASH).digest()


def nth_scope(count: int) -> bytes:
    """What stands for a scope that is put to when there are so many others; none is ever given up."""
    return count.to_bytes(_NUMBER, "big")


def entry_key(scope_number: bytes, key: bytes) -> bytes:
    """The key of an entry, in its scope's order; what does not fit ends in a hash, and is longer than what fits."""
    if len(key) <= _SHORT:
        return scope_number + key
    return scope_number + key[:_SHORT] + short_hash(key) + b"\0"


def parted(entry_key_: bytes) -> tuple[bytes, str | None]:
    """The number of the scope and the key that an `entry_key` was made of, None where it does not hold all of it."""
    whole = len(entry_key_) <= _NUMBER + _SHORT
    return entry_key_[:_NUMBER], entry_key_[_NUMBER:].decode() if whole else None


def shown(entry_key_: bytes) -> str:
    """The key that an `entry_key` was made of, as far as it holds it, whatever became of its bytes."""
    return entry_key_[_NUMBER : _NUMBER + _SHORT].decode("utf-8", "backslashreplace")


def path_key(path: bytes) -> bytes:
    """The key of a path, in path order as far as it fits."""
    return path[:ORDERED]


def written_key(path: bytes) -> bytes:
    """The key of one path's writes: in path order, and its own."""
    return path[:ORDERED] + short_hash(path)


def written_path(key: bytes) -> bytes:
    """The path that a `written_key` was made of, as far as it holds it."""
    return key[:-_HASH]


def place_key(path: bytes) -> bytes:
    """The key of what the log says of one path: a directory comes before all that is in it, as far as it is ORDERED."""
    return path if len(path) <= ORDERED else path[:ORDERED] + short_hash(path)


def object_key(name: bytes) -> bytes:
    """The key of an object."""
    return b"o" + short_hash(name)


def wanted_name(made: str) -> bytes:
    """How the names begin of the rows that say who waits for a precedent, by its token."""
    return WANTED + short_hash(made.encode())


def waiting_name(entry_id: entries.EntryId) -> bytes:
    """How the names end of the rows that say that an entry waits."""
    return short_hash(entry_id.scope + b"\0" + entry_id.key.encode())


DEPENDENTS: Final = b"e"
"""What the keys start with under which the entries lie that rest on an entry."""


def dependent_key(entry_key_: bytes) -> bytes:
    """The key under which the entries lie that rest on an entry."""
    return DEPENDENTS + short_hash(entry_key_)


def op_key(about: bytes, op: str) -> bytes:
    """The key of an op's answer; `about` is what the op is unique within."""
    return short_hash(about + b"\0" + op.encode())
