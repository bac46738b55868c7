"""Where silence proves something: every name on the way, and what is below."""

from __future__ import annotations

import asyncio

import pytest
from desk import Scripted

from provd import watching
from provd.core.dependency import PATH_KINDS, Kind
from provd.disk import IgnoreRules, Route
from provd.watch.base import Uncovered
from provd.watching import Coverage, Unwatched, scanned_and_recorded


def route(*hops: bytes) -> Route:
    return Route(hops, hops[-1], there=True)


def way(path: bytes) -> Route:
    """The way of a path without links."""
    parts = path.split(b"/")
    return route(*(b"/".join(parts[:n]) for n in range(2, len(parts) + 1)))


@pytest.mark.parametrize(
    ("there", "kind", "whole"),
    [
        (way(b"/a/r/f"), Kind.FILE, True),
        (way(b"/a/r"), Kind.DIR, True),
        (way(b"/a/r"), Kind.TREE, False),
        (way(b"/a/r/d/deep/x"), Kind.FILE, True),
        (way(b"/a/r/bad"), Kind.FILE, False),
        (way(b"/a/r/bad/x/y"), Kind.FILE, False),
        (way(b"/a/r/badly"), Kind.FILE, True),
        (way(b"/a"), Kind.DIR, False),
        (way(b"/a/other"), Kind.FILE, False),
        (way(b"/other"), Kind.FILE, False),
        (way(b"/b/s/f"), Kind.GLOB, True),
        (route(b"/a", b"/a/r", b"/a/r/link", b"/b", b"/b/s", b"/b/s/f"), Kind.FILE, True),
        (route(b"/a", b"/a/r", b"/a/r/link", b"/c", b"/c/f"), Kind.FILE, False),
        (route(b"/a", b"/a/link", b"/a/r", b"/a/r/f"), Kind.FILE, False),
        (route(b"/a", b"/a/r", b"/a/r/out", b"/c", b"/c/back", b"/a", b"/a/r", b"/a/r/f"), Kind.FILE, False),
        (route(b"/a", b"/a/r", b"/a/r/bad", b"/a/r/d"), Kind.FILE, False),
        (Route((), b"/", there=True), Kind.DIR, False),
    ],
)
def test_each_name_on_the_way_must_be_watched(there: Route, kind: Kind, whole: bool) -> None:
    watch = Scripted(b"/a/r", b"/b/s")
    watch.lost = [Uncovered(b"/a/r/bad", "limit")]
    assert Coverage(watch).is_whole(there, kind, there.at) == whole


def test_what_is_below_matters_for_what_is_deep() -> None:
    watch = Scripted(b"/r")
    watch.lost = [Uncovered(b"/r/d/bad", "limit")]
    there = way(b"/r/d")
    deep = {
        kind: Coverage(watch).is_whole(there, kind, b"/r/d") for kind in (Kind.DIR, Kind.TREE, Kind.GLOB, Kind.NAMES)
    }
    assert deep == {Kind.DIR: True, Kind.TREE: False, Kind.GLOB: False, Kind.NAMES: False}


def test_a_set_that_is_named_through_a_link_may_hold_what_is_not_watched() -> None:
    there = route(b"/r", b"/r/link", b"/r/d")
    whole = {kind: Coverage(Scripted(b"/r")).is_whole(there, kind, b"/r/link") for kind in Kind if kind in PATH_KINDS}
    assert whole == {Kind.FILE: True, Kind.DIR: True, Kind.TREE: False, Kind.GLOB: False, Kind.NAMES: False}


@pytest.mark.parametrize(
    ("patterns", "alike"),
    [
        ([], True),
        ([".git/"], True),
        (["*.o", "build/"], True),
        (["/d/x"], False),
        (["d/x/"], False),
        (["link/"], False),
    ],
)
def test_where_the_rules_leave_out_the_same_a_link_does_not_matter(patterns: list[str], alike: bool) -> None:
    rules = IgnoreRules([(b"/r", patterns)])
    there = route(b"/r", b"/r/link", b"/r/d")
    assert Coverage(Scripted(b"/r"), rules).is_whole(there, Kind.TREE, b"/r/link") == alike


def test_a_link_into_a_root_of_other_rules_matters() -> None:
    rules = IgnoreRules([(b"/r", ["*.o"]), (b"/s", ["*.a"])])
    there = route(b"/r", b"/r/link", b"/s", b"/s/d")
    assert not Coverage(Scripted(b"/r", b"/s"), rules).is_whole(there, Kind.TREE, b"/r/link")


def test_a_root_inside_an_ignored_place_is_watched_all_the_same() -> None:
    watch = Scripted(b"/r", b"/r/ignored/inner")
    watch.lost = [Uncovered(b"/r/ignored", "ignored")]
    assert Coverage(watch).is_whole(way(b"/r/ignored/inner/f"), Kind.FILE, b"/r/ignored/inner/f")
    assert not Coverage(watch).is_whole(way(b"/r/ignored/other"), Kind.FILE, b"/r/ignored/other")
    assert not Coverage(watch).is_whole(way(b"/r/ignored"), Kind.FILE, b"/r/ignored")


def test_where_nothing_is_watched_nothing_is_covered() -> None:
    for watch in (Unwatched(), Unwatched(lambda: [b"/r"])):
        assert not Coverage(watch).is_whole(way(b"/r/f"), Kind.FILE, b"/r/f")


def test_a_scan_that_takes_for_ever_holds_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck(Unwatched):
        recorded_too = False

        async def scanned(self) -> None:
            await asyncio.Event().wait()

        async def recorded(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
            self.recorded_too = timeout is not None
            return True

    monkeypatch.setattr(watching, "PATIENCE", 0.01)
    watch = Stuck()
    asyncio.run(scanned_and_recorded(watch))
    assert watch.recorded_too
