"""Which of many entries rest on a path: a write may touch thousands, and most rest on it in the same words."""

from __future__ import annotations

from typing import Final

import msgspec

from provd.core.dependency import PATH_KINDS, Dependency, touches
from provd.core.entry import EntryId


class _On(msgspec.Struct, array_like=True):
    """The beginning of a `Kept`, as it lies in the store, not decoded yet."""

    dep: msgspec.Raw
    digest: msgspec.Raw = msgspec.Raw()
    version: msgspec.Raw = msgspec.Raw()
    real: msgspec.Raw = msgspec.Raw()


class _Row(msgspec.Struct, array_like=True):
    """The beginning of an `Entry`."""

    id: EntryId
    version: msgspec.Raw
    renewed: msgspec.Raw
    clock: msgspec.Raw
    deps: tuple[_On, ...] | None


_rows: Final = msgspec.msgpack.Decoder(_Row)
_dependencies: Final = msgspec.msgpack.Decoder(Dependency)
_reals: Final = msgspec.msgpack.Decoder(bytes | None)


class Resting:
    """Says of entries' rows whether a write to one path may touch them; each dependency is thought about once."""

    def __init__(self, path: bytes, *, structural: bool, leaf: bool) -> None:
        self._path = path
        self._leaf = leaf
        self._structural = structural
        self._known: dict[tuple[bytes, bytes], bool] = {}

    def __call__(self, row: bytes) -> EntryId | None:
        """The entry of a row, if the write may touch it."""
        found = _rows.decode(row)
        for on in found.deps or ():
            words = (bytes(on.dep), bytes(on.real))
            touched = self._known.get(words)
            if touched is None:
                touched = self._known[words] = self._touched(*words)
            if touched:
                return found.id
        return None

    def _touched(self, dep: bytes, real: bytes) -> bool:
        of = _dependencies.decode(dep)
        if of.kind not in PATH_KINDS:
            return False
        where = _reals.decode(real) if real else None
        return touches(of, where, self._path, structural=self._structural, leaf=self._leaf)
