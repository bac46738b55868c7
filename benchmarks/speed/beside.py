"""Questions beside work that takes the daemon long, and row 16."""

from __future__ import annotations

import os
import socket
import time
from itertools import repeat
from typing import Final

from speed.figures import Ask, Table, measure, ratio
from speed.plan import Plan, write
from speed.processes import connect, request, yielding
from speed.questions import put_all, watching

_STILL: Final = 0.3
"""Seconds without processor time after which a daemon has nothing left to do."""
_WORK: Final = 600.0
"""Seconds that it may take to be done."""


def processor_seconds(pid: int) -> float:
    """User and system time of all threads of a process."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def quiet(pid: int) -> None:
    """Returns when a process takes no processor time any more. Raises TimeoutError where it does not stop."""
    deadline, last = time.monotonic() + _WORK, -1.0
    while (now := processor_seconds(pid)) != last:
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} did not come to rest in {_WORK:g} s; look at what it does (top -H)")
        last = now
        time.sleep(_STILL)


def meanwhile(sock: socket.socket, line: bytes, ask: Ask) -> tuple[list[int], int]:
    """Sends a line and asks until it is answered: nanoseconds of each question, and of the answer to the line."""
    start = time.perf_counter_ns()
    sock.sendall(line)
    samples: list[int] = []
    last = b""
    while not last.endswith(b"\n"):
        samples += measure(ask, 1, 1)
        try:
            last = sock.recv(1 << 20, socket.MSG_DONTWAIT)
        except BlockingIOError:
            continue
    return samples, time.perf_counter_ns() - start


def huge_file(plan: Plan) -> None:
    """Row 16: questions about one file while a huge one that changed is hashed."""
    root = plan.place("root")
    os.mkdir(root)
    write(f"{root}/small", b"x" * 4096)
    size = plan.size(1 << 30)
    with open(f"{root}/huge", "wb") as file:
        file.writelines(os.urandom(1 << 22) for _ in range(0, size, 1 << 22))
    with watching(plan, plan.placements[0], root) as daemon:
        assert daemon.process is not None
        keys = put_all(daemon, root, [[f"{root}/small"]])
        ask = yielding(connect(daemon.socket), repeat(request("entry.check", key=keys[0], root=root)).__next__)
        about = {"dep": "file:huge", "digest": "xxh3:" + "0" * 32}
        line, other = request("deps.check", deps=[about], root=root, timeout_ms=60_000), connect(daemon.socket)
        alone: list[int] = []
        beside: list[int] = []
        hashing: list[int] = []
        measure(ask, plan.questions, plan.seconds)  # warm
        for number in range(plan.rounds):
            with open(f"{root}/huge", "r+b") as file:
                file.seek(number << 12)
                file.write(b"changed")
            samples, took = meanwhile(other, line, ask)
            beside += samples
            hashing.append(took)
            quiet(daemon.process.pid)
            alone += measure(ask, len(samples), 10)
        table = Table("16", f"one file asked for while {size >> 20:,} MiB that changed are hashed", base="alone")
        table.add("alone", alone)
        table.add("meanwhile", beside)
        table.at_most("p99, of that alone", ratio(table.p99("meanwhile"), table.p99("alone")), 1.5)
        table.remarks.append(f"the huge file was answered for in {min(hashing) / 1e6:,.0f} ms")
        plan.tell(table)
    os.remove(f"{root}/huge")
