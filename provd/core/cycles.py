"""Cycles over `entry:` dependencies, which are refused when put."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from provd.core.entry import EntryId


def reaches(start: Iterable[EntryId], target: EntryId, below: Callable[[EntryId], Iterable[EntryId]]) -> bool:
    """Whether `target` can be reached from `start` over `below` (what an entry rests on); without recursion."""
    seen: set[EntryId] = set()
    todo = list(start)
    while todo:
        at = todo.pop()
        if at == target:
            return True
        if at not in seen:
            seen.add(at)
            todo.extend(below(at))
    return False
