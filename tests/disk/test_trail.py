"""The way to a path: names that were moved away and back are found out, and busy neighbours disturb nobody."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from reading_help import exchange, fine, flip, here, reading, write

from provd.core.reading import Signature
from provd.disk import IgnoreRules, ReadingJob, files, stamps, trail
from provd.disk.mounts import UNKNOWN, Mounts, mounted
from provd.disk.stamps import Stamps
from provd.disk.trail import Trails, Way

__all__ = ["fine", "here"]

if TYPE_CHECKING:
    from collections.abc import Callable


def names(way: Way | None) -> list[bytes]:
    """The names on a way, from the top."""
    found: list[bytes] = []
    while way is not None:
        found = [step.path for step in way.steps] + found
        way = way.above
    return found


def below(here: bytes, way: Way) -> list[bytes]:
    """Those names on a way that lie below `here`."""
    return [path.removeprefix(here) for path in names(way) if path.startswith(here + b"/")]


def held(trails: Trails, way: Way) -> bool:
    """Whether the way is still the same, in a new round of second looks."""
    trails.end()
    return trails.departure(way) is None


# ---- what a way is


def test_a_way_is_the_names_of_the_path(here: bytes) -> None:
    write(here + b"/a/b/f")
    trails = Trails(Stamps(mounted()))
    for path in (b"/a/b/f", b"//a/./b///f", b"/a/b/../b/f", b"/a/b/f/", b"/a/b/f/x", b"/a/b/f/../g"):
        assert below(here, trails.take(here + path))[:3] == [b"/a", b"/a/b", b"/a/b/f"] or b".." in path
    assert below(here, trails.take(here + b"/a/b/../b/f")) == [b"/a", b"/a/b", b"/a/b", b"/a/b/f"]
    assert below(here, trails.take(here + b"/a/b/f/../g")) == [b"/a", b"/a/b", b"/a/b/f"]  # a file leads nowhere
    assert below(here, trails.take(here + b"/a/none/x/y")) == [b"/a", b"/a/none"]
    assert names(trails.take(b"/")) == []
    assert names(trails.take(b"/..")) == []


@pytest.mark.parametrize("absolute", [False, True])
def test_a_way_goes_through_links_and_names_both_sides(here: bytes, absolute: bool) -> None:
    write(here + b"/real/d/f")
    os.mkdir(here + b"/x")
    os.symlink(here + b"/real/d" if absolute else b"../real/./d/", here + b"/x/l")
    os.symlink(b"x/l", here + b"/m")
    trails = Trails(Stamps(mounted()))
    expected = [b"/m", b"/x", b"/x/l", b"/real", b"/real/d", b"/real/d/f"]
    assert [path for path in below(here, trails.take(here + b"/m/f")) if path] == expected
    assert below(here, trails.take(here + b"/m/../g")) == [*expected[:-1], b"/real/g"]  # as the system means it
    assert below(here, trails.take(here + b"/m", follow=False)) == [b"/m"]
    assert below(here, trails.take(here + b"/m")) == expected[:-1]


def test_a_loop_of_links_and_a_dangling_link_end_the_way(here: bytes) -> None:
    os.symlink(b"l", here + b"/l")
    os.symlink(b"none/x", here + b"/dangling")
    trails = Trails(Stamps(mounted()))
    assert set(below(here, trails.take(here + b"/l/below"))) == {b"/l"}
    assert below(here, trails.take(here + b"/dangling/below")) == [b"/dangling", b"/none"]


def test_a_path_of_very_many_names_is_taken(here: bytes) -> None:
    assert len(names(Trails(Stamps(mounted())).take(here + b"/." * 1500 + b"/..//" * 20))) > 0


def test_ten_files_in_one_deep_directory_cost_its_depth_once(
    here: bytes, fine: Mounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = here + b"/1/2/3/4/5/6"
    paths = [write(deep + b"/f%d" % number, b"x") for number in range(10)]
    depth = deep.count(b"/")
    looked: list[bytes] = []
    real = os.lstat

    def count(path: bytes) -> os.stat_result:
        looked.append(path)
        return real(path)

    work = ReadingJob([reading("file:", path) for path in paths], IgnoreRules(), mounts=fine)
    monkeypatch.setattr(os, "lstat", count)
    work.run()
    assert work.finished
    assert len(looked) < 3 * (depth + len(paths))  # a busy directory above costs a look more


# ---- what stands still


def test_what_nobody_touches_holds(here: bytes) -> None:
    write(here + b"/d/f")
    os.symlink(b"d/f", here + b"/l")
    trails = Trails(Stamps(mounted()))
    for path in (b"/d/f", b"/l", b"/none", b"/d/none", b"/d/f/x"):
        assert held(trails, trails.take(here + path))


Act = "Callable[[bytes], object]"


def away_and_back(top: bytes) -> None:
    os.rename(top + b"/d", top + b"/e")
    os.rename(top + b"/e", top + b"/d")


def exchanged_and_back(top: bytes) -> None:
    exchange(top + b"/d", top + b"/other")
    exchange(top + b"/d", top + b"/other")


def file_away_and_back(top: bytes) -> None:
    os.rename(top + b"/d/f", top + b"/g")
    os.rename(top + b"/g", top + b"/d/f")


def unlinked_and_linked(top: bytes) -> None:
    os.link(top + b"/d/f", top + b"/g")
    os.unlink(top + b"/d/f")
    os.link(top + b"/g", top + b"/d/f")


def made_anew(top: bytes) -> None:
    """Another directory of the same name; many file systems give it the same inode number."""
    os.rename(top + b"/d/f", top + b"/f")
    os.rmdir(top + b"/d")
    os.mkdir(top + b"/d")
    os.rename(top + b"/f", top + b"/d/f")


def other_file_and_back(top: bytes) -> None:
    os.rename(top + b"/d/f", top + b"/kept")
    write(top + b"/d/f", b"other")
    os.rename(top + b"/kept", top + b"/d/f")


@pytest.mark.parametrize(
    "act", [away_and_back, exchanged_and_back, file_away_and_back, unlinked_and_linked, made_anew, other_file_and_back]
)
@pytest.mark.parametrize("busy", [False, True])
def test_a_name_that_was_away_did_not_hold(
    here: bytes, fine: Mounts, act: Callable[[bytes], object], busy: bool
) -> None:
    write(here + b"/d/f")
    write(here + b"/other/f")
    trails = Trails(Stamps(fine))
    way = trails.take(here + b"/d/f")
    act(here)
    if busy:
        write(here + b"/d/more")
    assert not held(trails, way)


def test_a_link_that_pointed_elsewhere_and_back_did_not_hold(here: bytes, fine: Mounts) -> None:
    write(here + b"/1/f")
    write(here + b"/2/f")
    os.symlink(b"1", here + b"/l")
    trails = Trails(Stamps(fine))
    way = trails.take(here + b"/l/f")
    flip(here + b"/l", b"2")
    flip(here + b"/l", b"1")
    assert not held(trails, way)


def test_what_was_absent_and_there_for_a_moment_did_not_hold(here: bytes, fine: Mounts) -> None:
    trails = Trails(Stamps(fine))
    way = trails.take(here + b"/none")
    os.unlink(write(here + b"/none"))
    assert not held(trails, way)


def test_names_in_a_busy_directory_hold(here: bytes, fine: Mounts) -> None:
    here += b"/top"  # one directory is busy, not the one above it too
    write(here + b"/d/e/f", b"x")
    os.symlink(b"d", here + b"/l")
    trails = Trails(Stamps(fine))
    ways = [trails.take(here + path) for path in (b"/d/e/f", b"/l/e/f", b"/d/none", b"/d/e/f/none")]
    for number in range(3):
        write(here + b"/%d" % number)  # not in `d`, whose own times are the proof
        os.unlink(here + b"/%d" % number)
        assert [held(trails, way) for way in ways] == [True] * 4


def test_a_busy_file_is_still_no_directory(here: bytes, fine: Mounts) -> None:
    path = write(here + b"/f", b"x")
    trails = Trails(Stamps(fine))
    way = trails.take(path + b"/none")
    write(path, b"longer")
    assert held(trails, way)


@pytest.mark.parametrize(
    ("name", "directory", "expected"),
    [
        ("same", "same", True),
        ("same", "changed", True),
        ("changed", "same", True),
        ("changed", "changed", False),
        ("another", "same", False),  # mounted over
        ("gone", "same", False),
    ],
)
@pytest.mark.parametrize("trusted", ["both", "name", "directory", "neither"])
def test_a_name_holds_by_itself_or_by_its_directory(
    monkeypatch: pytest.MonkeyPatch, name: str, directory: str, expected: bool, trusted: str
) -> None:
    now = {"same": 0, "changed": 1}
    was: dict[bytes, Signature | None] = {
        b"/": Signature(1, 2, 0o40755, 0, 5, 5),
        b"/d": Signature(9, 3, 0o40755, 0, 5, 5),
    }
    monkeypatch.setattr(trail, "_lstat", was.get)
    old = {"both": {1, 9}, "name": {9}, "directory": {1}, "neither": set()}[trusted]
    monkeypatch.setattr(trail, "is_young", lambda signature, _at: signature.dev not in old)
    trails = Trails(Stamps(Mounts(kinds={9: "ext2"})))
    way = trails.take(b"/d")
    was[b"/"] = Signature(1, 2, 0o40755, 0, 5, 5 + now[directory])
    ctime = 5 + now.get(name, 0)
    was[b"/d"] = None if name == "gone" else Signature(9, 4 if name == "another" else 3, 0o40755, 0, 5, ctime)
    shown = (name == "same" and trusted in {"both", "name"}) or (
        directory == "same" and trusted in {"both", "directory"}
    )
    assert held(trails, way) is (expected and shown)


@pytest.mark.parametrize(
    ("old", "created", "touched", "expected"),
    [(True, False, False, True), (True, False, True, False), (True, True, True, False), (False, False, False, False)],
)
def test_an_absent_name_holds_by_its_directory_alone(
    monkeypatch: pytest.MonkeyPatch, old: bool, created: bool, touched: bool, expected: bool
) -> None:
    was: dict[bytes, Signature | None] = {b"/": Signature(1, 2, 0o40755, 0, 5, 5)}
    monkeypatch.setattr(trail, "_lstat", was.get)
    monkeypatch.setattr(trail, "is_young", lambda _signature, _at: not old)
    trails = Trails(Stamps(Mounts(kinds={1: "ext2"})))
    way = trails.take(b"/none")
    was[b"/"] = Signature(1, 2, 0o40755, 0, 5, 6 if touched else 5)
    was[b"/none"] = Signature(1, 3, 0o40755, 0, 5, 5) if created else None
    assert held(trails, way) is expected


@pytest.mark.parametrize("kind", ["xfs", "overlay", "vfat", "nfs4"])
def test_where_names_leave_no_trace_on_inodes_only_the_directory_counts(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    was: dict[bytes, Signature | None] = {
        b"/": Signature(1, 2, 0o40755, 0, 5, 5),
        b"/d": Signature(1, 3, 0o40755, 0, 5, 5),
    }
    monkeypatch.setattr(trail, "_lstat", was.get)
    monkeypatch.setattr(trail, "is_young", lambda _signature, _at: False)
    trails = Trails(Stamps(Mounts(kinds={1: kind})))
    way = trails.take(b"/d")
    assert held(trails, way)
    was[b"/"] = Signature(1, 2, 0o40755, 0, 5, 6)
    assert not held(trails, way)


# ---- what an unchanged stat says

OLD = Signature(1, 2, 0o100644, 0, 5_000_000_001, 5_000_000_001)


@pytest.mark.parametrize(
    ("kind", "finely", "follows"),
    [
        ("ext4", True, True),
        ("xfs", True, False),
        ("ext3", False, True),
        ("overlay", False, False),
        ("nfs4", False, False),
    ],
)
def test_file_systems_are_trusted_by_name(
    monkeypatch: pytest.MonkeyPatch, kind: str, finely: bool, follows: bool
) -> None:
    monkeypatch.setattr(stamps, "kernel_is_fine", lambda: True)
    asked = Stamps(Mounts(kinds={1: kind}))
    assert (asked.fine(OLD, b"/x"), asked.follow_names(OLD, b"/x")) == (finely, follows)
    whole_seconds = Signature(1, 2, 0o100644, 0, 5_000_000_000, 5_000_000_000)
    assert not asked.fine(whole_seconds, b"/x")
    monkeypatch.setattr(stamps, "kernel_is_fine", lambda: False)
    assert not Stamps(Mounts(kinds={1: kind})).fine(OLD, b"/x")


@pytest.mark.parametrize(
    ("system", "release", "finely"),
    [
        ("Linux", "6.18.44-fc", True),
        ("Linux", "6.13.0", True),
        ("Linux", "6.12.9", False),
        ("Linux", "5.15.0-91-generic", False),
        ("Darwin", "23.1.0", False),
        ("Linux", "odd", False),
    ],
)
def test_kernels_are_trusted_by_their_release(
    monkeypatch: pytest.MonkeyPatch, system: str, release: str, finely: bool
) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((system, "host", release, "", "x")))
    assert stamps.kernel_is_fine() is finely


def test_each_change_after_a_stat_moves_the_times_where_it_is_said_so(here: bytes, fine: Mounts) -> None:
    path, other = write(here + b"/f"), here + b"/g"
    for _ in range(2000):
        before = os.lstat(path).st_ctime_ns, os.lstat(here).st_ctime_ns
        os.rename(path, other)
        os.rename(other, path)
        assert os.lstat(path).st_ctime_ns != before[0]
        assert os.lstat(here).st_ctime_ns != before[1]


class Clock:
    """Stamps by a tick that only a nap lets pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.naps: list[float] = []
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(trail, "is_young", lambda _signature, at: at < 1)
        monkeypatch.setattr(trail, "coarse_clock", lambda: 0)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self._monkeypatch.setattr(trail, "coarse_clock", lambda: 1)


