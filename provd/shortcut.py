"""Answers at once what rests on sealed files alone and is fresh, without a task, a thread or a reading.

Rule: it says fresh or nothing; every doubt is left to the whole way (`inquiry`). An entry is learned after that way
found it fresh by seals. From then on one `stat` of each file is enough: an equal one proves the content by its seal,
and no directory on the way may have changed meanwhile, since each is watched. All files had their sealed content at
the moment of the first `stat`, as long as no way led elsewhere between the first and the last: of that the kernel
would have told by then, so it is asked once more at the end.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterable, Sequence
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
_LESSON: Final = 512
"""Files of the entries that are learned at once: some milliseconds."""
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

    __slots__ = ("after", "before", "files", "head", "id", "name", "raw", "renewed")

    def __init__(
        self, judged: Judgement, entry: Entry, raw: bytes, head: int, files: list[tuple[bytes, Compared]]
    ) -> None:
        self.id = entry.id
        self.name = _encode(entry.id.key)
        self.raw = raw
        self.renewed = entry.renewed
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
        self._directories: dict[bytes, bool] = {}
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
        began = self._begin(found)
        if began is None:
            return None
        files = 0
        for each in found:
            if not _is_untouched(each):
                return None
            files += len(each.files)
            if files >= _SLICE:
                files = 0
                await asyncio.sleep(0)
        return found if self._begin(found) == began else None

    def _begin(self, found: list[Learned]) -> tuple[int, int, int] | None:
        """How things stand, where all that was told is taken, and all that was learned is as it was; else None.

        Equal twice, nothing happened in between that could lead a way elsewhere, or void a seal.
        """
        if not self._epochs.is_still(self._epoch):
            return None
        told = self._watch.glance()
        if told is None or told[0] != self._shifts or not self._all_kept(found):
            return None
        return self._epoch, *told

    def learn(self, judgements: Iterable[Judgement]) -> None:
        """Takes up entries that were found fresh by seals, where their ways are watched and real; not too many at once.

        The others are learned when they are asked for again.
        """
        wanted = [judged for judged in judgements if _can_be_learned(judged)]
        if not wanted or not self._begin_anew():
            return
        coverage, looked = Coverage(self._watch), 0
        for judged in wanted:
            if looked >= _LESSON:
                return
            entry = judged.entry
            assert entry is not None
            known = self._learned.get(entry.id)
            if known is not None and known.renewed == entry.renewed:
                continue
            files = self._sealed_files(entry, coverage)
            looked += len(entry.deps or ())
            if files is None:
                continue
            with self._store.view() as view:
                raw, head = view.entry_row(entry.id), view.head()
                if raw is None or view.entry(entry.id) != entry:
                    continue
            learned = Learned(judged, entry, raw, head, files)
            if self._begin([learned]) is not None:
                self._take(learned)

    def _sealed_files(self, entry: Entry, coverage: Coverage) -> list[tuple[bytes, Compared]] | None:
        """The files of an entry with what a `stat` must say of them; None where one has no seal or an odd way."""
        files = []
        for kept in entry.deps or ():
            row = self._seals.get(kept.dep.name)
            if row is None or not self._is_real(kept.dep.name, coverage):
                return None
            algorithm, _, digest = (kept.digest or "").partition(":")
            raw = row.raw.get(algorithm)
            if raw is None or raw.hex() != digest:
                return None
            files.append((kept.dep.name, msgspec.structs.astuple(row.signature)))
        return files

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
        known = self._directories.get(directory)
        if known is None:
            if len(self._directories) >= _MAX_DIRECTORIES:
                self._directories.clear()
            local = self._mounts.now().may_hang_at(directory) is None
            known = self._directories[directory] = local and _is_watched(directory, coverage)
        return known and _is_no_link(path)

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


def _can_be_learned(judged: Judgement) -> bool:
    """Whether an entry is fresh by nothing but files."""
    entry = judged.entry
    if entry is None or judged.proof is not Proof.STAT or not judged.usable or not entry.deps:
        return False
    return len(entry.deps) <= MAX_FILES and all(kept.dep.kind is Kind.FILE for kept in entry.deps)


def _is_untouched(learned: Learned) -> bool:
    stat, compared = os.stat, _compared
    try:
        for path, was in learned.files:
            if compared(stat(path)) != was:
                return False
    except OSError:
        return False
    return True


def _is_no_link(path: bytes) -> bool:
    try:
        os.readlink(path)
    except OSError as error:
        return error.errno == errno.EINVAL
    return False


def _is_watched(directory: bytes, coverage: Coverage) -> bool:
    try:
        route = route_of(directory)
    except OSError:
        return False
    return route.there and route.at == directory and coverage.lost_on(route) is None
