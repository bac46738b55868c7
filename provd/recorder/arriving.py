"""Lines of `entry.export` as this store reads them, before anything is written.

Rule: what a line says of time is worth something only where this store wrote it; a name is a name wherever it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from provd.clocks import Clocks
from provd.core import clock, errors, portable
from provd.core import entry as entries
from provd.core.dependency import PATH_KINDS, base
from provd.core.entry import EntryId
from provd.core.portable import Line, Moved, Rested
from provd.store.keys import Stored
from provd.store.precedents import Imported

_SLICE: Final = 250
_BYTES: Final = 256 * 1024
"""Lines, and bytes of them, taken in one command: others are committed in between. A longer line comes alone."""


class Coming(msgspec.Struct, frozen=True):
    """A line, understood. `clock` is the position that its clock is worth here.

    `mine` says that this store gave its version, `own` that its newest record is of this store too. `made` and
    `renewed` are both as positions of the runs that wrote them, `source` names that of `renewed`.
    """

    id: EntryId
    line: Line
    deps: tuple[Rested, ...] | None
    identity: bytes
    clock: int
    mine: bool
    own: bool
    made: int
    renewed: int
    source: str

    @property
    def bases(self) -> set[bytes]:
        """The bases of the paths that it rests on."""
        deps = (rested.kept.dep for rested in self.deps or ())
        return {base(dep) for dep in deps if dep.kind in PATH_KINDS}

    @property
    def stored(self) -> Stored:
        """Its value and meta."""
        return Stored(*portable.stored(self.line))

    def is_newer(self, known: Imported) -> bool:
        """Whether its evidence may be newer than what was taken of the same precedent: of two runs nobody knows."""
        return self.source != known.source or self.renewed > known.renewed


class Understood(msgspec.Struct, frozen=True):
    """A slice of lines: what could be understood, each with its index, what could not, and the bases of all paths."""

    coming: list[tuple[int, Coming]]
    refused: list[dict[str, Any]]
    bases: set[bytes]

    def scopes(self) -> set[bytes]:
        """The directories that the keys live in."""
        return {one.id.scope for _, one in self.coming if one.id.scope.startswith(b"/")}

    def at(self, real: dict[bytes, bytes]) -> Understood:
        """The same with the scopes that those directories are."""
        placed = [(index, _placed(one, real.get(one.id.scope, one.id.scope))) for index, one in self.coming]
        return Understood(placed, self.refused, self.bases)


def _placed(coming: Coming, scope: bytes) -> Coming:
    return coming if coming.id.scope == scope else msgspec.structs.replace(coming, id=EntryId(scope, coming.id.key))


def understood(lines: Sequence[tuple[int, msgspec.Raw]], moved: Moved | None, clocks: Clocks, head: int) -> Understood:
    """Lines with their indices as this store, whose newest position is `head`, reads them."""
    out = Understood([], [], set())
    for index, raw in lines:
        try:
            one = _coming(bytes(raw), moved, clocks, head)
        except errors.RequestError as e:
            out.refused.append(refused(index, e))
        else:
            out.coming.append((index, one))
            out.bases.update(one.bases)
    return out


def _coming(raw: bytes, moved: Moved | None, clocks: Clocks, head: int) -> Coming:
    """One line; raises RequestError."""
    told = portable.decode(raw)
    root = portable.root_of(told)
    deps = None if told.deps is None else tuple(portable.rested(dep, root, moved) for dep in told.deps)
    made, renewed = clocks.since(told.made, head), clocks.since(told.renewed, head)
    since = None if told.clock is None else clocks.since(told.clock, head)
    for dep in deps or ():
        if dep.made is not None:
            clock.parse(dep.made)
    value, _ = portable.stored(told)
    own = made.exact and renewed.exact
    newest = clock.parse(told.renewed)
    return Coming(
        id=portable.entry_id(told, root, moved),
        line=told,
        deps=deps,
        identity=b"" if value is None else entries.identity(value),
        clock=since.position if own and since is not None else clocks.started - 1,
        mine=made.exact,
        own=own,
        made=clock.parse(told.made).position,
        renewed=newest.position,
        source=f"{newest.log}:{newest.run}",
    )


def refused(index: int, error: errors.RequestError) -> dict[str, Any]:
    """How a line that is not taken is told."""
    return {"index": index, "code": error.code, "message": error.message, "hint": error.hint}


def slices(lines: Sequence[msgspec.Raw]) -> Iterator[list[tuple[int, msgspec.Raw]]]:
    """The lines with their indices, some at a time."""
    some: list[tuple[int, msgspec.Raw]] = []
    size = 0
    for index, raw in enumerate(lines):
        more = memoryview(raw).nbytes
        if some and (len(some) == _SLICE or size + more > _BYTES):
            yield some
            some, size = [], 0
        some.append((index, raw))
        size += more
    if some:
        yield some
