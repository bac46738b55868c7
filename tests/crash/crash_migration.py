"""A store of a released version whose migration is killed at a named point, and what the next daemon has of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from old_stores import RELEASED
from test_upgrade import POINTS, Old, everything_is_there

if TYPE_CHECKING:
    from random import Random

__all__ = ["POINTS", "migration_killed"]


def migration_killed(random: Random) -> tuple[str, str]:
    """Kills one, looks, and gives which store and where. Raises AssertionError."""
    name, point = random.choice(RELEASED), random.choice(POINTS)
    old = Old(name)
    try:
        assert old.daemon.refused(PROVD_KILL_AT=point).code == -9
        old.daemon.start().scanned()
        everything_is_there(old)
    finally:
        old.close()
    return name, point
