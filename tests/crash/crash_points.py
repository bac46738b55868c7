"""The named points at which a daemon can be told to kill itself, as the product's code names them.

Rule: they are read from the code, so that a soak which passes by a new one fails.
"""

from __future__ import annotations

import ast
import os
from collections import Counter
from typing import TYPE_CHECKING, Final

from support import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random

_MIGRATES: Final = "migrate."


def _named() -> Iterator[str]:
    for directory, _, files in os.walk(os.path.join(REPOSITORY, "provd")):
        for name in files:
            if name.endswith(".py"):
                with open(os.path.join(directory, name), encoding="utf-8") as file:
                    yield from _points_of(ast.parse(file.read()))


def _points_of(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "faults.point":
            (name,) = node.args
            assert isinstance(name, ast.Constant)
            yield str(name.value)


_ALL: Final = sorted(set(_named()))
MIGRATING: Final = tuple(name for name in _ALL if name.startswith(_MIGRATES))
"""Those that only a migration passes, which has its own lives."""
POINTS: Final = tuple(name for name in _ALL if not name.startswith(_MIGRATES))
RETAINING: Final = "trim."
"""How those begin that only a daemon passes whose log is trimmed."""


class Hits:
    """How often daemons really ended at each point."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    def draw(self, random: Random, points: Iterable[str]) -> str:
        """One of those that were hit least."""
        points = list(points)
        least = min(self.count[point] for point in points)
        return random.choice([point for point in points if self.count[point] == least])

    def missing(self, points: Iterable[str], least: int) -> list[str]:
        """Those that were hit less often than that."""
        return [point for point in points if self.count[point] < least]

    def text(self, points: Iterable[str]) -> str:
        """A line for people."""
        return ", ".join(f"{point} {self.count[point]}" for point in points)
