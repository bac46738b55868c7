"""Row 19: very many clients at once, that do not read, or say half of what they mean; and what is left of them."""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Final

from support import Daemon

from speed.beside import quiet
from speed.figures import Ask, Table, measure
from speed.plan import Plan, write
from speed.processes import connect, request, yielding
from speed.questions import put_all, watching

_CLIENTS: Final = 1000
_EACH: Final = 100
_FILES: Final = 4096
"""Descriptors that both ends need."""
_VALUE: Final = 1 << 20
_SLOW: Final = 100
_MEANWHILE: Final = 1000
"""Milliseconds at p99 for who asks beside a hundred thousand questions of others: answers go on."""
_LATER: Final = 600.0
"""Seconds after which it is looked once more, where --scale asks for what takes long."""


class State:
    """What a process holds: MiB that are its own, descriptors, threads."""

    def __init__(self, pid: int) -> None:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            self.memory = sum(int(line.split()[1]) for line in file if line.startswith("Anonymous:")) / 1024
        self.descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        self.threads = len(os.listdir(f"/proc/{pid}/task"))

    def __str__(self) -> str:
        return f"{self.memory:.1f} MiB anonymous, {self.descriptors} descriptors, {self.threads} threads"


@contextlib.contextmanager
def many_files() -> Iterator[None]:
    """This process may have so many open, and what it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def answers(socks: list[socket.socket], wanted: int, ask: Ask) -> tuple[int, list[int]]:
    """Reads all that comes until each has so many lines, or has ended; how many came, and the times of `ask` beside."""
    ready = selectors.DefaultSelector()
    left = {}
    short = 0
    for sock in socks:
        sock.settimeout(0)
        ready.register(sock, selectors.EVENT_READ, sock)
        left[sock] = wanted
    beside: list[int] = []
    while left:
        for key, _ in ready.select(0):
            sock = key.data
            try:
                piece = sock.recv(1 << 18)
            except ConnectionError:
                piece = b""
            left[sock] -= piece.count(b"\n")
            if not piece or left[sock] <= 0:
                ready.unregister(sock)
                wanted_here = left.pop(sock)
                short += max(0, wanted_here)
        beside += measure(ask, 1, 1)
    ready.close()
    if short:
        print(f"  of {len(socks) * wanted:,} answers {short:,} did not come")
    return len(socks) * wanted, beside


def pipelining(daemon: Daemon, line: bytes, ask: Ask) -> list[int]:
    """Clients that send all their questions at once, and read."""
    socks = [connect(daemon.socket) for _ in range(_CLIENTS)]
    for sock in socks:
        sock.sendall(line * (_EACH // line.count(b"\n")))
    _, beside = answers(socks, _EACH, ask)
    _close(socks)
    return beside


def not_reading(daemon: Daemon, line: bytes, ask: Ask) -> list[int]:
    """Clients that ask for much, read nothing for a while, and then half of them all of it."""
    socks = [connect(daemon.socket) for _ in range(_SLOW)]
    for sock in socks:
        sock.sendall(line * 10)
    beside = measure(ask, 5000, 5)
    _, more = answers(socks[: _SLOW // 2], 10, ask)
    _close(socks)
    return beside + more


def half_open(daemon: Daemon, line: bytes, ask: Ask) -> list[int]:
    """Clients that end what they say in the middle of it, or say no more."""
    socks = [connect(daemon.socket) for _ in range(_CLIENTS // 2)]
    for number, sock in enumerate(socks):
        sock.sendall(line + line[: number % len(line)])
        if number % 2:
            sock.shutdown(socket.SHUT_WR)
    beside = measure(ask, 5000, 3)
    _close(socks)
    return beside


def no_descriptors(daemon: Daemon, line: bytes, ask: Ask) -> list[int]:
    """A daemon that may open no more, with clients at its door."""
    assert daemon.process is not None
    pid = daemon.process.pid
    _, hard = before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (State(pid).descriptors, hard))
    socks = [connect(daemon.socket) for _ in range(_SLOW)]
    for sock in socks:
        with contextlib.suppress(BrokenPipeError):  # the loop below takes what it cannot keep, and closes it
            sock.sendall(line)
    beside = measure(ask, 5000, 3)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    _, more = answers(socks, 1, ask)
    _close(socks)
    return beside + more


def _close(socks: list[socket.socket]) -> None:
    for sock in socks:
        sock.close()


def crowd(plan: Plan) -> None:
    """Row 19."""
    root = plan.place("root")
    os.mkdir(root)
    write(f"{root}/small", b"x" * 4096)
    with many_files(), watching(plan, plan.placements[0], root) as daemon:
        assert daemon.process is not None
        pid = daemon.process.pid
        write(f"{root}/changed", b"x")
        key, stale = put_all(daemon, root, [[f"{root}/small"], [f"{root}/changed"]])
        write(f"{root}/changed", b"another")
        daemon.rpc("entry.put", key="big", value="v" * _VALUE, deps=[], root=root)
        line, big = request("entry.check", key=key, root=root), request("entry.get", key="big", root=root)
        half = line + request("entry.check", key=stale, root=root)
        ask = yielding(connect(daemon.socket), repeat(line).__next__)
        table = Table("19", "one file asked for beside crowds of clients", base="alone", unit="ms")
        table.add("alone", measure(ask, 20_000, 5))
        works: tuple[tuple[str, Callable[[Daemon, bytes, Ask], list[int]], bytes], ...] = (
            (f"{_CLIENTS} clients, {_EACH} questions each at once, half of them of a stale key", pipelining, half),
            (f"{_SLOW} clients that read late", not_reading, big),
            (f"{_CLIENTS // 2} that say half a line", half_open, line),
            (f"no descriptor left, {_SLOW} at the door", no_descriptors, line),
        )
        quiet(pid)
        before = State(pid)
        table.remarks.append(f"before: {before}")
        for name, work, of in works:
            started = time.monotonic()
            table.add(name, work(daemon, of, ask))
            took = time.monotonic() - started
            quiet(pid)
            table.at_most(f"p99 beside {name}", table.p99(name), _MEANWHILE)
            table.remarks.append(f"after {name} ({took:.1f} s): {State(pid)}")
        if plan.scale:
            time.sleep(_LATER)
        after = State(pid)
        table.remarks.append(f"at the end: {after}")
        table.at_most("descriptors more than before", after.descriptors - before.descriptors, 0)
        table.at_most("MiB more than before", after.memory - before.memory, 8)
        plan.tell(table)
