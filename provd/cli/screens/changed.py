"""What happened to files between two clocks, as far as the log tells.

Rule: a mutation is somebody's only where the log says so; what nobody declared is told as what changed meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from provd.cli.words import records
from provd.client import local_path, wire_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from provd.client import Client, WirePath

Json = dict[str, Any]

_PAGE: Final = 5000
_CONTENT: Final = frozenset({"created", "modified", "deleted", "moved"})


@dataclass
class Changes:
    """The mutations of a stretch of the log, in order, and whether the log is whole there."""

    mutations: list[Json] = field(default_factory=list)
    whole: bool = True
    foreign: bool = False
    """Whether whoever asks sees other files than the daemon: nothing is known of those."""

    def paths(self) -> list[WirePath]:
        """The paths whose content or being may differ, each once."""
        found: dict[bytes, None] = {}
        for mutation in self.mutations:
            if mutation.get("kind") in _CONTENT:
                found |= dict.fromkeys(records.places(mutation))
        return [wire_path(path) for path in found]

    def newest(self) -> list[Json]:
        """One mutation a path, the newest of each; `created` where it was made and then written."""
        told: dict[bytes, Json] = {}
        for mutation in self.mutations:
            path = local_path(mutation["path"])
            before = told.pop(path, None)
            made = before is not None and before.get("kind") == "created" and mutation.get("kind") == "modified"
            told[path] = mutation | {"kind": "created"} if made else mutation
        return list(told.values())


def since(client: Client, clock: str, within: list[WirePath], *, actions: Collection[int], declared: bool) -> Changes:
    """What happened after `clock` to what lies `within` some places, and is not another action's.

    What one declared afterwards is its own too. Where the places were `declared`, only what the log holds for `actions`
    or a scan found, which cannot tell.
    """
    changes = Changes()
    places = [local_path(place) for place in within]
    for page in _pages(client, clock, within):
        changes.whole = changes.whole and bool(page.get("complete"))
        if page.get("foreign"):
            changes.foreign = True
            break
        for record in records.merged(page["records"]):
            if record.get("type") == "mutation" and _meant(record, places, actions, declared=declared):
                changes.mutations.append(record)
            elif record.get("type") == "action" and record.get("event") == "record":
                theirs = set(records.places(record))
                changes.mutations = [one for one in changes.mutations if not _named(one, theirs)]
    return changes


def alone(client: Client, clock: str, actions: Collection[int]) -> bool:
    """Whether since `clock` no other action began that does not say what it writes."""
    for page in _pages(client, clock, None):
        for record in page["records"]:
            begun = record.get("type") == "action" and record.get("event") == "begin"
            if begun and record.get("id") not in actions and not record.get("writes"):
                return False
    return True


def _named(mutation: Json, paths: set[bytes]) -> bool:
    """Whether a mutation that is nobody's by its own record is of one of the `paths`."""
    nobody = (mutation.get("actor") or {}).get("action") is None
    return nobody and any(path in paths for path in records.places(mutation))


def _pages(client: Client, clock: str, within: list[WirePath] | None) -> Iterator[Json]:
    asked: Json = {} if within is None else {"paths": within}
    while True:
        page = client.call("log.since", clock=clock, limit=_PAGE, **asked)
        yield page
        if not page.get("more") or page["clock"] == clock:
            return
        clock = page["clock"]


def _meant(record: Json, places: list[bytes], actions: Collection[int], *, declared: bool) -> bool:
    claimed = (record.get("actor") or {}).get("action")
    if claimed is not None or (declared and record.get("origin") != "scan"):
        return claimed in actions
    return any(records.is_below(path, place) for path in records.places(record) for place in places)
