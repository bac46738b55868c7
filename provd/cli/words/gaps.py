"""Gaps in words: what each reason means, and which of them somebody should look at.

Rule: a reason is known by its beginning; one that is not in the table is told as it came and troubles nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from provd.cli.words import hints, permissions, unwatched

if TYPE_CHECKING:
    from collections.abc import Sequence


class Meaning(NamedTuple):
    """What a gap means; `next` is empty where nobody has to do anything."""

    words: str
    next: str = ""


_BY_READING: Final = "changes in it went untold; answers stay true by reading"
_LOOK: Final = (
    "provd watch ls  # how each root is watched by now; make that place readable for the daemon's user, or ignore it"
)
_PART: Final = ", or only as part of another root"
_LOOKED_THROUGH: Final = "changes were not told; all was looked through again, and answers stay true by reading"
_MEANINGS: Final[dict[str, Meaning]] = {
    "started": Meaning("nobody watched before that: files show by reading what changed, objects are unknown"),
    "watched from here on": Meaning("what happened before that shows by reading"),
    "root added": Meaning(f"it was not watched before that{_PART}; what happened then shows by reading"),
    "root removed": Meaning(f"it is not watched any more{_PART}; its entries are judged by reading"),
    "root replaced": Meaning("another directory stands in its place now"),
    "rules changed": Meaning("what was ignored before that was not watched"),
    "it was not watched before": Meaning("a directory came in from elsewhere; what it holds shows by reading"),
    "something may have come and gone": Meaning("a new directory was filled before it was watched"),
    "it was moved each time": Meaning("directories were moved faster than anybody could look"),
    "the directories above it are watched again": Meaning("somebody may have moved it meanwhile"),
    "the root or a directory above it was moved": Meaning("the watch went elsewhere with it"),
    "the directory is gone": Meaning("nothing is there to be watched"),
    "the directory was replaced": Meaning("another directory stands in its place now"),
    "the table of mounts changed": Meaning("a mount may have come and gone anywhere: what it left shows by reading"),
    "something was mounted": Meaning("a mount may have hidden or changed files without telling"),
    "something was unmounted": Meaning("a mount may have hidden or changed files without telling"),
    "its file system was unmounted": Meaning("what was there is not there now"),
    "events lost: the kernel's queue overflowed": Meaning(_LOOKED_THROUGH, "{queue}"),
    "events lost": Meaning(_LOOKED_THROUGH, "provd audit  # compares all with the disk"),
    "an event of an unknown watch": Meaning(_LOOKED_THROUGH, "provd audit  # compares all with the disk"),
    "records could not be written": Meaning(
        "the disk or the map was full; what happened then was seen and not kept",
        "provd doctor  # when there is free space again",
    ),
    "internal": Meaning(
        "provd's own fault; all was looked through again", "provd status  # please report it with what it logged"
    ),
    "it cannot be looked at": Meaning(_BY_READING, "{closed}"),
    "it cannot be listed": Meaning(_BY_READING, "{closed}"),
    "a name in it cannot be looked at": Meaning(_BY_READING, "{closed}"),
}


def meaning(reason: str) -> Meaning:
    """What a gap of that reason means; the longest beginning counts."""
    known = [start for start in _MEANINGS if reason.startswith(start)]
    return _MEANINGS[max(known, key=len)] if known else Meaning("what changed meanwhile shows by reading")


def fix(reason: str, scope: bytes | None, limits: dict[str, Any], roots: Sequence[dict[str, Any]]) -> str:
    """The next step after a gap of that reason; empty where there is none. `limits` and `roots` are the status's.

    `scope` is the absolute path that it is for, None where that is everything. It may lie in a root of which no list
    has its places, since all of that is doubted: it is opened by its own name.
    """
    limit = limits.get("max_queued_events")
    queue = hints.uncovered(f"fs.inotify.max_queued_events (now {limit if isinstance(limit, int) else 0})")
    told = meaning(reason).next
    if told != "{closed}":
        return told.format(queue=queue)
    closed = permissions.closed([scope]) if scope is not None else []
    return (unwatched.fix(reason, closed, roots) if closed else "") or _LOOK
