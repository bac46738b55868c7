"""The seals that are known: of which files a `stat` stands for the content, and which sets rest on nothing else.

Rule: a seal is found by path and believed only for an equal signature, in the epoch in which it was made. They are
kept in memory alone: another boot, another mount or a daemon that was away leaves none that could be believed wrongly,
and what has none is read once and sealed again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from itertools import islice
from typing import Final

import msgspec

from provd.core.reading import Found, Reading, Signature
from provd.core.roll import Roll
from provd.disk.epoch import Epoch
from provd.disk.files import Listing, Seen, Sort, coarse_clock, signature
from provd.disk.ignore import IgnoreRules
from provd.disk.lease import Pen, can_lease, pen_of
from provd.disk.mounts import Mounts
from provd.disk.seal import SEALABLE, is_older
from provd.disk.stamps import Stamps
from provd.filesystems import magic, magic_of

MAX_SEALS: Final = 200_000
"""Files whose seals are kept at once, about 400 bytes each; the one that was made first goes first."""


class Row(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A file's signature while it had this content: its raw digests, by algorithm."""

    signature: Signature
    raw: dict[str, bytes]


class SetSeal(msgspec.Struct, frozen=True, gc=False):
    """What a set was found to be under these `rules`, and the things whose `lstat` stands for that, with what it says.

    The things are all directories that were listed, and all files and links that count. `roll` is there where members
    were exchanged; only the seal that is kept may exchange more in it.
    """

    rules: IgnoreRules
    found: Found
    things: tuple[tuple[bytes, tuple[int, ...]], ...]
    roll: Roll | None = None


class Seals:
    """What was sealed in this epoch. Any thread may ask and add."""

    def __init__(self, epoch: Epoch | None = None, limit: int = MAX_SEALS) -> None:
        self.epoch = epoch or Epoch()
        self._limit = limit
        self._lock = threading.Lock()
        self._of = 0
        self._rows: dict[bytes, Row] = {}
        self._sets: dict[Reading, SetSeal] = {}
        self._things = 0

    def __len__(self) -> int:
        return len(self._rows)

    def current(self) -> int:
        """The epoch of this moment; 0 where nothing can be sealed. Seals of another one are gone."""
        with self._lock:  # who asked earlier must not come later
            now = self.epoch.now()
            if now != self._of:
                self._of, self._rows, self._sets, self._things = now, {}, {}, 0
        return now

    def void(self) -> None:
        """From here on none of those that there are is believed."""
        self.epoch.void()
        self.current()

    def get(self, path: bytes) -> Row | None:
        """The seal of the file at an absolute path, if there is one."""
        return self._rows.get(path)

    def sealer(self, mounts: Mounts) -> Sealer | None:
        """What one job finds and makes seals with, from this moment on; None where nothing can be sealed."""
        epoch = self.current()
        return Sealer(self, epoch, Stamps(mounts)) if epoch and can_lease() else None

    def keep(self, path: bytes, signature: Signature, algorithm: str, raw: bytes, epoch: int) -> None:
        """Keeps a seal that was made in `epoch`."""
        with self._lock:
            if epoch != self._of:
                return
            known = self._rows.pop(path, None)
            others = known.raw if known is not None and known.signature == signature else {}
            self._rows[path] = Row(signature, {**others, algorithm: raw})
            if len(self._rows) > self._limit:  # some at once: the first of a dict is found behind all that went before
                for old in list(islice(self._rows, max(1, self._limit // 100))):
                    del self._rows[old]

    def get_set(self, reading: Reading) -> SetSeal | None:
        """The seal of a set, if there is one."""
        return self._sets.get(reading)

    def keep_set(self, reading: Reading, seal: SetSeal, epoch: int) -> None:
        """Keeps the seal of a set that was made in `epoch`."""
        with self._lock:
            if epoch != self._of or len(seal.things) > self._limit:
                return
            known = self._sets.pop(reading, None)
            self._things += len(seal.things) - (0 if known is None else len(known.things))
            self._sets[reading] = seal
            while self._things > self._limit:
                self._things -= len(self._sets.pop(next(iter(self._sets))).things)


class Sealer:
    """The seals for one job, which began in `epoch`."""

    def __init__(self, seals: Seals, epoch: int, stamps: Stamps) -> None:
        self._seals = seals
        self.epoch = epoch
        self._stamps = stamps

    def find(self, path: bytes, now: Signature, algorithm: str) -> bytes | None:
        """The raw digest of the file that was just found to have the signature `now`, by its seal."""
        row = self._seals.get(path)
        return row.raw.get(algorithm) if row is not None and row.signature == now else None

    def holds(self) -> bool:
        """Whether nothing voided the seals since the job began."""
        return self._seals.epoch.now() == self.epoch

    def pen(self, descriptor: int, path: bytes, was: Signature) -> Pen:
        """Who may write a file that is at rest by what `fstat` has just said; nobody: what is read now may be sealed.

        Raises OSError.
        """
        # Not by `st_dev`: overlay may tell that of what lies below.
        if not is_older(was, path, coarse_clock(), self._stamps) or magic_of(descriptor) not in SEALABLE:
            return Pen.UNKNOWN
        return pen_of(descriptor)

    def keep(self, path: bytes, was: Signature, algorithm: str, raw: bytes) -> None:
        """Keeps the seal of what may be sealed, was read to its end, and had the same `fstat` afterwards."""
        self._seals.keep(path, was, algorithm, raw, self.epoch)

    def keep_set(self, reading: Reading, rules: IgnoreRules, found: Found, seen: Sequence[Seen | Listing]) -> None:
        """Keeps the seal of a set that was read, if every thing that was seen on the way can be sealed."""
        if found.digest is None or found.members is None or found.linked:
            return
        things = []
        for thing in seen:
            compared = self._thing(thing, reading.algorithm)
            if compared is None:
                return
            things.append((thing.path, compared))
        sealed = msgspec.structs.replace(found, sealed=True)
        self._seals.keep_set(reading, SetSeal(rules, sealed, tuple(things)), self.epoch)

    def is_sealed(self, path: bytes, was: Signature, algorithm: str, raw: bytes) -> bool:
        """Whether a file has a seal for this signature, and for this very content.

        What another reading sealed under an equal signature may be another content than what was read by this one.
        """
        row = self._seals.get(path)
        return row is not None and row.signature == was and row.raw.get(algorithm) == raw

    def _thing(self, thing: Seen | Listing, algorithm: str) -> tuple[int, ...] | None:
        """What `lstat` says of a thing as long as it is what it was when it was seen; None where nobody can say."""
        if isinstance(thing, Listing):
            return self._rests(thing.path, thing.path, thing.signature, thing.at)
        if thing.sort is Sort.FILE and thing.signature is not None:
            sealed = self.is_sealed(thing.path, thing.signature, algorithm, thing.raw)
            return msgspec.structs.astuple(thing.signature) if sealed else None
        if thing.sort is not Sort.LINK:
            return None
        at = coarse_clock()
        try:
            return self._rests(thing.path, os.path.dirname(thing.path), signature(os.lstat(thing.path)), at)
        except OSError:
            return None

    def _rests(self, path: bytes, directory: bytes, was: Signature, at: int) -> tuple[int, ...] | None:
        """What a directory or a link must look like as long as nothing happens in it, which had this signature `at`.

        `directory` is where its file system is asked for: a link itself would tell that of its target.
        """
        try:
            sealed = magic(directory) in SEALABLE and is_older(was, path, at, self._stamps)
        except OSError:
            return None
        return msgspec.structs.astuple(was) if sealed else None
