"""Two processes at random in one tree: when they are done, the log alone tells what the disk holds.

`AGREE_SEED` and `AGREE_ROUNDS` in the environment make it longer; the seed of each round is printed.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from support import HANG, Json, Workspace
from watching import Replay, gaps, settled, since, walk

if TYPE_CHECKING:
    from collections.abc import Iterable

CHURN: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "churn.py")
ROUNDS: Final = int(os.environ.get("AGREE_ROUNDS", "3"))
FIRST: Final = int(os.environ.get("AGREE_SEED", "1"))
STEPS: Final = 400


def churning(ws: Workspace, seed: int, *, asking: bool) -> None:
    """Both processes work at once; with `asking` clocks are taken meanwhile, so that batches end anywhere."""
    command = [sys.executable, CHURN, os.fsdecode(ws.root), os.fsdecode(ws.daemon.outside)]
    both = [subprocess.Popen([*command, str(seed * 2 + me), str(STEPS)]) for me in range(2)]
    choose = random.Random(seed)
    while any(process.poll() is None for process in both):
        if asking and choose.random() < 0.5:
            ws.clock()
        else:
            ws.rpc("daemon.status")
    assert [process.wait(HANG) for process in both] == [0, 0]


def unanswered(records: Iterable[Json]) -> list[int]:
    """The mutations whose digest was to come, and did not come just once."""
    hashed: Counter[int] = Counter()
    pending = []
    for record in records:
        if record["type"] == "mutation" and record["digest_state"] == "pending":
            pending.append(record["seq"])
        elif record["type"] == "hashed":
            hashed[record["of"]] += 1
    return [of for of in pending if hashed[of] != 1]


@pytest.mark.parametrize("asking", [False, True], ids=["unasked", "asked"])
def test_whatever_two_processes_did_the_log_tells_the_disk(own: Workspace, asking: bool) -> None:
    for seed in range(FIRST, FIRST + ROUNDS):
        print(f"seed {seed}")  # noqa: T201  shown where it fails
        before, clock = walk(own.root), own.clock()
        churning(own, seed, asking=asking)
        names = Replay(before).follow(since(own, clock)["records"])
        names.agrees(own.root, digests=False)  # the clock waits for all names
        records = settled(own.daemon, clock)
        Replay(before).follow(records).agrees(own.root)
        assert unanswered(records) == []
        assert since(own, clock)["complete"] is not bool(gaps(records, own.root))
    assert own.rpc("daemon.audit")["mismatches"] == []
    assert "Traceback" not in own.daemon.said()
