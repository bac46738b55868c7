"""Why an entry is dirty that rests on other entries: the chain down to what was changed.

Rule: what rests below is asked for only as far as it is at fault, and only so often; where it is not told, the leaves
that the daemon named stand for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from provd.cli import output
from provd.cli.given import names
from provd.cli.screens import drawing
from provd.cli.screens.drawing import Piece
from provd.cli.words import verdicts
from provd.client import RpcError, local_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.client import Client

Json = dict[str, Any]

DIRTYING: Final = frozenset(
    {"changed", "created", "deleted", "type-changed", "listing-changed", "touched", "written"}
    | {"entry-replaced", "entry-revoked", "entry-missing", "entry-dirty"}
)
"""The faults for which an entry is dirty; for others it is unknown."""
_ASKED: Final = 24
"""Entries below that are asked about at most."""
_BELOW: Final = frozenset({"entry-dirty", "entry-unknown"})
_LEAVES: Final = 8
"""Causes of one entry that are drawn."""


def dependency(item: Json, colour: str = "") -> Piece:
    """What an item of evidence or a dependency names; only a path may be shortened."""
    path = item.get("dep") is not None and names.parts(local_path(item["dep"]))[0] in names.PATH_KINDS
    return Piece(verdicts.dependency(item), colour, elastic=path)


def key_of(item: Json) -> str:
    """The key that an item of evidence about an entry names."""
    return local_path(item["dep"]).partition(b":")[2].decode("utf-8", "replace")


@dataclass
class Cause:
    """One thing at fault, and what made it so."""

    item: Json
    below: list[Cause] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The dependency at fault, as it was put."""
        return verdicts.dependency(self.item)

    def leaves(self) -> Iterator[Cause]:
        """What is at fault without anything below it."""
        if not self.below:
            yield self
        for cause in self.below:
            yield from cause.leaves()


def as_told(item: Json) -> Cause:
    """A cause with the leaves that the daemon named."""
    return Cause(item, [Cause(leaf) for leaf in item.get("because") or []])


class Tree:
    """Finds the causes of a verdict by asking about the entries that it rests on."""

    def __init__(self, client: Client, params: Json) -> None:
        self._client = client
        self._params = params
        self._left = _ASKED
        self._known: dict[str, list[Cause]] = {}

    def of(self, answer: Json) -> list[Cause]:
        """The causes of a verdict, each with what is below it."""
        return [self._cause(item) for item in answer.get("evidence") or [] if item.get("dep") is not None]

    def _cause(self, item: Json) -> Cause:
        key = key_of(item)
        if item.get("why") not in _BELOW:
            return Cause(item)
        if key not in self._known:
            self._known[key] = []  # asked once, whatever leads to it
            self._known[key] = self._asked(key)
        return Cause(item, self._known[key]) if self._known[key] else as_told(item)

    def _asked(self, key: str) -> list[Cause]:
        if self._left <= 0:
            return []
        self._left -= 1
        try:
            return self.of(self._client.check(key, **self._params))
        except RpcError:
            return []


def told(label: str, cause: Cause, indent: str) -> Iterator[str]:
    """The chain from an entry down to its root cause; a tree where there is more than one."""
    leaves = list(cause.leaves())
    if len(leaves) == 1:
        arrow = output.glyph("←", "<-")
        pieces = [Piece("root cause:"), Piece(label, "bold")]
        step = cause
        while True:
            named = dependency(step.item)
            pieces.append(named._replace(text=f"{arrow} {named.text}"))
            if not step.below:
                break
            step = step.below[0]
        yield from drawing.fold(indent, [*pieces, Piece(_why(step), "red")], indent + "  ")
        return
    yield f"{indent}root causes:"
    yield from _drawn(cause.below, indent)


def _drawn(causes: list[Cause], indent: str) -> Iterator[str]:
    for number, cause in enumerate(causes[:_LEAVES], 1):
        last = number == len(causes)
        branch = output.glyph("└", "`") if last else output.glyph("├", "+")
        trunk = f"{indent}{' ' if last else output.glyph('│', '|')} "
        pieces = [dependency(cause.item), Piece(_why(cause), "" if cause.below else "red", glue="  ")]
        yield from drawing.fold(f"{indent}{branch} ", pieces, f"{trunk}  ")
        yield from _drawn(cause.below, trunk)
    if (rest := len(causes) - _LEAVES) > 0:
        yield f"{indent}{output.glyph('└', '`')} and {rest} more"


def _why(cause: Cause) -> str:
    return output.printable(str(cause.item.get("why", "")))
