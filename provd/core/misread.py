"""Which objects a begin may have declared that could not be taken as it was sent.

Rule: whoever sent it may go on to write all the same. What can be told of it is read leniently; where nothing can be
told, it may be any object.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from provd.core import dependency, errors, params, wire

_MOST: Final = 2 * 1024 * 1024
"""Bytes that are read leniently: a declaration has up to params.MAX_WRITES, and reading holds the interpreter."""


def _number(_: str) -> None:
    """Numbers name nothing, and some are too long to be had."""


class _Members(dict[str, Any]):
    """An object with all its members: of a name that comes twice nobody knows which one is meant."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs

    def every(self, name: str) -> list[Any]:
        """What was sent under a name."""
        return [value for each, value in self.pairs if each == name]


_read: Final = json.JSONDecoder(
    strict=False, parse_int=_number, parse_float=_number, parse_constant=_number, object_pairs_hook=_Members
).raw_decode
_space: Final = re.compile(r"[ \t\r\n]*")


def of_line(line: bytes) -> frozenset[bytes] | None:
    """The objects that a line which is no request may have declared; None where it may be any.

    A list of requests, or several one after the other, are several.
    """
    if len(line) > _MOST:
        return None if wire.may_declare(line) else frozenset()
    found: set[bytes] = set()
    text = line.decode("utf-8", "surrogateescape")
    at = _past_space(text, 0)
    while at < len(text):
        try:
            value, end = _read(text, at)
        except (ValueError, RecursionError):
            rest = text[at:].encode("utf-8", "surrogateescape")
            return None if wire.may_declare(rest) else frozenset(found)
        for request in value if isinstance(value, list) else [value]:
            objects = _of_request(request)
            if objects is None:
                return None
            found |= objects
        at = _past_space(text, end)
    return frozenset(found)


def of_params(raw: bytes) -> frozenset[bytes] | None:
    """The same of what was sent as the parameters of a begin or a record, and does not fit."""
    if len(raw) > _MOST:
        return None
    text = raw.decode("utf-8", "surrogateescape")
    try:
        return declared(_read(text, _past_space(text, 0))[0])
    except (ValueError, RecursionError):
        return None


def says_so(raw: bytes) -> bool:
    """Whether parameters have a member for writes anywhere, of whatever method they are."""
    if not wire.may_declare(raw.lower()):
        return False
    if len(raw) > _MOST:
        return True
    text = raw.decode("utf-8", "surrogateescape")
    try:
        return _named(_read(text, _past_space(text, 0))[0])[1]
    except (ValueError, RecursionError):
        return True


def declared(value: Any) -> frozenset[bytes] | None:
    """The objects that are named anywhere in `value`, of any types, since fields may be misspelt or misplaced.

    None where a name cannot be read, and where none is found and there are no `writes` either.
    """
    found, says_so = _named(value)
    return None if found is None or not (found or says_so) else frozenset(found)


def _named(value: Any) -> tuple[set[bytes] | None, bool]:
    """The objects that are named anywhere, None where a name cannot be read; and whether there are `writes`."""
    found: set[bytes] = set()
    readable, says_so = True, False
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, list):
            left += one
        elif isinstance(one, dict):
            for name, member in one.pairs if isinstance(one, _Members) else one.items():
                left += [name, member]
                says_so = says_so or (name.lower() == "writes" and member is not None)
                if name.lower() == "b64":
                    objects = _encoded(member)
                    readable = readable and objects is not None
                    found |= objects or set()
        elif isinstance(one, str) and one.startswith("object:"):
            objects = _object(one)
            readable = readable and objects is not None
            found |= objects or set()
    return (found if readable else None), says_so


def _encoded(given: Any) -> set[bytes] | None:
    """The object that a name in base64 means, None where nobody can tell."""
    if not isinstance(given, str):
        return None if isinstance(given, list | dict) and given else set()
    try:
        return _object_in(params.from_b64(given))
    except (errors.InvalidParams, UnicodeEncodeError):
        return None


def _object(given: str) -> set[bytes] | None:
    """The object that a dependency names, None where nobody can tell."""
    try:
        return _object_in(given.encode())
    except (errors.InvalidParams, UnicodeEncodeError):
        return None


def _object_in(text: bytes) -> set[bytes]:
    """The object that a dependency names, if it is one that an entry may rest on; raises InvalidParams where it may
    mean several.
    """
    word, sep, rest = text.partition(b"object:")
    if word or not sep:
        return set()
    if b"object:" in rest:
        raise errors.InvalidParams("it names several objects at once", "send a list")
    try:
        return {dependency.parse(text, None).name}
    except errors.ProvdError:
        return set()


def _of_request(request: Any) -> frozenset[bytes] | None:
    """All of the line counts: what stands beside its params may have been meant for them."""
    methods = request.every("method") if isinstance(request, _Members) else []
    if methods and all(isinstance(one, str) for one in methods) and wire.DECLARING.isdisjoint(methods):
        found, says_so = _named(request)
        if not says_so:  # else the method may be misspelt: who says so is about to write
            return frozenset()
        return None if found is None else frozenset(found)
    return declared(request)


def _past_space(text: str, at: int) -> int:
    space = _space.match(text, at)
    return space.end() if space else at
