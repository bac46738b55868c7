"""A connection over which values come and go to the letter.

Rule: two values are equal only if their numbers are written alike (1.0 is not 1.00), so a value that is handed back to
the daemon must not pass through Python's numbers, which would write them anew.
"""

from __future__ import annotations

import json
from typing import Any, Final

from provd.client import Client

_DIGITS: Final = 4000
"""As many as Python reads of an integer without being asked to."""


class Number(str):
    """A number that Python would write otherwise, as it was written."""

    __slots__ = ()


class ExactClient(Client):
    """A client that keeps numbers as they were written."""

    def encode(self, request: dict[str, Any]) -> str:
        """A request as one line of JSON."""
        return exact_json(request)

    def decode(self, line: bytes) -> Any:
        """A line as a value; raises ValueError."""
        return json.loads(line, parse_int=_integer, parse_float=_float)


def exact_json(value: Any) -> str:
    """A value as JSON; raises ValueError for what JSON has no word for."""
    match value:
        case Number():
            return str(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case dict():
            return "{" + ",".join(f"{exact_json(name)}:{exact_json(member)}" for name, member in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(exact_json, value)) + "]"
        case _:
            return json.dumps(value, allow_nan=False)


def _integer(text: str) -> int | Number:
    return int(text) if len(text) < _DIGITS and str(int(text)) == text else Number(text)


def _float(text: str) -> float | Number:
    return float(text) if repr(float(text)) == text else Number(text)
