"""The seals that are known: of which files a `stat` stands for the content.

Rule: a seal is found by path and believed only for an equal signature, in the epoch in which it was made. They are
kept in memory alone: another boot, another mount or a daemon that was away leaves none that could be believed wrongly,
and what has none is read once and sealed again.
"""

from __future__ import annotations

import threading
from typing import Final

import msgspec

from provd.core.reading import Signature
from provd.disk.epoch import Epoch
from provd.disk.files import coarse_clock
from provd.disk.mounts import Mounts
from provd.disk.seal import SEALABLE, can_seal, is_older, nobody_writes
from provd.disk.stamps import Stamps
from provd.filesystems import magic_of

MAX_SEALS: Final = 100_000
"""Files whose seals are kept at once, about 400 bytes each; the one that was made first goes first."""


class Row(msgspec.Struct, frozen=True, array_like=True):
    """A file's signature while it had this content: its raw digests, by algorithm."""

    signature: Signature
    raw: dict[str, bytes]


class Seals:
    """What was sealed in this epoch. Any thread may ask and add."""

    def __init__(self, epoch: Epoch | None = None, limit: int = MAX_SEALS) -> None:
        self.epoch = epoch or Epoch()
        self._limit = limit
        self._lock = threading.Lock()
        self._of = 0
        self._rows: dict[bytes, Row] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def current(self) -> int:
        """The epoch of this moment; 0 where nothing can be sealed. Seals of another one are gone."""
        with self._lock:  # who asked earlier must not come later
            now = self.epoch.now()
            if now != self._of:
                self._of, self._rows = now, {}
        return now

    def get(self, path: bytes) -> Row | None:
        """The seal of the file at an absolute path, if there is one."""
        return self._rows.get(path)

    def sealer(self, mounts: Mounts) -> Sealer | None:
        """What one job finds and makes seals with, from this moment on; None where nothing can be sealed."""
        epoch = self.current()
        return Sealer(self, epoch, Stamps(mounts)) if epoch and can_seal() else None

    def keep(self, path: bytes, signature: Signature, algorithm: str, raw: bytes, epoch: int) -> None:
        """Keeps a seal that was made in `epoch`."""
        with self._lock:
            if epoch != self._of:
                return
            known = self._rows.pop(path, None)
            others = known.raw if known is not None and known.signature == signature else {}
            self._rows[path] = Row(signature, {**others, algorithm: raw})
            if len(self._rows) > self._limit:
                del self._rows[next(iter(self._rows))]


class Sealer:
    """The seals for one job, which began in `epoch`."""

    def __init__(self, seals: Seals, epoch: int, stamps: Stamps) -> None:
        self._seals = seals
        self._epoch = epoch
        self._stamps = stamps

    def find(self, path: bytes, now: Signature, algorithm: str) -> bytes | None:
        """The raw digest of the file that was just found to have the signature `now`, by its seal."""
        row = self._seals.get(path)
        return row.raw.get(algorithm) if row is not None and row.signature == now else None

    def holds(self) -> bool:
        """Whether nothing voided the seals since the job began."""
        return self._seals.epoch.now() == self._epoch

    def may_seal(self, descriptor: int, path: bytes, was: Signature) -> bool:
        """Whether a file, with what `fstat` has just said, is at rest and nobody writes it; then it is to be read.

        Raises OSError.
        """
        return (
            is_older(was, path, coarse_clock(), self._stamps)
            and magic_of(descriptor) in SEALABLE  # not by `st_dev`: overlay may tell that of what lies below
            and nobody_writes(descriptor)
        )

    def keep(self, path: bytes, was: Signature, algorithm: str, raw: bytes) -> None:
        """Keeps the seal of what may be sealed, was read to its end, and had the same `fstat` afterwards."""
        self._seals.keep(path, was, algorithm, raw, self._epoch)
