"""Pages of the log: which records are about the paths that were asked about, as the wire has them.

Rule: what a path leads through counts as much as the path itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from provd.core import records
from provd.core.dependency import is_under
from provd.disk import Route

_SLICE: Final = 256
"""Records that are made ready in one go."""


class Named:
    """The paths that are asked about: as they were written, where they lead, and each name on the way there."""

    def __init__(self, paths: Mapping[bytes, Route | None]) -> None:
        routes = [route for route in paths.values() if route is not None]
        self._places = {*paths, *(route.at for route in routes)}
        self._ways = {hop for route in routes for hop in route.hops}

    def concerns(self, path: bytes) -> bool:
        """Whether what happens to `path` may be of interest."""
        on_the_way = any(is_under(hop, path) for hop in self._ways)
        return on_the_way or any(is_under(path, place) or is_under(place, path) for place in self._places)


def concerns(record: records.Record, named: Named | None) -> bool:
    """Whether a record says something about the paths `named` (None: about anything)."""
    if named is None:
        return True
    match record:
        case records.Gap():
            return record.scope == records.ALL or named.concerns(record.scope)
        case records.RootChange() | records.Coverage() | records.Hashed():
            return named.concerns(record.path)
        case records.Action():
            return any(named.concerns(written) for written in record.paths)
        case records.Mutation():
            return named.concerns(record.path) or (record.source is not None and named.concerns(record.source))
        case records.EntryChange():
            return False


async def page(batch: list[tuple[int, records.Record]], named: Named | None) -> list[dict[str, Any]]:
    """Those of the records that are asked about, as the wire has them; others have their turn meanwhile."""
    told = []
    for number, (seq, record) in enumerate(batch, 1):
        if named is None or concerns(record, named):
            told.append(records.to_wire(seq, record))
        if number % _SLICE == 0:
            await asyncio.sleep(0)
    return told
