"""How far an input comes: the lines it passes and what refuses it; and the few inputs that come as far as many do.

Most decoding is done in C, where no line is seen: how far it came shows in what it says.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from provd.core.errors import ProvdError
from provd.store.decoding import Damaged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

    from fuzz.targets import Target

PACKAGES: Final = ("provd", "tomllib", "pathspec")
"""Whose lines count: ours, and what is written in Python of that which reads bytes for us."""
_ROOMS: Final = tuple(f"{os.sep}{package}{os.sep}" for package in PACKAGES)
_REPEATED: Final = re.compile(r"field `.*?`(?= - at `\$|\Z)|'.*'|\".*\"|[0-9]+", re.DOTALL)
"""What a message repeats of its input."""


@contextlib.contextmanager
def refusals(tell: Callable[[str], None]) -> Iterator[None]:
    """Tells what each refusal says from now on, without what it repeats of its input."""
    made = {kind: kind.__init__ for kind in (ProvdError, Damaged)}

    def telling(make: Any) -> Any:
        def telling_it(self: Exception, message: str, *args: object, **detail: object) -> None:
            tell(_REPEATED.sub("", message))
            make(self, message, *args, **detail)

        return telling_it

    for kind, make in made.items():
        kind.__init__ = telling(make)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for kind, make in made.items():
            kind.__init__ = make  # type: ignore[method-assign]


def reached(target: Target, data: bytes) -> set[object]:
    """What the target passes with this input: steps from a line to the next, and what refusals say."""
    passed: set[object] = set()

    def called(frame: FrameType, _: str, __: object) -> Any:
        code, last = frame.f_code, 0
        if not any(room in code.co_filename for room in _ROOMS):
            return None

        def stepped(frame: FrameType, event: str, _: object) -> Any:
            nonlocal last
            if event == "line":
                passed.add((code, last, frame.f_lineno))
                last = frame.f_lineno
            return stepped

        return stepped

    before = sys.gettrace()
    sys.settrace(called)
    try:
        with refusals(passed.add):
            target(data)
    finally:
        sys.settrace(before)
    return passed


def few(target: Target, kept: Iterable[bytes], found: Iterable[bytes], most: int) -> list[bytes]:
    """Of what was found at most so many inputs, the shortest first: each comes where neither `kept` nor they come."""
    passed: set[object] = set()
    for one in kept:
        passed |= reached(target, one)
    taken: list[bytes] = []
    for one in sorted(found, key=lambda data: (len(data), data)):
        if len(taken) == most:
            break
        new = reached(target, one) - passed
        if new:
            passed |= new
            taken.append(one)
    return taken
