"""What the watcher tells of each kind of change, by real events."""

from __future__ import annotations

import os
import shutil
import struct
import time
from pathlib import Path

import pytest
from inotify_driving import Mirror, add, directories, disk, drain, exchange, mkdir, named, of, touched, watching, write

from provd.core.notice import Appeared, Lost, Moved, What
from provd.watch import inotify
from provd.watch.inotify import InotifyWatcher
from provd.watch.syscalls import Q_OVERFLOW

COARSE = 5
"""CLOCK_REALTIME_COARSE of Linux, by which most kernels stamp."""


@pytest.fixture
def root(tmp_path: Path) -> bytes:
    path = os.fsencode(tmp_path / "root")
    mkdir(path + b"/d/e", path + b"/g")
    write(path + b"/f")
    return path


def test_a_quiet_tree_tells_nothing(root: bytes) -> None:
    with watching(root) as watcher:
        assert drain(watcher) == []
        assert watcher.read() == 0


def test_making_writing_and_removing_a_file_is_told_in_order(root: bytes) -> None:
    with watching(root) as watcher:
        write(root + b"/d/new")
        os.chmod(root + b"/d/new", 0o600)
        os.unlink(root + b"/d/new")
        assert touched(drain(watcher)) == [
            (root + b"/d/new", What.CREATED),
            (root + b"/d/new", What.MODIFIED),
            (root + b"/d/new", What.ATTRIB),
            (root + b"/d/new", What.DELETED),
        ]


@pytest.mark.parametrize("name", [b"with space", b"\xff\xfe", b"new\nline", b"x" * 255, "ä".encode()])
def test_any_name_is_told_as_it_is(root: bytes, name: bytes) -> None:
    with watching(root) as watcher:
        write(root + b"/" + name)
        assert touched(drain(watcher))[0] == (root + b"/" + name, What.CREATED)


def test_many_writes_in_a_row_are_told_once(root: bytes) -> None:
    with watching(root) as watcher:
        for _ in range(50):
            write(root + b"/f")
        assert touched(drain(watcher)) == [(root + b"/f", What.MODIFIED)]


def test_what_was_told_is_told_again_when_it_happens_again(root: bytes) -> None:
    with watching(root) as watcher:
        for _ in range(2):
            write(root + b"/f")
            assert touched(drain(watcher)) == [(root + b"/f", What.MODIFIED)]


def test_a_new_hard_link_is_told_under_its_own_name(root: bytes) -> None:
    with watching(root) as watcher:
        os.link(root + b"/f", root + b"/d/link")
        assert touched(drain(watcher)) == [(root + b"/d/link", What.CREATED)]


def test_links_and_pipes_are_told_like_files(root: bytes) -> None:
    with watching(root) as watcher:
        os.symlink(b"d", root + b"/link")
        os.mkfifo(root + b"/pipe")
        told = drain(watcher)
        assert touched(told) == [(root + b"/link", What.CREATED), (root + b"/pipe", What.CREATED)]
        assert directories(watcher, root) == {root + b"/d", root + b"/d/e", root + b"/g"}


def test_a_renamed_file_is_told_as_moved(root: bytes) -> None:
    with watching(root) as watcher:
        os.rename(root + b"/f", root + b"/d/e/f")
        assert drain(watcher) == [Moved(root + b"/f", root + b"/d/e/f")]


