"""Who can tell of a fault: the newest record that touched what is at fault.

Rule: it explains a verdict and never changes it. Of a set whose members are known only those that differ are asked
about: what else happened in it made nothing dirty. What was seen to change counts more than what was declared: an
action may write less than it said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from provd.core import evidence, records
from provd.core.dependency import ABSENT, PATH_KINDS, Kind, algorithm_of, base, with_above
from provd.core.entry import Entry, Kept
from provd.core.facts import Touch
from provd.core.verdict import Fault
from provd.store import View


def newest_record(view: View, entry: Entry | None) -> evidence.MutationOf:
    """Finds the newest record that touched a dependency at fault since the entry's clock."""
    kept = {k.dep: k for k in entry.deps or ()} if entry is not None else {}

    def newest(fault: Fault) -> evidence.Witnessed:
        position, paths = fault.action, fault.paths
        if entry is not None and fault.dep in kept and fault.dep.kind in PATH_KINDS:
            if fault.now is not None and paths:
                position, paths = _of_members(view, kept[fault.dep], fault, entry.clock)
            else:
                touch = view.touch(kept[fault.dep], entry.clock)
                there = {} if fault.now is None else {fault.dep.name: fault.now}
                position = position if touch is None else _which(view, touch, entry.clock, there) or position
        return evidence.Witnessed(_told(view, position), paths)

    return newest


def _of_members(view: View, kept: Kept, fault: Fault, clock: int) -> tuple[int | None, tuple[bytes, ...]]:
    """The newest position after `clock` at which any member was touched, and the members, newest first.

    A record touches a member that it names, or that lies below what it names, by the literal path or the real one.
    """
    literal, listed = base(kept.dep), kept.dep.kind in {Kind.DIR, Kind.NAMES}
    real = kept.real or literal
    known: dict[bytes, Touch] = {}  # members share the directories above them

    def above(path: bytes) -> Touch:
        if path not in known:
            known[path] = view.touch_of(path, structural=True)
        return known[path]

    def at(path: bytes) -> list[Touch]:
        return [view.touch_of(path, structural=listed), *map(above, with_above(path)[1:])]

    def newest(path: bytes, now: str) -> int:
        other = real.rstrip(b"/") + path[len(literal.rstrip(b"/")) :]
        touch = _newest_of([*at(path), *(at(other) if real != literal else ())])
        return _which(view, touch, clock, {path: now, other: now} if now else {})

    positions = {path: newest(path, now) for path, now in zip(fault.paths, fault.held, strict=True)}
    last = max(positions.values())
    ordered = tuple(sorted(positions, key=lambda path: -positions[path]))
    return last or None, ordered


def _newest_of(touches: Sequence[Touch]) -> Touch:
    """The newest declared write of all, an open one before those that ended, beside the newest mutation of all."""
    declared = max(touches, key=lambda touch: (touch.end is None, touch.action if touch.end is None else touch.end))
    return Touch(declared.end, declared.action, max(touch.mutation for touch in touches))


def _which(view: View, touch: Touch, clock: int, there: Mapping[bytes, str]) -> int:
    """The position of the newest record after `clock` that tells of a write; 0 without one.

    That is no action that began after the newest mutation, unless it was declared when it was over, and nobody else
    made that mutation; or unless the mutation is known to have left something else than what is `there` by its path.
    """
    newest = touch.newest(clock) or 0
    if newest == touch.mutation or touch.mutation <= clock:
        return newest
    seen = view.record(touch.mutation)
    if not isinstance(seen, records.Mutation):
        return newest
    if touch.end == touch.action and seen.actor == records.Actor():
        return newest
    left = _with_digest(view, touch.mutation, seen)
    return newest if _is_another(there.get(left.path), left.digest) else touch.mutation


def _is_another(now: str | None, left: str | None) -> bool:
    """Whether what is at fault is known to be another than the content that a mutation left there."""
    if now is None or left is None:
        return False
    return now == ABSENT or (algorithm_of(left) == algorithm_of(now) and left != now)


def _told(view: View, position: int | None) -> dict[str, Any] | None:
    """The record at a position as the wire has it, None where there is none any more."""
    record = None if position is None else view.record(position)
    if record is None or position is None:
        return None
    if isinstance(record, records.Mutation):
        record = _with_digest(view, position, record)
    return records.to_wire(position, record)


def _with_digest(view: View, position: int, record: records.Mutation) -> records.Mutation:
    """A mutation with the digest that was found later, where it was."""
    if record.digest_state is not records.DigestState.PENDING:
        return record
    at = view.hashed(position, record)
    hashed = None if at is None else view.record(at)
    if not isinstance(hashed, records.Hashed):
        return record
    return msgspec.structs.replace(record, digest=hashed.digest, digest_state=hashed.digest_state)
