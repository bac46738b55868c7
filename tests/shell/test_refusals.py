"""The words for a file system that takes no writes from anybody."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from provd import refusals

if TYPE_CHECKING:
    from pathlib import Path


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (_error(errno.EROFS), "readonly"),
        (RuntimeError(f"/s/lock.mdb: {os.strerror(errno.EROFS)}"), "readonly"),
        (_error(errno.EIO), "failing"),
        (RuntimeError(f"mdb_txn_commit: {os.strerror(errno.EIO)}"), "failing"),
        (_error(errno.EACCES), None),
        (_error(errno.ENOSPC), None),
    ],
)
def test_an_error_is_the_file_system_s_or_of_another_kind(error: Exception, code: str | None) -> None:
    refusal = refusals.of(error, "/a b")
    assert (refusal.code if refusal else None) == code
    if refusal is not None:
        assert "/a b" in refusal.what
        assert "findmnt -T '/a b'" in refusal.hint


def test_a_directory_that_takes_writes_meets_no_refusal_and_nothing_is_left(tmp_path: Path) -> None:
    assert refusals.met(str(tmp_path)) is None
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_looked_at_is_not_said_to_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mkdir` says that it is there before anything else. Broken: "File exists" where the disk fails."""
    real = os.stat

    def fails(path: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        if path == str(tmp_path):
            raise _error(errno.EIO)
        return real(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "stat", fails)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        refusals.make_directory(str(tmp_path))


def test_a_file_in_its_place_is_there(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(FileExistsError):
        refusals.make_directory(str(tmp_path / "f"))