def test_a_move_of_which_only_the_first_half_was_read_is_told_whole(root: bytes) -> None:
    with watching(root) as watcher:
        memory = watcher._memory
        os.rename(root + b"/f", root + b"/h")
        waiting = memory._kernel.waiting(watcher._fd)
        memory.put(os.read(watcher._fd, waiting // 2))
        assert watcher.take(10) == [Moved(root + b"/f", root + b"/h")]


def test_a_file_moved_out_is_deleted_and_one_moved_in_is_created(root: bytes, tmp_path: Path) -> None:
    outside = os.fsencode(tmp_path / "outside")
    with watching(root) as watcher:
        os.rename(root + b"/f", outside)
        assert touched(drain(watcher)) == [(root + b"/f", What.DELETED)]
        os.rename(outside, root + b"/d/f")
        assert touched(drain(watcher)) == [(root + b"/d/f", What.CREATED)]


def test_a_move_between_two_roots_is_one_move(root: bytes, tmp_path: Path) -> None:
    other = os.fsencode(tmp_path / "other")
    mkdir(other)
    with watching(root, other) as watcher:
        os.rename(root + b"/d", other + b"/d")
        assert of(Moved, drain(watcher)) == [Moved(root + b"/d", other + b"/d", is_dir=True)]
        write(other + b"/d/e/deep")
        assert touched(drain(watcher))[0] == (other + b"/d/e/deep", What.CREATED)
        assert watcher.state(root).directories == 2
        assert watcher.state(other).directories == 3


def test_below_a_renamed_directory_things_have_their_new_paths(root: bytes) -> None:
    with watching(root) as watcher:
        os.rename(root + b"/d", root + b"/moved")
        assert of(Moved, drain(watcher)) == [Moved(root + b"/d", root + b"/moved", is_dir=True)]
        write(root + b"/moved/e/deep")
        assert touched(drain(watcher))[0] == (root + b"/moved/e/deep", What.CREATED)


def test_a_rename_moves_one_node_and_makes_no_watch(root: bytes) -> None:
    with watching(root) as watcher:
        before = dict(watcher._places.tree.nodes)
        os.rename(root + b"/d", root + b"/g/d")
        drain(watcher)
        assert watcher._places.tree.nodes == before


def test_a_chain_of_new_directories_appears_parents_first_with_all_in_it(root: bytes) -> None:
    with watching(root) as watcher:
        mkdir(root + b"/a/b/c")
        write(root + b"/a/b/c/f")
        told = drain(watcher)
        assert of(Appeared, told) == [Appeared(root + b"/a"), Appeared(root + b"/a/b"), Appeared(root + b"/a/b/c")]
        write(root + b"/a/b/c/f")
        assert touched(drain(watcher)) == [(root + b"/a/b/c/f", What.MODIFIED)]


def test_a_directory_looked_for_while_the_one_above_moved_already_is_not_taken_for_gone(root: bytes) -> None:
    with watching(root) as watcher:
        os.rename(root + b"/d/e", root + b"/d/e2")
        watcher.read()
        os.rename(root + b"/d", root + b"/moved")
        mkdir(root + b"/d")
        assert of(Moved, watcher.take(100)) == [Moved(root + b"/d/e", root + b"/d/e2", is_dir=True)]
        assert watcher.uncovered(root + b"/d/e2") != []
        told = drain(watcher)
        assert (root + b"/d/e2", What.DELETED) not in touched(told)
        assert root + b"/moved/e2" in directories(watcher, root)
        assert watcher.uncovered(root) == []


def test_a_directory_moved_out_is_watched_no_longer(root: bytes, tmp_path: Path) -> None:
    outside = os.fsencode(tmp_path / "outside")
    with watching(root) as watcher:
        nodes = len(watcher._places.tree.nodes)
        os.rename(root + b"/d", outside)
        assert touched(drain(watcher)) == [(root + b"/d", What.DELETED)]
        write(outside + b"/e/f")
        assert drain(watcher) == []
        assert len(watcher._places.tree.nodes) == nodes - 2


def test_a_directory_moved_in_appears_whole_and_says_that_things_may_be_missed(root: bytes, tmp_path: Path) -> None:
    outside = os.fsencode(tmp_path / "outside")
    mkdir(outside + b"/x/y")
    with watching(root) as watcher:
        os.rename(outside, root + b"/in")
        appeared = [each for each in drain(watcher) if isinstance(each, Appeared)]
        assert [each.path for each in appeared] == [root + b"/in", root + b"/in/x", root + b"/in/x/y"]
        assert all(each.missed for each in appeared)


def test_a_tree_removed_and_made_again_is_watched_again(root: bytes) -> None:
    with watching(root) as watcher:
        mirror = Mirror(root)
        shutil.rmtree(root + b"/d")
        mkdir(root + b"/d/e")
        write(root + b"/d/e/f")
        mirror.apply(drain(watcher))
        assert mirror.known == disk(root)
        write(root + b"/d/e/f")
        assert touched(drain(watcher)) == [(root + b"/d/e/f", What.MODIFIED)]


def test_files_that_exchange_names_are_both_told(root: bytes) -> None:
    write(root + b"/h", b"another")
    with watching(root) as watcher:
        exchange(root + b"/f", root + b"/h")
        told = drain(watcher)
        assert named(root + b"/f", told)
        assert named(root + b"/h", told)


def test_directories_that_exchange_names_are_both_watched_and_nothing_was_missed(root: bytes) -> None:
    mkdir(root + b"/g/i")
    with watching(root) as watcher:
        mirror = Mirror(root)
        exchange(root + b"/d", root + b"/g")
        told = drain(watcher)
        mirror.apply(told)
        assert all(not each.missed for each in told if isinstance(each, Appeared))
        assert mirror.known == disk(root)
        write(root + b"/g/e/f")
        write(root + b"/d/i/f")
        assert {path for path, _ in touched(drain(watcher))} == {root + b"/g/e/f", root + b"/d/i/f"}


def test_a_file_and_a_directory_that_exchange_names_are_both_told(root: bytes) -> None:
    with watching(root) as watcher:
        mirror = Mirror(root)
        exchange(root + b"/f", root + b"/d")
        mirror.apply(drain(watcher))
        assert mirror.known == disk(root)
        write(root + b"/f/e/new")
        assert touched(drain(watcher))[0] == (root + b"/f/e/new", What.CREATED)


def test_a_directory_becomes_a_file_and_a_directory_again(root: bytes) -> None:
    with watching(root) as watcher:
        mirror = Mirror(root)
        shutil.rmtree(root + b"/d")
        write(root + b"/d")
        mirror.apply(drain(watcher))
        assert mirror.known == disk(root)
        os.unlink(root + b"/d")
        mkdir(root + b"/d/e")
        mirror.apply(drain(watcher))
        assert mirror.known == disk(root)
        assert directories(watcher, root) == {root + b"/d", root + b"/d/e", root + b"/g"}


def test_a_directory_replaced_by_a_link_is_not_followed(root: bytes) -> None:
    with watching(root) as watcher:
        os.rename(root + b"/d", root + b"/real")
        os.symlink(b"real", root + b"/d")
        drain(watcher)
        assert directories(watcher, root) == {root + b"/real", root + b"/real/e", root + b"/g"}


def test_a_file_told_before_its_directory_moved_is_listed_at_its_new_place(root: bytes) -> None:
    """Who looks for `d/new` finds nothing, since the disk is ahead; so the directory is listed where it is."""
    with watching(root) as watcher:
        mirror = Mirror(root)
        write(root + b"/d/new")
        os.rename(root + b"/d", root + b"/moved")
        watcher.read()
        while told := watcher.take(1):
            mirror.apply(told)
        mirror.apply(drain(watcher))
        assert mirror.known == disk(root)


@pytest.mark.parametrize(
    ("leave", "is_missed"),
    [("nothing", False), ("a file", False), ("a removed file", True), ("a removed file and another", True)],
)
def test_what_came_and_went_in_a_new_directory_before_it_was_watched_leaves_a_sign(
    root: bytes, leave: str, is_missed: bool
) -> None:
    with watching(root) as watcher:
        new = root + b"/new"
        os.mkdir(new)
        if "another" in leave:
            write(new + b"/kept")
        if leave != "nothing":
            write(new + b"/f")
            tick()
        if "removed" in leave:
            os.unlink(new + b"/f")
        (appeared,) = of(Appeared, drain(watcher))
        assert isinstance(appeared, Appeared)
        assert bool(appeared.missed) is is_missed


def tick() -> None:
    """Lets the clock by which the kernel stamps go on by more than a step, from any stamp that it has given."""
    first = time.time_ns()  # fine stamps may be ahead of the coarse clock, which may be late
    while time.clock_gettime_ns(COARSE) - first < 2 * int(time.clock_getres(COARSE) * 1e9):
        pass


def test_all_is_there_after_more_than_the_kernels_queue_holds(root: bytes) -> None:
    with open("/proc/sys/fs/inotify/max_queued_events", encoding="ascii") as setting:
        limit = int(setting.read())
    with watching(root) as watcher:
        mirror = Mirror(root)
        names = [root + b"/f", root + b"/d/h"]
        for turn in range(limit + 10):
            os.utime(write(names[turn % 2], b""))
        mkdir(root + b"/unseen/below")
        told = drain(watcher)
        mirror.apply(told)
        lost = of(Lost, told)
        assert [each.path for each in lost] == [root]
        assert "overflowed" in str(lost[0])
        assert root + b"/unseen/below" in directories(watcher, root)
        assert mirror.below(root) == disk(root)
        assert watcher.uncovered(root) == []
        write(root + b"/unseen/below/f")
        assert touched(drain(watcher))[0] == (root + b"/unseen/below/f", What.CREATED)


def test_few_notices_are_taken_where_few_are_asked_for(root: bytes) -> None:
    with watching(root) as watcher:
        for index in range(20):
            write(root + b"/%d" % index)
        watcher.read()
        sizes = []
        while told := watcher.take(5):
            sizes.append(len(told))
        assert len(sizes) >= 40 / 5
        assert max(sizes) == 5


def test_a_new_directory_is_watched_at_once_and_what_happened_is_told_when_it_is_taken(root: bytes) -> None:
    with watching(root) as watcher:
        write(root + b"/f")
        mkdir(root + b"/new")
        watcher.read()
        assert not watcher.pressing(), "nothing is left that cannot wait"
        assert root + b"/new" in directories(watcher, root)
        write(root + b"/new/f")
        assert watcher.waiting()
        told = drain(watcher)
        assert touched(told)[:2] == [(root + b"/f", What.MODIFIED), (root + b"/new", What.CREATED)]
        assert of(Appeared, told) == [Appeared(root + b"/new")]
        assert touched(told)[2:] == [(root + b"/new/f", What.CREATED), (root + b"/new/f", What.MODIFIED)]


def test_where_much_waits_to_be_taken_it_presses(root: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inotify, "_AHEAD", 3)
    with watching(root) as watcher:
        mkdir(root + b"/new")
        for index in range(4):
            write(root + b"/%d" % index)
        watcher.read()
        assert watcher.pressing()
        assert len(watcher.take(2)) == 2, "no more than was asked for"
        drain(watcher)
        assert root + b"/new" in directories(watcher, root)
        assert not watcher.pressing()


def test_reading_counts_what_waits_and_takes_nothing_away(root: bytes) -> None:
    with watching(root) as watcher:
        write(root + b"/f")
        first = watcher.read()
        assert first > 0
        write(root + b"/f")
        assert watcher.read() > first
        assert len(drain(watcher)) == 1


def test_what_waits_is_counted_in_notices_wherever_it_lies(root: bytes) -> None:
    names = [write(root + b"/%02d" % index) for index in range(20)]
    with watching(root) as watcher:
        for name in names:
            os.chmod(name, 0o600)
        assert watcher.read() == len(names), "as bytes"
        assert not watcher.pressing()
        assert watcher.read() == len(names), "as events"
        mkdir(root + b"/new")
        watcher.read()
        watcher.pressing()
        waiting = watcher.read()
        assert waiting == len(drain(watcher)) == len(names) + 2, "as notices"


def test_the_smallest_event_counts(root: bytes) -> None:
    with watching(root) as watcher:
        watcher._memory.put(struct.pack("iIII", -1, Q_OVERFLOW, 0, 0))
        assert watcher.read() == 1


def test_adding_tells_nothing_but_what_happens_meanwhile(root: bytes) -> None:
    watcher = InotifyWatcher()
    try:
        add(watcher, root)
        assert drain(watcher) == []
        steps = watcher.add(root, lambda _path, _is_dir: False)
        next(steps)
        write(root + b"/f")
        assert touched(drain(watcher)) == [(root + b"/f", What.MODIFIED)]
        for _ in steps:
            pass
    finally:
        watcher.close()
