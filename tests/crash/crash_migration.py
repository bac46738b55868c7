"""A store of a released version whose migration is killed at a named point, and what the next daemon has of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from crash_points import MIGRATING
from old_stores import RELEASED
from support import HANG
from test_upgrade import Old, everything_is_there, until_settled

if TYPE_CHECKING:
    from random import Random

    from crash_points import Hits

_DROPPING: Final = "migrate.dropping"
"""Passed by the second daemon, which removes the copy that the first one made and proved."""


def migration_killed(random: Random, hits: Hits) -> tuple[str, str]:
    """Kills one, looks, and gives which store and where. Raises AssertionError."""
    name, point = random.choice(RELEASED), hits.draw(random, MIGRATING)
    old = Old(name)
    try:
        if point == _DROPPING:
            old.daemon.start()
            old.daemon.stop()
            old.daemon.launch(PROVD_KILL_AT=point)
            assert old.daemon.process is not None
            assert old.daemon.process.wait(HANG) == -9
        else:
            assert old.daemon.refused(PROVD_KILL_AT=point).code == -9
        hits.count[point] += 1
        old.daemon.start().scanned()
        everything_is_there(old)
        if point == _DROPPING:
            until_settled(old.daemon)
        else:
            assert os.path.isdir(old.kept)
            old.daemon.restart()
            until_settled(old.daemon)
            everything_is_there(old)
        assert sorted(os.listdir(os.path.join(old.home, "state"))) == ["lock", "store"]
    finally:
        old.close()
    return name, point
