"""Entries: a key's value with what it rests on.

Rule: standing is stored and never computed; freshness is computed and never stored.
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from operator import itemgetter
from typing import Any

import msgspec

from provd.core import errors, glob
from provd.core.clock import MAX_POSITION
from provd.core.dependency import Dependency, Kind, is_known, is_under
from provd.core.reading import Signature

# There may be 100,000 dependencies to look at: a member of an enumeration is slow to get and to hash.
_ENTRY, _OBJECT, _GLOB, _NAMES = Kind.ENTRY, Kind.OBJECT, Kind.GLOB, Kind.NAMES


class EntryId(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A key in its scope: an absolute path, or `=NAME` for a scope that belongs to no directory."""

    scope: bytes
    key: str


class Standing(StrEnum):
    """Stored, and changed only by evidence or by hand."""

    HYPOTHESIS = "hypothesis"
    ACTIVE = "active"
    REVOKED = "revoked"


class Kept(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A dependency as an entry keeps it.

    `digest` is that of what the value was made from, None where that was never proven (*unproven*).
    `version` is that of an `entry:` dependency, None where it was not proven, 0 where there was none.
    `real` is the real path of the dependency's base, `signature` the file's at the moment when it was
    read and found equal. `shown` says that no client gave the digest, and that nothing changed from the clock to
    the put. `proven` is a position before the daemon read the dependency and found it equal: silence of the log
    counts from there on. None where it was unequal, or where silence says nothing (a link that was followed inside a
    set may lead anywhere).
    """

    dep: Dependency
    digest: str | None = None
    version: int | None = None
    real: bytes | None = None
    signature: Signature | None = None
    shown: bool = False
    proven: int | None = None


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One precedent of a key. `deps` is None where no dependency set was given.

    `clock` is a position: everything after it may have changed what the value rests on. `renewed` is the
    position of the record that last changed this entry, `identity` the digest of the canonical value (empty
    where there is none), `at` the time of the put in nanoseconds, for people. `born` is the verdict of its newest put,
    None where that is not known (it was imported, or put by a version that did not keep it); `confirms` says how many
    of its `supports` put the same again on top of itself.
    """

    id: EntryId
    version: int
    renewed: int
    clock: int
    deps: tuple[Kept, ...] | None
    at: int
    standing: Standing = Standing.ACTIVE
    identity: bytes = b""
    supports: int = 1
    conflicts: int = 0
    session: str | None = None
    turn: int | str | None = None
    born: str | None = None
    confirms: int = 0

    def entry_ids(self) -> list[EntryId]:
        """The entries that this one rests on, in its own scope."""
        return [EntryId(self.id.scope, k.dep.name.decode()) for k in self.deps or () if k.dep.kind is Kind.ENTRY]


class Ruin(Entry, frozen=True, array_like=True):
    """Stands for an entry that is damaged in the store: but for its id, nothing is known of it."""


def check_path(path: bytes) -> None:
    """Raises ValueError where the system takes no such path for an absolute one."""
    if not path.startswith(b"/") or b"\0" in path:
        raise ValueError(f"{path[:80]!r} is no absolute path")


def check_scope(scope: bytes) -> None:
    """Raises ValueError where no scope of a key is called so."""
    if not scope.startswith(b"/"):
        if not scope.startswith(b"="):
            raise ValueError(f"no scope is called {scope[:80]!r}")
        scope.decode()  # its error is a ValueError


def check(entry: Entry) -> None:
    """Raises ValueError of an entry that can never have been kept: types do not say all that whoever has it relies on.

    What only makes it unlike anything that is there, as a digest with other digits does, is not looked at.
    """
    check_scope(entry.id.scope)
    newest = entry.renewed
    if not 0 <= entry.clock <= newest <= MAX_POSITION or not 0 <= entry.version <= newest:
        raise ValueError("it says that it is newer than the record that changed it last")
    for kept in entry.deps or ():
        dep, real, digest = kept.dep, kept.real, kept.digest
        name, kind = dep.name, dep.kind
        if kind is _ENTRY or kind is _OBJECT:
            name.decode()
        else:
            check_path(name)
            if kind is _GLOB or kind is _NAMES:
                _check_pattern(name)
        if real is not None:
            check_path(real)
        if digest is not None and not is_known(digest):
            raise ValueError(f"{digest[:80]!r} is no digest")
        if kept.proven is not None and kept.proven > newest:
            raise ValueError("it says that it was proven after the record that changed it last")


def _check_pattern(pattern: bytes) -> None:
    try:
        glob.compile_pattern(pattern)
    except errors.DependencyMalformed as e:
        raise ValueError(e.message) from None


def lies_in(entry_id: EntryId, directory: bytes) -> bool:
    """Whether the entry's scope is `directory` or below it."""
    return entry_id.scope.startswith(b"/") and is_under(entry_id.scope, directory)


def identity(raw: bytes) -> bytes:
    """A digest that is equal for equal canonical JSON: member order and spacing do not count, numbers do to the letter.

    Of members with one name each counts, since readers do not agree which of them is meant.
    Raises InvalidParams for a value nested too deeply to compare.
    """
    try:
        frozen = _frozen(json.loads(raw, parse_float=_Number, parse_int=_Number, object_pairs_hook=_Members))
        return hashlib.blake2b(repr(frozen).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    except RecursionError:
        raise errors.InvalidParams("the value is nested too deeply", "keep it under a few hundred levels") from None


class _Number(str):
    """A number as it was written: two of them are equal if they are to the letter."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"#{self}"


class _Members(tuple[tuple[str, Any], ...]):
    """The members of an object, in the order in which they stand there."""

    __slots__ = ()


def _frozen(value: Any) -> Any:
    if isinstance(value, _Members):
        return ("o", tuple(sorted(((name, _frozen(member)) for name, member in value), key=itemgetter(0))))
    if isinstance(value, list):
        return ("l", tuple(_frozen(member) for member in value))
    return value
