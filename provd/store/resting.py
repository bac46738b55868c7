"""Whether an entry rests on what is written: thousands may, and most of them in the same words."""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import Final

import msgspec

from provd.core.dependency import PATH_KINDS, Dependency, touches
from provd.store.decoding import Damaged, decoder, reader


class _On(msgspec.Struct, array_like=True):
    """The beginning of a `Kept`, as it lies in the store, not decoded yet."""

    dep: msgspec.Raw
    digest: msgspec.Raw = msgspec.Raw()
    version: msgspec.Raw = msgspec.Raw()
    real: msgspec.Raw = msgspec.Raw()


class _Row(msgspec.Struct, array_like=True):
    """The beginning of an `Entry`."""

    id: msgspec.Raw
    version: msgspec.Raw
    renewed: msgspec.Raw
    clock: msgspec.Raw
    deps: tuple[_On, ...] | None


_rows: Final = decoder(_Row, "an entry")
_dependencies: Final = decoder(Dependency, "a dependency")
_reals: Final = reader(msgspec.msgpack.Decoder(bytes | None).decode, "a real path")


class Resting:
    """Says of entries' rows whether a write to any of these paths, of which some are `leaves`, may touch them.

    Each dependency is thought about once.
    """

    def __init__(self, paths: Collection[bytes], *, structural: bool, leaves: Container[bytes]) -> None:
        self._paths = paths
        self._leaves = leaves
        self._structural = structural
        self._known: dict[tuple[bytes, bytes], bool] = {}

    def __call__(self, row: bytes) -> bool:
        """Whether the write may touch the entry of a row."""
        try:
            for on in _rows(row).deps or ():
                words = (bytes(on.dep), bytes(on.real))
                touched = self._known.get(words)
                if touched is None:
                    touched = self._known[words] = self._touched(*words)
                if touched:
                    return True
        except Damaged:  # nobody knows what it rests on
            return True
        return False

    def _touched(self, dep: bytes, real: bytes) -> bool:
        of = _dependencies(dep)
        if of.kind not in PATH_KINDS:
            return False
        at = _reals(real) if real else None
        return any(
            touches(of, at, path, structural=self._structural, leaf=path in self._leaves) for path in self._paths
        )
