"""What the tests of the watcher share: the log read in several ways, and the tree as the log alone tells it.

Rule: a test that waits for a record waits on a subscription; one that waits for a state asks until it is so, with a
deadline. Nothing here sleeps, and nothing of the product is imported.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import time
from typing import TYPE_CHECKING, Final

import xxhash
from support import HANG, Daemon, Json, Rpc, Workspace, records_since, unwire, wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

REST: Final = 10.0
"""Seconds in which a file that nobody touches must have come to rest."""


def position(clock: str) -> int:
    """The position that a clock stands for."""
    return int(clock.rpartition(":")[2])


def below(path: bytes, top: str | bytes) -> bool:
    top = os.fsencode(top)
    return path == top or path.startswith(top.rstrip(b"/") + b"/")


def mutations(ws: Workspace, clock: str) -> list[Json]:
    """The mutations at or below the workspace since a clock; what happened before the call is among them."""
    return [record for record in records_since(ws.rpc, clock) if is_of(record, ws.root)]


def is_of(record: Json, top: str | bytes) -> bool:
    if record["type"] != "mutation":
        return False
    return below(unwire(record["path"]), top) or ("from" in record and below(unwire(record["from"]), top))


def told(ws: Workspace, clock: str) -> list[tuple[str, bytes]]:
    """`(kind, path from the workspace)` of each mutation since a clock, in order."""
    return [(record["kind"], name_of(ws, record)) for record in mutations(ws, clock)]


def name_of(ws: Workspace, record: Json, field: str = "path") -> bytes:
    return os.path.relpath(unwire(record[field]), os.fsencode(ws.root))


def of_path(records: Iterable[Json], path: bytes) -> list[Json]:
    """The mutations of one absolute path, in order."""
    return [record for record in records if record["type"] == "mutation" and unwire(record["path"]) == path]


def until(daemon: Daemon, clock: str, done: Callable[[list[Json]], bool]) -> list[Json]:
    """All records since a clock, read from a subscription until `done` is said of them."""
    with contextlib.closing(Rpc(daemon.socket)) as rpc:
        rpc("log.subscribe", clock=clock)
        records: list[Json] = []
        while not done(records):
            note = rpc.note()
            assert note["method"] == "log.record", note
            records.append(note["params"])
        return records


def settled(daemon: Daemon, clock: str) -> list[Json]:
    """All records since a clock, with what happened before the call, once each digest that was pending has come."""
    head = position(daemon.rpc("log.clock")["clock"])
    pending: set[int] = set()
    last = position(clock)
    seen = 0

    def done(records: list[Json]) -> bool:
        nonlocal last, seen
        for record in records[seen:]:
            last = record["seq"]
            if record["type"] == "mutation" and record["digest_state"] == "pending":
                pending.add(last)
            elif record["type"] == "hashed":
                pending.discard(record["of"])
            elif record["type"] == "gap" and record["scope"] == "all":
                pending.clear()
        seen = len(records)
        return last >= head and not pending

    return until(daemon, clock, done)


def eventually(question: Callable[[], bool], seconds: float = HANG) -> bool:
    """Asks until the answer is yes, or until `seconds` have gone by."""
    deadline = time.monotonic() + seconds
    while not question():
        if time.monotonic() > deadline:
            return False
    return True


def root_of(daemon: Daemon, path: str | None = None) -> Json:
    """What `root.list` tells of a root."""
    wanted = os.fsencode(path or daemon.root)
    (root,) = [root for root in daemon.rpc("root.list")["roots"] if unwire(root["path"]) == wanted]
    return root


def paths_of(uncovered: Iterable[Json]) -> list[bytes]:
    """The paths of an `uncovered`, whether it tells names alone or each with its reason."""
    return [unwire(item["path"] if isinstance(item, dict) and "path" in item else item) for item in uncovered]


def since(ws: Workspace, clock: str, *names: str | bytes) -> Json:
    """`log.since` for some paths of the workspace (none: for all of it), all pages as one answer."""
    paths = [wire(ws.path(name).rstrip(b"/")) for name in names or (b"",)]
    whole: Json = {"records": [], "clock": clock, "complete": True, "more": True}
    while whole.pop("more", False):
        page = ws.rpc("log.since", clock=whole["clock"], paths=paths, limit=10_000)
        complete = page["complete"] and whole["complete"]
        whole = {**whole, **page, "records": whole["records"] + page["records"], "complete": complete}
    return whole


def gaps(records: Iterable[Json], path: str | bytes) -> list[Json]:
    """The gaps that concern a path: those of all, of it, of what is above and below it."""
    wanted = os.fsencode(path)

    def concerns(scope: Json) -> bool:
        return scope == "all" or below(wanted, unwire(scope)) or below(unwire(scope), wanted)

    return [record for record in records if record["type"] == "gap" and concerns(record["scope"])]


@contextlib.contextmanager
def stopped(daemon: Daemon) -> Iterator[None]:
    """The daemon's process stands still meanwhile."""
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.process.send_signal(signal.SIGCONT)


def overflow(daemon: Daemon, directory: str, files: int = 0) -> int:
    """Makes more events than the kernel's queue holds while the daemon stands still; gives how many files it made."""
    with open("/proc/sys/fs/inotify/max_queued_events", "rb") as limit:
        files = files or int(limit.read()) // 2 + 2000  # at least two events each
    os.makedirs(directory, exist_ok=True)
    daemon.rpc("log.clock")  # from here on it is watched
    with stopped(daemon):
        for number in range(files):
            with open(os.path.join(directory, f"many{number}"), "wb") as file:
                file.write(b"%d" % number)
    return files


