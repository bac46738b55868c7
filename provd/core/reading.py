"""What the shell is asked to read, and what it found: the values that pass between the judge and the disk."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from provd.core.dependency import Kind, Member


class Trouble(StrEnum):
    """Why something has no digest; each is an `unknown` of the contract."""

    UNREADABLE = "unreadable"
    TIMEOUT = "timeout"
    MOVING = "moving"


class Reading(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One thing to read: `path` is an absolute path or pattern, `algorithm` one of xxh3, sha256, blake2b."""

    kind: Kind
    path: bytes
    algorithm: str


class Signature(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The part of a `stat` (links followed) that moves when a file's content may have: times in nanoseconds."""

    dev: int
    ino: int
    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int


class Found(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a reading gave: a digest, or the trouble that prevented it (exactly one of the two is set).

    `members` are those of a set, in byte order of name. `ignored` counts names that ignore rules left out.
    `signature` is that of a file at the moment it was read (None where it is absent or a set). `paths` are
    the members at fault where there is trouble, `detail` a reason for people. `linked` says that a link inside a set
    was followed, `sealed` that a seal stood for some content. `since` names for some digests that the set had
    before the members whose content is another one since, and nothing else is; with the raw digests that they had.
    """

    digest: str | None = None
    trouble: Trouble | None = None
    detail: str = ""
    members: tuple[Member, ...] | None = None
    ignored: int = 0
    signature: Signature | None = None
    paths: tuple[bytes, ...] = ()
    linked: bool = False
    sealed: bool = False
    since: Mapping[str, Mapping[bytes, bytes]] = {}

    def raw(self, name: bytes) -> bytes | None:
        """The raw digest of a member of the set; empty where it has none, None where there is no such member."""
        members = self.members or ()
        at = bisect_left(members, name, key=lambda member: member.name)
        return members[at].raw if at < len(members) and members[at].name == name else None
