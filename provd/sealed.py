"""Reads by seals: what files and sets give, where a `stat` of each thing is enough, and few things have changed.

Rule: it runs in the loop, in slices, and every doubt is left to the whole way (`Workers.read`). What has changed is
read anew: all other things had their sealed content when it was looked at, on the same `ground`.
"""

from __future__ import annotations

import asyncio
import os
import stat
from bisect import bisect_left
from collections.abc import Collection
from operator import attrgetter
from typing import Final

import msgspec

from provd.core.dependency import Kind, Member
from provd.core.reading import Found, Reading
from provd.core.roll import Roll
from provd.disk import IgnoreRules, Sealer, Seals, SetSeal, Workers, base_of, read_single
from provd.ground import Ground

COMPARED: Final = attrgetter("st_dev", "st_ino", "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns")
"""What is compared of a `stat`, in the order of a Signature."""
SLICE: Final = 128
"""Things that are looked at before others are answered."""
_FEW: Final = 16
"""Files that may have changed: where more did, threads read."""
_MOST: Final = 256 * 1024
"""Bytes of a file that is read in the loop."""

_MODE: Final = 2

Things = tuple[tuple[bytes, tuple[int, ...]], ...]


class SealedReader:
    """Reads by the seals of `workers`."""

    def __init__(self, workers: Workers, ground: Ground) -> None:
        self._workers = workers
        self._seals: Seals = workers.seals
        self._ground = ground

    async def read(self, readings: Collection[Reading], rules: IgnoreRules) -> dict[Reading, Found] | None:
        """What all the readings give at one moment of this call; None where that takes more to say."""
        stand = self._ground.begin()
        if stand is None:
            return None
        coverage = self._ground.coverage()
        seals: dict[Reading, SetSeal] = {}
        for reading in readings:
            seal = self._seal_of(reading, rules)
            if seal is None:
                return None
            if not self._ground.holds(reading.kind, base_of(reading), coverage):
                return None
            seals[reading] = seal
        found: dict[Reading, Found] = {}
        for reading, seal in seals.items():
            changed = await _changed(seal.things)
            there = seal.found if changed == [] else self._again(reading, seal, changed)
            if there is None:
                return None
            found[reading] = there
        return found if self._ground.stand() == stand else None

    def _seal_of(self, reading: Reading, rules: IgnoreRules) -> SetSeal | None:
        if reading.kind is not Kind.FILE:
            seal = self._seals.get_set(reading)
            return seal if seal is not None and seal.rules is rules else None
        row = self._seals.get(reading.path)
        raw = None if row is None else row.raw.get(reading.algorithm)
        if row is None or raw is None:
            return None
        there = Found(f"{reading.algorithm}:{raw.hex()}", signature=row.signature, sealed=True)
        return SetSeal(rules, there, ((reading.path, msgspec.structs.astuple(row.signature)),))

    def _again(self, reading: Reading, seal: SetSeal, changed: list[int] | None) -> Found | None:
        """What a reading gives of which few files have changed; they are read, and sealed if they may be."""
        if changed is None:
            return None
        sealer = self._workers.seals.sealer(self._workers.mounts.now())
        raws: dict[int, bytes] = {}
        things = list(seal.things)
        for index in changed:
            path = things[index][0]
            there = _read_again(path, reading.algorithm, sealer)
            if there is None or reading.kind is Kind.FILE:
                return there
            assert there.signature is not None
            things[index] = (path, msgspec.structs.astuple(there.signature))
            raws[index] = bytes.fromhex((there.digest or "").partition(":")[2])
        set_ = self._exchanged(reading, seal, {things[index][0]: raw for index, raw in raws.items()})
        if set_ is None:
            return None
        found, roll = set_
        if sealer is not None and all(sealer.is_sealed(*things[index], reading.algorithm) for index in changed):
            sealer.keep_again(reading, SetSeal(seal.rules, found, tuple(things), roll))
        return found

    def _exchanged(self, reading: Reading, seal: SetSeal, raws: dict[bytes, bytes]) -> tuple[Found, Roll] | None:
        """What a set is with other raw digests of these paths, and the bytes of its digest."""
        before = seal.found.members or ()
        members = list(before)
        kept = self._seals.get_set(reading) is seal
        roll = seal.roll if seal.roll is not None and kept else Roll(before)
        start = len(base_of(reading).rstrip(b"/")) + 1
        origin, was = seal.found.since or (seal.found.digest or "", {})
        differing = dict(was)
        for path, raw in raws.items():
            name = path[start:]
            at = bisect_left(members, name, key=attrgetter("name"))
            if at == len(members) or members[at].name != name or members[at].type != "f" or not members[at].raw:
                return None
            first = differing.setdefault(name, members[at].raw)
            if first == raw:
                del differing[name]
            members[at] = Member("f", name, raw)
            roll.exchange(at, raw)
        digest = roll.digest(reading.algorithm)
        found = msgspec.structs.replace(
            seal.found, digest=digest, members=tuple(members), since=(origin, differing) if differing else None
        )
        return found, roll


def _read_again(path: bytes, algorithm: str, sealer: Sealer | None) -> Found | None:
    """What a file that changed gives now; None where it is no file any more, or does not stand still."""
    there = read_single(path, algorithm, _MOST, sealer)
    if there is None or there.signature is None or (there.digest or "type:").startswith("type:"):
        return None
    return there if _is_still(path, msgspec.structs.astuple(there.signature)) else None


async def _changed(things: Things) -> list[int] | None:
    """Which files are not what they were; None where it is no file, or too many are."""
    lstat, compared = os.lstat, COMPARED
    changed: list[int] = []
    for start in range(0, len(things), SLICE):
        if start:
            await asyncio.sleep(0)
        for index, (path, was) in enumerate(things[start : start + SLICE], start):
            try:
                now = compared(lstat(path))
            except OSError:
                return None
            if now != was:
                if not _is_file(was) or len(changed) == _FEW:
                    return None
                changed.append(index)
    return changed


def _is_still(path: bytes, was: tuple[int, ...]) -> bool:
    try:
        return COMPARED(os.lstat(path)) == was
    except OSError:
        return False


def _is_file(was: tuple[int, ...]) -> bool:
    return stat.S_ISREG(was[_MODE])