def walk(top: str | bytes, *, skip: Iterable[str] = ()) -> set[bytes]:
    """Every path below a directory, absolute; no link is followed."""
    away = {os.fsencode(name) for name in skip}
    found: set[bytes] = set()
    for directory, directories, files in os.walk(os.fsencode(top)):
        directories[:] = [name for name in directories if os.path.join(directory, name) not in away]
        found.update(os.path.join(directory, name) for name in directories + files)
    return found


class Replay:
    """A tree as the log alone tells it: `before` is what was there at the clock, each record changes it."""

    def __init__(self, before: Iterable[bytes] = ()) -> None:
        self.names: set[bytes] = set()
        self.sizes: dict[bytes, int | None] = {}
        self.digests: dict[bytes, str | None] = {}
        self.repeated: list[bytes] = []
        """Paths that were told as created while they were there already."""
        self._inside: dict[bytes, set[bytes]] = {}
        self._of: dict[int, bytes] = {}
        for path in before:
            self._add(path)

    def follow(self, records: Iterable[Json]) -> Replay:
        for record in records:
            if record["type"] == "mutation":
                self._mutation(record)
            elif record["type"] == "hashed" and record["of"] in self._of:
                path = self._of.pop(record["of"])
                if record["digest_state"] == "done":
                    self.digests[path] = record["digest"]
        return self

    def _mutation(self, record: Json) -> None:
        path, kind = unwire(record["path"]), record["kind"]
        if kind == "created" and path in self.names:
            self.repeated.append(path)
        if kind == "deleted" or (kind == "created" and record["size"] is not None):
            self._drop(path)
        if kind == "deleted":
            return
        if kind == "moved":
            self._move(unwire(record["from"]), path)
        self._add(path)
        if record["size"] is not None:
            self.sizes[path] = record["size"]
        if record["digest_state"] is not None or kind != "attrib":
            self.digests[path] = record["digest"] or (self.digests.get(path) if kind == "moved" else None)
        if record["digest_state"] == "pending":
            self._of[record["seq"]] = path

    def _drop(self, path: bytes) -> None:
        for name in self._at(path):
            self.names.discard(name)
            self.sizes.pop(name, None)
            self.digests.pop(name, None)

    def _move(self, source: bytes, path: bytes) -> None:
        taken = self._at(source)
        kept = {n: (self.sizes.get(n), self.digests.get(n)) for n in taken if n in self.sizes or n in self.digests}
        self._drop(source)
        self._drop(path)
        for name in taken:
            new = path + name[len(source) :]
            self._add(new)
            if name in kept:
                self.sizes[new], self.digests[new] = kept[name]
        self._of = {n: path + p[len(source) :] if below(p, source) else p for n, p in self._of.items()}

    def _add(self, path: bytes) -> None:
        self.names.add(path)
        while path != b"/" and path not in self._inside.setdefault(os.path.dirname(path), set()):
            self._inside[os.path.dirname(path)].add(path)
            path = os.path.dirname(path)

    def _at(self, path: bytes) -> list[bytes]:
        """What is known at or below a path."""
        found, todo = [], [path]
        while todo:
            name = todo.pop()
            if name in self.names:
                found.append(name)
            todo += self._inside.get(name, ())
        return found

    def agrees(self, top: str | bytes, *, skip: Iterable[str] = (), digests: bool = True) -> None:
        """Raises AssertionError where the disk differs: in its names, or in the size or digest of a file told."""
        there = walk(top, skip=skip)
        mine = {name for name in self.names if below(name, top) and name != os.fsencode(top)}
        assert not (there - mine), f"not in the log: {sorted(there - mine)[:5]}"
        assert not (mine - there), f"gone, and the log does not tell it: {sorted(mine - there)[:5]}"
        for path in there & self.digests.keys() if digests else ():
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                assert self.sizes.get(path) == status.st_size, path
                assert self.digests[path] == content_digest(path), path


def content_digest(path: str | bytes) -> str:
    """The digest of a file's content as the log writes it."""
    with open(path, "rb") as file:
        return "xxh3:" + xxhash.xxh3_128_hexdigest(file.read())


def replayed(daemon: Daemon, clock: str, before: Iterable[bytes] = ()) -> Replay:
    """The tree that the log tells, when all of it is there."""
    return Replay(before).follow(settled(daemon, clock))


def file_system(path: str | bytes) -> str:
    """The type of the file system that holds a path."""
    best, kind = b"", ""
    real = os.path.realpath(os.fsencode(path))
    with open("/proc/self/mountinfo", "rb") as mounts:
        for line in mounts:
            left, _, right = line.partition(b" - ")
            point = left.split()[4]
            if below(real, point) and len(point) >= len(best):
                best, kind = point, right.split()[0].decode()
    return kind


def seals_hold(path: str | bytes) -> bool:
    """Whether files there can be proved to be at rest at all (SPEC 4.4's list)."""
    return file_system(path) in {"ext4", "xfs", "btrfs"}


def put_by_clock(ws: Workspace, key: str, *deps: str | bytes, clock: str | None = None) -> Json:
    """A put with a clock alone, taken now if none is given."""
    when = clock or ws.clock()
    return ws("entry.put", key=key, value=key, deps=[wire(dep) for dep in deps], fetched_at=when)


def comes_to_rest(ws: Workspace, *deps: str, seconds: float = REST) -> bool:
    """Puts with a new clock again and again, until what `deps` name is kept as shown."""
    return eventually(lambda: put_by_clock(ws, "rests", *deps)["unproven"] == [], seconds)
