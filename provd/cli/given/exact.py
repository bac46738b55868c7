"""Values that come and go to the letter, whatever Python would make of them.

Rule: two values are equal only if their numbers are written alike (1.0 is not 1.00), and who put a value gets it back
as it was put. So what goes to the daemon is what was typed, and what is shown or handed back is a piece of the line
that it came in.
"""

from __future__ import annotations

import json
from typing import Any, Final

from provd.client import Client

_SPACE: Final = " \t\r\n"
_ONE_LINE: Final = {ord("\n"): " ", ord("\r"): " "}
"""Between what JSON is made of these are space; within a string it has none."""
_TEXT: Final = json.JSONEncoder(ensure_ascii=False).encode
_KEPT: Final = ("value", "meta")


class Written(str):
    """A value as it was written, in JSON."""

    __slots__ = ()


class ExactClient(Client):
    """A client that sends what is written as it is, and gives out values as they are written."""

    _came = b""

    def encode(self, request: dict[str, Any]) -> str:
        """A request as one line of JSON."""
        return exact_json(request)

    def decode(self, line: bytes) -> Any:
        """A line as a value, with its numbers as text where Python has none for them; raises ValueError."""
        self._came = line
        return value(line.decode())

    def get(self, key: str, **params: Any) -> dict[str, Any]:
        """As every client does, with `value` and `meta` as they are written."""
        answer = super().get(key, **params)
        came = members(members(self._came.decode())["result"])
        return answer | {name: came[name] for name in _KEPT if name in came}


def written(text: str) -> Written:
    """A text of JSON as a value that is sent as it is written, on one line; raises ValueError."""
    try:
        json.dumps(_MEMBERS.decode(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError(r"half of a pair (\ud800 to \udfff) stands for no sign") from None
    except RecursionError:
        raise _too_deep() from None
    return Written(text.strip(_SPACE).translate(_ONE_LINE))


def exact_json(value: Any, comma: str = ",", colon: str = ":") -> str:
    """A value as JSON; raises ValueError for what JSON has no word for."""
    match value:
        case Written():
            return str(value)
        case str():
            return _TEXT(value)
        case dict():
            pairs = (exact_json(name) + colon + exact_json(member, comma, colon) for name, member in value.items())
            return "{" + comma.join(pairs) + "}"
        case list() | tuple():
            return "[" + comma.join(exact_json(member, comma, colon) for member in value) + "]"
        case _:
            return json.dumps(value, allow_nan=False)


def members(text: str) -> dict[str, Written]:
    """The members of an object in JSON, each as it is written; raises ValueError."""
    found: dict[str, Written] = {}
    at = _past(text, text.index("{") + 1)
    while text[at] != "}":
        name, at = JSON.raw_decode(text, at)
        start = _past(text, _past(text, at) + 1)  # behind the colon
        end = JSON.raw_decode(text, start)[1]
        found[name] = Written(text[start:end])
        at = _past(text, end)
        if text[at] == ",":
            at = _past(text, at + 1)
    return found


def _past(text: str, at: int) -> int:
    """The first place from `at` on that is no space."""
    while text[at] in _SPACE:
        at += 1
    return at


def _integer(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:  # more digits than Python reads
        return text


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


JSON: Final = json.JSONDecoder(parse_int=_integer, parse_float=str, parse_constant=_constant)


def text_of(written: Written) -> str | None:
    """The text that a value is; None where it is something else."""
    return value(written) if written.startswith('"') else None


_MEMBERS: Final = json.JSONDecoder(
    parse_int=str, parse_float=str, parse_constant=_constant, object_pairs_hook=lambda pairs: pairs
)
"""The same with all members of an object, also those of one name."""


def value(text: str) -> Any:
    """A text of JSON as a value, with numbers as text where Python has none for them; raises ValueError."""
    try:
        return JSON.decode(text)
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> ValueError:
    return ValueError("it is nested too deeply")
