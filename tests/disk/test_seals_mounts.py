"""On which file systems files are sealed, each in a mount namespace of its own; and what takes the place of one.

Each case says what is broken where it fails: it was seen to fail with that.
"""

from __future__ import annotations

import atexit
import mmap
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from reading_help import place, sha, write
from sealing_help import (
    Sealed,
    exchange,
    image,
    in_namespace,
    may_mount,
    mount,
    mounted_image,
    set_clock,
    skip,
    stores_are_seen_on_tmpfs,
    unmount,
)

from provd.disk import files, lease, seal
from provd.disk.seals import Sealer

pytestmark = pytest.mark.skipif(not may_mount(), reason="nothing may be mounted here")


@pytest.fixture
def home() -> Iterator[bytes]:
    with place() as path:
        yield path


def stores_are_seen(there: bytes) -> None:
    """Through mappings whose pages were read first, or are dirty already, of a file that has a seal or none."""
    sealed = Sealed()
    path = write(there + b"/f", b"one" * 3000)
    rest = (b"one" * 3000)[2:]
    sealed.ask(path)
    assert sealed.ask(path).sealed
    for number in range(3):
        with open(path, "r+b") as file:
            mapping = mmap.mmap(file.fileno(), 0)
        mapping[4096:5000].count(b"o")
        assert mapping[0]
        for step in range(3):
            content = b"%d%d" % (number, step)
            mapping[:2] = content
            with open(path, "rb") as file:
                is_there = file.read()
            assert is_there == content + rest
            assert sealed.ask(path).digest == sha(is_there), (number, step)
        mapping.close()
        sealed.ask(path)
        assert sealed.ask(path).sealed
    with open(path, "r+b") as file:
        file.write(b"xy")
    assert sealed.ask(path).digest == sha(b"xy" + rest)
    sealed.close()


def on_ext4(home: bytes) -> None:
    with mounted_image("ext4", home) as there:
        stores_are_seen(there)


def on_xfs(home: bytes) -> None:
    with mounted_image("xfs", home) as there:
        stores_are_seen(there)


def on_btrfs(home: bytes) -> None:
    with mounted_image("btrfs", home) as there:
        stores_are_seen(there)


def with_stamps_by_the_second(home: bytes) -> None:
    """An ext4 of inodes with 128 bytes. Broken: `is_older` asks for less than a second there."""
    set_clock(pytest.MonkeyPatch(), 0)
    lease.ignore_lease_breaks()
    with mounted_image("seconds", home) as there:
        path = there + b"/f"
        sealed, patch = Sealed(), pytest.MonkeyPatch()
        for content in range(1, 1000):
            write(path, b"%06d" % content)
            was = os.stat(path)
            assert was.st_ctime_ns % 1_000_000_000 == 0
            set_clock(patch, was.st_ctime_ns + 500_000_000)
            sealed.ask(path)
            write(path, b"%06d" % -content)
            now = os.stat(path)
            if was.st_ctime_ns == now.st_ctime_ns:
                assert sealed.ask(path).digest == sha(b"%06d" % -content)
                break
        else:
            raise AssertionError("no two writes fell into one second")
        set_clock(patch, now.st_ctime_ns + seal.STEP)
        sealed.ask(path)
        assert sealed.ask(path).sealed
        sealed.close()


def never_on_tmpfs(home: bytes) -> None:
    """A mapping that reads before it stores moves no time there. Broken: tmpfs in the list."""
    mount("-t", "tmpfs", "none", home)
    stores_are_seen_on_tmpfs(Sealed(), home)


