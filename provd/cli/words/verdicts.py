"""Verdicts for people.

Rule: a line never says more than the daemon did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from provd.cli import output
from provd.cli.given import names
from provd.client import wire_path

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

_BRIEF: Final = 3
"""Dependencies at fault that a short answer names."""


def headline(verdict: Json, label: str) -> str:
    """One line: the verdict, what it is about, and why."""
    why = verdict.get("why")
    about = f"  {label}" if label else ""
    return f"{output.verdict_word(str(verdict.get('verdict')))}{about}" + (
        f"  ({output.printable(why)})" if why else ""
    )


def brief(verdict: Json) -> Iterator[str]:
    """What is at fault, a line each, the first few; of the entry itself the headline has the fault, this the detail."""
    for item in verdict.get("evidence") or []:
        if item.get("dep") is None and (detail := item.get("detail")):
            yield f"    {output.printable(str(detail))}"
    evidence = [item for item in verdict.get("evidence") or [] if item.get("dep") is not None]
    for item in evidence[:_BRIEF]:
        yield f"    {dependency(item)}  {output.printable(reason(item))}"
    rest = len(evidence) - _BRIEF + more(verdict)
    if rest > 0:
        yield f"    and {rest} more"


def reason(item: Json) -> str:
    """The fault in a word; of what cannot be read also why not."""
    why, detail = str(item.get("why", "")), str(item.get("detail") or "").removeprefix("unreadable: ")
    return f"{why}: {detail}" if why == "unreadable" and detail else why


def dependency(item: Json) -> str:
    """What an item of evidence is about."""
    return output.name(wire_path(names.named(item))) if item.get("dep") is not None else "the entry itself"


def more(verdict: Json) -> int:
    """How many dependencies at fault an answer does not name."""
    rest = verdict.get("more")
    return rest if isinstance(rest, int) else 0
