"""Doubts: places whose rows may not be what the disk holds, since it was ahead of the notices when they were looked at.

Rule: a doubt ends when its place was looked at and no notice that waits says that it was another place; until then
nobody is told that everything is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from provd.core.notice import Lost, Moved, Notice, Touched, What
from provd.recorder.items import moved
from provd.recorder.renames import Below

ROUNDS: Final = 16
"""Times that a place is looked at in vain for somebody who waits until a gap says that nobody knows."""
_LATE: Final = 0.1
"""Seconds by which the kernel may tell of a change after it can be seen."""


class Doubt(msgspec.Struct):
    """`inside`: all that the directory holds is in doubt, else only what the name is.

    `number` counts all doubts, `rounds` the looks in vain while somebody waited; `told`: a gap was written for it.
    """

    inside: bool
    number: int
    rounds: int = 0
    told: bool = False


class Doubts:
    """The doubts of the moment, and the directories in which something was looked at by its path lately."""

    def __init__(self) -> None:
        self.number = 0
        self.cause = 0
        """The number of the doubt that what is added now follows from: who waits for that one waits for this one."""
        self._doubts: Below[Doubt] = Below()
        self._looked: Below[None] = Below()
        self._before: Below[float] = Below()

    def __bool__(self) -> bool:
        return bool(self._doubts)

    def before(self, number: int, *, told: bool) -> bool:
        """Whether a doubt that is not newer than `number` is left; of those `told` by a gap only on request."""
        return any(doubt.number <= number and (told or not doubt.told) for doubt in self._doubts.values())

    def add(self, path: bytes, *, inside: bool) -> None:
        """The row of a path, or those inside it, may not be what is there."""
        known = self._doubts.get(path)
        if known is not None and not known.told:
            known.inside = known.inside or inside
            known.number = min(known.number, self.cause or known.number)
            return
        if not self.cause:
            self.number += 1
        self._doubts.put(path, Doubt(inside or (known is not None and known.inside), self.cause or self.number))

    def looked(self, directory: bytes) -> None:
        """Something in this directory was looked at by its path."""
        self._looked.put(directory, None)

    def moved(self, source: bytes, path: bytes, now: float) -> None:
        """A directory got another name: what was looked at by the old one may have been something else."""
        for directory in self._looked.at_or_below(source):
            self._looked.pop(directory)
            self._before.pop(directory)
            self.add(moved(directory, source, path), inside=True)
        for directory in self._before.at_or_below(source):
            at = self._before.pop(directory)
            if at is not None and now - at <= _LATE:
                self.add(moved(directory, source, path), inside=True)
        for place in self._doubts.at_or_below(source):
            doubt = self._doubts.pop(place)
            assert doubt is not None
            known = self._doubts.get(moved(place, source, path))
            if known is not None:
                doubt.inside = doubt.inside or known.inside
                doubt.number = min(doubt.number, known.number)
            self._doubts.put(moved(place, source, path), doubt)

    def quiet(self, now: float) -> None:
        """All that happened until now was taken: what was looked at by its path was what it seemed to be."""
        if not self._looked:
            return
        for directory, at in list(self._before):
            if now - at > _LATE:
                self._before.pop(directory)
        for directory, _ in self._looked:
            self._before.put(directory, now)
        self._looked.clear()

    def first(self, count: int) -> list[tuple[bytes, Doubt]]:
        """The doubts that are longest there."""
        return [doubt for doubt, _ in zip(self._doubts, range(count), strict=False)]

    def settle(self, path: bytes) -> None:
        """The place was looked at, and it was that place."""
        self._doubts.pop(path)

    def in_vain(self, path: bytes, *, urgent: bool) -> bool:
        """Something above the place was moved meanwhile; whether a gap is to say so, since somebody waits for it."""
        doubt = self._doubts.pop(path)
        assert doubt is not None
        self._doubts.put(path, doubt)  # the others have their turn
        doubt.rounds += urgent
        if doubt.told or doubt.rounds < ROUNDS:
            return False
        doubt.told = True
        return True

    def forget(self) -> None:
        """Gives all of them up, since everything is compared anew."""
        self._doubts.clear()


def shakes(notices: Iterable[Notice]) -> list[bytes]:
    """The places of which the notices say that they were others than they are now, with all below."""
    found: list[bytes] = []
    for notice in notices:
        match notice:
            case Moved(is_dir=True):
                found += (notice.source, notice.path)
            case Touched(is_dir=True, what=What.DELETED):
                found.append(notice.path)
            case Lost():
                found.append(notice.path)
            case _:
                pass
    return found
