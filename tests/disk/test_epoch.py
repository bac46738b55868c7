"""What voids all seals at once: the wall clock, and anything that is mounted."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sealing_help import in_namespace, may_mount, unmount, wall_clock_was_set

from provd.disk import epoch as epochs
from provd.disk.epoch import Epoch, clock_watch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel does not tell of its clock here")


@pytest.fixture
def clock() -> int:
    return clock_watch()


@pytest.fixture
def epoch(clock: int) -> Iterator[Epoch]:
    made = Epoch(clock=clock)
    yield made
    made.close()


def test_while_nothing_happens_it_is_the_same_moment(epoch: Epoch) -> None:
    number = epoch.now()
    assert number > 0
    assert epoch.is_still(number)
    assert epoch.now() == number
    assert not epoch.is_still(number - 1)
    assert not epoch.is_still(number + 1)


def test_nothing_is_known_of_a_moment_before_it_was_asked(epoch: Epoch) -> None:
    assert not epoch.is_still(1)
    assert epoch.now() == 1


@pytest.mark.parametrize("first", ["now", "is_still"])
def test_a_clock_that_was_set_ends_an_epoch_each_time(epoch: Epoch, clock: int, first: str) -> None:
    """Broken: `_take` without the clock among what it counts; `_rearm` without `_arm` (the second time)."""
    for _ in range(3):
        number = epoch.now()
        wall_clock_was_set(clock)
        if first == "is_still":
            assert not epoch.is_still(number)
        after = epoch.now()
        assert after > number
        assert not epoch.is_still(number)
        assert epoch.is_still(after)


def test_a_clock_that_is_set_again_while_that_is_taken_is_watched_on(
    epoch: Epoch, clock: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel arms it and says ECANCELED. Broken: `_arm` takes that for a failure."""
    number = epoch.now()
    wall_clock_was_set(clock)
    real = ctypes.CDLL(None, use_errno=True)

    class SetOnceMore:
        def timerfd_settime(self, *arguments: Any) -> int:
            real.timerfd_settime(*arguments)
            ctypes.set_errno(errno.ECANCELED)
            return -1

    with monkeypatch.context() as patched:
        patched.setattr(epochs, "_LIBC", SetOnceMore())
        after = epoch.now()
    assert after > number
    assert epoch.is_still(after)
    wall_clock_was_set(clock)
    assert not epoch.is_still(after)


def test_where_the_clock_cannot_be_watched_any_more_nothing_is_known() -> None:
    """Broken: `_rearm` goes on after a failure."""
    event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    epoch = Epoch(clock=event)
    number = epoch.now()
    assert number > 0
    os.eventfd_write(event, 1)
    assert epoch.now() == 0
    assert not epoch.is_still(number)
    assert not epoch.is_still(number + 1)
    assert not epoch.is_still(0)


def test_where_nothing_is_told_of_mounts_or_of_the_clock_nothing_is_known(
    tmp_path: Path, clock: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Epoch(os.fspath(tmp_path / "none"), clock).now() == 0
    monkeypatch.setattr(epochs, "_LIBC", None)
    assert Epoch().now() == 0
    with pytest.raises(OSError, match="timerfd"):
        clock_watch()


def test_after_its_end_nothing_is_known(epoch: Epoch) -> None:
    """Broken: `is_still` compares numbers alone."""
    number = epoch.now()
    epoch.close()
    assert epoch.now() == 0
    assert not epoch.is_still(number)
    epoch.close()


def test_what_a_watcher_has_to_tell_ends_no_epoch_but_is_no_silence(epoch: Epoch) -> None:
    """Broken: `is_still` looks at numbers alone, or `_take` counts whatever is told."""
    event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    epoch.add(-1)
    epoch.add(event)
    number = epoch.now()
    assert epoch.is_still(number)
    os.eventfd_write(event, 1)
    assert not epoch.is_still(number)
    assert epoch.now() == number
    os.eventfd_read(event)
    assert epoch.is_still(number)
    os.close(event)
    assert not epoch.is_still(number)


def test_a_clock_is_watched_without_waiting_and_not_inherited(clock: int) -> None:
    with pytest.raises(BlockingIOError):
        os.read(clock, 8)
    assert not os.get_inheritable(clock)
    os.close(clock)


MOUNTS = {
    "a file system": "mount -t tmpfs none /mnt",
    "a directory once more": "mount --bind /tmp /mnt",
    "a file over a file": "touch $0/f $0/g; mount --bind $0/f $0/g",
    "read only": "mount --bind /tmp /mnt; mount -o remount,bind,ro /mnt",
    "moved": "mkdir $0/a $0/b; mount -t tmpfs none $0/a; mount --make-private /; mount --move $0/a $0/b",
}


def mounts_end_it(home: bytes) -> None:
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    epoch = Epoch()
    for number, script in enumerate(MOUNTS.values()):
        place = os.path.join(home, b"%d" % number)
        os.mkdir(place)
        before = epoch.now()
        assert epoch.is_still(before)
        subprocess.run(["bash", "-euc", script, place], check=True)
        assert not epoch.is_still(before), script
        after = epoch.now()
        assert after > before, script
        assert epoch.is_still(after)
    before = epoch.now()
    unmount(b"/mnt")
    assert epoch.now() > before
    before = epoch.now()
    subprocess.run(["umount", "-l", "/mnt"], check=True)
    assert epoch.now() > before
    before = epoch.now()
    subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], check=True)
    assert epoch.is_still(before), "what others mount for themselves alone is not ours"


@pytest.mark.skipif(not may_mount(), reason="nothing may be mounted here")
def test_whatever_is_mounted_or_unmounted_anywhere_ends_an_epoch(tmp_path: Path) -> None:
    """Broken: `Epoch` without the mount table."""
    in_namespace(mounts_end_it, os.fsencode(tmp_path))
