"""Some power cuts: what was acknowledged is there, and what is said is what is there.

Broken: a store that is not synced (`sync=False`) has lost its log at the first crash.
"""

from __future__ import annotations

import pytest
from crash_part import crashed
from sealing_help import may_mount

pytestmark = [
    pytest.mark.skipif(not may_mount(), reason="nothing may be mounted here"),
    pytest.mark.timeout(300),
]


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_power_is_lost_and_nothing_else(kind: str) -> None:
    crashed(5, kind, seed=7)
