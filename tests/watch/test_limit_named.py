"""The limit of watches that binds is the one that is named: the system's, or that of the daemon's user namespace."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from provd.watch import arrival

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("system", "own", "named"),
    [
        ("8192", "8192", "raise fs.inotify.max_user_watches (now 8192)"),
        ("8192", "50", "raise user.max_inotify_watches (now 50)"),
        ("8192", "2147483647", "raise fs.inotify.max_user_watches (now 8192)"),
        ("8192", None, "raise fs.inotify.max_user_watches (now 8192)"),
        (None, "50", "raise user.max_inotify_watches (now 50)"),
        (None, None, "raise fs.inotify.max_user_watches or"),
        ("odd", "odd", "raise fs.inotify.max_user_watches or"),
    ],
)
def test_the_lower_limit_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str | None, own: str | None, named: str
) -> None:
    for name, value in (("_SETTING", system), ("_OF_NAMESPACE", own)):
        place = tmp_path / name
        if value is not None:
            place.write_text(value + "\n")
        monkeypatch.setattr(arrival, name, os.fspath(place))

    why = arrival.reason_of(OSError(errno.ENOSPC, "no space"))

    assert why.startswith(arrival.LIMIT)
    assert named in why
