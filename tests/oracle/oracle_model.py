"""The oracle: what the dependencies of each entry were when it was put, and what an answer about it is worth.

Rule: it is pure. It is given digests that were made by hand, never asks the disk, and knows nothing of provd but the
words of its answers.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support import Json

State = dict[str, str]
"""Dependencies, each with its digest: of bytes, of absence, of a listing, of a set."""


class Finding(StrEnum):
    """What an answer is worth."""

    RIGHT = "right"
    UNKNOWN = "unknown"
    FALSE_FRESH = "FALSE FRESH"
    FALSE_DIRTY = "FALSE DIRTY"
    WRONG_EVIDENCE = "WRONG EVIDENCE"


FALSE = frozenset({Finding.FALSE_FRESH, Finding.FALSE_DIRTY, Finding.WRONG_EVIDENCE})


class Put(NamedTuple):
    """An entry as it was put, in the step of this number."""

    state: State
    step: int


class Oracle:
    """Knows all entries that stand."""

    def __init__(self) -> None:
        self.entries: dict[str, Put] = {}

    def put(self, key: str, state: State, step: int) -> None:
        """An entry was put: its dependencies were so then."""
        self.entries[key] = Put(state, step)

    def judge(self, key: str, answer: Mapping[str, Json], now: State, *, strict: bool = False) -> Finding:
        """What an answer about an entry is worth whose dependencies are `now` so.

        By the strict rule what was touched is dirty, though it be the same again; then only `fresh` can be false.
        """
        was = self.entries[key].state
        differing = {dep for dep in was if was[dep] != now[dep]}
        match answer["verdict"]:
            case "fresh":
                return Finding.FALSE_FRESH if differing else Finding.RIGHT
            case "dirty" if strict:
                return Finding.RIGHT
            case "dirty" if not differing:
                return Finding.FALSE_DIRTY
            case "dirty":
                named = {evidence["dep"] for evidence in answer["evidence"]}
                return Finding.RIGHT if named == differing else Finding.WRONG_EVIDENCE
            case _:
                return Finding.UNKNOWN
