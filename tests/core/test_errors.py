"""The tree of errors: codes of the contract, each documented, each with its place on the wire."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from provd.core import errors, wire

if TYPE_CHECKING:
    from collections.abc import Iterator

PROTOCOL: Final = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "protocol.md")
CONTRACT: Final = frozenset(
    {
        *("root.ambiguous", "root.missing"),
        *("dep.malformed", "dep.unsupported", "dep.cycle"),
        *("clock.malformed", "clock.missing"),
        *("entry.conflict", "entry.missing", "entry.too_big"),
        *("action.unknown", "action.stale"),
        *("store.full", "limit", "version", "shutdown"),
    }
)
"""The codes that the contract lists."""
BESIDE: Final = frozenset({"parse", "request", "method", "params", "internal", "store.unusable", "store.damaged"})
"""JSON-RPC's own errors, and what becomes of the store's own files."""
NUMBERS: Final = {"parse": -32700, "request": -32600, "method": -32601, "params": -32602, "internal": -32603}


def tree(top: type[errors.ProvdError] = errors.ProvdError) -> Iterator[type[errors.ProvdError]]:
    yield top
    for below in top.__subclasses__():
        if below.__module__.startswith("provd."):
            yield from tree(below)


CLASSES: Final = sorted(set(tree()), key=lambda c: c.__name__)


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_has_a_code_of_the_contract(error: type[errors.ProvdError]) -> None:
    assert error.code in CONTRACT | BESIDE
    assert error.__doc__


def test_every_code_of_the_contract_has_its_error() -> None:
    assert {error.code for error in CLASSES} == CONTRACT | BESIDE


def test_no_two_errors_share_a_code() -> None:
    own = Counter(error.code for error in CLASSES if "code" in vars(error) and error is not errors.ProvdError)
    assert set(own.values()) == {1}


@pytest.mark.parametrize("code", sorted(CONTRACT | BESIDE))
def test_every_code_is_documented(code: str) -> None:
    with open(PROTOCOL, encoding="utf-8") as file:
        text = file.read()
    assert re.search(rf"(?<![\w.]){re.escape(code)}(?![\w.]\w)", text), f"docs/protocol.md says nothing of {code}"


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_travels_with_code_message_and_hint(error: type[errors.ProvdError]) -> None:
    line = wire.failure(7, error("what happened", "what to do", version=3))
    assert line.endswith(b"\n")
    told = json.loads(line)
    assert (told["jsonrpc"], told["id"]) == ("2.0", 7)
    assert told["error"]["code"] == NUMBERS.get(error.code, -32000)
    assert told["error"]["message"] == "what happened"
    assert told["error"]["data"] == {
        "code": error.code,
        "message": "what happened",
        "hint": "what to do",
        "version": 3,
    }
