"""Reads by seals: what files and sets give, where a `stat` of each thing is enough, and few things have changed.

Rule: it runs in the loop, in slices, and every doubt is left to the whole way (`Workers.read`). What has changed is
read anew: all other things had their sealed content when it was looked at, on the same `ground`.
"""

from __future__ import annotations

import asyncio
import os
import stat
from bisect import bisect_left
from collections.abc import Collection, Container, Mapping
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from provd.core.dependency import Kind, Member
from provd.core.reading import Found, Reading, Signature
from provd.core.roll import Roll
from provd.disk import IgnoreRules, Seals, SetSeal, Workers, base_of, read_single, signature_of
from provd.ground import Ground, Stand

COMPARED: Final = attrgetter("st_dev", "st_ino", "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns")
"""What is compared of a `stat`, in the order of a Signature."""
SLICE: Final = 128
"""Things that are looked at before others are answered."""
_FEW: Final = 16
"""Files of one question that may have changed: where more did, threads read."""
_MOST: Final = 256 * 1024
"""Bytes of a file that is read in the loop."""

_PATIENCE: Final = 0.05
"""Seconds for which a question about a set waits for what was told to be taken."""
_MODE: Final = 2
_STATES: Final = 4
"""States of a set of which it is known what has changed since; to others all members are compared."""

Things = tuple[tuple[bytes, tuple[int, ...]], ...]


