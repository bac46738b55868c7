"""What a watcher tells: things that may have changed, in the order in which they did.

Rule: a notice is a hint with a path. What became of the path is looked up on the disk; what was missed is a notice
too (Lost), never an exception.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec


class What(StrEnum):
    """What happened to a name, as far as the watcher can tell."""

    CREATED = "created"
    MODIFIED = "modified"
    ATTRIB = "attrib"
    DELETED = "deleted"


NAMED: Final = frozenset({What.CREATED, What.DELETED})
"""What is said of the name, not of what it names."""


class Touched(msgspec.Struct, frozen=True, array_like=True, tag="touched"):
    """Something happened to the absolute `path`: a name was made or went, or what it names was written.

    A directory that is DELETED went with all below it (removed, or moved out of what is watched).
    """

    path: bytes
    what: What
    is_dir: bool = False


class Moved(msgspec.Struct, frozen=True, array_like=True, tag="moved"):
    """`source` became `path`, both watched; a directory took all below it along."""

    source: bytes
    path: bytes
    is_dir: bool = False


class Appeared(msgspec.Struct, frozen=True, array_like=True, tag="appeared"):
    """The directory `path` is watched from now on, and what it holds is to be listed (this directory alone).

    `missed` says why things may have come and gone in it before it was watched ("": nothing shows that).
    """

    path: bytes
    missed: str = ""


class Lost(msgspec.Struct, frozen=True, array_like=True, tag="lost"):
    """Events at or below `path` were lost for `reason`: a gap, and all of it is to be scanned."""

    path: bytes
    reason: str


class Covered(msgspec.Struct, frozen=True, array_like=True, tag="covered"):
    """From now on `coverage` (`whole`, `partial`, `none`) of the tree at `path` is watched; a gap for it as well."""

    path: bytes
    coverage: str
    why: str = ""


class Scan(msgspec.Struct, frozen=True, array_like=True, tag="scan"):
    """The tree at `path` is to be compared with what is known of it; nothing was lost that was ever promised."""

    path: bytes


Notice = Touched | Moved | Appeared | Lost | Covered | Scan
