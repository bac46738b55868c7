"""What is at fault of an entry of which it is known that it was fresh when it was put, or proven since.

Rule: only what happened after that can have made it dirty; where no record of it explains what is there now, something
changed it that the log did not see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from provd.cli.screens.concern import Ground, path_of, root_of
from provd.cli.words import records, verdicts
from provd.client import local_path

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

CONTENT: Final = frozenset({"changed", "created", "deleted", "type-changed", "listing-changed"})
"""Why a path is at fault that was read, and is another than it was."""
ABSENT: Final = "absent"
LOGGED: Final = "xxh3:"
"""The algorithm of the log's own digests."""
_WHOLE: Final = frozenset({b"file", b"dir", b"tree"})
"""The kinds that are `absent` where nothing is."""


class Fault:
    """One dependency at fault: which records of what the log has can have made it so."""

    def __init__(self, item: Json, answer: Json, whole: Ground) -> None:
        self.name = verdicts.dependency(item)
        deps = [dep for dep in answer.get("deps") or [] if verdicts.dependency(dep) == self.name]
        self._ground = Ground(answer | {"deps": deps})
        there = path_of(item, root_of(answer))
        kept = deps[0].get("digest") if deps else None
        self._there = there is not None and there[0] in _WHOLE and kept not in {None, ABSENT}
        self.strays = there is not None and there[0] == b"glob"
        """Whether members may be links: records of what they lead to are not known to be about it."""
        record = item["mutation"] if isinstance(item.get("mutation"), dict) else {}
        told = record.get("type") in {"mutation", "action"} and record.get("kind") != "attrib"
        self.newest = int(record["seq"]) if told else 0
        """The newest record that touched it, as the daemon tells; 0 where it tells of none."""
        places = records.places(record) if told else []
        # One end of a move that lies at none of them tells nothing where the other does.
        self._reached = frozenset(places) if all(map(whole.strange, places)) else frozenset()
        self.links = dict.fromkeys(self._reached, there[1]) if there is not None and there[0] == b"file" else {}
        """To which places the path of a file leads, where that is another."""

    def concerned(self, record: Json) -> bool:
        """Whether a mutation can have changed it, by its own path or by that to which a link leads."""
        if not self._reached.isdisjoint(records.places(record)):
            return True
        return self._ground.names(record) and not self._only_made(record)

    def _only_made(self, record: Json) -> bool:
        """Whether it is the making of a directory in which it lies, though it was there when it was put.

        Then that is of before, and was recorded late; or something else took it away first.
        """
        directory = record.get("size") is None and record.get("digest") is None
        if not (self._there and directory and record.get("kind") == "created"):
            return False
        return any(records.is_below(base, place) for base in self._ground.bases for place in records.places(record))


def faults(answer: Json, whole: Ground) -> list[Fault]:
    """The dependencies at fault whose content is another than it was; `whole` is all that the entry rests on."""
    return [Fault(item, answer, whole) for item in _content(answer)]


def comparable(digest: str | None) -> bool:
    """Whether a digest compares with those of the log."""
    return digest is not None and (digest == ABSENT or digest.startswith(LOGGED))


def now_told(answer: Json) -> dict[bytes, str]:
    """What the verdict tells of what is there now, by path, where that compares with the log's own digests."""
    return {path: digest for path, digest in _files(answer) if comparable(digest)}


def to_read(answer: Json) -> list[bytes]:
    """The paths at fault of which the verdict tells nothing that compares with the log: files, and members of sets."""
    found = [path for path, digest in _files(answer) if not comparable(digest)]
    for item in _content(answer):
        found += map(local_path, item.get("paths") or [])
    return list(dict.fromkeys(found))


def _content(answer: Json) -> list[Json]:
    evidence = answer.get("evidence") or []
    return [item for item in evidence if item.get("why") in CONTENT and item.get("dep") is not None]


def _files(answer: Json) -> Iterator[tuple[bytes, str]]:
    """The files at fault, each with the digest that was found."""
    for item in _content(answer):
        there = path_of(item, root_of(answer))
        if there is not None and there[0] == b"file":
            yield there[1], ABSENT if item.get("why") == "deleted" else str(item.get("is"))
