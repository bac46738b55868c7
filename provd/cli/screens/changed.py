"""What happened to files between two clocks, as far as the log tells.

Rule: a mutation is somebody's only where the log says so; what nobody declared is told as what changed meanwhile.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from provd.cli import output
from provd.cli.given import names
from provd.cli.screens import concern
from provd.cli.words import causes, records, verdicts
from provd.client import RpcError, local_path, wire_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from provd.client import Client, WirePath

Json = dict[str, Any]

_PAGE: Final = 5000
_COMPARED: Final = 64
"""Paths of which it is looked up what they held before."""
_LARGE: Final = 16 * 1024**2
"""Bytes, of all of them, from which on nothing is read for that."""
_CONTENT: Final = frozenset({"created", "modified", "deleted", "moved"})
_OF_CONTENT: Final = frozenset({"size", "mtime_ns", "digest", "digest_state"})
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
        """How the paths differ from what they were at first, one mutation each, in the order of their last records.

        `moved` is told of what lies elsewhere, `from` where it lay at first; `deleted` only of what is not there. What
        came and went again, or is back where it was, makes no difference.
        """
        net = _Net()
        for mutation in self.mutations:
            net.take(mutation)
        return net.told()


@dataclass
class _Thing:
    """What is at a path: where it lay at first (None: it is new), what became of it since, its last record."""

    origin: bytes | None
    record: Json
    kind: str = ""


class _Net:
    """What mutations come to, taken in order."""

    def __init__(self) -> None:
        self._at: dict[bytes, _Thing | None] = {}  # None: nothing is there any more
        self._was: dict[bytes, bool] = {}  # whether something was there at first
        self._gone: dict[bytes, Json] = {}  # by where it lay at first

    def take(self, record: Json) -> None:
        """Takes the next one."""
        path, kind, source = local_path(record["path"]), record.get("kind"), record.get("from")
        if kind == "created":
            self._was.setdefault(path, False)
            self._put(path, _Thing(None, record))
        elif kind == "deleted":
            self._put(path, None, self._known(path, record))
            if self._was.get(path, True):
                self._gone[path] = record
        elif kind == "moved" and source is not None:
            self._move(local_path(source), path, record)
        else:
            thing = self._known(path, record)
            self._at[path] = _Thing(thing.origin, record, thing.kind if thing.kind == "modified" else str(kind))

    def told(self) -> list[Json]:
        """How the paths differ."""
        gone = [_as(one, "deleted", path) for path, one in self._gone.items() if not self._may_be_there(path)]
        there = [self._difference(path, thing) for path, thing in self._at.items() if thing is not None]
        return sorted(filter(None, [*gone, *there]), key=lambda one: int(one.get("seq") or 0))

    def _move(self, source: bytes, path: bytes, record: Json) -> None:
        thing = self._known(source, record)
        if path not in self._at and record.get("over"):
            self._at[path] = self._known(path, record)
        self._was.setdefault(path, False)
        below = [old for old in self._at if old != source and records.is_below(old, source)]
        moved = {path + old[len(source) :]: self._at.pop(old) for old in below}
        self._at[source] = None
        self._put(path, _Thing(thing.origin, record, thing.kind))
        self._at |= moved
        for new in moved:  # no directory is moved over one that holds something
            self._was.setdefault(new, False)

    def _put(self, path: bytes, thing: _Thing | None, before: _Thing | None = None) -> None:
        """Puts something, or nothing, where something else may be: that is gone then."""
        before = before or self._at.get(path)
        if before is not None and before.origin is not None:
            self._gone[before.origin] = before.record if thing is None else thing.record
        self._at[path] = thing

    def _known(self, path: bytes, record: Json) -> _Thing:
        """What a record found at a path: untold until then, it was there at first, or where its directory lay."""
        if path in self._at:
            thing = self._at[path] or _Thing(None, record)
            return _Thing(thing.origin, record, thing.kind)
        origin = self._by_directory(path)
        self._was.setdefault(path, origin == path)
        if origin is not None:
            self._was.setdefault(origin, True)
        return _Thing(origin, record)

    def _by_directory(self, path: bytes) -> bytes | None:
        """Where a path lay at first if only directories above it were moved since; None in what is new or gone."""
        up = self._above(path)
        if up is None:
            return path
        thing = self._at[up]
        return None if thing is None or thing.origin is None else thing.origin + path[len(up) :]

    def _above(self, path: bytes) -> bytes | None:
        """The nearest directory above it that is told of."""
        while path not in {b"", b"/"}:
            path = path.rpartition(b"/")[0]
            if path in self._at:
                return path
        return None

    def _may_be_there(self, path: bytes) -> bool:
        if path in self._at:
            return self._at[path] is not None
        return self._by_directory(path) is not None

    def _difference(self, path: bytes, thing: _Thing) -> Json | None:
        if thing.origin is None:
            return _as(thing.record, "modified" if self._was.get(path) else "created", path)
        if thing.origin != self._by_directory(path):
            return _as(thing.record, "moved", path) | {"from": wire_path(thing.origin)}
        return _as(thing.record, thing.kind, path) if thing.kind else None


def _as(record: Json, kind: str, path: bytes) -> Json:
    """What a record tells, of another kind and path; of what was deleted nothing is known but that."""
    told = {name: value for name, value in record.items() if name not in {"from", "over"}} | {
        "kind": kind,
        "path": wire_path(path),
    }
    return told | dict.fromkeys(_OF_CONTENT & told.keys()) if kind == "deleted" else told


def line(mutation: Json, same: Collection[bytes] = ()) -> str:
    """One of the newest mutations, as text: of a move both ends; of one that left the `same` content that too."""
    source = f" from {records.display(mutation['from'])}" if mutation.get("from") is not None else ""
    equal = "  (the same content)" if local_path(mutation["path"]) in same else ""
    return f"{output.printable(str(mutation.get('kind')))} {records.display(mutation['path'])}{source}{equal}"


def paths_of(newest: list[Json]) -> int:
    """How many paths the newest mutations name: a move names two."""
    return len({path for mutation in newest for path in records.places(mutation)})


def counted(newest: list[Json], same: Collection[bytes], when: str) -> str:
    """How many paths changed, and how many were written with the same content; `when` stands behind the verb."""
    equal, changed = len(same), paths_of(newest) - len(same)
    if not equal:
        return f"{output.count(changed, 'path', 'paths')} changed{when}"
    had = f"with the content that {'it' if equal == 1 else 'they'} had"
    if not changed:
        return f"{output.count(equal, 'path', 'paths')} written{when} {had}"
    return f"{output.count(changed, 'path', 'paths')} changed{when}, {equal} written {had}"


def same(client: Client, newest: list[Json], begun: int) -> set[bytes]:
    """The paths of the newest mutations that hold what they held before the record `begun`, as far as the log tells.

    It tells where a record has the content of then, and none after it may have left another: no gap, no other change
    of the path or above it. What is there now is read, since the log may not know it yet.
    """
    modified = [one for one in newest if one.get("kind") == "modified"]
    paths = [local_path(one["path"]) for one in modified]
    if not 0 < len(paths) <= _COMPARED or sum(one.get("size") or 0 for one in modified) > _LARGE:
        return set()
    try:
        had = _before(client, paths, begun)
        deps = [names.file(wire_path(path)) for path in had]
        told = client.call("deps.snapshot", deps=deps)["digests"] if deps else []
    except RpcError:  # that it is not known is no trouble
        return set()
    return {path for (path, digest), now in zip(had.items(), told, strict=True) if now["digest"] == digest}


def _before(client: Client, paths: list[bytes], begun: int) -> dict[bytes, str]:
    """The content of paths before the record `begun`, of those of which the log has it."""
    had: dict[bytes, str | None] = {}
    page = client.call("log.since", last=_PAGE, limit=_PAGE, paths=list(map(wire_path, paths)))
    for record in records.merged(page["records"]):
        if record["seq"] >= begun:
            return {path: digest for path, digest in had.items() if digest is not None}
        if record["type"] in {"gap", "root"}:
            had.clear()
        elif record["type"] == "mutation" and record["kind"] in _CONTENT:
            places = records.places(record)
            for path in paths:
                if any(records.is_below(path, place) for place in places):
                    had[path] = record["digest"] if path == places[0] else None
    return {}  # the page ends before that record: there is too much of it


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
