"""A short random run against an oracle; `python -m tests.oracle` is the long one."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import pytest
from oracle_model import FALSE, Finding, Oracle
from oracle_run import Run

if TYPE_CHECKING:
    from support import Daemon

STEPS = 40


@pytest.mark.parametrize("seed", range(4))
def test_no_answer_is_false(module_daemon: Daemon, seed: int) -> None:
    """Broken: whatever makes provd believe what it did not see."""
    root, outside = (os.path.join(where, f"seed-{seed}") for where in (module_daemon.root, module_daemon.outside))
    with contextlib.closing(Run(module_daemon.rpc, root, outside, seed)) as run:
        for _ in range(STEPS):
            run.step()
    assert {each: run.counts[each] for each in FALSE} == dict.fromkeys(FALSE, 0), run.steps
    assert run.counts["fresh"]
    assert run.counts["dirty"]


@pytest.mark.parametrize(
    ("verdict", "now", "strict", "finding"),
    [
        ("fresh", "1", False, Finding.RIGHT),
        ("fresh", "2", False, Finding.FALSE_FRESH),
        ("fresh", "2", True, Finding.FALSE_FRESH),
        ("dirty", "1", False, Finding.FALSE_DIRTY),
        ("dirty", "1", True, Finding.RIGHT),
        ("dirty", "2", False, Finding.RIGHT),
        ("unknown", "1", False, Finding.UNKNOWN),
    ],
)
def test_the_oracle_itself(verdict: str, now: str, finding: Finding, *, strict: bool) -> None:
    oracle = Oracle()
    oracle.put("k", {"file:f": "1", "file:g": "1"}, 0)
    answer = {"verdict": verdict, "evidence": [{"dep": "file:f"}]}
    assert oracle.judge("k", answer, {"file:f": now, "file:g": "1"}, strict=strict) is finding


def test_the_oracle_asks_for_all_that_differs() -> None:
    oracle = Oracle()
    oracle.put("k", {"file:f": "1", "file:g": "1"}, 0)
    answer = {"verdict": "dirty", "evidence": [{"dep": "file:f"}]}
    for now in ({"file:f": "2", "file:g": "2"}, {"file:f": "1", "file:g": "2"}):
        assert oracle.judge("k", answer, now) is Finding.WRONG_EVIDENCE
