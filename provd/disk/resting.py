"""Whether what a dependency names was at rest from a moment on, so that its digest of now is that of the moment.

Rule: this looks at times and leases only. That nothing was heard of it, and that all of it was watched, is for the
log and the watcher to say; each alone proves too little.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from typing import Final

import msgspec

from provd.core import glob
from provd.core.dependency import ABSENT, PATTERN_KINDS, TYPE_DIR, Kind
from provd.core.reading import Found, Reading, Signature
from provd.disk.files import Attempt, Cancelled, Changed, Listing, Seen, Sort
from provd.disk.ignore import IgnoreRules
from provd.disk.mounts import Mounts
from provd.disk.places import Hangs
from provd.disk.seal import at_rest, seal
from provd.disk.sets import read_set
from provd.disk.stamps import Stamps
from provd.disk.way import Route, route_of
from provd.filesystems import FileSystems

_ONE: Final = 1
"""Names that a file may have: by another one it is written unseen."""


class Rest(msgspec.Struct, frozen=True):
    """What was at rest: the way to it, and the signature of a file."""

    route: Route
    signature: Signature | None


class RestLooker:
    """Says of readings, by their paths, which were at rest since `before` (ns of CLOCK_REALTIME) until now.

    `found` is what they gave when they were read for good. It ends by the monotonic time `deadline`.
    """

    def __init__(
        self, found: Mapping[Reading, Found], before: int, rules: IgnoreRules, mounts: Mounts, deadline: float
    ) -> None:
        self._found: dict[bytes, list[tuple[Reading, Found]]] = {}
        for reading, there in found.items():
            self._found.setdefault(reading.path, []).append((reading, there))
        self._before = before
        self._rules = rules
        self._mounts = mounts
        self._deadline = deadline

    @property
    def paths(self) -> list[bytes]:
        """What to call this for."""
        return list(self._found)

    def __call__(self, path: bytes) -> dict[Reading, Rest]:
        """Those readings of `path` that were at rest; raises OSError."""
        told: dict[Reading, Rest] = {}
        for reading, found in self._found[path]:
            rest = self._rest(reading, found)
            if rest is not None:
                told[reading] = rest
        return told

    def _rest(self, reading: Reading, found: Found) -> Rest | None:
        look = _Look(self._before, Stamps(self._mounts))
        try:
            base = base_of(reading)
            route = route_of(base)
            if found.digest in {ABSENT, TYPE_DIR}:  # a matter of names, and the nearest directory tells of them
                return Rest(route, found.signature) if look.directory(os.path.dirname(route.at)) else None
            if reading.kind is Kind.FILE:
                signature = look.file(reading.path, reading.algorithm, found.digest)
                return None if signature is None else Rest(route, signature)
            return Rest(route, None) if self._set_rests(reading, found, base, route, look) else None
        except (OSError, Changed, Cancelled, Hangs):
            return None

    def _set_rests(self, reading: Reading, found: Found, base: bytes, route: Route, look: _Look) -> bool:
        """The set is walked once more: all directories of that walk rest, and all files that count."""
        if found.linked or found.digest is None:
            return False
        attempt = Attempt(reading.algorithm, FileSystems(), self._late, mounts=self._mounts)
        again = read_set(reading, self._rules, attempt)
        if again.digest != found.digest:
            return False
        for thing in attempt.seen:
            attempt.check()
            missing_base = isinstance(thing, Seen) and thing.sort is Sort.ABSENT and thing.path == base
            if not missing_base and not look.thing(thing, reading.algorithm):
                return False
        return route.there or look.directory(os.path.dirname(route.at))

    def _late(self) -> bool:
        return time.monotonic() > self._deadline


def come_after(directory: bytes) -> bool:
    """Comes after all that was done to the names in a directory and shows already: its events are queued then.

    A rename takes effect before its event is queued, both under the lock of the directory that listing it waits for
    (Linux: `vfs_rename`, `iterate_dir`). Raises OSError where the directory is away. What may not be listed is not
    watched either.
    """
    with contextlib.suppress(PermissionError), os.scandir(directory) as names:
        next(names, None)
    return True


def base_of(reading: Reading) -> bytes:
    """The path whose way decides where a reading leads: of patterns the last directory without a wildcard."""
    if reading.kind in PATTERN_KINDS:
        return glob.compile_pattern(reading.path).base
    return reading.path.rstrip(b"/") or b"/"


class _Look:
    """Looks of one reading; each directory is asked about once."""

    def __init__(self, before: int, stamps: Stamps) -> None:
        self._before = before
        self._stamps = stamps
        self._directories: dict[bytes, bool] = {}

    def directory(self, path: bytes) -> bool:
        """Whether the names in a directory are what they were."""
        known = self._directories.get(path)
        if known is None:
            known = self._directories[path] = at_rest(path, self._before, self._stamps)
        return known

    def file(self, path: bytes, algorithm: str, digest: str | None) -> Signature | None:
        """The signature of a file that can be sealed, has one name and gives `digest`."""
        there = seal(path, algorithm, self._before, self._stamps)
        if there is None or there.links != _ONE or f"{algorithm}:{there.raw.hex()}" != digest:
            return None
        return there.signature

    def thing(self, seen: Seen | Listing, algorithm: str) -> bool:
        """Whether one thing that a walk met rests: a directory, a file, a name."""
        if isinstance(seen, Listing):
            return self.directory(seen.path)
        if seen.signature is not None:
            return self.file(seen.path, algorithm, f"{algorithm}:{seen.raw.hex()}") is not None
        return self.directory(os.path.dirname(seen.path))
