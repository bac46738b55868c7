"""Clocks: positions in the log as opaque tokens, and what a token of another run or log is worth.

Rule: order is by position, never by time of day. A token whose run or log is not known lies before the gap
that began this run, at a distance that nobody knows.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Final

import msgspec

from provd.core import errors

_TOKEN = re.compile(r"c:([0-9a-f]{16}):([0-9a-f]{16}):(0|[1-9][0-9]{0,18})")
_KEY: Final = struct.Struct(">Q")
MAX_POSITION: Final = 2**63 - 1
MOUNTED: Final = "something was mounted or unmounted after that clock was taken"
SET: Final = "the wall clock was set after that clock was taken"
SPENT: Final = frozenset({MOUNTED, SET})
"""Why a clock alone shows nothing any more, though it is of this run: a newer one does."""


class Clock(msgspec.Struct, frozen=True):
    """A position in one log, as one run of the daemon told it. `log` and `run` are 16 hex digits."""

    log: str
    run: str
    position: int

    def __str__(self) -> str:
        """The opaque token that travels on the wire."""
        return f"c:{self.log}:{self.run}:{self.position}"


class Span(msgspec.Struct, frozen=True):
    """The positions that one run handed out: `first` is its opening gap, `last` its newest record."""

    first: int
    last: int


class Since(msgspec.Struct, frozen=True):
    """What a token is worth here: everything after `position` happened since.

    `exact` is false for a token of an unknown run or log: then the true moment lies somewhere before.
    """

    position: int
    exact: bool


def parse(token: str) -> Clock:
    """The clock that `token` says; raises ClockMalformed."""
    match = _TOKEN.fullmatch(token)
    if match is None or int(match[3]) > MAX_POSITION:
        raise errors.ClockMalformed(
            f"{token[:80]!r} is no clock", "provd clock  # (log.clock) before the sources are read"
        )
    return Clock(match[1], match[2], int(match[3]))


def resolve(clock: Clock, *, log: str, run: str, runs: Mapping[str, Span]) -> Since:
    """Places `clock` in the log `log`, now in its run `run`, whose known runs are `runs`.

    Raises ClockMalformed for a position that the run it names cannot have told.
    """
    here = runs[run]
    if clock.log != log or clock.run not in runs:
        return Since(here.first - 1, exact=False)
    span = runs[clock.run]
    if clock.position < span.first or (clock.run == run and clock.position > here.last):
        raise errors.ClockMalformed(
            f"{clock} is a position that its run never told", "take a new clock; tokens are opaque"
        )
    if clock.position > span.last:  # told and then lost: nobody knows what it came after
        return Since(here.first - 1, exact=False)
    return Since(clock.position, exact=True)


def key(position: int) -> bytes:
    """Eight bytes that sort as positions do."""
    return _KEY.pack(position)


def position(key_bytes: bytes) -> int:
    """The position that `key` packed."""
    value: int = _KEY.unpack(key_bytes)[0]
    return value
