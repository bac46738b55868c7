"""Reading many things so that all of them were true at one moment.

Rule: after everything is read, everything is looked at once more. What is still as it was has stood still
over the moment between, which is the same moment for all. What differs is read again, and then all is looked
at again, up to three rounds.

Several threads may run one job. They share its steps, so that one thread that hangs in the system holds
nothing but its own reading.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from provd.core.dependency import Kind
from provd.core.reading import Found, Reading, Trouble
from provd.disk.files import Attempt, Cancelled, Changed, Listing, Seen, TooBig, read_file, unchanged
from provd.disk.ignore import IgnoreRules
from provd.disk.kernelfs import FileSystems
from provd.disk.sets import read_set, reason
from provd.disk.trail import Step, Trails

ROUNDS: Final = 3
"""How often one thing is read at most."""


class _Outcome(msgspec.Struct, frozen=True):
    """What a reading found, and what to look at again; nothing where there is trouble."""

    found: Found
    seen: Sequence[Seen | Listing] = ()
    steps: Sequence[Step] = ()


_LATE: Final = Found(trouble=Trouble.TIMEOUT, detail="not read in time")


class ReadingJob:
    """Some readings that have to be true at one moment.

    `found` holds, at any time, only what was shown to be of one moment, and what failed. With `most` the job ends
    `too_big` when it meets a file of more bytes.
    """

    def __init__(self, readings: Sequence[Reading], rules: IgnoreRules, most: int | None = None) -> None:
        self.too_big = False
        self._most = most
        self.found: dict[Reading, Found] = {}
        self._readings = tuple(dict.fromkeys(readings))
        self._rules = rules
        self._systems = FileSystems()
        several = len(self._readings) > 1 or any(r.kind is not Kind.FILE for r in self._readings)
        self._trails = Trails() if several else None
        self._cancelled = False
        self._lock = threading.Lock()  # for bookkeeping, never held over a call that can block
        self._reads = dict.fromkeys(self._readings, 0)
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

    def run(self) -> None:
        """Takes part in the job until there is nothing left to take; for threads that may block.

        A thread that finds all the rest in other threads' hands leaves: whoever ends the last reading goes on.
        """
        with contextlib.suppress(Cancelled, TooBig):
            while not self._cancelled and self._step():
                pass

    def cancel(self) -> None:
        """Ends the work of all threads as soon as they can: between members and between pieces of a file."""
        self._cancelled = True

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

    def _step(self) -> bool:
        """One reading or one second look; False if there is nothing to take."""
        with self._lock:
            if self._to_read:
                reading, act = self._to_read.popleft(), self._read
                self._being_read.add(reading)
                self._reads[reading] += 1
            elif self._to_confirm:
                reading, act = self._to_confirm.popleft(), self._confirm
                self._being_confirmed.add(reading)
            else:
                return False
        act(reading)
        return True

    def _attempt(self, reading: Reading) -> Attempt:
        known = self._known.get(reading)
        return Attempt(reading.algorithm, self._systems, lambda: self._cancelled, known, self._trails, self._most)

    def _read(self, reading: Reading) -> None:
        attempt = self._attempt(reading)
        changed: bytes | None = None
        outcome = _Outcome(Found())
        try:
            outcome = _outcome(reading, self._rules, attempt)
        except Changed as change:
            changed = change.path
        except TooBig:
            self.too_big = True
            raise
        with self._lock:
            if reading not in self._being_read:  # given up meanwhile
                return
            self._being_read.discard(reading)
            if changed is None:
                self._outcomes[reading] = outcome
            else:
                self._again(reading, changed, attempt.seen)
            if not self._to_read and not self._being_read:
                self._start_round()

    def _start_round(self) -> None:
        """Everything that was read is to be looked at again; one thing alone only where it is young."""
        self.found.clear()
        if self._trails is not None:
            self._trails.end()
        seen = [thing for outcome in self._outcomes.values() for thing in outcome.seen[:2]]
        needed = self._trails is not None or any(thing.young for thing in seen)
        for reading, outcome in self._outcomes.items():
            if needed and (outcome.seen or outcome.steps):
                self._to_confirm.append(reading)
            else:
                self.found[reading] = outcome.found

    def _confirm(self, reading: Reading) -> None:
        outcome = self._outcomes[reading]
        differing = _first_differing(outcome, self._attempt(reading), self._trails)
        with self._lock:
            self._being_confirmed.discard(reading)
            if differing is None:
                self.found[reading] = outcome.found
            else:
                self._differing[reading] = differing
            if not self._to_confirm and not self._being_confirmed:
                self._end_round()

    def _end_round(self) -> None:
        for reading, path in self._differing.items():
            self._again(reading, path, self._outcomes.pop(reading).seen)
            if reading in self._outcomes:  # no more: what the others were confirmed to be stands
                self.found[reading] = self._outcomes[reading].found
        self._differing.clear()

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


def read_now(reading: Reading, rules: IgnoreRules | None = None) -> Found:
    """One reading in this thread, however long it takes."""
    job = ReadingJob([reading], rules or IgnoreRules())
    job.run()
    return job.found[reading]


def _outcome(reading: Reading, rules: IgnoreRules, attempt: Attempt) -> _Outcome:
    """One attempt at one reading; raises Changed, Cancelled and TooBig."""
    try:
        found = read_file(reading.path, attempt) if reading.kind is Kind.FILE else read_set(reading, rules, attempt)
    except (Changed, Cancelled, TooBig):
        raise
    except OSError as error:
        return _Outcome(Found(trouble=Trouble.UNREADABLE, detail=reason(error)))
    except Exception as error:  # noqa: BLE001 - a fault of provd's own must not pass for an answer, nor for silence
        return _Outcome(Found(trouble=Trouble.UNREADABLE, detail=f"internal: {error!r}"))
    return _Outcome(found) if found.trouble else _Outcome(found, attempt.seen, attempt.steps)


def _first_differing(outcome: _Outcome, attempt: Attempt, trails: Trails | None) -> bytes | None:
    for step in dict.fromkeys(outcome.steps):
        attempt.check()
        if trails is None or not _held(step, trails):
            return step.path
    for thing in outcome.seen:
        attempt.check()
        if not unchanged(thing, attempt):
            return thing.path
    return None


def _held(step: Step, trails: Trails) -> bool:
    try:
        return trails.held(step)
    except OSError:
        return False
