"""Rows of the store to what they hold: the one place that knows what comes of bytes which are not as they were written.

Rule: whatever a row holds, reading it gives what its table keeps, or Damaged. What must be true of it beyond its types
is checked here too, so that nobody who has it need ask.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from provd.core import packing, records

T = TypeVar("T")


class Damaged(Exception):
    """A row of the store is not what was written there. `hint` is how to get rid of it, where that is known."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


_FAILURES: Final = (msgspec.MsgspecError, struct.error, ValueError, LookupError, ArithmeticError, RecursionError)
"""What decoding may raise of any bytes."""


def _pass(_: object) -> None:
    """Any is right."""


def reader(read: Callable[[bytes], T], what: str, check: Callable[[T], None] = _pass) -> Callable[[bytes], T]:
    """`read` for rows that hold `what` ("an entry"): raises Damaged where the bytes are none.

    Nor is what `check` raises ValueError of.
    """

    def reading(row: bytes) -> T:
        try:
            found = read(row)
            check(found)
        except _FAILURES as e:
            raise Damaged(f"{what} cannot be read: {e}") from None
        return found

    return reading


def decoder(kind: type[T], what: str, check: Callable[[T], None] = _pass) -> Callable[[bytes], T]:
    """The same for rows that are msgpack of this type."""
    return reader(msgspec.msgpack.Decoder(kind).decode, what, check)


def _number(row: bytes) -> int:
    if not row.isdigit():
        raise ValueError(f"{row[:20]!r} is no number")
    return int(row)


def whole(size: int) -> Callable[[bytes], bytes]:
    """For rows of so many bytes."""

    def check(row: bytes) -> bytes:
        if len(row) != size:
            raise ValueError(f"{len(row)} bytes in place of {size}")
        return row

    return check


number: Final = reader(_number, "a position")
record: Final[Callable[[bytes], records.Record]] = reader(packing.decode, "a record", records.check)