class SealedReader:
    """Reads by the seals of `workers`."""

    def __init__(self, workers: Workers, ground: Ground) -> None:
        self._workers = workers
        self._seals: Seals = workers.seals
        self._ground = ground

    async def read(
        self, readings: Collection[Reading], rules: IgnoreRules, fresh: Container[tuple[Reading, str]]
    ) -> dict[Reading, Found] | None:
        """What all the readings give at one moment of this call; None where that takes more to say.

        `fresh` says which digests would make something fresh.
        """
        stand = self._ground.begin()
        if stand is None and any(reading.kind is not Kind.FILE for reading in readings):
            await self._ground.settle(_PATIENCE)  # less than walking a set takes
            stand = self._ground.begin()
        seals = None if stand is None else await self._seals_of(readings, rules, stand)
        if stand is None or seals is None:
            return None
        found: dict[Reading, Found] = {}
        again = _Again(self._workers)
        if again.sealer is None or again.sealer.epoch != stand.epoch:
            return None
        for number, (reading, seal) in enumerate(seals.items(), 1):
            await _now_and_then(number)
            others = await changed(seal.things)
            there = seal.found if others == [] else self._look_again(reading, seal, others, again)
            if there is None:
                return None
            found[reading] = there
        if again.read and not again.stand():
            return None
        if any((reading, found[reading].digest) in fresh for reading in again.things):
            # What was read anew may have come to be so after others were looked at, without an event.
            for number, (reading, seal) in enumerate(seals.items(), 1):
                await _now_and_then(number)
                if await changed(again.things.get(reading, seal.things)) != []:
                    return None
        if self._ground.stand() != stand:
            return None
        for exchange in again.exchanges:
            self._keep(exchange, stand.epoch)
        return found

    async def stats(
        self,
        paths: Collection[bytes],
        timeout: float,  # noqa: ASYNC109
    ) -> tuple[Mapping[bytes, Signature | None], Mapping[Reading, Found]]:
        """What `stat` says of paths, and what the files give whose seals hold for that, all at one moment.

        Where that is not shown by watched ways, nothing is taken from a seal, unless it is one file alone.
        """
        epoch = self._seals.current()
        stand = self._ground.begin()
        stats = await self._workers.each(signature_of, paths, timeout)
        held: Mapping[bytes, Signature | None] = stats
        if len(paths) > 1:
            if stand is None or self._ground.stand() != stand:
                return stats, {}
            held = await self._held(stats, stand)
        found = _by_seal(self._seals, held)
        return stats, found if epoch and self._seals.current() == epoch else {}

    def _keep(self, exchange: _Exchange, epoch: int) -> None:
        """Keeps the seal of a set of which few files were read anew and sealed, in the place of the one before."""
        new = exchange.seal
        if new.roll is not None and self._seals.get_set(exchange.reading) is exchange.before:
            new.roll.exchange(exchange.places)
            self._seals.keep_set(exchange.reading, new, epoch)

    async def _held(self, stats: Mapping[bytes, Signature | None], stand: Stand) -> Mapping[bytes, Signature | None]:
        """Those of the paths whose ways are watched; none where that does not stand any more."""
        coverage = self._ground.coverage()
        held: dict[bytes, Signature | None] = {}
        for number, (path, now) in enumerate(stats.items(), 1):
            if number % SLICE == 0 and not await self._still(stand):
                return {}
            if self._ground.holds_file(path, coverage):
                held[path] = now
        return held

    async def _still(self, stand: Stand) -> bool:
        """Whether things stand as they did, after others were answered: only then what is known of ways counts."""
        await asyncio.sleep(0)
        return self._ground.stand() == stand

    async def _seals_of(
        self, readings: Collection[Reading], rules: IgnoreRules, stand: Stand
    ) -> dict[Reading, SetSeal] | None:
        """The seal of each reading; None where one has none, or its way is not watched."""
        coverage = self._ground.coverage()
        seals: dict[Reading, SetSeal] = {}
        for number, reading in enumerate(readings, 1):
            if number % SLICE == 0 and not await self._still(stand):
                return None
            seal = self._seal_of(reading, rules)
            if seal is None or not self._ground.holds(reading.kind, base_of(reading), coverage):
                return None
            seals[reading] = seal
        return seals

    def _seal_of(self, reading: Reading, rules: IgnoreRules) -> SetSeal | None:
        if reading.kind is not Kind.FILE:
            seal = self._seals.get_set(reading)
            return seal if seal is not None and seal.rules is rules else None
        row = self._seals.get(reading.path)
        raw = None if row is None else row.raw.get(reading.algorithm)
        if row is None or raw is None:
            return None
        there = Found(f"{reading.algorithm}:{raw.hex()}", signature=row.signature, sealed=True)
        return SetSeal(rules, there, things_of(reading.path, row.signature))

    def _look_again(self, reading: Reading, seal: SetSeal, changed: list[int] | None, again: _Again) -> Found | None:
        """What a reading gives of which few files have changed; they are read, and sealed if they may be."""
        if changed is None or len(again.read) + len(changed) > _FEW:
            return None
        raws: dict[bytes, bytes] = {}
        things = list(seal.things)
        there: Found | None = None
        for index in changed:
            path = things[index][0]
            there = again.file(path, reading.algorithm)
            if there is None or there.signature is None:
                return None
            things[index] = (path, msgspec.structs.astuple(there.signature))
            raws[path] = bytes.fromhex((there.digest or "").partition(":")[2])
        again.things[reading] = tuple(things)
        if reading.kind is Kind.FILE:
            return there
        is_kept = self._seals.get_set(reading) is seal  # else another question has exchanged what its roll has
        exchange = _exchanged(reading, seal, seal.roll if is_kept else None, raws)
        if exchange is None:
            return None
        if all(again.is_sealed(things[at][0], reading.algorithm) for at in changed):
            again.exchanges.append(exchange._replace(seal=msgspec.structs.replace(exchange.seal, things=tuple(things))))
        return exchange.seal.found


class _Exchange(NamedTuple):
    """The seal of a set in which members, by number, have other raw digests than in the one `before`.

    Its roll has them only when it is kept: the one before has the same.
    """

    reading: Reading
    before: SetSeal
    seal: SetSeal
    places: dict[int, bytes]


def _exchanged(reading: Reading, seal: SetSeal, roll: Roll | None, raws: dict[bytes, bytes]) -> _Exchange | None:
    """The seal of a set with other raw digests of these paths; None where one of them is no member with content.

    `roll` is the seal's own, where it has one.
    """
    before = seal.found.members or ()
    members = list(before)
    start = len(base_of(reading).rstrip(b"/")) + 1
    places: dict[int, bytes] = {}
    for path, raw in raws.items():
        name = path[start:]
        at = bisect_left(members, name, key=attrgetter("name"))
        if at == len(members) or members[at].name != name or members[at].type != "f" or not members[at].raw:
            return None
        members[at] = Member("f", name, raw)
        places[at] = raw
    roll = roll or Roll(before)
    had = roll.exchange(places)
    digest = roll.digest(reading.algorithm)
    roll.exchange(had)
    was = {members[at].name: raw for at, raw in had.items()}
    since = _since(seal.found, was, {members[at].name: raw for at, raw in places.items()})
    found = msgspec.structs.replace(seal.found, digest=digest, members=tuple(members), since=since)
    return _Exchange(reading, seal, msgspec.structs.replace(seal, found=found, roll=roll), places)


