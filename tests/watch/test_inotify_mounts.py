"""Mounts at, above and below a root, in a mount namespace of our own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from inotify_driving import add, directories, drain, mkdir, of, touched, watching, write

from provd.cli.words import gaps
from provd.core.notice import Covered, Lost

pytestmark = pytest.mark.skipif(
    subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode != 0,
    reason="no user and mount namespaces here",
)


def mount(*arguments: str | bytes) -> None:
    subprocess.run(["mount", *arguments], check=True)


def unmount(path: bytes) -> None:
    subprocess.run(["umount", path], check=True)


def a_tmpfs_over_a_directory_is_watched_and_so_is_what_it_covered(root: bytes) -> None:
    mkdir(root + b"/d/hidden")
    with watching(root) as watcher:
        mount("-t", "tmpfs", "none", root + b"/d")
        assert watcher.mounts_changed()
        watcher.check()
        assert not watcher.mounts_changed()
        assert root + b"/d" in {each.path for each in of(Lost, drain(watcher))}
        mkdir(root + b"/d/new")
        drain(watcher)
        assert directories(watcher, root) == {root + b"/d", root + b"/d/new"}
        assert watcher.uncovered(root) == []
        unmount(root + b"/d")
        watcher.check()
        assert root + b"/d" in {each.path for each in of(Lost, drain(watcher))}
        assert directories(watcher, root) == {root + b"/d", root + b"/d/hidden"}
        write(root + b"/d/hidden/f")
        assert touched(drain(watcher))


def an_unreliable_file_system_below_a_root_is_uncovered(root: bytes) -> None:
    mkdir(root + b"/d")
    with watching(root) as watcher:
        mount("--rbind", "/proc", root + b"/d")
        watcher.check()
        told = drain(watcher)
        covered = {each.path: each.coverage for each in of(Covered, told)}
        assert covered[root + b"/d"] == "none"
        assert any("proc is a window" in each.why for each in watcher.uncovered(root))
        assert directories(watcher, root) == set()
        add(watcher, root, lambda path, is_dir: path == root + b"/d")
        assert watcher.uncovered(root) == []
        add(watcher, root, lambda path, is_dir: is_dir and path == root + b"/d")  # nobody looks whether it is one
        assert len(watcher.uncovered(root)) == 1
        add(watcher, root)
        subprocess.run(["umount", "-l", root + b"/d"], check=True)
        watcher.check()
        assert Covered(root + b"/d", "whole") in drain(watcher)
        assert watcher.uncovered(root) == []


def a_mount_found_when_a_root_is_added_counts_too(root: bytes) -> None:
    mkdir(root + b"/a", root + b"/b")
    mount("-t", "tmpfs", "none", root + b"/a")
    mount("--rbind", "/proc", root + b"/b")
    with watching(root) as watcher:
        assert directories(watcher, root) == {root + b"/a"}
        assert {each.path for each in watcher.uncovered(root)} == {root + b"/b"}


def a_file_mounted_over_a_file_is_uncovered(root: bytes) -> None:
    write(root + b"/f")
    write(root + b"/../other")
    with watching(root) as watcher:
        mount("--bind", root + b"/../other", root + b"/f")
        watcher.check()
        drain(watcher)
        assert [each.path for each in watcher.uncovered(root)] == [root + b"/f"]
        unmount(root + b"/f")
        watcher.check()
        assert Lost(root + b"/f", "something was mounted or unmounted here") in drain(watcher)
        assert watcher.uncovered(root) == []


def the_same_directory_mounted_twice_is_uncovered_at_one_place(root: bytes) -> None:
    mkdir(root + b"/a/in", root + b"/b")
    with watching(root) as watcher:
        mount("--bind", root + b"/a", root + b"/b")
        watcher.check()
        drain(watcher)
        (place,) = watcher.uncovered(root)
        assert place.path == root + b"/b"
        assert "mounted twice" in place.why
        write(root + b"/b/in/f")
        assert touched(drain(watcher))[0][0] == root + b"/a/in/f"


def a_directory_above_the_root_mounted_within_it_ends(root: bytes) -> None:
    mkdir(root + b"/a/in")
    mount("--bind", root, root + b"/a/in")
    with watching(root) as watcher:
        assert [each.path for each in watcher.uncovered(root)] == [root + b"/a/in"]


def a_mount_over_the_root_or_above_it_makes_it_gone(root: bytes) -> None:
    mkdir(root + b"/up/r/d")
    place = root + b"/up/r"
    for point in (place, root + b"/up", root):
        with watching(place) as watcher:
            mount("-t", "tmpfs", "none", point)
            watcher.check()
            assert place in {each.path for each in of(Lost, drain(watcher))}
            assert watcher.state(place).state == "gone"
            unmount(point)
            watcher.check()
            assert Covered(place, "whole") in drain(watcher)
            write(place + b"/d/f")
            assert touched(drain(watcher))


def a_file_system_that_may_hang_mounted_over_the_root_is_not_looked_at(root: bytes) -> None:
    mkdir(root + b"/up/r/d")
    place, lstat = root + b"/up/r", os.lstat
    looked: list[bytes] = []

    def looking(path: bytes) -> os.stat_result:
        looked.append(path)
        return lstat(path)

    for point in (place, root + b"/up"):
        with watching(place) as watcher:
            mount("--rbind", "/proc", point)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(os, "lstat", looking)
                watcher.check()
                told = drain(watcher)
                watcher.check()
            assert place in {each.path for each in of(Lost, told)}
            assert looked == []
            state = watcher.state(place)
            assert (state.state, "proc is a window" in state.uncovered[0].why) == ("gone", True)
            subprocess.run(["umount", "-l", point], check=True)
            watcher.check()
            assert Covered(place, "whole") in drain(watcher)


def a_root_is_added_by_the_mounts_of_the_moment(root: bytes) -> None:
    mkdir(root + b"/b")
    with watching() as watcher:
        mount("--rbind", "/proc", root + b"/b")
        add(watcher, root)
        assert {each.path for each in watcher.uncovered(root)} == {root + b"/b"}


def the_same_root_mounted_over_itself_is_a_loss_all_the_same(root: bytes) -> None:
    mkdir(root + b"/d")
    with watching(root) as watcher:
        mount("--bind", root, root)
        watcher.check()
        assert root in {each.path for each in of(Lost, drain(watcher))}
        assert watcher.uncovered(root) == []
        write(root + b"/d/f")
        assert touched(drain(watcher))


def a_mount_beside_a_root_is_none_of_its_business(root: bytes) -> None:
    mkdir(root + b"/beside", root + b"/r")
    with watching(root + b"/r") as watcher:
        mount("-t", "tmpfs", "none", root + b"/beside")
        watcher.check()
        assert drain(watcher) == []


def a_table_that_reads_as_before_says_no_more_than_that(root: bytes) -> None:
    mkdir(root + b"/beside", root + b"/r")
    with watching(root + b"/r") as watcher:
        mount("-t", "tmpfs", "none", root + b"/beside")
        unmount(root + b"/beside")
        watcher.check()
        told = "the table of mounts changed since the last look, and reads as it did then or cannot be read"
        assert of(Lost, drain(watcher)) == [Lost(root + b"/r", told)]
        assert "may have come and gone" in gaps.meaning(told).words


def a_file_system_unmounted_lazily_is_not_silent(root: bytes) -> None:
    mkdir(root + b"/d")
    mount("-t", "tmpfs", "none", root + b"/d")
    mkdir(root + b"/d/in")
    with watching(root) as watcher:
        unmount(root + b"/d")
        told = drain(watcher)
        assert root + b"/d" in {each.path for each in of(Lost, told)}
        watcher.check()
        drain(watcher)
        assert directories(watcher, root) == {root + b"/d"}
        assert watcher.uncovered(root) == []


CASES = [name for name in list(globals()) if name.startswith(("a_", "an_", "the_"))]


@pytest.mark.parametrize("case", CASES)
def test_mounts(case: str, tmp_path: Path) -> None:
    place = os.fspath(tmp_path)
    here = os.path.dirname(__file__)
    paths = [here, os.path.dirname(os.path.dirname(here)), *sys.path]
    program = f"import os, test_inotify_mounts as t; os.mkdir(b'r'); t.{case}(os.path.realpath(b'r'))"
    subprocess.run(
        ["unshare", "-Urm", sys.executable, "-c", program],
        cwd=place,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        check=True,
    )
