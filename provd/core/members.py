"""The members of a JSON object as they were sent: of a name that comes twice msgspec takes the last, and says nothing.

Rule: who takes one of two drops what somebody said. What values and metas hold is the client's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec


class _Name:
    """The name of a member. No two are equal, so that a dict keeps each."""

    __slots__ = ("text",)

    def __init__(self, _: type, text: str) -> None:
        self.text = text


_Members = dict[_Name, msgspec.Raw]
_all: Final = msgspec.json.Decoder(_Members, dec_hook=_Name)
_dependencies: Final = msgspec.json.Decoder(list[str | dict[_Name, str | int | _Members | None]], dec_hook=_Name)


def twice(raw: bytes | msgspec.Raw) -> str | None:
    """The first name that comes twice in an object, that lies in it or not in what lies in it: the object itself."""
    return _again(_all.decode(raw))


def twice_in(raw: bytes | msgspec.Raw, lists: Iterable[str]) -> str | None:
    """The same of parameters that were found to fit; the dependencies in those of its members are looked through too.

    It takes up to 3 µs a dependency that is an object.
    """
    there = _all.decode(raw)
    if (again := _again(there)) is not None:
        return again
    for name, value in there.items():
        if name.text in lists and b"{" in bytes(value):
            for one in _dependencies.decode(value):
                if isinstance(one, dict) and (again := _again(one, *one.values())) is not None:
                    return again
    return None


def names(raw: bytes | msgspec.Raw) -> frozenset[str] | None:
    """The names of the members; none where it is no object, None where that cannot be told."""
    try:
        return frozenset(name.text for name in _all.decode(raw))
    except msgspec.ValidationError:
        return frozenset()
    except (msgspec.MsgspecError, RecursionError):
        return None


def _again(*objects: Any) -> str | None:
    for members in objects:
        if isinstance(members, dict):
            seen: set[str] = set()
            for name in members:
                if name.text in seen:
                    return str(name.text)
                seen.add(name.text)
    return None