def never_on_overlay(home: bytes) -> None:
    """A lease is granted there while a mapping lives by the path of what lies below. Broken: overlay in the list."""
    for name in (b"/low", b"/up", b"/work", b"/over"):
        os.mkdir(home + name)
    write(home + b"/low/f", b"one")
    layers = b"lowerdir=%s/low,upperdir=%s/up,workdir=%s/work" % (home, home, home)
    mount("-t", "overlay", "overlay", "-o", layers, home + b"/over")
    sealed = Sealed()
    path = write(home + b"/over/new", b"one")
    with open(home + b"/up/new", "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
    mapping[0] = mapping[0]
    sealed.ask(path)
    mapping[:3] = b"two"
    assert sealed.ask(path).digest == sha(b"two")
    assert not sealed.has(path)
    mapping.close()
    sealed.ask(home + b"/low/f")
    assert sealed.has(home + b"/low/f"), "what lies below is a file like others"
    sealed.ask(home + b"/over/f")
    assert not sealed.has(home + b"/over/f")


def another_image_under_the_same_number(home: bytes) -> None:
    """A copy in which only the content differs: device, inode, size and all times are equal.

    Broken: `Epoch` without the mount table.
    """
    first, second = two_images(home)
    there, path = home + b"/there", home + b"/there/f"
    mount(first, there)
    sealed = Sealed()
    sealed.ask(path)
    assert sealed.ask(path).sealed
    was = os.stat(path)
    unmount(there)
    instead(first, second)
    mount(first, there)
    now = os.stat(path)
    assert files.signature(now) == files.signature(was), "only what is in it differs"
    assert sealed.ask(path).digest == sha(b"two")


def another_image_within_one_question(home: bytes) -> None:
    """The same, after the first look. Broken: `_end_round` without `_known.clear`; without its check of mounts."""
    first, second = two_images(home)
    there, path = home + b"/there", home + b"/there/f"
    other = write(home + b"/other", b"other")
    mount(first, there)
    sealed = Sealed()
    for each in (path, other):
        sealed.ask(each)
        assert sealed.ask(each).sealed
    patch, find = pytest.MonkeyPatch(), Sealer.find

    def found(*arguments: Any) -> bytes | None:
        raw = find(*arguments)
        if arguments[1] == other:
            patch.undo()
            unmount(there)
            instead(first, second)
            mount(first, there)
        return raw

    patch.setattr(Sealer, "find", found)
    told = sealed.ask_by_job(path, other)
    assert [each.digest for each in told] == [sha(b"two"), sha(b"other")]


def two_images(home: bytes) -> tuple[bytes, bytes]:
    """A loop device with one image, and a copy of that in which a file has another content."""
    one, two = image("ext4", home, b"one"), home + b"/two"
    os.mkdir(home + b"/there")
    mount("-o", "loop", one, home + b"/there")
    write(home + b"/there/f", b"one")
    unmount(home + b"/there")
    shutil.copy(one, two)
    with open(one, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at, only = content.find(b"one" + bytes(500)), content.rfind(b"one" + bytes(500))
    if at < 0 or at != only:
        skip("the content is not where it can be found")
    with open(two, "r+b") as copy:
        copy.seek(at)
        copy.write(b"two")
    device = subprocess.run(["losetup", "-f", "--show", one], capture_output=True, check=False).stdout.strip()
    if not device:
        skip("no loop device may be had")
    atexit.register(lambda: subprocess.run(["losetup", "-d", device], check=False, capture_output=True))
    return device, two


def instead(device: bytes, other: bytes) -> None:
    """Puts another image behind the same device."""
    subprocess.run(["losetup", "-d", device], check=True)
    done = subprocess.run(["losetup", device, other], capture_output=True, check=False)
    if done.returncode != 0:
        skip("somebody else took the loop device")


def a_file_over_a_file(home: bytes) -> None:
    """Broken: `find` without the comparison of signatures."""
    path, other = write(home + b"/f", b"one"), write(home + b"/g", b"two")
    sealed = Sealed()
    sealed.ask(path)
    mount("--bind", other, path)
    assert sealed.ask(path).digest == sha(b"two")
    sealed.ask(path)
    assert sealed.ask(path).sealed
    unmount(path)
    assert sealed.ask(path).digest == sha(b"one")


def a_link_that_is_exchanged_on_xfs_moves_no_time(home: bytes) -> None:
    """What a seal says is true by whatever way; this shows why the shortcut does not follow links."""
    with mounted_image("xfs", home) as there:
        path = write(there + b"/f", b"one")
        sealed = Sealed()
        sealed.ask(path)
        os.symlink(b"l", there + b"/l")
        exchange(path, there + b"/l")
        assert os.path.islink(path)
        assert sealed.ask(path).digest == sha(b"one")


CASES: list[Callable[[bytes], None]] = [
    on_ext4,
    on_xfs,
    on_btrfs,
    with_stamps_by_the_second,
    never_on_tmpfs,
    never_on_overlay,
    another_image_under_the_same_number,
    another_image_within_one_question,
    a_file_over_a_file,
    a_link_that_is_exchanged_on_xfs_moves_no_time,
]


@pytest.mark.parametrize("case", CASES, ids=[case.__name__ for case in CASES])
def test_on_file_systems(case: Callable[[bytes], None], home: bytes) -> None:
    in_namespace(case, home)
