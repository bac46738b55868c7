"""What happened to files between two clocks, as far as the log tells.

Rule: a mutation is somebody's only where the log says so; what nobody declared is told as what changed meanwhile.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from provd.cli import output
from provd.cli.screens import concern
from provd.cli.words import causes, records, verdicts
from provd.client import local_path, wire_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from provd.client import Client, WirePath

Json = dict[str, Any]

_PAGE: Final = 5000
_CONTENT: Final = frozenset({"created", "modified", "deleted", "moved"})
_NOW: Final = "dirty now"
_OTHERWISE: Final = "dirty, by nothing that was seen to change meanwhile"


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
        """One mutation a path, the newest of each; `created` where it was made and then written.

        What was moved away afterwards is told where it is now: by its old path it is not there any more. `from` is
        where that was at first, and is left out where it was not there.
        """
        told: dict[bytes, Json] = {}
        for each in self.mutations:
            mutation, path = each, local_path(each["path"])
            if each.get("kind") == "moved" and each.get("from") is not None:
                source = local_path(each["from"])
                mutation = _from_first(each, told.get(source))
                _follow(told, source, path, directory=each.get("size") is None)
            before = told.pop(path, None) or {}
            if before.get("kind") == "created" and mutation.get("kind") == "modified":
                mutation = mutation | {"kind": "created"}
            elif before.get("from") is not None and mutation.get("kind") == "deleted":
                told[local_path(before["from"])] = mutation | {"path": before["from"]}
            elif before.get("from") is not None and mutation.get("kind") != "moved":
                mutation = mutation | {"kind": "moved", "from": before["from"]}
            told[path] = mutation
        return list(told.values())


def _from_first(moved: Json, before: Json | None) -> Json:
    """A move as one from where it was at first; `before` is what is told of its source."""
    first = moved["from"] if before is None or before.get("kind") == "modified" else before.get("from")
    kept = {name: value for name, value in moved.items() if name != "from"}
    return kept if first in (None, moved["path"]) else kept | {"from": first}


def line(mutation: Json) -> str:
    """One of the newest mutations, as text: of a move both ends."""
    source = f" from {records.display(mutation['from'])}" if mutation.get("from") is not None else ""
    return f"{output.printable(str(mutation.get('kind')))} {records.display(mutation['path'])}{source}"


def paths_of(newest: list[Json]) -> int:
    """How many paths the newest mutations name: a move names two."""
    return sum(1 + (mutation.get("from") is not None) for mutation in newest)


def _follow(told: dict[bytes, Json], source: bytes, path: bytes, *, directory: bool) -> None:
    """Takes away what is told of the `source` of a move, and of what lay in it tells by its new path."""
    told.pop(source, None)
    if not directory:
        return
    for old in [old for old in told if records.is_below(old, source)]:
        if told[old].get("kind") != "deleted":
            new = path + old[len(source) :]
            told[new] = told.pop(old) | {"path": wire_path(new)}


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


def others(client: Client, clock: str, actions: Collection[int]) -> list[Json]:
    """The begins since `clock` of other actions that do not say what they write, as the log has them."""
    return [
        record
        for page in _pages(client, clock, None)
        for record in page["records"]
        if record.get("type") == "action" and record.get("event") == "begin"
        if record.get("id") not in actions and not record.get("writes")
    ]


def when_dirty(told: dict[str, Json], changes: Changes, begun: int) -> dict[str, list[str]]:
    """The keys of the verdicts `told` that are dirty, by words that say whether it is by what changed.

    `changes` is what happened since the record `begun`, with which an action began. What nothing touched since was
    dirty before, or something changed it that the log did not see.
    """
    dirty = {key: verdict for key, verdict in told.items() if verdict.get("verdict") == "dirty"}
    found: dict[str, list[str]] = {_NOW: [], _OTHERWISE: []}
    for key in dirty:
        found[_NOW if _touched(key, dirty, changes, begun, set()) else _OTHERWISE].append(key)
    return found


def _touched(key: str, dirty: dict[str, Json], changes: Changes, begun: int, seen: set[str]) -> bool:
    """Whether something at fault of an entry, or of one that it rests on, was touched since."""
    seen.add(key)
    for item in dirty[key].get("evidence") or []:
        record = item["mutation"] if isinstance(item.get("mutation"), dict) else {}
        below = causes.key_of(item) if str(item.get("why")).startswith("entry-") else ""
        if below in dirty:
            touched = below not in seen and _touched(below, dirty, changes, begun, seen)
        elif _all_named(item):  # what touched the set last may have passed by what is at fault
            last = [record] if record.get("type") == "mutation" and record["seq"] >= begun else []
            touched = _at(map(local_path, item["paths"]), [*changes.mutations, *last])
        elif record.get("type") == "action" and item.get("why") != "written":  # to declare a path changes nothing
            touched = record["seq"] >= begun and _changed(item, changes)
        else:
            touched = bool(record) and record["seq"] >= begun
        if touched:
            return True
    return verdicts.more(dirty[key]) > 0 and bool(changes.mutations)


def _all_named(item: Json) -> bool:
    """Whether an item of evidence names all members of its set that differ."""
    return 0 < len(item.get("paths") or []) < concern.ALL_NAMED


def _changed(item: Json, changes: Changes) -> bool:
    """Whether something changed at the path that an item of evidence names, above or below it."""
    there = concern.path_of(item, None)
    if there is None or not changes.mutations or there[0] == b"glob":  # its members may be links
        return bool(changes.mutations)
    return _at([concern.Dependency(*there).base], changes.mutations)


def _at(paths: Iterable[bytes], mutations: list[Json]) -> bool:
    """Whether one of the mutations is of one of the paths or of that to which it leads, above or below it."""
    bases = {place for path in paths for place in (path, os.path.realpath(path))}
    places = [place for mutation in mutations for place in records.places(mutation)]
    return any(records.overlap(place, base) for place in places for base in bases)


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
