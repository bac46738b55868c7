"""What a question reads: by seals where those are enough, at once where that is quick, else in workers.

Rule: nothing is read in the loop that may hang or takes longer than handing it to a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from typing import Final

from provd.core.dependency import Kind
from provd.core.reading import Found, Reading, Signature
from provd.disk import IgnoreRules, ReadingJob, Route, Workers, is_near, read_single, route_of, signature_of
from provd.ground import Ground
from provd.sealed import SealedReader

_QUICK_FILES: Final = 16
_QUICK_BYTES: Final = 256 * 1024
"""What is read at once in the loop: about as long as two hand-overs to a thread."""


class Reader:
    """Reads with `workers`, by the ignore rules of the moment. On `ground` seals may answer without a thread."""

    def __init__(self, workers: Workers, rules: Callable[[], IgnoreRules], ground: Ground | None = None) -> None:
        self._workers = workers
        self._rules = rules
        self._mounts = workers.mounts
        self._sealed = None if ground is None else SealedReader(workers, ground)

    async def read(
        self,
        readings: frozenset[Reading],
        timeout: float,  # noqa: ASYNC109
        *,
        by_seal: bool = False,
        fresh: frozenset[tuple[Reading, str]] = frozenset(),
    ) -> dict[Reading, Found]:
        """Reads, in workers, what is named; what is not done in time is `timeout`. With `by_seal` a seal is enough.

        `fresh` says which digests would make something fresh.
        """
        if not readings:
            return {}
        deadline = asyncio.get_running_loop().time() + timeout
        if len(readings) == 1 and self._mounts.all_local():
            (reading,) = readings
            if reading.kind is Kind.FILE and is_near(reading.path):
                sealer = self._workers.seals.sealer(self._mounts.now())
                found = read_single(reading.path, reading.algorithm, _QUICK_BYTES, sealer, by_seal=by_seal)
                if found is not None:
                    return {reading: found}
        if by_seal and self._sealed is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    if (sealed := await self._sealed.read(readings, self._rules(), fresh)) is not None:
                        return sealed
        if self._is_quick(readings):
            mounts = self._mounts.now()
            sealer = self._workers.seals.sealer(mounts)
            job = ReadingJob(readings, self._rules(), _QUICK_BYTES, mounts, sealer, by_seal=by_seal)
            job.run()
            if not job.not_quick:
                return job.results()
        return await self._workers.read(readings, self._rules(), _left(deadline), by_seal=by_seal)

    def _is_quick(self, readings: frozenset[Reading]) -> bool:
        """Whether reading takes less time than handing it to a thread, and cannot hang."""
        if len(readings) > _QUICK_FILES or not self._mounts.all_local():
            return False
        size = 0
        for reading in readings:
            if reading.kind is not Kind.FILE or not is_near(reading.path):
                return False
            try:
                there = signature_of(reading.path)
            except OSError:
                return False
            size += 0 if there is None else there.size
        return size <= _QUICK_BYTES

    async def stats(
        self,
        paths: Collection[bytes],
        timeout: float,  # noqa: ASYNC109
    ) -> tuple[Mapping[bytes, Signature | None], Mapping[Reading, Found]]:
        """What `stat` tells of the paths, and what was read beside it where a seal says so."""
        if self._sealed is None:
            return await self._workers.each(signature_of, paths, timeout), {}
        return await self._sealed.stats(paths, timeout)

    async def routes(self, paths: Collection[bytes], timeout: float) -> dict[bytes, Route]:  # noqa: ASYNC109
        """The ways of absolute paths; one that cannot be seen in time is missing."""
        if len(paths) <= _QUICK_FILES and self._mounts.all_local() and all(map(is_near, paths)):
            return {path: route for path in paths if (route := _route_or_none(path)) is not None}
        return await self._workers.each(route_of, paths, timeout)


def _left(deadline: float) -> float:
    return max(0.0, deadline - asyncio.get_running_loop().time())


def _route_or_none(path: bytes) -> Route | None:
    try:
        return route_of(path)
    except OSError:
        return None
