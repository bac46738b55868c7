"""The members of a JSON object as they were sent: of a name that comes twice msgspec takes the last, and says nothing.

Rule: who takes one of two drops what somebody said. What values and metas hold is the client's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import Final

import msgspec

_MOST: Final = 1000
"""Members whose names are looked at: no request has so many, and each costs some microseconds."""


class _Name:
    """The name of a member. No two are equal, so that a dict keeps each."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class _AgainError(Exception):
    """A name came twice, or there are too many: what is left of the object is not looked at."""


_seen: Final[ContextVar[set[str]]] = ContextVar("seen")
"""The names that the object which is read had so far."""


def _once(_: type, text: str) -> _Name:
    names = _seen.get()
    if text in names or len(names) >= _MOST:
        raise _AgainError(text)
    names.add(text)
    return _Name(text)


_decoder: Final = msgspec.json.Decoder(dict[_Name, msgspec.Raw], dec_hook=_once)
_list: Final = msgspec.json.Decoder(list[msgspec.Raw])


def _members(raw: bytes | msgspec.Raw) -> dict[_Name, msgspec.Raw]:
    """The members of an object; raises _AgainError with the first name that comes twice."""
    _seen.set(set())
    return _decoder.decode(raw)


def twice(raw: bytes | msgspec.Raw) -> str | None:
    """The first name that comes twice in an object, that lies in it or not in what lies in it: the object itself."""
    try:
        _members(raw)
    except _AgainError as again:
        return str(again)
    return None


def twice_in(raw: bytes | msgspec.Raw, lists: Iterable[str]) -> str | None:
    """The same of parameters that were found to fit; the dependencies in those of its members are looked through too.

    It takes up to 3 µs a dependency that is an object.
    """
    try:
        for name, value in _members(raw).items():
            if name.text in lists and b"{" in bytes(value):
                for one in _list.decode(value):
                    _look_into(one)
    except _AgainError as again:
        return str(again)
    return None


def names(raw: bytes | msgspec.Raw) -> frozenset[str] | None:
    """The names of the members; none where it is no object, None where that cannot be told: one comes twice, too."""
    try:
        return frozenset(name.text for name in _members(raw))
    except msgspec.ValidationError:
        return frozenset()
    except (_AgainError, msgspec.MsgspecError, RecursionError):
        return None


def _look_into(raw: msgspec.Raw) -> None:
    """Raises _AgainError for an object in which a name comes twice, or in an object that is a member of it."""
    if not bytes(raw).startswith(b"{"):
        return
    for value in _members(raw).values():
        _look_into(value)