def test_what_was_made_within_the_tick_is_looked_at_again_after_it(
    here: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here + b"/d/f")
    clock = Clock(monkeypatch)
    trails = Trails(Stamps(UNKNOWN))
    ways = [trails.take(here + path) for path in (b"/d/f", b"/d/none", b"/none")]
    assert len(clock.naps) == 1
    assert clock.naps[0] <= 0.025
    assert [held(trails, way) for way in ways] == [True] * 3


def test_a_tick_that_may_not_pass_ends_a_quick_attempt(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with pytest.raises(files.NotQuick):
        Trails(Stamps(UNKNOWN), may_wait=False).take(here + b"/none")
    work = ReadingJob([reading("file:", here + b"/1"), reading("file:", here + b"/2")], IgnoreRules(), 1000, UNKNOWN)
    work.run()
    assert work.not_quick
    assert clock.naps == []


def test_what_stays_young_is_no_proof_and_one_round_naps_once(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    monkeypatch.setattr(trail, "is_young", lambda _signature, at: at < 1 << 20)  # until long after any nap
    monkeypatch.setattr(trail, "coarse_clock", lambda: 0)
    trails = Trails(Stamps(UNKNOWN))
    assert not held(trails, trails.take(here + b"/none"))
    assert len(clock.naps) == 1
    monkeypatch.setattr(trail, "is_young", lambda _signature, _at: True)  # whole seconds: no nap is long enough
    trails.again()
    assert not held(trails, trails.take(here + b"/none"))
    assert len(clock.naps) == 1
