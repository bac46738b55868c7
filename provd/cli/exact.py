"""Values that come and go to the letter, whatever Python would make of them.

Rule: two values are equal only if their numbers are written alike (1.0 is not 1.00), and who put a value gets it back
as it was put. So what is handed back to the daemon is a piece of the line that it came in.
"""

from __future__ import annotations

import json
from typing import Any, Final

from provd.client import Client

_SPACE: Final = " \t\r\n"


class Written(str):
    """A value as it was written, in JSON."""

    __slots__ = ()


class ExactClient(Client):
    """A client that knows the members of the last answer as they came, and sends what is written as it is."""

    _came = b""

    def encode(self, request: dict[str, Any]) -> str:
        """A request as one line of JSON."""
        return exact_json(request)

    def decode(self, line: bytes) -> Any:
        """A line as a value, with its numbers as text where Python has none for them; raises ValueError."""
        self._came = line
        return value(line.decode())

    def written(self) -> dict[str, Written]:
        """The members of the last result, as they came."""
        return members(members(self._came.decode())["result"])


def exact_json(value: Any) -> str:
    """A value as JSON; raises ValueError for what JSON has no word for."""
    match value:
        case Written():
            return str(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case dict():
            return "{" + ",".join(f"{exact_json(name)}:{exact_json(member)}" for name, member in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(exact_json, value)) + "]"
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
    raise ValueError(f"{name} is no JSON")


JSON: Final = json.JSONDecoder(parse_int=_integer, parse_float=str, parse_constant=_constant)


def value(text: str) -> Any:
    """A text of JSON as a value, with numbers as text where Python has none for them; raises ValueError."""
    return JSON.decode(text)
