"""Answers at once what rests on sealed files alone and is fresh, without a task, a thread or a reading.

Rule: it says fresh or nothing; every doubt is left to the whole way (`inquiry`). An entry is learned after that way
found it fresh by seals. From then on one `stat` of each file is enough, on the same `ground`, as long as the store
still is the one that this run wrote.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import Final, NamedTuple, cast

import msgspec

from provd.core import evidence
from provd.core.dependency import PATH_KINDS, Kind, base
from provd.core.entry import Entry, EntryId
from provd.core.verdict import Judgement, Proof
from provd.disk import Seals
from provd.ground import Ground, Stand
from provd.sealed import COMPARED, SLICE
from provd.store import Store
from provd.watching import Coverage

MAX_FILES: Final = 2000
"""Files of one entry: so many take about two milliseconds, for which others wait."""
_LESSON: Final = 512
"""Files of the entries that are learned at once: some milliseconds."""
_MAX_ENTRIES: Final = 20_000
_MAX_ALL_FILES: Final = 100_000
"""Entries that are kept at once, and files of all of them; then all are forgotten, and learned again when asked for."""

_CLOCK: Final = b'"clock":"@"'
_encode: Final = msgspec.json.Encoder().encode

Compared = tuple[int, ...]


class Told:
    """The verdict on an entry that is fresh, as JSON around its clock: `before` and `after`.

    `named` is `before` with the key in front, as a member of an object.
    """

    __slots__ = ("after", "before", "named")

    def __init__(self, judged: Judgement, entry: Entry) -> None:
        told = _encode(evidence.to_wire(judged, clock="@", mutation=lambda _: None, key=entry.id.key))
        before, _, after = told.partition(_CLOCK)
        self.before = before + b'"clock":"'
        self.named = _encode(entry.id.key) + b":" + self.before
        self.after = b'"' + after

    def at(self, token: bytes) -> bytes:
        """The same at the clock of this token."""
        return self.before + token + self.after


def members(verdicts: Iterable[Told], token: bytes) -> bytes:
    """Verdicts by key as the members of a JSON object, all at the clock of this token."""
    return b",".join([told.named + token + told.after for told in verdicts])


class Learned:
    """An entry that was found fresh by seals. `raw` is its row in the store, which it still was at position `head`."""

    __slots__ = ("files", "head", "id", "raw", "renewed", "told")

    def __init__(
        self, judged: Judgement, entry: Entry, raw: bytes, head: int, files: list[tuple[bytes, Compared]]
    ) -> None:
        self.id = entry.id
        self.told = Told(judged, entry)
        self.raw = raw
        self.renewed = entry.renewed
        self.head = head
        self.files = files


class _Quiet(NamedTuple):
    """An entry that was fresh by silence: as long as all stands so and the log ends at `head`, it is."""

    told: Told
    stand: Stand
    head: int


class Shortcut:
    """The entries that were learned, as long as nothing that they rest on is in doubt."""

    def __init__(self, store: Store, seals: Seals, ground: Ground) -> None:
        self._store = store
        self._seals = seals
        self._ground = ground
        self._learned: dict[bytes, dict[str, Learned]] = {}  # by scope and key: as questions come
        self._entries = self._files = 0
        self._quiet: dict[EntryId, _Quiet] = {}
        self._of = (0, 0)
        """In which epoch of the seals, and after which shifts of the ways, all that is kept here was learned."""

    def fresh(self, entry_id: EntryId) -> Told | None:
        """The verdict on the entry, if it is fresh by seals at this moment; None where that takes more to say."""
        learned = self._learned.get(entry_id.scope, {}).get(entry_id.key)
        if learned is None or self._begin([learned]) is None or not _is_untouched(learned):
            return None
        return learned.told if self._ground.is_still(self._of[0]) and self._store.is_own() else None

    def quiet(self, entry_id: EntryId) -> Told | None:
        """The verdict on the entry, if nothing at all happened since silence showed it fresh."""
        quiet = self._quiet.get(entry_id)
        if quiet is None or quiet.head != self._store.head or self._ground.stand() != quiet.stand:
            return None
        return quiet.told if self._store.is_own() else None

    def learn_quiet(self, judged: Judgement, position: int) -> None:
        """Takes up an entry that silence showed fresh at a position of the log, where all that happened is in it."""
        entry = judged.entry
        if entry is None or judged.proof is not Proof.LOG or not judged.usable or len(entry.deps or ()) > _LESSON:
            return
        stand = self._ground.begin()
        if stand is None or not self._ground.is_recorded() or self._store.head != position:
            return
        coverage = self._ground.coverage()
        if any(
            kept.dep.kind not in PATH_KINDS or not self._ground.holds(kept.dep.kind, base(kept.dep), coverage)
            for kept in entry.deps or ()
        ):
            return
        if len(self._quiet) >= _MAX_ENTRIES:
            self._quiet.clear()
        self._quiet[entry.id] = _Quiet(Told(judged, entry), stand, position)

    async def all_fresh(self, scope: bytes, keys: Iterable[str]) -> list[Told] | None:
        """The same of all these keys of a scope, at one moment of this call; others are answered in between."""
        learned = self._learned.get(scope, {})
        found = list(map(learned.get, keys))
        if None in found:
            return None
        began = self._begin(entries := cast("list[Learned]", found))
        if began is None:
            return None
        look, compared, files = os.lstat, COMPARED, 0  # a link put there since may lead out of what is watched
        for entry in entries:
            files += len(entry.files)
            if files >= SLICE:
                files = 0
                await asyncio.sleep(0)
            try:
                for path, was in entry.files:
                    if compared(look(path)) != was:
                        return None
            except OSError:
                return None
        return [entry.told for entry in entries] if self._begin(entries) == began and self._store.is_own() else None

    def _begin(self, found: list[Learned]) -> Stand | None:
        """How things stand, where these entries are as they were when they were learned; else None."""
        stand = self._ground.stand()
        if stand is None or stand[:2] != self._of or not self._all_kept(found):
            return None
        return stand

    def learn(self, judgements: Iterable[Judgement]) -> None:
        """Takes up entries that were found fresh by seals, where their ways are watched and real; not too many at once.

        The others are learned when they are asked for again.
        """
        wanted = [judged for judged in judgements if _can_be_learned(judged)]
        if not wanted or not self._begin_anew():
            return
        coverage, looked = self._ground.coverage(), 0
        for judged in wanted:
            if looked >= _LESSON:
                return
            entry = judged.entry
            assert entry is not None
            known = self._learned.get(entry.id.scope, {}).get(entry.id.key)
            if known is not None and known.renewed == entry.renewed and _is_untouched(known):
                continue  # else its files were changed, and put back since
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
            if row is None or not self._ground.holds_file(kept.dep.name, coverage):
                return None
            algorithm, _, digest = (kept.digest or "").partition(":")
            raw = row.raw.get(algorithm)
            if raw is None or raw.hex() != digest:
                return None
            files.append((kept.dep.name, msgspec.structs.astuple(row.signature)))
        return files

    def _take(self, learned: Learned) -> None:
        if self._entries >= _MAX_ENTRIES or self._files + len(learned.files) > _MAX_ALL_FILES:
            self._forget()
        scope = self._learned.setdefault(learned.id.scope, {})
        known = scope.get(learned.id.key)
        self._entries += known is None
        self._files += len(learned.files) - (0 if known is None else len(known.files))
        scope[learned.id.key] = learned

    def _forget(self) -> None:
        self._learned.clear()
        self._entries = self._files = 0

    def _begin_anew(self) -> bool:
        """Whether anything can be learned at this moment; what was learned on other ground is forgotten."""
        stand = self._ground.begin()
        if stand is not None and stand[:2] != self._of:
            self._forget()
            self._of = stand[:2]
        return stand is not None

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
    look, compared = os.lstat, COMPARED
    try:
        for path, was in learned.files:
            if compared(look(path)) != was:
                return False
    except OSError:
        return False
    return True
