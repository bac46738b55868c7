"""Pages of the log: which records are about the paths that were asked about, as the wire has them.

Rule: what a path leads through counts as much as the path itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from provd.core import records
from provd.core.dependency import with_above
from provd.disk import Route

_SLICE: Final = 256
"""Records that are made ready in one go."""


class Named:
    """The paths that are asked about: as they were written, where they lead, and each name on the way there."""

    def __init__(self, paths: Mapping[bytes, Route | None]) -> None:
        routes = [route for route in paths.values() if route is not None]
        self._places = {place.rstrip(b"/") or b"/" for place in (*paths, *(route.at for route in routes))}
        # By sets, since thousands of paths may be asked about and thousands of records told.
        self._leading = {up for place in self._places for up in with_above(place)}
        self._leading.update(up for route in routes for hop in route.hops for up in with_above(hop))

    def concerns(self, path: bytes) -> bool:
        """Whether what happens to `path` may be of interest."""
        return path in self._leading or any(up in self._places for up in with_above(path))


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
