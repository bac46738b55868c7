"""Who holds the lock of a state directory, by the rows of /proc/locks."""

from __future__ import annotations

import itertools
import os
from typing import Final

import pytest

from provd.cli.processes.holding import holding
from provd.holders import Written

HERE: Final = os.getpid()
NOBODY: Final = 2**22 + 1
"""No process has that number."""
LOCK: Final = Written(str(HERE), "/s/provd.sock", os.makedev(0x8, 0x1), 77)


def row(pid: int, at: str, kind: str = "FLOCK ") -> str:
    return f"1: {kind} ADVISORY  WRITE {pid} {at} 0 EOF\n"


@pytest.mark.parametrize(
    ("lock", "rows", "pid"),
    [
        (LOCK, [row(HERE, "08:01:77")], HERE),
        (LOCK, [row(1, "08:01:5"), row(HERE, "08:01:77")], HERE),
        # the file was left behind, and the same number is locked elsewhere
        (LOCK, [row(HERE + 1, "00:2b:77")], None),
        (LOCK, [row(HERE, "08:01:177")], None),
        # another device than stat tells of: the process itself decides
        (LOCK, [row(HERE, "00:2b:77")], HERE),
        (LOCK._replace(pid=str(NOBODY)), [row(NOBODY, "00:2b:77")], None),
        # a process of another namespace is numbered otherwise here than it wrote
        (LOCK._replace(pid="12"), [row(HERE, "08:01:77")], HERE),
        (LOCK, [row(HERE, "08:01:77", "POSIX ")], None),
        (LOCK, [row(HERE, "08:01:77", "-> FLOCK ")], None),
        (LOCK, ["", "nonsense\n"], None),
    ],
    ids=itertools.count(),  # process numbers would differ from worker to worker
)
def test_who_holds_it(lock: Written, rows: list[str], pid: int | None) -> None:
    assert holding(lock, rows) == pid
