"""Roots: within each other, ignored places, moved, replaced, gone and back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from inotify_driving import add, directories, drain, exchange, mkdir, of, touched, watching, write

from provd.core.notice import Appeared, Covered, Lost, What
from provd.watch.inotify import InotifyWatcher


@pytest.fixture
def home(tmp_path: Path) -> bytes:
    return os.fsencode(os.path.realpath(tmp_path))


def by_name(*names: bytes) -> Callable[[bytes, bool], bool]:
    return lambda path, _is_dir: os.path.basename(path) in names


def whys(watcher: InotifyWatcher, path: bytes) -> list[tuple[bytes, str]]:
    return [(each.path, each.why) for each in watcher.uncovered(path)]


def test_a_root_is_covered_after_its_last_step_and_not_before(home: bytes) -> None:
    root = home + b"/r"
    mkdir(*(root + b"/%d" % index for index in range(300)))
    with watching() as watcher:
        steps = watcher.add(root, by_name())
        next(steps)
        assert whys(watcher, root + b"/1") == [(root, "not scanned yet")]
        assert watcher.state(root).state == "scanning"
        assert sum(1 for _ in steps) >= 4
        assert watcher.uncovered(root) == []
        state = watcher.state(root)
        assert (state.state, state.coverage, state.directories) == ("watching", "whole", 301)


def test_paths_outside_every_root_are_uncovered(home: bytes) -> None:
    mkdir(home + b"/r")
    with watching(home + b"/r") as watcher:
        assert watcher.uncovered(home + b"/rest")[0].path == home + b"/rest"
        assert watcher.uncovered(home)[0].path == home
        assert watcher.uncovered(home + b"/r/absent/too") == []


def test_ignored_directories_are_not_entered_and_uncovered(home: bytes) -> None:
    root = home + b"/r"
    mkdir(root + b"/skip/in", root + b"/d")
    with watching() as watcher:
        add(watcher, root, by_name(b"skip"))
        mkdir(root + b"/d/skip/in")
        drain(watcher)
        assert directories(watcher, root) == {root + b"/d"}
        write(root + b"/skip/in/f")
        assert drain(watcher) == []
        assert whys(watcher, root + b"/skip/in/f") == [(root + b"/skip", "ignored")]
        assert whys(watcher, root + b"/d/skip") == [(root + b"/d/skip", "ignored")]
        assert whys(watcher, root + b"/d/absent/skip") == []
        assert watcher.uncovered(root) == []


def test_what_is_ignored_under_one_name_is_watched_under_another(home: bytes) -> None:
    root = home + b"/r"
    mkdir(root + b"/skip/in")
    with watching() as watcher:
        add(watcher, root, by_name(b"skip"))
        os.rename(root + b"/skip", root + b"/seen")
        told = drain(watcher)
        assert [each.path for each in of(Appeared, told)] == [root + b"/seen", root + b"/seen/in"]
        os.rename(root + b"/seen", root + b"/skip")
        drain(watcher)
        assert directories(watcher, root) == set()
        assert whys(watcher, root + b"/skip/in") == [(root + b"/skip", "ignored")]


def test_added_again_a_root_is_watched_by_the_new_rules(home: bytes) -> None:
    root = home + b"/r"
    mkdir(root + b"/a/in", root + b"/b/in")
    with watching() as watcher:
        add(watcher, root, by_name(b"a"))
        add(watcher, root, by_name(b"b"))
        drain(watcher)
        assert directories(watcher, root) == {root + b"/a", root + b"/a/in"}
        assert watcher.uncovered(root) == []
        assert watcher.state(root).directories == 3


def test_a_root_in_an_ignored_place_of_another_is_watched_all_the_same(home: bytes) -> None:
    outer, inner = home + b"/r", home + b"/r/skip/deep/inner"
    mkdir(inner + b"/d")
    with watching() as watcher:
        for order in ([outer, inner], [inner, outer]):
            for root in order:
                add(watcher, root, by_name(b"skip"))
            drain(watcher)
            write(inner + b"/d/f")
            write(home + b"/r/skip/deep/f")
            assert {path for path, _ in touched(drain(watcher))} == {inner + b"/d/f"}
            assert watcher.uncovered(inner) == []
            assert whys(watcher, home + b"/r/skip/deep") == [(home + b"/r/skip", "ignored")]
            for root in order:
                watcher.remove(root)
            drain(watcher)


def test_removing_the_outer_root_keeps_the_inner_and_the_other_way_round(home: bytes) -> None:
    outer, inner = home + b"/r", home + b"/r/d/inner"
    mkdir(inner + b"/e", outer + b"/other")
    with watching(outer, inner) as watcher:
        watcher.remove(outer)
        drain(watcher)
        write(outer + b"/other/f")
        write(inner + b"/e/f")
        assert {path for path, _ in touched(drain(watcher))} == {inner + b"/e/f"}
        assert watcher.uncovered(inner) == []
        add(watcher, outer)
        watcher.remove(inner)
        drain(watcher)
        write(inner + b"/e/f")
        assert {path for path, _ in touched(drain(watcher))} == {inner + b"/e/f"}
        assert watcher.uncovered(inner) == []
        assert watcher.state(outer).directories == 5


def test_what_the_inner_roots_rules_ignore_leaves_the_outer_uncovered_there(home: bytes) -> None:
    outer, inner = home + b"/r", home + b"/r/inner"
    mkdir(inner + b"/skip", outer + b"/d")
    for order in ([outer, inner], [inner, outer]):
        with watching() as watcher:
            for root in order:
                add(watcher, root, by_name(b"skip") if root == inner else by_name())
            drain(watcher)
            assert [path for path, _ in whys(watcher, outer)] == [inner]
            assert watcher.uncovered(outer + b"/d") == []
            assert watcher.uncovered(inner) == []


def test_after_the_last_root_nothing_is_watched_but_the_top(home: bytes) -> None:
    mkdir(home + b"/r/d")
    with watching(home + b"/r") as watcher:
        watcher.remove(home + b"/r")
        drain(watcher)
        assert len(watcher._places.tree.nodes) == 1
        add(watcher, home + b"/r")
        assert watcher.uncovered(home + b"/r") == []


def test_a_root_that_was_renamed_is_gone_and_comes_back(home: bytes) -> None:
    root = home + b"/r"
    mkdir(root + b"/d")
    with watching(root) as watcher:
        os.rename(root, home + b"/elsewhere")
        told = drain(watcher)
        assert of(Lost, told)
        assert of(Covered, told)[-1].coverage == "none"
        assert watcher.state(root).state == "gone"
        assert watcher.uncovered(root + b"/d")[0].path == root
        write(home + b"/elsewhere/d/f")
        watcher.check()
        assert drain(watcher) == []
        os.rename(home + b"/elsewhere", root)
        watcher.check()
        told = drain(watcher)
        assert Covered(root, "whole") in told
        assert of(Lost, told)
        assert watcher.uncovered(root) == []
        write(root + b"/d/f")
        assert touched(drain(watcher)) == [(root + b"/d/f", What.MODIFIED)]


@pytest.mark.parametrize("moved", [b"/up/r", b"/up"])
def test_a_root_or_a_directory_above_it_renamed_away_and_back_is_not_silent(home: bytes, moved: bytes) -> None:
    root = home + b"/up/r"
    mkdir(root + b"/d")
    with watching(root) as watcher:
        os.rename(home + moved, home + b"/away")
        os.rename(home + b"/away", home + moved)
        told = drain(watcher)
        assert {each.path for each in of(Lost, told)} == {root}
        assert watcher.uncovered(root) == []
        write(root + b"/d/f")
        assert touched(drain(watcher))[0] == (root + b"/d/f", What.CREATED)


def test_another_directory_above_a_root_takes_the_place_of_the_first(home: bytes) -> None:
    root = home + b"/up/r"
    mkdir(root + b"/d", home + b"/other/r/d")
    with watching(root) as watcher:
        exchange(home + b"/up", home + b"/other")
        told = drain(watcher)
        assert of(Lost, told)
        state = watcher.state(root)
        assert (state.state, state.coverage) == ("gone", "none")
        write(root + b"/d/f")
        drain(watcher)
        assert watcher.uncovered(root + b"/d/f") != []
        exchange(home + b"/up", home + b"/other")
        watcher.check()
        drain(watcher)
        assert watcher.uncovered(root) == []


def test_a_replaced_root_stays_gone_until_it_is_added_again(home: bytes) -> None:
    root = home + b"/r"
    mkdir(root + b"/d")
    with watching(root) as watcher:
        os.rename(root, home + b"/old")
        mkdir(root + b"/n")
        drain(watcher)
        for _ in range(2):
            watcher.check()
            drain(watcher)
            assert watcher.state(root).state == "gone"
        add(watcher, root)
        assert watcher.uncovered(root) == []
        assert directories(watcher, root) == {root + b"/n"}


def test_a_removed_root_is_told_once(home: bytes) -> None:
    root = home + b"/r"
    mkdir(root + b"/d")
    with watching(root) as watcher:
        shutil.rmtree(root)
        told = drain(watcher)
        assert len(of(Covered, told)) == 1
        for _ in range(3):
            watcher.check()
            assert drain(watcher) == []


def test_an_inner_root_moved_within_the_outer_is_gone_and_the_outer_whole(home: bytes) -> None:
    outer, inner = home + b"/r", home + b"/r/inner"
    mkdir(inner + b"/d")
    with watching(outer, inner) as watcher:
        os.rename(inner, outer + b"/renamed")
        told = drain(watcher)
        assert inner in {each.path for each in of(Lost, told)}
        assert watcher.state(inner).state == "gone"
        assert watcher.uncovered(outer) == []
        write(outer + b"/renamed/d/f")
        assert touched(drain(watcher))[0] == (outer + b"/renamed/d/f", What.CREATED)
        os.rename(outer + b"/renamed", inner)
        watcher.check()
        drain(watcher)
        assert watcher.uncovered(inner) == []
        assert watcher.state(inner).directories == 2
        assert watcher.state(outer).directories == 1


def test_a_root_that_is_not_there_is_gone(home: bytes) -> None:
    with watching(home + b"/absent") as watcher:
        assert watcher.state(home + b"/absent").state == "gone"
        assert watcher.uncovered(home + b"/absent/f")[0].path == home + b"/absent"


def test_many_roots_are_told_apart_without_looking_at_all_of_them(home: bytes) -> None:
    roots = [home + b"/%d" % index for index in range(500)]
    mkdir(*roots)
    with watching(*roots) as watcher:
        write(roots[321] + b"/f")
        assert touched(drain(watcher))[0] == (roots[321] + b"/f", What.CREATED)
        assert watcher.uncovered(roots[321]) == []
