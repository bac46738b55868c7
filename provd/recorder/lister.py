"""Listing directories for the log: in slices, or in a thread where it may hang.

Rule: a listing counts only for the moment at which it was made; of a directory that a thread listed while something
happened in it there is a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from provd.core.mutation import DIRECTORY, State
from provd.core.records import Origin
from provd.disk.states import SLICE, Listing, Unlisted, listing, listing_at_once
from provd.disk.workers import Workers
from provd.recorder.items import Contents
from provd.watch.base import Rules

CHUNK: Final = 2000
"""Names that are compared in one item, and about as many in one command."""
_PATIENCE: Final = 5.0
_RELISTED: Final = 3


class Lister:
    """Lists directories. `rules` has those for the names in one, `waits` reads what the system has to tell.

    `kick` is called in the loop when a thread is back.
    """

    def __init__(
        self, workers: Workers, waits: Callable[[], bool], kick: Callable[[], None], own: Sequence[bytes]
    ) -> None:
        self.rules: Rules = lambda _directory: _nothing
        self._workers = workers
        self._waits = waits
        self._kick = kick
        self._own = frozenset(own)
        self._flight: _Flight | None = None

    def touched(self, directory: bytes) -> None:
        """Something happened in this directory."""
        if self._flight is not None and self._flight.path == directory:
            self._flight.touched = True

    def shaken(self) -> None:
        """Some directory got another name."""
        if self._flight is not None:
            self._flight.touched = True

    def drop(self) -> None:
        """Nobody waits for the thread any more."""
        self._flight = None

    async def in_slices(self, directory: bytes) -> Listing | Unlisted:
        """Lists a directory in slices, so that others have their turn."""
        for found in listing(directory, self._workers.mounts):
            if found is not None:
                return found
            self._waits()  # the kernel's queue must not fill meanwhile
            await asyncio.sleep(0)
        raise AssertionError(directory)

    def apart(self, directory: bytes) -> Listing | Unlisted | None:
        """What a thread found in a directory that may hang; None until it is back."""
        flight = self._flight
        if flight is None or flight.path != directory:
            self._flight = _Flight(self._workers, directory, self._kick)
            return None
        found = flight.found
        if found is None:
            return None
        self._flight = None
        if flight.touched and flight.times < _RELISTED:
            self._flight = _Flight(self._workers, directory, self._kick, flight.times + 1)
            return None
        return found

    def may_hang(self, path: bytes) -> bool:
        """Whether looking at a path may hang: then a thread has to."""
        mounts = self._workers.mounts
        return mounts.is_hanging_point(path) or mounts.now().may_hang_at(path) is not None

    def aside(self, path: bytes, *, is_dir: bool) -> bool:
        """Whether nobody wants to know of a path."""
        return path in self._own or self.rules(path.rpartition(b"/")[0] or b"/")(path, is_dir)

    async def contents(
        self,
        directory: bytes,
        found: Listing,
        *,
        but: frozenset[bytes] = frozenset(),
        origin: Origin = Origin.SCAN,
        guarded: bool = False,
    ) -> list[Contents]:
        """A listing as items of a bounded size."""
        prefix = directory.rstrip(b"/") + b"/"
        aside: set[bytes] = set()
        ignored, own = self.rules(directory), self._own
        pieces: list[dict[bytes, State]] = [{}]
        for number, (name, state) in enumerate(found.names.items()):
            if number % SLICE == SLICE - 1:  # there may be a hundred thousand, and each is matched with the rules
                self._waits()
                await asyncio.sleep(0)
            path = prefix + name
            if ignored(path, state.sort == DIRECTORY) or path in own:
                aside.add(name)
                continue
            if len(pieces[-1]) == CHUNK:
                pieces.append({})
            pieces[-1][name] = state
        left_out = frozenset(aside)
        lows = [b"", *(next(iter(piece)) for piece in pieces[1:])]
        return [
            Contents(directory, piece, low, high, but, left_out, found.ino, origin, last=high is None, guarded=guarded)
            for piece, low, high in zip(pieces, lows, [*lows[1:], None], strict=True)
        ]


class _Flight:
    """A directory that a thread lists. `touched` says that something happened there meanwhile."""

    def __init__(self, workers: Workers, path: bytes, kick: Callable[[], None], times: int = 0) -> None:
        self.path = path
        self.times = times
        self.touched = False
        self.found: Listing | Unlisted | None = None
        self._task = asyncio.ensure_future(self._fly(workers, kick))

    async def _fly(self, workers: Workers, kick: Callable[[], None]) -> None:
        try:
            mounts = workers.mounts.now()
            self.found = await workers.call(listing_at_once, self.path, mounts, timeout=_PATIENCE, about=self.path)
        except Exception as error:  # noqa: BLE001  it is told, and the scan goes on
            self.found = Unlisted(gone=False, why=str(error))
        kick()


def _nothing(_path: bytes, _is_dir: bool) -> bool:
    return False
