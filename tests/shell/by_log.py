"""A desk beside a watcher that a test drives: what it hears, and what it has recorded when somebody waits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from desk import Desk, Scripted

from provd.disk.seals import Seals


@pytest.fixture
def watch(tmp_path: Path) -> Scripted:
    """The watcher."""
    return Scripted(os.fsencode(tmp_path / "root"))


@pytest.fixture
def desk(tmp_path: Path, watch: Scripted) -> Iterator[Desk]:
    """The desk, over a small tree with links."""
    made = Desk(tmp_path, watch)
    made.workers.seals = Seals(limit=0)  # what is not shown by the log is read here, however old it is
    watch.store = made.store
    (made.root / "d" / "deep").mkdir(parents=True)
    (made.root / "f").write_text("one")
    (made.root / "d" / "a.py").write_text("a")
    (made.root / "d" / "deep" / "c.py").write_text("c")
    (made.root / "d" / "l").symlink_to("a.py")
    (made.root / "link").symlink_to("d")
    yield made
    made.close()
