"""What the log knows of some entries, and how the caller asks: what the judge goes by beside what is read.

Rule: facts are of one position of the log, copied out, so that a view is closed before a file is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from provd.core.entry import Entry, EntryId


class Verify(StrEnum):
    """What counts as proof: LOG takes silence where the watcher's coverage is whole, the others read."""

    AUTO = "auto"
    CONTENT = "content"
    LOG = "log"


class Touch(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The newest known writes to something.

    `end` is the position at which the newest declared one ended (None: it is still open, 0: there is none), `action`
    the id of who declared it, `mutation` the position of the newest one that was observed (0: none).
    """

    end: int | None
    action: int | None
    mutation: int = 0

    def declared_since(self, clock: int) -> bool:
        """Whether the declared one ended after `clock`, or is open."""
        return self.end is None or self.end > clock

    def since(self, clock: int) -> bool:
        """Whether something was written after `clock`, or still may be."""
        return self.declared_since(clock) or self.mutation > clock

    def newest(self, clock: int) -> int | None:
        """The position of the newest record that tells of a write after `clock`."""
        told = [self.action] if self.action is not None and self.declared_since(clock) else []
        told += [self.mutation] if self.mutation > clock else []
        return max(told, default=None)


class ObjectState(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What actions declared of one object.

    `last_end` is the position at which its last write ended (0: none), `last_action` who made it, `open` who is
    at it, `refused` the position of the last refused begin.
    """

    name: bytes
    last_end: int = 0
    last_action: int | None = None
    open: tuple[int, ...] = ()
    refused: int = 0


class Facts(msgspec.Struct, frozen=True):
    """What the log knows at one position, copied out: enough to judge some entries.

    `entries` holds the closure of the entries asked about over `entry:` dependencies, down to MAX_DEPTH; a key
    that is missing from it lies deeper. `touches` holds writes to path dependencies, by entry and index, for those
    that may be judged without reading. `quiet` names those of which nothing was heard since they were read and
    found equal, with whole coverage. `late` says that not all that had happened was recorded in time.
    """

    position: int
    gap_all: int
    entries: Mapping[EntryId, Entry | None] = {}
    objects: Mapping[bytes, ObjectState] = {}
    touches: Mapping[tuple[EntryId, int], Touch] = {}
    quiet: frozenset[tuple[EntryId, int]] = frozenset()
    late: bool = False


class Question(msgspec.Struct, frozen=True):
    """How the caller asks: `revalidate` false is the strict causal rule, `foreign` a peer that sees other files."""

    revalidate: bool = True
    foreign: bool = False
    verify: Verify = Verify.AUTO

    @property
    def needs_log(self) -> bool:
        """Whether all that happened before the question must be recorded before it is judged."""
        return not self.revalidate or self.verify is Verify.LOG
