"""One small file, read at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from provd.core.dependency import Kind
from provd.core.reading import Reading, Trouble
from provd.disk import files, read_now, read_single

MOST = 1000


def test_it_gives_what_a_job_gives(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "fifo")
    for name in ("f", "none", "loop", "dangling", "fifo", ".", "f/below", "x" * 300):
        path = os.fsencode(tmp_path / name)
        job = read_now(Reading(Kind.FILE, path, "sha256"))
        found = read_single(path, "sha256", MOST)
        assert found is None or (found.digest, found.trouble) == (job.digest, job.trouble)


def test_a_name_that_is_too_long_is_unreadable(tmp_path: Path) -> None:
    found = read_single(os.fsencode(tmp_path / ("x" * 300)), "xxh3", MOST)
    assert found is not None
    assert found.trouble is Trouble.UNREADABLE


def test_a_bigger_file_is_left_to_a_job(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * (MOST + 1))
    assert read_single(os.fsencode(tmp_path / "f"), "xxh3", MOST) is None


@pytest.mark.parametrize("change", [b"other", b"x" * 5000, b""])
def test_a_file_that_changes_meanwhile_is_left_to_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: bytes
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"first")
    real = files.read_whole

    def read(descriptor: int, size: int) -> bytes:
        path.write_bytes(change)
        return real(descriptor, size)

    monkeypatch.setattr(files, "read_whole", read)
    assert read_single(os.fsencode(path), "xxh3", MOST) is None
