"""How records lie in the store.

Rule: the two kinds that come by the million are packed, in less than half of what they took; all others say
themselves what they are. So do those two in stores of before format 3, and where something does not fit.
"""

from __future__ import annotations

import struct
from itertools import product
from typing import Final

import msgspec

from provd.core.records import Actor, DigestState, Hashed, Mutation, MutationKind, Origin, Record

_MUTATION: Final = 1
_HASHED: Final = 2
"""The first byte of a packed row; that of any other begins an array of msgpack, and is 0x90 or more."""
_HEAD: Final = struct.Struct(">BBQ")
"""That byte, the number of what the record says in enumerations, its time."""

# What is numbered by its place here lies in stores: only what comes last may be added.
_KINDS: Final = (
    MutationKind.CREATED,
    MutationKind.MODIFIED,
    MutationKind.DELETED,
    MutationKind.MOVED,
    MutationKind.ATTRIB,
)
_STATES: Final = (
    None,
    DigestState.DONE,
    DigestState.PENDING,
    DigestState.SUPERSEDED,
    DigestState.UNREADABLE,
)
_ORIGINS: Final = (Origin.WATCH, Origin.SCAN)
_SAYINGS: Final = {
    origin << 6 | state << 3 | kind: (_ORIGINS[origin], _STATES[state], _KINDS[kind])
    for origin, state, kind in product(*map(range, map(len, (_ORIGINS, _STATES, _KINDS))))
}
_SAYING_NUMBERS: Final = {saying: number for number, saying in _SAYINGS.items()}
_STATE_NUMBERS: Final = {state: number for number, state in enumerate(_STATES)}

_ALGORITHM: Final = "xxh3:"
_RAW: Final = 16
_NOBODY: Final = Mutation(0, MutationKind.CREATED, b"/").actor


class _Short(msgspec.Struct, frozen=True, array_like=True):
    """A mutation that says no more than most do; `age` is the nanoseconds from its file's time to its own."""

    path: bytes
    age: int | None
    size: int | None


class _Mutation(msgspec.Struct, frozen=True, array_like=True):
    """Any mutation: a `_Short` is the beginning of one."""

    path: bytes
    age: int | None
    size: int | None
    source: bytes | None = None
    raw: bytes | None = None
    actor: Actor = _NOBODY
    over: bool = False


class _Hashed(msgspec.Struct, frozen=True, array_like=True):
    path: bytes
    of: int
    raw: bytes | None


_encode: Final = msgspec.msgpack.Encoder().encode
_mutations: Final = msgspec.msgpack.Decoder(_Mutation)
_hashed: Final = msgspec.msgpack.Decoder(_Hashed)
_records: Final[msgspec.msgpack.Decoder[Record]] = msgspec.msgpack.Decoder(Record)


def encode(record: Record) -> bytes:
    """The record as it is stored."""
    packed = None
    try:
        if isinstance(record, Mutation):
            packed = _packed_mutation(record)
        elif isinstance(record, Hashed):
            packed = _packed_hashed(record)
    except (struct.error, OverflowError):  # a number that does not fit
        pass
    return _encode(record) if packed is None else packed


def decode(data: bytes) -> Record:
    """The record that `encode` stored; raises msgspec.DecodeError where the bytes are not one."""
    first = data[0] if len(data) > _HEAD.size else None
    if first not in {_MUTATION, _HASHED}:
        return _records.decode(data)
    _, number, at = _HEAD.unpack_from(data)
    try:
        return _unpacked(first, number, at, data[_HEAD.size :])
    except LookupError:
        raise msgspec.ValidationError(f"a record says what has no meaning: {number}") from None


def _packed_mutation(record: Mutation) -> bytes | None:
    """The row of a mutation, None where its digest does not fit; raises struct.error, OverflowError."""
    at, mtime, actor, digest = record.at, record.mtime_ns, record.actor, record.digest
    raw = None if digest is None else _raw(digest)
    if digest is not None and raw is None:
        return None
    age = None if mtime is None else at - mtime
    body: _Short | _Mutation
    if record.source is None and raw is None and not record.over and (actor is _NOBODY or actor == _NOBODY):
        body = _Short(record.path, age, record.size)
    else:
        body = _Mutation(record.path, age, record.size, record.source, raw, actor, record.over)
    number = _SAYING_NUMBERS[record.origin, record.digest_state, record.kind]
    return _HEAD.pack(_MUTATION, number, at) + _encode(body)


def _packed_hashed(record: Hashed) -> bytes | None:
    """The same of a digest that came later."""
    raw = None if record.digest is None else _raw(record.digest)
    if record.digest is not None and raw is None:
        return None
    head = _HEAD.pack(_HASHED, _STATE_NUMBERS[record.digest_state], record.at)
    return head + _encode(_Hashed(record.path, record.of, raw))


def _unpacked(first: int | None, number: int, at: int, body: bytes) -> Record:
    """Raises LookupError where `number` has no meaning."""
    if first == _HASHED:
        state, hashed = _STATES[number], _hashed.decode(body)
        if state is None:
            raise LookupError
        return Hashed(at, hashed.of, hashed.path, _text(hashed.raw), state)
    origin, state, kind = _SAYINGS[number]
    said = _mutations.decode(body)
    mtime = None if said.age is None else at - said.age
    raw = _text(said.raw)
    return Mutation(at, kind, said.path, said.source, mtime, said.size, raw, state, origin, said.actor, said.over)


def _raw(digest: str) -> bytes | None:
    """The bytes of a digest in lower-case XXH3-128, None for any other."""
    digits = digest[len(_ALGORITHM) :]
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        return None
    return raw if len(raw) == _RAW and raw.hex() == digits and digest.startswith(_ALGORITHM) else None


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else _ALGORITHM + raw.hex()
