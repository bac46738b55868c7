"""A watcher that cannot be made, and roots that cannot be looked at: no descriptor is left, nothing stays unwatched."""

from __future__ import annotations

import builtins
import errno
import os
import select
from pathlib import Path
from typing import Any

import pytest
from inotify_driving import drain, mkdir, nothing_ignored, touched, watching, write

from provd.watch.inotify import InotifyWatcher
from provd.watch.mounted import MountTable
from provd.watch.roots import Unseen
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
def test_a_root_that_cannot_be_looked_at_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException
) -> None:
    """Broken: what stands there later is another root than was added; or nothing of it is ever watched."""
    root, real, left = os.fsencode(tmp_path), os.lstat, iter(range(1))

    def failing(path: Any, **given: Any) -> os.stat_result:
        if path == root and next(left, None) is not None:
            raise error
        return real(path, **given)

    watcher = InotifyWatcher()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "lstat", failing)
            with pytest.raises(Unseen, match="no"):
                list(watcher.add(root, nothing_ignored))
        assert watcher.uncovered(root)
        watcher.check()
        assert watcher.uncovered(root)
        list(watcher.add(root, nothing_ignored))
        assert (watcher.state(root).state, watcher.state(root).coverage) == ("watching", "whole")
        write(root + b"/new")
        assert touched(drain(watcher))
    finally:
        watcher.close()


@pytest.mark.parametrize("where", ["making", "looking"])
def test_a_mount_table_that_cannot_be_read_now_is_not_an_empty_one(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Broken: a place that tells nothing is mounted in a root, is watched all the same, and is said to be whole."""
    before = len(os.listdir("/proc/self/fd"))

    def failing(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EMFILE, "too many")

    if where == "making":
        with monkeypatch.context() as patch:
            patch.setattr(builtins, "open", failing)
            with pytest.raises(OSError, match="too many"):
                MountTable()
    else:
        table = MountTable()
        known = table.current
        with monkeypatch.context() as patch:
            patch.setattr(builtins, "open", failing)
            assert table.look() == []
        assert (table.current, table.changed()) == (known, True)
        assert table.look() == []
        assert not table.changed()
        table.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_watcher_leaves_no_descriptors(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    with watching(root) as watcher:
        mkdir(root + b"/new")
        drain(watcher)
    assert len(os.listdir("/proc/self/fd")) == before
