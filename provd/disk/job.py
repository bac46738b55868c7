"""Reading many things so that all of them were true at one moment.

Rule: after everything is read, everything is looked at once more. What is still as it was has stood still
over the moment between, which is the same moment for all. What differs is read again, and then all is looked
at again, up to three rounds.

Several threads may run one job. They share its steps, so that one thread that hangs in the system holds
nothing but its own reading.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgspec

from provd.core import glob
from provd.core.dependency import PATTERN_KINDS, Kind
from provd.core.reading import Found, Reading, Trouble
from provd.disk.files import Attempt, Cancelled, Changed, Listing, NotQuick, Seen, read_file, unchanged
from provd.disk.ignore import IgnoreRules
from provd.disk.mounts import UNKNOWN, Mounts, MountWatch, mounted
from provd.disk.places import HANGS, Entry, Hangs, Turn, place_of
from provd.disk.seals import Sealer
from provd.disk.sets import read_set, reason
from provd.disk.stamps import Stamps
from provd.disk.trail import Trails, Way
from provd.filesystems import FileSystems

ROUNDS: Final = 3
"""How often one thing is read at most."""


class _Outcome(msgspec.Struct, frozen=True, gc=False):
    """What a reading found, and what to look at again; nothing where there is trouble.

    Of 100,000 nothing is left for the collector of cycles to go through: others would wait for it.
    """

    found: Found
    seen: tuple[Seen | Listing, ...] = ()
    ways: tuple[Way, ...] = ()


_LONGEST: Final = 4095
"""Bytes of a path that a system call takes."""
_LATE: Final = Found(trouble=Trouble.TIMEOUT, detail="not read in time")


class ReadingJob:
    """Some readings that have to be true at one moment.

    `found` holds, at any time, only what was shown to be of one moment, and what failed. With `most` it is a quick
    one: it ends `not_quick` when it meets a file of more bytes, or has to wait. `sealer` and `by_seal`: see `Attempt`.
    For so many seconds it is `calm`: big files are read with low priority.
    """

    shared: Final = True
    """More threads than one help: one of them may hang."""

    steps = 0
    """Readings and second looks that were begun."""

    def __init__(
        self,
        readings: Collection[Reading],
        rules: IgnoreRules,
        most: int | None = None,
        mounts: Mounts | None = None,
        sealer: Sealer | None = None,
        *,
        by_seal: bool = False,
        calm: float = 0.0,
    ) -> None:
        self.not_quick = False
        self._urgent_from = time.monotonic() + calm
        self._most = most
        self.found: dict[Reading, Found] = {}
        # Each is hashed anew wherever it is put, and this is done in the loop.
        self._readings = tuple(readings if isinstance(readings, frozenset) else dict.fromkeys(readings))
        self._rules = rules
        self._systems = FileSystems()
        # One file alone needs nothing of what is mounted; who makes many jobs keeps a table.
        several = len(self._readings) > 1 or any(r.kind is not Kind.FILE for r in self._readings)
        self._mounts = mounts or (mounted() if several else UNKNOWN)
        self._trails = Trails(Stamps(self._mounts), may_wait=most is None) if several else None
        self._mount_watch = MountWatch() if several else None
        self._sealer = sealer
        self._by_seal = by_seal
        self._cancelled = False
        self._refused = 0
        self._lock = threading.Lock()  # for bookkeeping, never held over a call that can block
        self._reads: dict[Reading, int] = {}
        self._known: dict[Reading, dict[bytes, Seen]] = {}
        # A reading waits, is being read, or has an outcome. When all have one, a round of second looks begins.
        self._to_read = deque(self._readings)
        self._being_read: set[Reading] = set()
        self._outcomes: dict[Reading, _Outcome] = {}
        self._to_confirm: deque[Reading] = deque()
        self._being_confirmed: set[Reading] = set()
        self._differing: dict[Reading, bytes] = {}

    @property
    def finished(self) -> bool:
        """Whether `found` holds everything."""
        return len(self.found) == len(self._readings)

    def run(self, turn: Turn | None = None) -> None:
        """Takes part in the job until there is nothing left to take; for threads that may block.

        A thread that finds all the rest in other threads' hands, or in places that are full, leaves: whoever ends
        the last reading goes on. `turn` says where the thread is, if it matters.
        """
        with contextlib.suppress(Cancelled, NotQuick):
            while not self._cancelled and (step := self._take(turn)) is not None:
                act, reading = step
                act(reading, turn)
                if turn is not None and turn.is_needless(self.steps):
                    return

    def cancel(self) -> None:
        """Ends the work of all threads as soon as they can: between members and between pieces of a file.

        Nothing is confirmed any more. What holds the job may live on for long, the descriptor does not.
        """
        self._cancelled = True
        with self._lock:
            if not self.finished and self._has_moved():
                self.found.clear()  # it was confirmed in a round that did not come to its end
            if self._mount_watch is not None:
                self._mount_watch.close()

    def cut(self) -> None:
        """Gives up what is not read yet, so that what is can be confirmed before the deadline."""
        with self._lock:
            if not self._outcomes:
                return
            late = [*self._to_read, *self._being_read]
            self._to_read.clear()
            self._being_read.clear()
            self._outcomes.update(dict.fromkeys(late, _Outcome(_LATE)))
            if late:
                self._start_round()

    def results(self) -> dict[Reading, Found]:
        """All that was found by now; what is missing was not read in time."""
        with self._lock:
            return {reading: self.found.get(reading, _LATE) for reading in self._readings}

    def _take(self, turn: Turn | None) -> tuple[Callable[[Reading, Turn | None], None], Reading] | None:
        """One reading, or one second look, to be made by this thread; None if there is nothing to take."""
        with self._lock:
            while True:
                refused = self._refused
                if self._to_read and (reading := self._next(self._to_read, turn, self._not_read)) is not None:
                    self.steps += 1
                    self._being_read.add(reading)
                    self._reads[reading] = self._reads.get(reading, 0) + 1
                    return self._read, reading
                if (
                    self._to_confirm
                    and (reading := self._next(self._to_confirm, turn, self._not_confirmed)) is not None
                ):
                    self.steps += 1
                    self._being_confirmed.add(reading)
                    return self._confirm, reading
                if refused == self._refused:  # else that may have ended a round
                    if turn is not None:
                        turn.end()
                    return None

    def _next(self, waiting: deque[Reading], turn: Turn | None, refused: Callable[[Reading], None]) -> Reading | None:
        """The first reading that waits whose place has room; what waits for a place that hangs is over."""
        if turn is None:
            return waiting.popleft()
        for _ in range(len(waiting)):
            reading = waiting.popleft()
            entry = turn.go(place_of(reading, self._mounts))
            if entry is Entry.IN:
                return reading
            if entry is Entry.FULL:
                waiting.append(reading)
            else:
                refused(reading)
        return None

    def _attempt(self, reading: Reading, turn: Turn | None) -> Attempt:
        return Attempt(
            reading.algorithm,
            self._systems,
            lambda: self._cancelled,
            self._known.get(reading),
            self._trails,
            self._most,
            turn,
            self._mounts,
            self._sealer,
            by_seal=self._by_seal,
            urgent=lambda: time.monotonic() >= self._urgent_from,
        )

    def _read(self, reading: Reading, turn: Turn | None) -> None:
        attempt = self._attempt(reading, turn)
        changed: bytes | None = None
        outcome = _Outcome(Found())
        try:
            outcome = _outcome(reading, self._rules, attempt)
        except Changed as change:
            changed = change.path
        except NotQuick:
            self.not_quick = True
            raise
        with self._lock:
            if reading not in self._being_read:  # given up meanwhile
                return
            self._being_read.discard(reading)
            if changed is None:
                self._outcomes[reading] = outcome
            else:
                self._again(reading, changed, attempt.seen)
            self._all_read()

    def _not_read(self, reading: Reading) -> None:
        self._refused += 1
        self._outcomes[reading] = _Outcome(HANGS)
        self._all_read()

    def _all_read(self) -> None:
        if not self._to_read and not self._being_read:
            self._start_round()

    def _start_round(self) -> None:
        """Everything that was read is to be looked at again; one thing alone only where it is young, or not read."""
        self.found.clear()
        if self._trails is not None:
            self._trails.end()
        outcomes = self._outcomes.values()
        seen = [thing for outcome in outcomes for thing in outcome.seen[:2]]
        needed = self._trails is not None or any(thing.young for thing in seen)
        needed = needed or any(outcome.found.sealed for outcome in outcomes)
        for reading, outcome in self._outcomes.items():
            if needed and (outcome.seen or outcome.ways):
                self._to_confirm.append(reading)
            else:
                self.found[reading] = outcome.found

    def _confirm(self, reading: Reading, turn: Turn | None) -> None:
        outcome = self._outcomes[reading]
        differing: bytes | None = None
        try:
            differing = _first_differing(outcome, self._attempt(reading, turn), self._trails)
            if differing is None and self._sealer is not None and reading.kind is not Kind.FILE:
                self._sealer.keep_set(reading, self._rules, outcome.found, outcome.seen)
        except Hangs:
            outcome = _Outcome(HANGS)
        with self._lock:
            self._being_confirmed.discard(reading)
            if differing is None:
                self.found[reading] = outcome.found
            else:
                self._differing[reading] = differing
            self._all_confirmed()

    def _not_confirmed(self, reading: Reading) -> None:
        self._refused += 1
        self.found[reading] = HANGS
        self._all_confirmed()

    def _all_confirmed(self) -> None:
        if not self._to_confirm and not self._being_confirmed:
            self._end_round()

    def _end_round(self) -> None:
        moved = not self._differing and self._has_moved()
        if moved:
            # A mount moves no time: whatever was read may have been read below one that is gone again.
            self._sealer = None  # seals from before it prove nothing more
            self._differing = {r: r.path for r, outcome in self._outcomes.items() if outcome.seen or outcome.ways}
            for reading in self._differing:
                self.found.pop(reading, None)
        for reading, path in self._differing.items():
            self._again(reading, path, self._outcomes.pop(reading).seen)
            if reading in self._outcomes:  # no more: what the others were confirmed to be stands
                self.found[reading] = self._outcomes[reading].found
        self._differing.clear()
        if moved:
            self._known.clear()  # nor do equal times

    def _has_moved(self) -> bool:
        """Whether something was mounted since this was asked last, or the seals that stood for contents are void."""
        if self._mount_watch is not None and self._mount_watch.changed():
            return True
        return self._by_seal and self._sealer is not None and not self._sealer.holds()

    def _again(self, reading: Reading, path: bytes, seen: Sequence[Seen | Listing]) -> None:
        """Has `reading` read again since `path` changed, if it may be."""
        if self._trails is not None:
            self._trails.again()
        if self._reads[reading] < ROUNDS:
            known = self._known.setdefault(reading, {})
            known.update((thing.path, thing) for thing in seen if isinstance(thing, Seen) and thing.signature)
            self._to_read.append(reading)
        else:
            paths = () if reading.kind is Kind.FILE else (path,)
            detail = f"changed while it was read, {ROUNDS} times"
            self._outcomes[reading] = _Outcome(Found(trouble=Trouble.MOVING, detail=detail, paths=paths))


def read_now(reading: Reading, rules: IgnoreRules | None = None, mounts: Mounts | None = None) -> Found:
    """One reading in this thread, however long it takes."""
    job = ReadingJob([reading], rules or IgnoreRules(), mounts=mounts)
    job.run()
    return job.found[reading]


def _outcome(reading: Reading, rules: IgnoreRules, attempt: Attempt) -> _Outcome:
    """One attempt at one reading; raises Changed, Cancelled and NotQuick."""
    if len(reading.path) > _LONGEST and _is_too_long(reading):
        return _Outcome(Found(trouble=Trouble.UNREADABLE, detail=reason(OSError(errno.ENAMETOOLONG, ""))))
    try:
        found = read_file(reading.path, attempt) if reading.kind is Kind.FILE else read_set(reading, rules, attempt)
    except (Changed, Cancelled, NotQuick):
        raise
    except Hangs:
        return _Outcome(HANGS)
    except OSError as error:
        return _Outcome(Found(trouble=Trouble.UNREADABLE, detail=reason(error)))
    except Exception as error:  # noqa: BLE001 - a fault of provd's own must not pass for an answer, nor for silence
        return _Outcome(Found(trouble=Trouble.UNREADABLE, detail=f"internal: {error!r}"))
    return _Outcome(found) if found.trouble else _Outcome(found, tuple(attempt.seen), tuple(attempt.ways))


def _is_too_long(reading: Reading) -> bool:
    """Whether no system call takes the path, or the part of the pattern without a wildcard."""
    path = glob.compile_pattern(reading.path).base if reading.kind in PATTERN_KINDS else reading.path
    return len(path) > _LONGEST


def _first_differing(outcome: _Outcome, attempt: Attempt, trails: Trails | None) -> bytes | None:
    if trails is not None:
        for way in outcome.ways:
            attempt.check()
            departed = trails.departure(way)
            if departed is not None:
                return departed
    for thing in outcome.seen:
        attempt.check()
        if not unchanged(thing, attempt):
            return thing.path
    return None
