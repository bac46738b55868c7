"""Who can tell of a fault: the newest record that touched what is at fault.

Rule: it explains a verdict and never changes it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from provd.core import evidence, records
from provd.core.dependency import PATH_KINDS
from provd.core.entry import Entry
from provd.core.verdict import Fault
from provd.store import View


def newest_record(view: View, entry: Entry | None) -> evidence.MutationOf:
    """Finds the newest record that touched a dependency at fault since the entry's clock."""
    kept = {k.dep: k for k in entry.deps or ()} if entry is not None else {}

    def newest(fault: Fault) -> dict[str, Any] | None:
        position = fault.action
        if entry is not None and fault.dep in kept and fault.dep.kind in PATH_KINDS:
            touch = view.touch(kept[fault.dep], entry.clock)
            position = position if touch is None else touch.newest(entry.clock) or position
        record = None if position is None else view.record(position)
        if record is None or position is None:
            return None
        return records.to_wire(position, _with_digest(view, position, record))

    return newest


def _with_digest(view: View, position: int, record: records.Record) -> records.Record:
    """A mutation with the digest that was found later, where it was."""
    if not isinstance(record, records.Mutation) or record.digest_state is not records.DigestState.PENDING:
        return record
    at = view.hashed(position, record)
    hashed = None if at is None else view.record(at)
    if not isinstance(hashed, records.Hashed):
        return record
    return msgspec.structs.replace(record, digest=hashed.digest, digest_state=hashed.digest_state)
