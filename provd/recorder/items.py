"""What was found on the disk, as items that a command writes, what follows from writing them, and how much it was.

Rule: an item is what was seen, never what is concluded from it; that is for the command, against the rows of its
moment.
"""

from __future__ import annotations

import msgspec

from provd.core.dependency import is_under
from provd.core.mutation import Change, State
from provd.core.notice import Moved
from provd.core.records import Coverage, Gap, Origin


class NotWrittenError(Exception):
    """The store refused records."""


class Counters(msgspec.Struct):
    """Since the start: mutations recorded, files hashed, times that events were lost, scans that were begun."""

    recorded: int = 0
    hashed: int = 0
    lost: int = 0
    scans: int = 0


class Looked(msgspec.Struct, frozen=True):
    """A step and what its path names now. `again`: something lies where it was moved away from.

    `digest` is the raw one of the content that was read while the path was as `now` says, empty where none was.
    """

    step: Change | Moved
    now: State | None
    again: bool = False
    digest: bytes = b""


class Contents(msgspec.Struct, frozen=True):
    """What a directory held: all its names from `low` on and before `high`.

    Names in `but` are told elsewhere; names in `aside` are there, and nobody wants to know them. `last`: all names are
    known with these. `guarded`: it counts only where the directory was listed before. `digests` has the raw ones of
    contents that were read while the names were as they say.
    """

    directory: bytes
    names: dict[bytes, State]
    low: bytes = b""
    high: bytes | None = None
    but: frozenset[bytes] = frozenset()
    aside: frozenset[bytes] = frozenset()
    ino: int = 0
    origin: Origin = Origin.WATCH
    last: bool = True
    guarded: bool = False
    digests: dict[bytes, bytes] = {}


Item = Looked | Contents | Gap | Coverage


def named(item: Item) -> tuple[bytes, ...]:
    """The paths that an item is about."""
    match item:
        case Looked(step=Moved() as moved):
            return moved.source, moved.path
        case Looked():
            return (item.step.path,)
        case Contents():
            return (item.directory,)
        case Gap():
            return (item.scope,)
        case Coverage():
            return (item.path,)


class Outcome(msgspec.Struct):
    """How far a command came (`next` is the item to go on with), and what follows from what it wrote."""

    next: int = 0
    recorded: int = 0
    pending: list[tuple[int, bytes]] = []
    superseded: list[int] = []
    moved: list[tuple[int, bytes, bytes]] = []
    """Directories: the record's position, source, path."""
    inside: list[bytes] = []
    """Directories that may hold other things than the rows say: to be listed."""
    unsure: dict[bytes, None] = {}
    """Names of which the row may be wrong: to be looked at."""
    below: list[bytes] = []
    """Directories that a listing found to be new, or others than they were."""

    def follow(self, of: int, source: bytes, path: bytes) -> None:
        """A directory got another name by the record at `of`: what follows from earlier ones is found there."""
        self.moved.append((of, source, path))
        self.inside = [moved(each, source, path) for each in self.inside]
        self.below = [moved(each, source, path) for each in self.below]
        self.unsure = {moved(each, source, path): None for each in self.unsure}


def moved(name: bytes, source: bytes, path: bytes) -> bytes:
    """What a path is when the directory `source` is `path`."""
    return path + name[len(source) :] if is_under(name, source) else name
