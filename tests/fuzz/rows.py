"""The readers of all tables of the store but the log's: what is decoded by `store/decoding` and its like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from provd.store import declared, decoding, files, history, precedents, reads, resting, touching, writes

if TYPE_CHECKING:
    from collections.abc import Callable

READERS: Final[tuple[Callable[[bytes], Any], ...]] = (
    decoding.number,
    reads.decode_entry,
    reads._stored,
    reads._archived,
    reads._members,
    reads._roots,
    reads._scopes,
    history._positions,
    touching._ids,
    declared._objects,
    declared._paths,
    declared._actions,
    declared._answers,
    files._decode,
    precedents._imported,
    precedents._origin,
    precedents._waiter,
    precedents._waits,
    resting._rows,
    resting._dependencies,
    writes._waits,
)