class _Again:
    """The files of one question that were read anew, and what their readings rest on since."""

    def __init__(self, workers: Workers) -> None:
        self.sealer = workers.seals.sealer(workers.mounts.now())
        self.things: dict[Reading, Things] = {}
        self.exchanges: list[_Exchange] = []
        self.read: dict[tuple[bytes, str], Found] = {}

    def file(self, path: bytes, algorithm: str) -> Found | None:
        """What a file that changed gives now; None where it is no file any more, or does not stand still."""
        there = read_single(path, algorithm, _MOST, self.sealer, may_be_young=True)
        if there is None or there.signature is None or (there.digest or "type:").startswith("type:"):
            return None
        self.read[path, algorithm] = there
        return there if _is_still(path, msgspec.structs.astuple(there.signature)) else None

    def is_sealed(self, path: bytes, algorithm: str) -> bool:
        """Whether a file that was read anew was sealed, with the content that was read."""
        there = self.read[path, algorithm]
        assert there.signature is not None
        raw = bytes.fromhex((there.digest or "").partition(":")[2])
        return self.sealer is not None and self.sealer.is_sealed(path, there.signature, algorithm, raw)

    def stand(self) -> bool:
        """Whether they are what they were, by reading: a young file may change without a trace in its times."""
        return all(
            read_single(path, algorithm, _MOST, self.sealer, may_be_young=True) == there
            for (path, algorithm), there in self.read.items()
        )


def _since(found: Found, was: dict[bytes, bytes], now: dict[bytes, bytes]) -> dict[str, dict[bytes, bytes]]:
    """What differs from some states of a set, the newest last, when of its state `found` these raw digests change."""
    since: dict[str, dict[bytes, bytes]] = {}
    for digest, before in [*found.since.items(), (found.digest or "", {})][-_STATES:]:
        first = was | dict(before)
        since[digest] = {name: raw for name, raw in first.items() if now.get(name) != raw}
    return since


def things_of(path: bytes, signature: Signature) -> Things:
    """What a file rests on by its seal: itself."""
    return ((path, msgspec.structs.astuple(signature)),)


async def changed(things: Things) -> list[int] | None:
    """Which files are not what they were; None where it is no file, or too many are."""
    lstat, compared = os.lstat, COMPARED
    found: list[int] = []
    for start in range(0, len(things), SLICE):
        if start:
            await asyncio.sleep(0)
        for index, (path, was) in enumerate(things[start : start + SLICE], start):
            try:
                now = compared(lstat(path))
            except OSError:
                return None
            if now != was:
                if not _is_file(was) or len(found) == _FEW:
                    return None
                found.append(index)
    return found


async def _now_and_then(number: int) -> None:
    """Has others answered after so many things."""
    if number % SLICE == 0:
        await asyncio.sleep(0)


def _is_still(path: bytes, was: tuple[int, ...]) -> bool:
    try:
        return COMPARED(os.lstat(path)) == was
    except OSError:
        return False


def _by_seal(seals: Seals, stats: Mapping[bytes, Signature | None]) -> dict[Reading, Found]:
    """What the files give whose seals hold for what `stat` has just said."""
    return {
        Reading(Kind.FILE, path, algorithm): Found(f"{algorithm}:{raw.hex()}", signature=now, sealed=True)
        for path, now in stats.items()
        if now is not None and (row := seals.get(path)) is not None and row.signature == now
        for algorithm, raw in row.raw.items()
    }


def _is_file(was: tuple[int, ...]) -> bool:
    return stat.S_ISREG(was[_MODE])
