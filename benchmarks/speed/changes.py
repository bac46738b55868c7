"""Rows about what changes: one write that touches many entries (10), and durable puts of many clients (11)."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import islice, repeat
from typing import Final

import lmdb
from support import Daemon

from speed.beside import quiet
from speed.figures import Ask, Table, measure, ratio
from speed.plan import Plan, write
from speed.processes import connect, kept_client, request, yielding
from speed.questions import put_all, watching

_CLIENTS: Final = 64
_COMMIT: Final = "one LMDB commit each"
_WINDOW: Final = 200
"""Requests in flight at once."""
_CHANGED: Final = b"entry.changed"
_PATIENCE: Final = 30.0
"""Seconds in which all that is waited for must be told."""


def send_all(path: str, lines: Iterable[bytes]) -> None:
    """Sends requests, many in flight, and waits for all answers. Raises RuntimeError at an error."""
    with contextlib.closing(connect(path)) as sock:
        rest = iter(lines)
        while lot := list(islice(rest, _WINDOW)):
            sock.sendall(b"".join(lot))
            answered = b""
            while answered.count(b"\n") < len(lot):
                answered += sock.recv(1 << 20)
            if b'"error"' in answered:
                about = answered[answered.index(b'"error"') :][:300]
                raise RuntimeError(f"a request was refused: {about!r}")


class Subscriber:
    """A client that follows the log and the entries that it touches."""

    def __init__(self, path: str) -> None:
        self._sock = connect(path)
        self._sock.sendall(request("log.subscribe", entries=True))
        self._rest = b""

    def forget(self) -> None:
        """Reads and drops what was sent until now."""
        self._rest = b""
        self._sock.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            while self._sock.recv(1 << 22):
                pass

    def told(self, count: int, ask: Ask | None = None) -> int:
        """Waits until so many entries were told to be changed; when the last one was, in perf_counter_ns.

        Meanwhile `ask` is called. Raises TimeoutError where they are not told.
        """
        keys: set[str] = set()
        at = 0
        deadline = time.monotonic() + _PATIENCE
        self._sock.settimeout(_PATIENCE)
        while len(keys) < count:
            pieces, left, cut = [self._rest], count, b""
            while left > 0 and time.monotonic() < deadline:  # read now, parse afterwards
                if ask is not None:
                    ask()
                pieces.append(self._sock.recv(1 << 22))
                left -= (cut + pieces[-1]).count(_CHANGED)  # one may lie across two pieces
                cut = pieces[-1][1 - len(_CHANGED) :]
            at = time.perf_counter_ns()
            *lines, self._rest = b"".join(pieces).split(b"\n")
            notes = [json.loads(line) for line in lines]
            keys.update(note["params"]["key"] for note in notes if note.get("method") == "entry.changed")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(keys)} of {count} entries were told in {_PATIENCE:g} s")
        return at


def touched(plan: Plan) -> None:
    """Row 10: one file changes on which 10,000 entries rest."""
    root, count = plan.place("root"), plan.size(10_000)
    os.mkdir(root)
    write(f"{root}/shared", b"x" * 4096)
    write(f"{root}/small", b"x" * 4096)
    with watching(plan, plan.placements[0], root) as daemon:
        assert daemon.process is not None
        puts = ({"key": f"e{n}", "value": n, "deps": ["file:shared"], "as_of": "put"} for n in range(count))
        send_all(daemon.socket, (request("entry.put", **put, root=root) for put in puts))
        key = put_all(daemon, root, [[f"{root}/small"]])[0]
        ask = yielding(connect(daemon.socket), repeat(request("entry.check", key=key, root=root)).__next__)
        subscriber = Subscriber(daemon.socket)
        beside: list[int] = []
        took: list[int] = []
        for number in range(2 * plan.rounds):
            quiet(daemon.process.pid)
            subscriber.forget()
            write(f"{root}/new", f"{number}".encode().ljust(4096, b"."))
            start = time.perf_counter_ns()
            os.rename(f"{root}/new", f"{root}/shared")
            if number % 2:
                subscriber.told(count, lambda: beside.extend(measure(ask, 1, 1)))
            else:
                took.append(subscriber.told(count) - start)
        quiet(daemon.process.pid)
        table = Table("10", f"one write touches {count:,} entries, all told to a subscriber", unit="ms")
        table.add("until the last is told", took)
        table.at_most("p50, ms", table.lines["until the last is told"].p50, 60)
        plan.tell(table)
        table = Table("10", "one file asked for while they are told", base="alone")
        table.add("alone", measure(ask, plan.questions, plan.seconds))
        table.add("meanwhile", beside)
        plan.tell(table)


@contextlib.contextmanager
def _putting(daemon: Daemon, root: str, seconds: float) -> Iterator[list[float]]:
    """The clients put for so long, from when the block begins; afterwards the list has puts a second."""
    rate: list[float] = []
    script = os.path.join(os.path.dirname(__file__), "putters.py")
    command = [sys.executable, script, daemon.socket, root, str(_CLIENTS), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield rate
        finally:
            told = process.communicate()[0]
    rate.append(float(told))


def _rate(once: Ask, seconds: float) -> float:
    """How many times a second."""
    count, start = 0, time.perf_counter()
    while (now := time.perf_counter()) - start < seconds:
        once()
        count += 1
    return count / (now - start)


@contextlib.contextmanager
def _syncing(plan: Plan) -> Iterator[dict[str, Ask]]:
    """What one change costs that is made durable on its own: the bare call, and a commit of the store's kind (two)."""
    place = plan.place("synced")
    os.mkdir(place)
    with open(f"{place}/file", "ab", buffering=0) as file, lmdb.open(place, map_size=1 << 30) as environment:

        def fsync() -> None:
            file.write(b"x" * 100)
            os.fsync(file.fileno())

        def commit() -> None:
            with environment.begin(write=True) as transaction:
                transaction.put(b"%d" % time.perf_counter_ns(), b"x" * 100)

        yield {_COMMIT: commit, "one bare fsync each": fsync}


