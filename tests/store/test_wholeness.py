"""A store whose file was cut short is set aside, not read to death."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from provd.core.records import Gap
from provd.store import Store


def _filled(directory: Path) -> int:
    store = Store(str(directory))
    for n in range(50):
        store.run(lambda writer, n=n: [writer.append(Gap(n, b"/x", "r" * 3000)) for _ in range(10)])  # type: ignore[misc]
    store.stop()
    return os.path.getsize(directory / "data.mdb")


@pytest.mark.parametrize("left", [0.9, 0.5, 0.1, 8192, 4096, 100])
def test_a_store_that_was_cut_short_is_set_aside(tmp_path: Path, left: float) -> None:
    size = _filled(tmp_path / "store")
    os.truncate(tmp_path / "store" / "data.mdb", int(left if left > 1 else size * left))

    opened = "from provd.store import Store; import sys; s = Store(sys.argv[1]); print(s.environment.set_aside, s.head)"
    done = subprocess.run(
        [sys.executable, "-c", opened, str(tmp_path / "store")], check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done
    aside, head = done.stdout.split()
    assert int(head) > 10**12, "a new log"
    assert os.path.exists(os.path.join(aside, "data.mdb"))


def test_a_file_that_lacks_only_pages_that_nothing_needs_is_made_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = _filled(tmp_path / "store")
    real = os.path.getsize
    monkeypatch.setattr(os.path, "getsize", lambda path: real(path) - 1)

    store = Store(str(tmp_path / "store"))

    assert store.environment.set_aside is None
    assert store.head == 500
    store.stop()
    assert real(tmp_path / "store" / "data.mdb") == size
