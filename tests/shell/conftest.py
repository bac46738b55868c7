"""The scene of the tests of answers at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sealing_help import LATER, set_clock
from shortcutting import Scene

from provd.disk.files import coarse_clock


@pytest.fixture
def scene(tmp_path: Path, lease_breaks_ignored: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    del lease_breaks_ignored
    set_clock(monkeypatch, coarse_clock() + LATER)
    made = Scene(tmp_path)
    made.watch.begun()
    yield made
    made.close()
