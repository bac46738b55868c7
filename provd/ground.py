"""What a question that is answered by seals alone stands on: ways that are watched, mounts and a clock that hold still.

Rule: every doubt is a no. All things had their sealed content at the moment of the first `stat`, as long as no way led
elsewhere between the first and the last. Of that the kernel would have told, since each directory on the way is
watched; so whoever asks begins with `stand` and must find the same `stand` at the end.
"""

from __future__ import annotations

import errno
import os
from typing import Final, NamedTuple

from provd.core.dependency import Kind
from provd.disk import Workers, route_of
from provd.watching import Coverage, Watching

_MAX_DIRECTORIES: Final = 20_000


class Stand(NamedTuple):
    """How things stand: in which epoch of the seals, after which shifts of the ways, and how much was told in all."""

    epoch: int
    shifts: int
    heard: int


class Ground:
    """Says whether seals may answer at this moment, and which ways are watched and real."""

    def __init__(self, workers: Workers, watch: Watching) -> None:
        self._mounts = workers.mounts
        self._seals = workers.seals
        self._epochs = workers.seals.epoch
        self._epochs.add(watch.fileno())
        self._watch = watch
        self._of = (0, 0)
        self._directories: set[bytes] = set()
        """Those that were found to be watched. Others are asked about again: nothing tells when they come to be."""

    def stand(self) -> Stand | None:
        """How things stand, None where the system has something to tell, or something that it told is not taken.

        Equal twice, nothing happened in between that could lead a covered way elsewhere or void a seal.
        """
        epoch = self._of[0]
        if not self._epochs.is_still(epoch):
            return None
        told = self._watch.glance()
        return None if told is None else Stand(epoch, *told)

    def begin(self) -> Stand | None:
        """The same after reading what the system has to tell, and after an epoch that has ended."""
        self._watch.read()
        epoch, told = self._seals.current(), self._watch.glance()
        if told is None or not epoch:
            return None
        if self._of != (epoch, told[0]):
            self._of = (epoch, told[0])
            self._directories.clear()
        return Stand(epoch, *told)

    async def settle(self, timeout: float) -> None:  # noqa: ASYNC109
        """Waits, as long as that is sensible, until what was told is taken."""
        await self._watch.recorded(timeout)

    def is_still(self, epoch: int) -> bool:
        """Whether nothing was told since a `stand` of this epoch, where nothing else ran since: one system call."""
        return self._epochs.is_still(epoch)

    def is_recorded(self) -> bool:
        """Whether all that was told is in the log."""
        return self._watch.is_recorded()

    def coverage(self) -> Coverage:
        """What is watched at this moment."""
        return Coverage(self._watch)

    def holds_file(self, path: bytes, coverage: Coverage) -> bool:
        """Whether a file's path leads through no link, through watched directories only, and to nothing that may hang.

        For a `stand` that was just begun.
        """
        directory, _, name = path.rpartition(b"/")
        if name in {b"", b".", b".."} or not directory:
            return False
        if directory not in self._directories:
            if not self._is_watched(directory, coverage):
                return False
            if len(self._directories) >= _MAX_DIRECTORIES:
                self._directories.clear()
            self._directories.add(directory)
        return _is_no_link(path)

    def holds(self, kind: Kind, base: bytes, coverage: Coverage) -> bool:
        """The same of what a dependency with this `base` names."""
        return self.holds_file(base, coverage) if kind is Kind.FILE else self._holds_set(kind, base, coverage)

    def _holds_set(self, kind: Kind, base: bytes, coverage: Coverage) -> bool:
        """The same of a directory and, as far as the kind of set looks there, of all below it."""
        if self._mounts.now().may_hang_at(base) is not None:
            return False
        try:
            route = route_of(base)
        except OSError:
            return False
        return route.there and route.at == base and coverage.is_whole(route, kind, base)

    def _is_watched(self, directory: bytes, coverage: Coverage) -> bool:
        if self._mounts.now().may_hang_at(directory) is not None:
            return False
        try:
            route = route_of(directory)
        except OSError:
            return False
        return route.there and route.at == directory and coverage.lost_on(route) is None


def _is_no_link(path: bytes) -> bool:
    try:
        os.readlink(path)
    except OSError as error:
        return error.errno == errno.EINVAL
    return False
