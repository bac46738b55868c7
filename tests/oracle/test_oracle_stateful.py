"""The same acts and the same oracle, chosen by Hypothesis: what it finds it makes small.

Each rule draws a seed for its own choices: how many of those there are depends on the daemon's answers, which
depend on time, and Hypothesis would call that a test that differs from itself.
"""

from __future__ import annotations

import itertools
import os
import shutil
from random import Random
from typing import TYPE_CHECKING, Final

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from oracle_declared import DECLARING
from oracle_faults import Faults, Tried
from oracle_place import ACTS, Place
from oracle_run import FORGOTTEN, Run

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAIN, CHAINED = 8, 4
_EXAMPLES: Final = 10
_STEPS: Final = 20
_SEEDS: Final = st.integers(0, (1 << 32) - 1)
_MUTATIONS: Final = [*(name for name, act in ACTS.items() if not act.needs), *DECLARING, FORGOTTEN]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def tried() -> Iterator[Tried]:
    daemon = Tried()
    try:
        daemon.start().scanned()
        yield daemon
    finally:
        daemon.close()


class Machine(RuleBasedStateMachine):
    """A run whose steps are Hypothesis's."""

    def __init__(self, daemon: Tried) -> None:
        super().__init__()
        self._daemon = daemon

    @initialize(seed=_SEEDS)
    def begin(self, seed: int) -> None:
        """New directories, and an entry under each key."""
        number, random = next(_numbers), Random(seed)
        root, outside = (os.path.join(top, f"m{number}") for top in (self._daemon.root, self._daemon.outside))
        self._place = Place(self._daemon.home, root, outside, random, mounts=False, bars=False)
        self._run = Run(self._daemon, self._place, number, PLAIN, CHAINED)
        self._faults = Faults(self._run, self._daemon)

    @rule(seed=_SEEDS, names=st.lists(st.sampled_from(_MUTATIONS), min_size=1, max_size=3))
    def mutate(self, seed: int, names: list[str]) -> None:
        self._place.random.seed(seed)
        for name in names:
            self._run.act(name)
        self._ask()

    @rule(seed=_SEEDS, keys=st.sets(st.integers(0, PLAIN + CHAINED - 1), min_size=1, max_size=4))
    def put(self, seed: int, keys: set[int]) -> None:
        self._place.random.seed(seed)
        self._run.put_batches([f"{'p' if number < PLAIN else 'c'}{number}" for number in sorted(keys)])

    @rule(seed=_SEEDS, name=st.sampled_from(["kill -9", "restart", "clock step"]), really=st.integers(0, 3))
    def fault(self, seed: int, name: str, really: int) -> None:
        self._place.random.seed(seed)
        if really == 3:
            self._faults.do(name)
        self._ask()

    def _ask(self) -> None:
        self._run.ask(sorted(self._run.oracle.entries), self._run.eyes())
        assert not self._run.found, self._run.found

    def teardown(self) -> None:
        """Nothing is left of it."""
        self._run.close()
        shutil.rmtree(self._place.root)
        shutil.rmtree(self._place.outside)


@pytest.mark.timeout(600)
def test_no_answer_is_false_whatever_is_done(tried: Tried) -> None:
    """Broken: whatever makes provd believe what it did not see."""
    how = settings(
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=_EXAMPLES,
        stateful_step_count=_STEPS,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(lambda: Machine(tried), settings=how)  # type: ignore[arg-type]
    assert tried.alive
    assert "Traceback" not in tried.said()
