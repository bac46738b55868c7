"""Who watches a burst: nobody, a bare reader of inotify, watchdog's Observer, Watchman, provd."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO, Any, Final

from support import Daemon, Rpc, digest

from speed.beside import processor_seconds
from speed.bursts import BURSTS, LAST, burst, write
from speed.processes import Watchman

HERE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAUSE: Final = 0.01
"""Seconds between two looks at whether provd has hashed everything."""
Row = dict[str, Any]


def private_mib(pid: int) -> float:
    """Memory that nobody else shares."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        lines = [line.split() for line in file if line.startswith(("Private_Clean", "Private_Dirty"))]
    return sum(int(line[1]) for line in lines) / 1024


def prepared(name: str, home: str, scale: float) -> tuple[str, Callable[[str, float], None]]:
    """A root as a burst wants it, and what makes the burst there."""
    root = os.path.join(home, "root")
    os.mkdir(root)
    prepare, make = BURSTS[name]
    prepare(root, scale)
    return root, make


@contextlib.contextmanager
def watcher_process(*command: str) -> Iterator[tuple[int, IO[str], IO[str]]]:
    """A watcher in a process of its own that has said that it is ready: its pid, its input and its output."""
    with subprocess.Popen(
        [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        yield process.pid, process.stdin, process.stdout
        process.stdin.close()


def alone(name: str, home: str, scale: float) -> Row:
    """Nobody watches."""
    root, make = prepared(name, home, scale)
    return {"burst": name, "who": "alone", "write_s": burst(make, root, scale)}


def reader(name: str, home: str, scale: float) -> Row:
    """A bare reader watches."""
    root, make = prepared(name, home, scale)
    with watcher_process(os.path.join(HERE, "reader.py"), root, LAST) as (pid, _, said):
        before = processor_seconds(pid)
        seconds = burst(make, root, scale)
        start = time.perf_counter()
        events, overflows, directories = map(int, said.readline().split())
        behind = time.perf_counter() - start
        row: Row = {"burst": name, "who": "reader", "write_s": seconds, "behind_s": behind}
        row |= {"cpu_s": processor_seconds(pid) - before, "overflows": overflows, "records": events}
        row |= {"directories": directories, "private_mib": private_mib(pid)}
    return row


def observer(who: str, name: str, home: str, scale: float) -> Row:
    """Watchdog's Observer watches, or watchfiles."""
    root, make = prepared(name, home, scale)
    with watcher_process("-W", "ignore", os.path.join(HERE, "observer.py"), who, root) as (pid, told_to, said):
        before = processor_seconds(pid)
        seconds = burst(make, root, scale)
        print("tell", file=told_to, flush=True)
        told = json.loads(said.readline())
        row: Row = {"burst": name, "who": who, "write_s": seconds, "behind_s": told["quiet_s"]}
        row |= {"cpu_s": processor_seconds(pid) - before, "records": told["events"]}
        row |= {"missing": told["missing"], "private_mib": private_mib(pid)}
    return row


def records_of(socket: str, clock: str, last: int) -> list[Row]:
    """All records since a clock, to this position and on until no digest is pending."""
    records: list[Row] = []
    pending: set[int] = set()
    reached = int(clock.rpartition(":")[2])
    with contextlib.closing(Rpc(socket, timeout=600)) as rpc:
        rpc("log.subscribe", clock=clock)
        while pending or reached < last:
            record = rpc.note()["params"]
            reached = record["seq"]
            records.append(record)
            if record["type"] == "mutation" and record["digest_state"] == "pending":
                pending.add(record["seq"])
            elif record["type"] == "hashed":
                pending.discard(record["of"])
    return records


class Told:
    """The tree as the log tells it: `before` was there, each mutation changes it."""

    def __init__(self, before: set[str]) -> None:
        self.names: dict[str, bool] = {}
        """Path -> whether a record told of it or of what became it."""
        self._inside: dict[str, set[str]] = {}
        for path in before:
            self._add(path, touched=False)

    def follow(self, records: list[Row]) -> None:
        """Takes over all mutations."""
        for record in records:
            if record["type"] != "mutation":
                continue
            path = record["path"]
            if record["kind"] == "deleted":
                self._take(path)
                continue
            if record["kind"] == "moved":
                for name, touched in self._take(record["from"]).items():
                    self._add(path + name[len(record["from"]) :], touched=touched)
            self._add(path, touched=True)

    def missing(self, root: str, since_ns: int) -> int:
        """How many paths of the disk are there and not told, gone and not told, or written since and not told."""
        there = listing(root)
        files = [path for path in there if os.path.isfile(path)]
        silent = sum(os.stat(path).st_mtime_ns > since_ns and self.names.get(path) is False for path in files)
        return silent + len({name for name in self.names if name.startswith(root + "/")} ^ there)

    def _add(self, path: str, *, touched: bool) -> None:
        self.names[path] = touched or self.names.get(path, False)
        while path != "/" and path not in self._inside.setdefault(os.path.dirname(path), set()):
            self._inside[os.path.dirname(path)].add(path)
            path = os.path.dirname(path)

    def _take(self, path: str) -> dict[str, bool]:
        found: dict[str, bool] = {}
        todo = [path]
        while todo:
            name = todo.pop()
            if name in self.names:
                found[name] = self.names.pop(name)
            todo += self._inside.pop(name, ())
        self._inside.get(os.path.dirname(path), set()).discard(path)
        return found


def listing(root: str) -> set[str]:
    """Every path below the root, but for what is ignored."""
    found: set[str] = set()
    for directory, directories, files in os.walk(root):
        directories[:] = [name for name in directories if name != ".git"]
        found.update(os.path.join(directory, name) for name in directories + files)
    return found


def provd(name: str, home: str, scale: float) -> Row:
    """The daemon watches."""
    daemon = Daemon(home=home)
    prepare, make = BURSTS[name]
    prepare(daemon.root, scale)
    try:
        pid = (daemon.start().process or sys.exit("no process")).pid
        rpc = daemon.rpc
        rpc.sock.settimeout(600)
        write(f"{daemon.root}/{LAST}", "not yet\n")
        kept = {"dep": f"file:{LAST}", "digest": digest(f"file:{LAST}", daemon.root)}
        rpc("entry.put", key="last", value=1, deps=[kept], root=daemon.root)
        clock = rpc("log.clock")["clock"]
        before, since_ns = listing(daemon.root), time.time_ns()
        cpu, idle = processor_seconds(pid), private_mib(pid)
        seconds = burst(make, daemon.root, scale)
        start = time.perf_counter()
        verdict = rpc("entry.check", key="last", root=daemon.root)["verdict"]
        asked = time.perf_counter() - start
        page = rpc("log.since", clock=rpc("log.clock")["clock"], limit=1)
        behind = time.perf_counter() - start
        while rpc("daemon.status")["queue"]:
            time.sleep(PAUSE)
        row: Row = {"burst": name, "who": "provd", "write_s": seconds, "behind_s": behind}
        row["digests_s"] = time.perf_counter() - start
        row |= {"cpu_s": processor_seconds(pid) - cpu, "private_mib": private_mib(pid), "idle_mib": idle}
        records = records_of(daemon.socket, clock, int(page["clock"].rpartition(":")[2]))  # the work of the benchmark
        row["overflows"] = sum(record["type"] == "gap" for record in records)
        row["records"] = sum(record["type"] == "mutation" for record in records)
        told = Told(before)
        told.follow(records)
        row["missing"] = told.missing(daemon.root, since_ns)
        row |= {"verdict": verdict, "verdict_ms": asked * 1000}
        row["mismatches"] = len(rpc("daemon.audit")["mismatches"])
        row["ok"] = verdict == "dirty" and not row["missing"] and not row["mismatches"]
        return row
    finally:
        daemon.close()


def watchman(name: str, home: str, scale: float) -> Row:
    """Watchman watches; an overflow is a warning of its own."""
    root, make = prepared(name, home, scale)
    with Watchman(os.path.join(home, "watchman")) as peer:
        peer.watch(root)
        clock = peer.call("clock", root, {"sync_timeout": 600_000})["clock"]
        there, before = listing(root), processor_seconds(peer.process.pid)
        seconds = burst(make, root, scale)
        start = time.perf_counter()
        answer = peer.call("query", root, {"path": [LAST], "fields": ["name"], "sync_timeout": 600_000})
        row: Row = {"burst": name, "who": "watchman", "write_s": seconds, "behind_s": time.perf_counter() - start}
        row |= {"cpu_s": processor_seconds(peer.process.pid) - before, "private_mib": private_mib(peer.process.pid)}
        row["overflows"] = int("warning" in answer)
        since = peer.call("query", root, {"since": clock, "fields": ["name"], "sync_timeout": 600_000})
        row["missing"] = len(listing(root) - there - {os.path.join(root, told) for told in since["files"]})
    return row


WATCHERS: Final[dict[str, Callable[[str, str, float], Row]]] = {
    "alone": alone,
    "reader": reader,
    "watchdog": functools.partial(observer, "watchdog"),
    "provd": provd,
}
if importlib.util.find_spec("watchfiles") is not None:
    WATCHERS["watchfiles"] = functools.partial(observer, "watchfiles")
if Watchman.is_here():
    WATCHERS["watchman"] = watchman
