"""Where the threads are that look and read, and how many of them may be in one place.

Rule: a thread in a place that hangs is lost. So at most IN_ONE threads are in one place at a time; other work that
needs the place waits for its turn, without a thread. Where all of them were given up, the place is taken to hang:
what else is asked about it is refused at once, until one of them comes back.

A place is a mount point, where what is mounted there may hang. Elsewhere it is the directory of a file, and each set
and each root is a place of its own: a symbolic link may lead from there to anywhere.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from enum import Enum, auto
from typing import Final

from provd.core.dependency import Kind
from provd.core.reading import Found, Reading, Trouble
from provd.disk.company import Member
from provd.disk.mounts import Mounts

IN_ONE: Final = 4
"""Threads that may be in one place at a time, and so be lost there."""

HANGS: Final = Found(trouble=Trouble.TIMEOUT, detail="its file system hangs")


class Hangs(Exception):
    """All threads that may be in a place are there already."""


class Entry(Enum):
    """What became of a thread that wanted to go somewhere."""

    IN = auto()
    FULL = auto()
    HUNG = auto()


def place_of(reading: Reading, mounts: Mounts) -> bytes:
    """The place that a reading is about, by its path as it is written."""
    point = mounts.may_hang_at(reading.path)
    if point is not None:
        return point
    if reading.kind is Kind.FILE:
        return reading.path.rpartition(b"/")[0] or b"/"
    return reading.kind.encode() + b":" + reading.path


def place_of_path(path: bytes, mounts: Mounts, *, apart: bool) -> bytes:
    """The place of a path that is asked about: its directory, or itself `apart` from its neighbours."""
    return mounts.may_hang_at(path) or (b"path:" + path if apart else path.rpartition(b"/")[0] or b"/")


class Turn:
    """One thread in one piece of work: where it is, which only that thread changes."""

    def __init__(self, places: Places, work: Hashable, mounts: Mounts, member: Member | None = None) -> None:
        self.place: bytes | None = None
        self.given_up = False
        self.work = work
        self._places = places
        self._mounts = mounts
        self._home = b""
        self._member = member

    def is_needless(self, steps: int) -> bool:
        """Whether this thread is to leave the work to others, after one step more; the work has made `steps` in all."""
        return self._member is not None and self._member.goes(steps)

    def go(self, place: bytes) -> Entry:
        """Goes to a place to begin something there; where it is full, the work is called when there is room."""
        self._home = place
        if place == self.place:
            return Entry.IN
        return self._places.move(self, place, wait=True)

    def cross(self, path: bytes) -> None:
        """Says that `path` is asked about next: a walk may come to a mount that hangs. Raises Hangs."""
        if self._mounts.all_local:
            return
        point = self._mounts.may_hang_at(path)
        place = self._home if point is None else point
        if place != self.place and self._places.move(self, place, force=point is None) is not Entry.IN:
            raise Hangs

    def end(self) -> None:
        """Has found nothing to take: others must not count on it."""
        if self._member is not None:
            self._member.end()

    def leave(self) -> None:
        """Is nowhere any more, and takes no part."""
        self.end()
        self._places.move(self, None)

    def give_up(self) -> None:
        """Says, for another thread, that nobody waits for this one."""
        self._places.lose(self)


class Places:
    """Counts the threads in each place. Its lock is held for moments only, and no other is taken within it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: dict[bytes, int] = {}
        self._lost: dict[bytes, int] = {}
        self._waiting: dict[bytes, dict[Hashable, None]] = {}

    def hangs(self, place: bytes) -> bool:
        """Whether all the threads that may be in a place are lost there."""
        return self._lost.get(place, 0) >= IN_ONE

    @property
    def any_lost(self) -> bool:
        """Whether a thread is lost anywhere."""
        return bool(self._lost)

    def move(self, turn: Turn, place: bytes | None, *, wait: bool = False, force: bool = False) -> Entry:
        """Has a thread leave where it is and enter `place`, if there is room or it has to be."""
        with self._lock:
            if place is not None and not force and self._inside.get(place, 0) >= IN_ONE:
                if self.hangs(place):
                    return Entry.HUNG
                if wait and not turn.given_up:
                    self._waiting.setdefault(place, {})[turn.work] = None
                return Entry.FULL
            for counts in (self._inside, self._lost) if turn.given_up else (self._inside,):
                _add(counts, turn.place, -1)
                _add(counts, place, 1)
            turn.place = place
            return Entry.IN

    def lose(self, turn: Turn) -> None:
        """Counts the thread as lost where it is and wherever it goes."""
        with self._lock:
            turn.given_up = True
            _add(self._lost, turn.place, 1)

    def forget(self, work: Hashable) -> None:
        """Has a piece of work wait for no place any more."""
        if self._waiting:
            with self._lock:
                for place in [place for place, works in self._waiting.items() if work in works]:
                    self._next(place, work)

    def ready(self) -> list[Hashable]:
        """Work that waited for places that have room now, or that hang: one piece for each, to be done at once.

        To be asked whenever a thread has left a place; whoever is given work that cannot be done asks again.
        """
        if not self._waiting:  # nearly always
            return []
        with self._lock:
            free = [p for p in self._waiting if self._inside.get(p, 0) < IN_ONE or self.hangs(p)]
            return [self._next(place) for place in free]

    def _next(self, place: bytes, work: Hashable = None) -> Hashable:
        works = self._waiting[place]
        if work is None:
            work = next(iter(works))
        del works[work]
        if not works:
            del self._waiting[place]
        return work


def _add(counts: dict[bytes, int], place: bytes | None, number: int) -> None:
    """Zeros are left out, so that what was once asked about is forgotten."""
    if place is None:
        return
    count = counts.get(place, 0) + number
    if count:
        counts[place] = count
    else:
        del counts[place]
