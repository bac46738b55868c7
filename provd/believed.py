"""What is believed of the content of files, read again.

Rule: nothing is believed here. Whoever reads waits long, since files may be huge; so a mount that may hang is first
asked for anything at all, and what does not answer is waited for once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from provd.core.dependency import Kind
from provd.core.entry import lies_in
from provd.core.mutation import FILE
from provd.core.reading import Found, Reading, Signature
from provd.core.records import wire_name
from provd.core.verdict import reading_of
from provd.disk import Workers
from provd.store import Store

_SLICE: Final = 256
"""Files that are read at once."""
_PATIENCE: Final = 600.0
_ANSWER: Final = 10.0
"""Seconds for which a mount that may hang is waited for, before anything on it is read."""
TRACELESS: Final = "content changed and stat did not"
SILENT: Final = "its file system does not answer"

State = tuple[str, int, int, int, int]
"""The parts of a `core.mutation.State`: sort, size, times of modification and change (ns), inode."""
Read = Callable[[frozenset[Reading], float], Awaitable[dict[Reading, Found]]]
Mismatch = dict[str, Any]


class Believed:
    """What entries keep of files and the table has of them.

    `digests` are those of each reading by the state that it was seen with, `reals` the real paths of readings, where
    they are known. `silent` are the mount points at which nothing answers.
    """

    def __init__(self) -> None:
        self.digests: dict[Reading, dict[State, str]] = {}
        self.reals: dict[Reading, bytes] = {}
        self.silent: set[bytes] = set()

    def real(self, reading: Reading) -> bytes:
        """Where a reading leads, as far as that is known."""
        return self.reals.get(reading, reading.path)


def believed_by_entries(store: Store, scope: bytes | None) -> Believed:
    """What the entries of a scope (None: all) keep of files. Not for the loop."""
    believed = Believed()
    with store.thread_view() as view:
        for entry in view.all_entries():
            if scope is not None and not lies_in(entry.id, scope):
                continue
            for kept in entry.deps or ():
                if kept.dep.kind is Kind.FILE and kept.digest is not None and kept.signature is not None:
                    reading = reading_of(kept)
                    believed.digests.setdefault(reading, {})[_signed(kept.signature)] = kept.digest
                    if kept.real is not None:
                        believed.reals[reading] = kept.real
    return believed


class Rereader:
    """Reads again what is believed."""

    def __init__(self, workers: Workers, read: Read) -> None:
        self._workers = workers
        self._read = read

    async def reread(
        self, readings: Sequence[Reading], believed: Believed, skipped: dict[bytes, str]
    ) -> dict[bytes, Mismatch]:
        """What differs of the content of files whose `stat` is as it was; what is not read becomes `skipped`."""
        out: dict[bytes, Mismatch] = {}
        for at in range(0, len(readings), _SLICE):
            out |= await self._slice(readings[at : at + _SLICE], believed, skipped)
        return out

    async def _slice(
        self, readings: Sequence[Reading], believed: Believed, skipped: dict[bytes, str]
    ) -> dict[bytes, Mismatch]:
        found = await self._read(await self._answering(readings, believed), _PATIENCE)
        out = {}
        for reading in readings:
            there = found.get(reading)
            if there is None:
                skipped[reading.path] = SILENT
                continue
            digests = believed.digests[reading]
            if there.trouble is not None:
                skipped[reading.path] = f"it could not be read: {there.detail or there.trouble}"
                continue
            was = None if there.signature is None else digests.get(_signed(there.signature))
            if was is not None and there.digest != was:
                told = {"path": wire_name(reading.path), "was": was, "is": there.digest}
                out[reading.path] = told | {"why": TRACELESS}
        return out

    async def _answering(self, readings: Sequence[Reading], believed: Believed) -> frozenset[Reading]:
        """Those that are not on a mount which hangs. Each is waited for once, however many files lie on it."""
        mounts = self._workers.mounts.now()
        points: dict[bytes, list[Reading]] = {}
        found: set[Reading] = set()
        for reading in readings:
            point = mounts.may_hang_at(believed.real(reading))
            if point is None:
                found.add(reading)
            elif point not in believed.silent:
                points.setdefault(point, []).append(reading)
        # Mount by mount: a job has only so many threads, and all of them may be lost on one that hangs.
        jobs = (self._workers.each(_answers, map(believed.real, some), _ANSWER) for some in points.values())
        for (point, some), answered in zip(points.items(), await asyncio.gather(*jobs), strict=True):
            found.update(reading for reading in some if believed.real(reading) in answered)
            if not answered:
                believed.silent.add(point)
        return frozenset(found)


def _answers(path: bytes) -> bool:
    """Returns where its file system says anything at all of a path."""
    with contextlib.suppress(OSError):
        os.stat(path)
    return True


def _signed(signature: Signature) -> State:
    """The state of a file that was read."""
    return (FILE, signature.size, signature.mtime_ns, signature.ctime_ns, signature.ino)
