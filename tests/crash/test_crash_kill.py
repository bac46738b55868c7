"""Some kills, at random and at named points: what was acknowledged is there, and what is said is what is there.

Broken: an answer that goes out before its transaction is durable.
"""

from __future__ import annotations

import pytest
from crash_part import crashed
from crash_points import MIGRATING, POINTS

pytestmark = pytest.mark.timeout(300)


def test_a_daemon_is_killed_and_nothing_is_lost() -> None:
    crashed(12, "directory", seed=3)


def test_a_migration_is_killed_at_each_of_its_points_and_nothing_is_lost() -> None:
    crashed(len(MIGRATING), "migration", seed=3, least=1)


def test_a_soak_that_missed_a_point_of_the_code_fails_and_names_it() -> None:
    assert {"commit.before", "trim.cut", "start.begun", "answer.before"} < set(POINTS)
    assert {"migrate.copied", "migrate.dropping"} < set(MIGRATING)
    with pytest.raises(AssertionError, match="hit less than 1 times: migrate"):
        crashed(1, "migration", seed=3, least=1)
