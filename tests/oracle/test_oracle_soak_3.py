"""A part of the soak; one seed a file, so that they run side by side."""

from __future__ import annotations

import pytest
from oracle_soaking import soaked


@pytest.mark.timeout(600)
def test_no_answer_is_false() -> None:
    """Broken: whatever makes provd believe what it did not see."""
    soaked(3)
