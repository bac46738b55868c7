"""A daemon with nothing to do does nothing: it is not woken, it writes nothing."""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import TYPE_CHECKING

import pytest
from support import Daemon, Rpc, Workspace
from watching import settled

if TYPE_CHECKING:
    from collections.abc import Iterator

PERIOD = 2.0
"""Seconds of one observation: the socket is listened to, and nothing may come."""
ALLOWED = 2
"""Wake-ups in one observation that are put down to the interpreter and the kernel."""


def switches(pid: int) -> int:
    """How often all threads of a process gave the processor away of themselves: once each time they slept."""
    count = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/task/{task}/status") as status:
            (line,) = [line for line in status if line.startswith("voluntary_ctxt_switches")]
            count += int(line.split()[1])
    return count


def processor_ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@contextlib.contextmanager
def listening(ws: Workspace) -> Iterator[Rpc]:
    with contextlib.closing(Rpc(ws.daemon.socket)) as rpc:
        rpc("log.subscribe")
        yield rpc


@pytest.mark.parametrize("busy", [False, True], ids=["after the start", "after a burst"])
def test_an_idle_daemon_is_not_woken(own: Workspace, busy: bool) -> None:
    clock = own.clock()
    own.write("d/f", "one")
    own.put("k", "file:d/f", "tree:.")
    if busy:
        for number in range(2000):
            own.write(f"d/e{number % 10}/f{number}", str(number))
    settled(own.daemon, clock)
    process = own.daemon.process
    assert process is not None
    observed = []
    with listening(own) as rpc:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:  # what is still being finished may take its time
            woken, ticks = switches(process.pid), processor_ticks(process.pid)
            spoke = bool(select.select([rpc.sock], [], [], PERIOD)[0])
            if spoke:
                rpc.note()
            observed.append((switches(process.pid) - woken, processor_ticks(process.pid) - ticks, spoke))
            if observed[-1][0] <= ALLOWED and not spoke:
                break
    wakes, ticks, spoke = observed[-1]
    assert wakes <= ALLOWED, observed
    assert ticks <= 1, observed
    assert not spoke, "a record without a cause"


def test_one_change_wakes_an_idle_daemon(own: Workspace) -> None:
    """The other side of it: it sleeps, and is not deaf."""
    own.clock()
    with listening(own) as rpc:
        own.write("f", "one")
        note = rpc.note()
        assert (note["params"]["type"], note["params"]["kind"]) == ("mutation", "created")


def test_many_roots_cost_an_idle_daemon_nothing(own: Workspace) -> None:
    daemon: Daemon = own.daemon
    for number in range(100):
        path = os.path.join(daemon.home, f"r{number}")
        os.mkdir(path)
        own.rpc("root.add", path=path)
    test_an_idle_daemon_is_not_woken(own, busy=False)
