"""Some kills, at random and at named points: what was acknowledged is there, and what is said is what is there.

Broken: an answer that goes out before its transaction is durable.
"""

from __future__ import annotations

import pytest
from crash_part import crashed


@pytest.mark.timeout(300)
def test_a_daemon_is_killed_and_nothing_is_lost() -> None:
    crashed(12, "directory", seed=3)
