"""Targets with a fault in each, so that it can be seen that it is found."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from provd.core import clock, errors

if TYPE_CHECKING:
    from fuzz.targets import Target

_held: Final[list[bytes]] = []


def _well(data: bytes) -> None:
    with contextlib.suppress(errors.ClockMalformed):
        clock.parse(data.decode("utf-8", "replace"))  # code of ours: without any libFuzzer does not begin


def _raising(data: bytes) -> None:
    _well(data)
    assert data != b"bad"


def _hanging(data: bytes) -> None:
    _well(data)
    while data == b"bad":
        pass


def _growing(data: bytes) -> None:
    _well(data)
    _held.append(data + b"x" * 8192)


TARGETS: Final[dict[str, Target]] = {"well": _well, "raising": _raising, "hanging": _hanging, "growing": _growing}
