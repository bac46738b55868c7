"""Row 18: what one client asks for takes long, or for ever; another one asks about one file all the while."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import sys
import traceback
from collections.abc import Callable, Generator
from itertools import repeat
from typing import Final

from hung_mount import Hung
from support import Daemon

from speed.beside import meanwhile, quiet
from speed.figures import Ask, Table, measure
from speed.plan import Plan, write
from speed.processes import connect, request, yielding
from speed.questions import put_all, watching

LIMIT: Final = 10.0
"""Milliseconds at p99."""
ALONE: Final = "alone"
_SPARSE: Final = 10 << 30
_DEPENDENCIES: Final = 100_000
_NAMES: Final = 200_000
_MANY_NAMES: Final = 1_000_000
_EACH: Final = 1000
_PATIENCE: Final = 600_000
_NEWNS, _REC_PRIVATE = 0x20000, 0x4000 | 0x40000
Found = tuple[dict[str, list[int]], dict[str, int]]
"""Nanoseconds of questions, and how long the longest of the works took, by name."""
Works = Generator[tuple[str, bytes], None, None]


class Beside:
    """A daemon with one small file, and the figures of questions about it."""

    def __init__(self, plan: Plan, daemon: Daemon, root: str) -> None:
        self.plan, self.daemon, self.root = plan, daemon, root
        self.samples: dict[str, list[int]] = {}
        self.took: dict[str, int] = {}
        keys = put_all(daemon, root, [[f"{root}/small"]])
        self.ask: Ask = yielding(
            connect(daemon.socket), repeat(request("entry.check", key=keys[0], root=root)).__next__
        )
        self.other: socket.socket = connect(daemon.socket)
        measure(self.ask, plan.questions, plan.seconds)
        self.add(ALONE, measure(self.ask, plan.questions * plan.rounds, plan.seconds * plan.rounds))

    def add(self, name: str, found: list[int]) -> None:
        """More samples of one name."""
        self.samples[name] = self.samples.get(name, []) + found

    def run(self, name: str, line: bytes) -> None:
        """Sends a line and asks about the small file until it is answered, and then until the daemon rests."""
        found, took = meanwhile(self.other, line, self.ask)
        self.add(name, found)
        self.took[name] = max(took, self.took.get(name, 0))
        if self.daemon.process is not None:
            quiet(self.daemon.process.pid)


def dependencies(plan: Plan, root: str) -> Works:
    """An entry that rests on very many files."""
    paths = plan.tree(plan.size(_DEPENDENCIES)).paths
    about = {"key": "many", "root": root}
    yield "put: very many files", request("entry.put", value=1, deps=paths, as_of="put", **about)
    yield "check: very many files", request("entry.check", timeout_ms=_PATIENCE, **about)
    yield "check: the same, by seals", request("entry.check", timeout_ms=_PATIENCE, **about)
    yield "check: the same, read", request("entry.check", timeout_ms=_PATIENCE, verify="content", **about)
    write(paths[0], b"another")
    yield "check: the same, one changed", request("entry.check", timeout_ms=_PATIENCE, **about)
    absent = [{"dep": f"file:{root}/no/{number}", "digest": "absent"} for number in range(len(paths))]
    yield "put: as many absent ones", request("entry.put", value=1, deps=absent, key="absent", root=root)
    yield "action: as many writes", request("action.record", writes=[f"/w/{n}" for n in range(len(paths))])
    yield "forget: very many files", request("entry.forget", **about)


def names(plan: Plan, root: str) -> Works:
    """A tree of very many names."""
    place = plan.place("names")
    for number in range(plan.size(_MANY_NAMES if plan.scale else _NAMES) // _EACH):
        os.makedirs(f"{place}/d{number}")
        for name in range(_EACH):
            os.mknod(f"{place}/d{number}/f{name}")
    for dep in (f"names:{place}/**", f"tree:{place}"):
        kind = dep.partition(":")[0]
        about = {"key": kind, "root": root}
        yield f"put: {kind}: of very many names", request("entry.put", value=1, deps=[dep], as_of="put", **about)
        yield f"check: {kind}: of them", request("entry.check", timeout_ms=_PATIENCE, **about)
        os.mknod(f"{place}/d0/{kind}")
        yield f"check: {kind}: one more", request("entry.check", timeout_ms=_PATIENCE, **about)
    yield "watch: very many names", request("root.add", path=place)
    yield "unwatch: very many names", request("root.remove", path=place)


def sparse(plan: Plan, root: str) -> Works:
    """A file of holes."""
    path = f"{root}/sparse"
    with open(path, "wb") as file:
        file.truncate(plan.size(_SPARSE))
    deps = [{"dep": f"file:{path}", "digest": "xxh3:" + "0" * 32}]
    yield "check: a file of holes", request("deps.check", deps=deps, root=root, timeout_ms=_PATIENCE)


def hanging(plan: Plan, root: str) -> Works:
    """Files of a file system that does not answer."""
    place = plan.place("hung")
    os.mkdir(place)
    hung = Hung(place)
    hung.hangs = True
    try:
        for number in range(plan.rounds):
            deps = [{"dep": f"file:{place}/f{n}", "digest": "absent"} for n in range(number + 1)]
            yield "check: a mount that hangs", request("deps.check", deps=deps, root=root, timeout_ms=1000)
    finally:
        hung.end()  # before the daemon ends: a call that hangs outlives whoever made it


def delays(plan: Plan) -> None:
    """Row 18."""
    works = (dependencies, names, sparse)
    for work in works:
        _tell(plan, work, *_measured(plan, work))
    _tell(plan, hanging, *_apart(plan, hanging))


def _measured(plan: Plan, work: Callable[[Plan, str], Works]) -> Found:
    root = plan.place("root")
    os.mkdir(root)
    write(f"{root}/small", b"x" * 4096)
    with watching(plan, plan.placements[0], root) as daemon:
        one = Beside(plan, daemon, root)
        with contextlib.closing(work(plan, root)) as lines:
            for name, line in lines:
                one.run(name, line)
        return one.samples, one.took


def _enter_namespace() -> None:
    """From here on mounts of this process are its own; raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEWNS) or libc.mount(b"none", b"/", None, _REC_PRIVATE, None):
        raise OSError(ctypes.get_errno(), "no mount namespace of one's own")


def _apart(plan: Plan, work: Callable[[Plan, str], Works]) -> Found:
    """The same in a process with a mount namespace of its own, where one may be had."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _enter_namespace()
            with os.fdopen(theirs, "w") as out:
                json.dump(_measured(plan, work), out)
        except BaseException:  # noqa: BLE001  (it is told, and the process ends here)
            traceback.print_exc(limit=-2)
        sys.stderr.flush()
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as told:
        found = told.read()
    os.waitpid(child, 0)
    samples, took = json.loads(found) if found else ({}, {})
    return samples, took


def _tell(plan: Plan, work: Callable[[Plan, str], Works], samples: dict[str, list[int]], took: dict[str, int]) -> None:
    about = (work.__doc__ or "").rstrip(".").lower()
    table = Table("18", f"one file asked for beside {about}", base=ALONE, unit="ms")
    table.add_all(samples)
    for name, nanoseconds in took.items():
        table.at_most(f"p99 beside {name}", table.p99(name), LIMIT)
        worst = max(samples[name]) / 1e6
        table.remarks.append(f"{name}: {nanoseconds / 1e9:.2f} s, {len(samples[name])} questions, worst {worst:.1f} ms")
    plan.tell(table)
