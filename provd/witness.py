"""Who can tell of a fault: the newest record that touched what is at fault.

Rule: it explains a verdict and never changes it. Of a set whose members are known only those that differ are asked
about: what else happened in it made nothing dirty.
"""

from __future__ import annotations

from typing import Any

import msgspec

from provd.core import evidence, records
from provd.core.dependency import PATH_KINDS, Kind, base, with_above
from provd.core.entry import Entry, Kept
from provd.core.verdict import Fault
from provd.store import View


def newest_record(view: View, entry: Entry | None) -> evidence.MutationOf:
    """Finds the newest record that touched a dependency at fault since the entry's clock."""
    kept = {k.dep: k for k in entry.deps or ()} if entry is not None else {}

    def newest(fault: Fault) -> evidence.Witnessed:
        position, paths = fault.action, fault.paths
        if entry is not None and fault.dep in kept and fault.dep.kind in PATH_KINDS:
            if fault.now is not None and paths:
                position, paths = _of_members(view, kept[fault.dep], paths, entry.clock)
            else:
                touch = view.touch(kept[fault.dep], entry.clock)
                position = position if touch is None else touch.newest(entry.clock) or position
        return evidence.Witnessed(_told(view, position), paths)

    return newest


def _of_members(view: View, kept: Kept, paths: tuple[bytes, ...], clock: int) -> tuple[int | None, tuple[bytes, ...]]:
    """The newest position after `clock` at which any member was touched, and the members, newest first.

    A record touches a member that it names, or that lies below what it names, by the literal path or the real one.
    """
    literal, listed = base(kept.dep), kept.dep.kind in {Kind.DIR, Kind.NAMES}
    real = kept.real or literal
    known: dict[bytes, int] = {}  # members share the directories above them

    def touched(path: bytes, *, structural: bool) -> int:
        return view.touch_of(path, structural=structural).newest(clock) or 0

    def above(path: bytes) -> int:
        if path not in known:
            known[path] = touched(path, structural=True)
        return known[path]

    def at(path: bytes) -> int:
        return max(touched(path, structural=listed), *map(above, with_above(path)[1:]))

    def newest(path: bytes) -> int:
        return max(at(path), at(real.rstrip(b"/") + path[len(literal.rstrip(b"/")) :]) if real != literal else 0)

    positions = {path: newest(path) for path in paths}
    last = max(positions.values())
    ordered = tuple(sorted(paths, key=lambda path: -positions[path]))
    return last or None, ordered


def _told(view: View, position: int | None) -> dict[str, Any] | None:
    """The record at a position as the wire has it, None where there is none any more."""
    record = None if position is None else view.record(position)
    if record is None or position is None:
        return None
    return records.to_wire(position, _with_digest(view, position, record))


def _with_digest(view: View, position: int, record: records.Record) -> records.Record:
    """A mutation with the digest that was found later, where it was."""
    if not isinstance(record, records.Mutation) or record.digest_state is not records.DigestState.PENDING:
        return record
    at = view.hashed(position, record)
    hashed = None if at is None else view.record(at)
    if not isinstance(hashed, records.Hashed):
        return record
    return msgspec.structs.replace(record, digest=hashed.digest, digest_state=hashed.digest_state)
