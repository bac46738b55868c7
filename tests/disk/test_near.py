"""What may be read in the loop, and what mounting between two looks does to an answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from provd.core.dependency import Kind
from provd.core.reading import Reading, Trouble
from provd.disk import IgnoreRules, ReadingJob, is_near
from provd.disk.mounts import MountWatch


@pytest.mark.skipif(not os.path.exists("/proc/self/root"), reason="no proc")
def test_a_path_through_a_link_of_proc_is_not_near(tmp_path: Path) -> None:
    here = os.fsencode(tmp_path)
    (tmp_path / "f").write_text("one")
    (tmp_path / "plain").symlink_to("f")
    (tmp_path / "away").symlink_to("/proc/self/root")

    assert is_near(here + b"/f")
    assert is_near(here + b"/plain")
    assert is_near(here + b"/none")
    assert not is_near(b"/proc/self/root" + here + b"/f")
    assert not is_near(here + b"/away" + here + b"/f")


def test_a_deep_path_and_a_loop_are_not_near(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    assert not is_near(b"/a" * 100)
    assert not is_near(os.fsencode(tmp_path / "loop"))


@pytest.mark.parametrize(("changes", "trouble"), [(0, None), (1, None), (99, Trouble.MOVING)])
def test_what_was_read_while_something_was_mounted_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: int, trouble: Trouble | None
) -> None:
    (tmp_path / "f").write_text("one")
    readings = [Reading(Kind.FILE, os.fsencode(tmp_path / name), "xxh3") for name in ("f", "none")]
    asked = iter(range(1000))
    monkeypatch.setattr(MountWatch, "changed", lambda _: next(asked) < changes)

    job = ReadingJob(readings, IgnoreRules())
    job.run()

    assert job.finished
    assert {found.trouble for found in job.results().values()} == {trouble}
