"""Roots: recorded first, then watched, then scanned; gone and back; in each other; thousands of them."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest
from rooting import Bench, made, run

from provd.core import errors
from provd.disk import real_directory
from provd.recorder import rootrecords, roots
from provd.recorder.roots import WATCHED
from provd.store import View, Writer
from provd.watch.base import RootState

if TYPE_CHECKING:
    from pathlib import Path

    from provd.store.keys import Root


__all__ = ["run"]


# adding


def test_a_root_is_recorded_then_watched_then_scanned_and_gaps_enclose_the_moment(run: Any, tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench) -> None:
        await bench.add(root)
        assert bench.told == [("watch", root), ("scan", root)]
        assert bench.log() == [("added", root), ("root added", root), (WATCHED, root)]
        assert bench.roots.state(root) == RootState("scripted", "watching", "whole", directories=1)
        assert bench.roots.kept[0].gap == 3
        await bench.add(root)
        assert len(bench.log()) == 3
        assert len(bench.told) == 2

    run(body)


def test_waiting_ends_with_the_scan_and_not_waiting_ends_at_once(run: Any, tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench) -> None:
        gate = bench.scanner.gates[root] = asyncio.Event()
        await bench.add(root, wait=False)
        assert bench.roots.paths == [root]
        assert bench.roots.state(root).state == "scanning"
        waiting = asyncio.ensure_future(bench.add(root))
        await bench.scanner.begun.wait()
        assert bench.roots.state(root).state == "scanning"
        assert bench.roots.state(root).coverage == "whole"
        assert not waiting.done()
        gate.set()
        await waiting
        assert bench.roots.state(root).state == "watching"

    run(body)


def test_several_are_added_all_or_none(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = made(tmp_path, "one", "two")
    real = rootrecords.adding

    def full(writer: Writer) -> None:
        raise errors.StoreFull("full", "free space")

    async def body(bench: Bench) -> None:
        directories = [directory for path in (one, two) if (directory := real_directory(path)[1])]
        with monkeypatch.context() as patch:
            patch.setattr(roots, "adding", lambda at, ignore: real(at, ignore) if at.path == one else full)
            with pytest.raises(errors.StoreFull):
                await bench.roots.add_all(directories)
        assert (bench.roots.paths, bench.log(), bench.told) == ([], [], [])
        await bench.roots.add_all(directories)
        await bench.roots.settled()
        assert bench.roots.paths == [one, two]
        assert sorted(bench.told) == [("scan", one), ("scan", two), ("watch", one), ("watch", two)]
        await bench.roots.add_all(directories)
        assert len(bench.log()) == 6

    run(body)


def test_who_stops_waiting_does_not_stop_the_scan(run: Any, tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench) -> None:
        gate = bench.scanner.gates[root] = asyncio.Event()
        waiting = asyncio.ensure_future(bench.add(root))
        await bench.scanner.begun.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert bench.roots.state(root).state == "scanning"
        gate.set()
        await bench.roots.settled()
        assert bench.roots.state(root).state == "watching"

    run(body)


def test_other_rules_are_a_gap_a_new_watch_and_a_scan(run: Any, tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench) -> None:
        await bench.add(root)
        bench.told.clear()
        assert not bench.fleet.roots[root](root + b"/a.o", False)
        await bench.add(root, "*.o")
        assert bench.told == [("watch", root), ("scan", root)]
        assert bench.log()[3:] == [("rules changed", root), (WATCHED, root)]
        assert bench.fleet.roots[root](root + b"/a.o", False)
        assert bench.roots.ignored(root + b"/a.o", False)
        assert not bench.fleet.roots[root](root + b"/.git", True), "they stand for the default ones"
        await bench.add(root)
        assert bench.roots.kept[0].ignore == ("*.o",), "without rules they stay"

    run(body)


def test_the_daemons_own_places_are_always_ignored(run: Any, tmp_path: Path) -> None:
    outer = os.fsencode(tmp_path)

    async def body(bench: Bench) -> None:
        await bench.add(outer, "*.o")
        assert bench.fleet.roots[outer](bench.own, True)
        assert not bench.fleet.roots[outer](outer + b"/other", True)
        inside = bench.own + b"/below"
        os.mkdir(inside)
        await bench.add(inside)
        assert bench.fleet.roots[inside](inside + b"/file", False)

    run(body)


def test_a_failed_scan_is_told_in_the_state_and_tried_again(run: Any, tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench) -> None:
        bench.scanner.failing = [errors.StoreFull("the store is full", "free space")]
        await bench.add(root)
        state = bench.roots.state(root)
        assert (state.state, state.uncovered[0].why) == ("degraded", "the store is full")
        await bench.roots.check()
        await bench.roots.settled()
        assert bench.roots.state(root).state == "watching"

    run(body)


# starting, gone and back


def test_at_the_start_all_roots_are_watched_and_scanned_behind_the_scenes(run: Any, tmp_path: Path) -> None:
    one, other = made(tmp_path, "one", "other")

    async def before(bench: Bench) -> None:
        await bench.add(one)
        await bench.add(other)

    async def after(bench: Bench) -> None:
        assert bench.roots.paths == [one, other]
        bench.scanner.gates[one] = asyncio.Event()
        bench.roots.start()
        assert {bench.roots.state(path).state for path in (one, other)} == {"scanning"}
        await bench.scanner.begun.wait()
        bench.scanner.gates[one].set()
        await bench.roots.settled()
        assert sorted(bench.told) == sorted([("watch", one), ("watch", other), ("scan", one), ("scan", other)])
        assert sorted(bench.log()[6:]) == [(WATCHED, one), (WATCHED, other)]
        assert bench.roots.state(other).state == "watching"

    run(before)
    run(after)


def test_a_root_that_is_gone_at_the_start_comes_back_when_it_is_the_same_directory(run: Any, tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")

    async def before(bench: Bench) -> None:
        await bench.add(root)

    async def after(bench: Bench) -> None:
        bench.roots.start()
        await bench.roots.settled()
        state = bench.roots.state(root)
        assert (state.state, state.coverage, state.uncovered[0].why) == ("gone", "none", "the directory is gone")
        os.mkdir(root)
        await bench.roots.check()
        await bench.roots.settled()
        assert bench.roots.state(root).state == "gone"
        assert "replaced" in bench.roots.state(root).uncovered[0].why
        assert bench.told == []
        os.rmdir(root)
        os.rename(root + b".away", root)
        await bench.roots.check()
        await bench.roots.settled()
        assert bench.told == [("watch", root), ("scan", root)]
        assert bench.roots.state(root).state == "watching"

    run(before)
    os.rename(root, root + b".away")
    run(after)


def test_a_root_that_was_replaced_is_watched_when_it_is_added_again(run: Any, tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench) -> None:
        await bench.add(root)
        os.rename(root, root + b".away")
        os.mkdir(root)
        bench.told.clear()
        await bench.add(root)
        assert bench.told == [("unwatch", root), ("watch", root), ("scan", root)]
        assert bench.log()[3:] == [("root replaced", root), (WATCHED, root)]

    run(body)


def test_a_root_that_was_gone_while_it_was_watched_is_looked_at_when_it_is_added_again(
    run: Any, tmp_path: Path
) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench) -> None:
        await bench.add(root)
        bench.fleet.gone.add(root)
        bench.told.clear()
        await bench.add(root)
        assert bench.told == [("watch", root), ("scan", root)]
        assert bench.roots.state(root).state == "watching"

    run(body)


# many


def test_adding_one_of_thousands_of_roots_does_not_read_the_others(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = made(tmp_path, *(f"r{n}" for n in range(1000)))

    def never(_: View) -> list[Root]:
        raise AssertionError("all roots were read to add one")

    async def body(bench: Bench) -> None:
        monkeypatch.setattr(View, "roots", never)
        await asyncio.gather(*(bench.add(path) for path in paths))
        assert len(bench.roots.paths) == 1000
        assert {bench.roots.state(path).state for path in paths} == {"watching"}

    run(body)


def test_who_listens_is_told_when_a_root_comes_or_goes(run: Any, tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench) -> None:
        seen: list[list[bytes]] = []
        bench.roots.changed = lambda: seen.append(bench.roots.paths)
        await bench.add(root)
        await bench.roots.remove(root)
        assert seen == [[root], []]

    run(body)