def durable_puts(plan: Plan) -> None:
    """Row 11: puts of 64 clients, against one commit each and the same daemon without any; questions meanwhile."""
    root, seconds = plan.place("root"), 4 * plan.seconds
    os.mkdir(root)
    write(f"{root}/small", b"x" * 4096)
    durable, without, memory = f"puts of {_CLIENTS} clients", "the same, no fsync (tmpfs)", "/dev/shm"
    table = Table("11", "durable changes", unit="a second", base=_COMMIT)
    samples: dict[str, list[float]] = {}
    alone: list[int] = []
    beside: list[int] = []
    with contextlib.ExitStack() as stack:
        bare = stack.enter_context(_syncing(plan))
        samples |= {name: [] for name in (*bare, durable, without)}
        daemons = {durable: stack.enter_context(watching(plan, plan.placements[0], root))}
        if os.access(memory, os.W_OK):
            state = stack.enter_context(tempfile.TemporaryDirectory(prefix="provd-", dir=memory))
            other = Daemon(home=plan.place("provd"), state=state, roots=[root])
            stack.callback(other.close)
            daemons[without] = other.start().scanned()
        daemon = daemons[durable]
        key = put_all(daemon, root, [[f"{root}/small"]])[0]
        client = kept_client(daemon.socket)
        for _ in range(plan.rounds):
            for name, once in bare.items():
                samples[name].append(_rate(once, seconds))
            for name, asked in daemons.items():
                with _putting(asked, root, seconds) as rate:
                    pass
                samples[name] += rate
            alone += measure(lambda: client.check(key, root=root), plan.questions, seconds)
            with _putting(daemon, root, seconds):
                beside += measure(lambda: client.check(key, root=root), sys.maxsize, seconds * 0.8)
    for name, found in samples.items():
        if found:
            table.add(name, found)
    table.at_least("of one commit each", table.lines[durable].ratio, 10)
    table.at_least("of the same without fsync", ratio(table.p50(durable), table.p50(without)), 0.5)
    plan.tell(table)
    table = Table("11", f"one file asked for while {_CLIENTS} clients put", base="alone")
    table.add("alone", alone)
    table.add("meanwhile", beside)
    table.at_most("p50, of that alone", ratio(table.p50("meanwhile"), table.p50("alone")), 2.0)
    plan.tell(table)
