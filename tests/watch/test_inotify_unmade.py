"""A watcher that cannot be made, and roots that cannot be looked at: no descriptor is left, nothing stays unwatched."""

from __future__ import annotations

import errno
import os
import select
from pathlib import Path
from typing import Any

import pytest
from inotify_driving import drain, mkdir, nothing_ignored, touched, watching, write

from provd.watch.inotify import InotifyWatcher
from provd.watch.syscalls import Kernel


def test_without_a_descriptor_making_a_watcher_fails_and_leaks_none() -> None:
    class Full(Kernel):
        def init(self) -> int:
            raise OSError(errno.EMFILE, "too many")

    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="too many"):
        InotifyWatcher(Full())
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("nth", range(4))
@pytest.mark.parametrize("call", ["epoll", "poll", "open", "eventfd"])
def test_a_watcher_that_the_system_gives_no_descriptor_for_is_not_made_at_all(
    monkeypatch: pytest.MonkeyPatch, call: str, nth: int
) -> None:
    """One without its mount table would take each look for a change, and never be complete."""
    module: Any = select if call in {"epoll", "poll"} else os
    real, calls = getattr(module, call), iter(range(9))

    def failing(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == nth:
            raise OSError(errno.EMFILE, "too many")
        return real(*args, **kwargs)

    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(module, call, failing)
        try:
            InotifyWatcher().close()
        except OSError as e:
            assert e.errno == errno.EMFILE  # noqa: PT017
        else:
            assert next(calls) <= nth  # it does not call so often
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("error", [OSError(errno.EIO, "no"), MemoryError("no")])
def test_a_root_that_cannot_be_looked_at_when_it_is_added_is_watched_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException
) -> None:
    """Broken: whatever stands there from then on is something else than the root."""
    root, real, left = os.fsencode(tmp_path), os.lstat, iter(range(2))

    def failing(path: Any, **given: Any) -> os.stat_result:
        if path == root and next(left, None) is not None:
            raise error
        return real(path, **given)

    watcher = InotifyWatcher()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "lstat", failing)
            list(watcher.add(root, nothing_ignored))
            drain(watcher)
        watcher.check()
        drain(watcher)
        assert (watcher.state(root).state, watcher.state(root).coverage) == ("watching", "whole")
        write(root + b"/new")
        assert touched(drain(watcher))
    finally:
        watcher.close()


def test_a_watcher_leaves_no_descriptors(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    with watching(root) as watcher:
        mkdir(root + b"/new")
        drain(watcher)
    assert len(os.listdir("/proc/self/fd")) == before
