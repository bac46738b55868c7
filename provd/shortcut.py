"""Answers at once what rests on sealed files alone and is fresh, without a task, a thread or a reading.

Rule: it says fresh or nothing; every doubt is left to the whole way (`inquiry`). An entry is learned after that way
found it fresh by seals. From then on one `stat` of each file is enough: an equal one proves the content by its seal,
and no directory on the way may have changed meanwhile, since each is watched. All files had their sealed content at
the moment of the first `stat`, as long as no way led elsewhere between the first and the last: of that the kernel
would have told by then, so it is asked once more at the end.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import msgspec

from provd.core import evidence
from provd.core.dependency import Kind
from provd.core.entry import Entry, EntryId
from provd.core.verdict import Judgement, Proof
from provd.disk import Workers, route_of
from provd.store import Store
from provd.watching import Coverage, Watching

_SLICE: Final = 128
"""Files that are looked at before others are answered."""
MAX_FILES: Final = 2000
"""Files of one entry: so many take about two milliseconds, for which others wait."""
_MAX_ENTRIES: Final = 20_000
_MAX_ALL_FILES: Final = 100_000
"""Entries that are kept at once, and files of all of them; then all are forgotten, and learned again when asked for."""
_MAX_DIRECTORIES: Final = 20_000

_compared: Final = attrgetter("st_dev", "st_ino", "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns")
"""What is kept of a `stat`, in the order of a Signature."""
_CLOCK: Final = b'"clock":"@"'
_encode: Final = msgspec.json.Encoder().encode

Compared = tuple[int, ...]


class Learned:
    """An entry that was found fresh by seals. `before` and `after` are its verdict as JSON, around the clock.

    `raw` is its row in the store, which stood there still at the position `head`; `name` is its key as JSON.
    """

    __slots__ = ("after", "before", "files", "head", "id", "name", "raw")

    def __init__(
        self, judged: Judgement, entry: Entry, raw: bytes, head: int, files: list[tuple[bytes, Compared]]
    ) -> None:
        self.id = entry.id
        self.name = _encode(entry.id.key)
        self.raw = raw
        self.head = head
        self.files = files
        told = _encode(evidence.to_wire(judged, clock="@", mutation=lambda _: None, key=entry.id.key))
        self.before, _, after = told.partition(_CLOCK)
        self.before += b'"clock":"'
        self.after = b'"' + after

    def told(self, token: bytes) -> bytes:
        """The verdict as JSON, at the clock of this token."""
        return self.before + token + self.after


class Shortcut:
    """The entries that were learned, as long as nothing that they rest on is in doubt."""

    def __init__(self, store: Store, workers: Workers, watch: Watching) -> None:
        self._store = store
        self._mounts = workers.mounts
        self._seals = workers.seals
        self._watch = watch
        self._epochs = workers.seals.epoch
        self._epochs.add(watch.fileno())
        self._learned: dict[EntryId, Learned] = {}
        self._files = 0
        self._directories: set[bytes] = set()
        """Those that were found to be watched. Others are asked about again: nothing tells when they come to be."""
        self._epoch = self._shifts = 0
        """In which epoch of the seals, and after which shifts of the ways, all that is kept here was learned."""

    def fresh(self, entry_id: EntryId) -> Learned | None:
        """The entry, if it is fresh at this moment; None where that takes more to say."""
        learned = self._learned.get(entry_id)
        if learned is None or self._begin([learned]) is None or not _is_untouched(learned):
            return None
        return learned if self._epochs.is_still(self._epoch) else None

    async def all_fresh(self, ids: Sequence[EntryId]) -> list[Learned] | None:
        """The entries, if all of them are fresh at one moment of this call; others are answered in between."""
        learned = self._learned
        found = [each for entry_id in ids if (each := learned.get(entry_id)) is not None]
        if len(found) != len(ids):
            return None
        told = self._begin(found)
        if told is None:
            return None
        epoch, files = self._epoch, 0
        for each in found:
            if not _is_untouched(each):
                return None
            files += len(each.files)
            if files >= _SLICE:
                files = 0
                await asyncio.sleep(0)
        return found if self._epoch == epoch and self._begin(found) == told else None

    def _begin(self, found: list[Learned]) -> tuple[int, int] | None:
        """How things stand by the watcher (`Telling`), where all it told was taken and all that was learned is kept.

        Equal twice, nothing happened in between that could lead a way elsewhere.
        """
        if not self._epochs.is_still(self._epoch):
            return None
        told = self._watch.glance()
        if told is None or told[0] != self._shifts or not self._all_kept(found):
            return None
        return told

    def learn(self, judged: Judgement) -> None:
        """Takes up an entry that was found fresh by seals, where its ways are watched and real."""
        entry = judged.entry
        if entry is None or judged.proof is not Proof.STAT or not judged.usable or not entry.deps:
            return
        if len(entry.deps) > MAX_FILES or any(kept.dep.kind is not Kind.FILE for kept in entry.deps):
            return
        if not self._begin_anew():
            return
        with self._store.view() as view:
            raw, head = view.entry_row(entry.id), view.head()
            if raw is None or view.entry(entry.id) != entry:
                return
        coverage = Coverage(self._watch)
        files = []
        for kept in entry.deps:
            row = self._seals.get(kept.dep.name)
            if row is None or not self._is_real(kept.dep.name, coverage):
                return
            algorithm, _, digest = (kept.digest or "").partition(":")
            raw_digest = row.raw.get(algorithm)
            if raw_digest is None or raw_digest.hex() != digest:
                return
            files.append((kept.dep.name, msgspec.structs.astuple(row.signature)))
        learned = Learned(judged, entry, raw, head, files)
        if self._begin([learned]) is not None:
            self._take(learned)

    def _take(self, learned: Learned) -> None:
        if len(self._learned) >= _MAX_ENTRIES or self._files + len(learned.files) > _MAX_ALL_FILES:
            self._learned.clear()
            self._files = 0
        known = self._learned.get(learned.id)
        self._files += len(learned.files) - (0 if known is None else len(known.files))
        self._learned[learned.id] = learned

    def _begin_anew(self) -> bool:
        """Whether anything can be learned at this moment; what was learned on other ground is forgotten."""
        self._watch.read()
        epoch, told = self._seals.current(), self._watch.glance()
        if told is None or not epoch:
            return False
        if (epoch, told[0]) != (self._epoch, self._shifts):
            self._learned.clear()
            self._directories.clear()
            self._files = 0
            self._epoch, self._shifts = epoch, told[0]
        return True

    def _is_real(self, path: bytes, coverage: Coverage) -> bool:
        """Whether a path leads through no link, through watched directories only, and to nothing that may hang."""
        directory, _, name = path.rpartition(b"/")
        if name in {b"", b".", b".."} or not directory:
            return False
        if directory not in self._directories:
            if self._mounts.now().may_hang_at(directory) is not None or not _is_watched(directory, coverage):
                return False
            if len(self._directories) >= _MAX_DIRECTORIES:
                self._directories.clear()
            self._directories.add(directory)
        return _is_file(path)

    def _all_kept(self, found: list[Learned]) -> bool:
        """Whether the store has each of these entries as it was."""
        head = self._store.head
        moved = [each for each in found if each.head != head]
        if not moved:
            return True
        with self._store.view() as view:
            for each in moved:
                if view.entry_row(each.id) != each.raw:
                    return False
                each.head = head
        return True


def _is_untouched(learned: Learned) -> bool:
    look, compared = os.lstat, _compared
    try:
        for path, was in learned.files:
            if compared(look(path)) != was:  # a link put there since may lead out of what is watched
                return False
    except OSError:
        return False
    return True


def _is_file(path: bytes) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_watched(directory: bytes, coverage: Coverage) -> bool:
    try:
        route = route_of(directory)
    except OSError:
        return False
    return route.there and route.at == directory and coverage.lost_on(route) is None
