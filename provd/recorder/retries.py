"""The same op again: whether it is the same request, too.

Rule: the first answer is for who tries the same again. Who asks for something else under that op is refused, since the
first answer would tell him that it was done.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from provd.core import errors
from provd.store import Writer
from provd.store.keys import Answered, short_hash

ANOTHER: Final = "provd action ls  # what is open; another action needs another op"


class Request(Protocol):
    """What may come again: its op, what that is unique within, and what a retry says again (`digest`)."""

    @property
    def about(self) -> bytes: ...

    @property
    def op(self) -> str | None: ...

    @property
    def asked(self) -> bytes: ...


def digest(*asked: Any) -> bytes:
    """What stands for a request: 16 bytes of all that a retry of it says again.

    A clock may be a later one, since the first answer rests on the earlier; a session, a turn and a note tell who asks,
    and not what for.
    """
    return short_hash(msgspec.msgpack.encode(asked))


def first(writer: Writer, request: Request, undone: str, hint: str) -> Answered | None:
    """The first answer to the request's op, None where there is none; raises InvalidParams where that was another.

    What was kept before digests were is taken for the same request. `undone` says what was not done, `hint` what to do.
    """
    answered = None if request.op is None else writer.answered(request.about, request.op)
    if answered is None or answered.asked in {b"", request.asked}:
        return answered
    raise errors.InvalidParams(f"{undone}: the op {request.op!r} came with another request before", hint)
