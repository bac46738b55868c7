"""Roots that are removed, and roots in roots."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from rooting import Bench, made, run

from provd.core import errors

if TYPE_CHECKING:
    from pathlib import Path


__all__ = ["run"]

# removing, and roots in roots


def test_a_removed_root_is_not_watched_and_what_was_known_of_it_is_forgotten(run: Any, tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench) -> None:
        await bench.add(root)
        bench.told.clear()
        await bench.roots.remove(root)
        assert bench.told == [("unwatch", root), ("forget", root)]
        assert bench.roots.paths == []
        assert bench.log()[3:] == [("removed", root), ("root removed", root)]
        with pytest.raises(errors.RootMissing):
            await bench.roots.remove(root)

    run(body)


def test_a_root_that_is_removed_while_it_is_scanned_is_gone(run: Any, tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench) -> None:
        bench.scanner.gates[root] = asyncio.Event()
        adding = asyncio.ensure_future(bench.add(root))
        await bench.scanner.begun.wait()
        removing = asyncio.ensure_future(bench.roots.remove(root))
        await asyncio.wait([adding])
        bench.scanner.gates[root].set()
        await removing
        assert bench.told[-2:] == [("unwatch", root), ("forget", root)]
        assert bench.fleet.roots == {}

    run(body)


def test_a_root_that_is_added_while_it_is_forgotten_is_scanned_afterwards(run: Any, tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench) -> None:
        await bench.add(root)
        bench.scanner.begun.clear()
        bench.scanner.gates[root] = asyncio.Event()
        removing = asyncio.ensure_future(bench.roots.remove(root))
        await bench.scanner.begun.wait()
        await bench.add(root, wait=False)
        await bench.add(root, "*.o", wait=False)
        assert bench.told[-1] == ("forget", root)
        bench.scanner.gates[root].set()
        await removing
        await bench.roots.settled()
        assert [what for what, _ in bench.told[-3:]] == ["forget", "watch", "scan"]
        assert bench.roots.state(root).state == "watching"

    run(body)


def test_a_root_that_is_removed_while_it_is_taken_up_leaves_no_doubt_in_the_one_around_it(
    run: Any, tmp_path: Path
) -> None:
    outer, inner = made(tmp_path, "outer", "outer/inner")

    async def body(bench: Bench) -> None:
        await bench.add(outer)
        watched = asyncio.Event()
        bench.roots.changed = watched.set
        await bench.add(inner, wait=False)
        await watched.wait()
        assert bench.roots.young(outer)
        await bench.roots.remove(inner)
        assert bench.roots.young(outer) == []

    run(body)


def test_who_waits_for_a_root_waits_for_the_scan_that_other_rules_began_anew(run: Any, tmp_path: Path) -> None:
    (root,) = made(tmp_path, "root")

    async def body(bench: Bench) -> None:
        gate = bench.scanner.gates[root] = asyncio.Event()
        waiting = asyncio.ensure_future(bench.add(root))
        await bench.scanner.begun.wait()
        bench.scanner.begun.clear()
        await bench.add(root, "*.o", wait=False)
        await bench.scanner.begun.wait()
        assert not waiting.done()
        gate.set()
        await waiting
        assert bench.roots.state(root).state == "watching"

    run(body)


def test_an_inner_root_shares_what_is_known_and_leaving_it_forgets_nothing(run: Any, tmp_path: Path) -> None:
    outer, inner = made(tmp_path, "outer", "outer/inner")

    async def body(bench: Bench) -> None:
        await bench.add(outer)
        await bench.add(inner)
        bench.told.clear()
        await bench.roots.remove(inner)
        await bench.roots.settled()
        assert bench.told == [("unwatch", inner)]

    run(body)


def test_leaving_the_outer_root_keeps_the_inner_one(run: Any, tmp_path: Path) -> None:
    outer, inner = made(tmp_path, "outer", "outer/inner")

    async def body(bench: Bench) -> None:
        await bench.add(inner)
        await bench.add(outer)
        bench.told.clear()
        await bench.roots.remove(outer)
        assert bench.told == [("unwatch", outer), ("forget", outer)]
        assert bench.scanner.keep == [inner]
        assert list(bench.fleet.roots) == [inner]

    run(body)


def test_leaving_an_inner_root_with_its_own_rules_makes_the_outer_ones_hold_there(run: Any, tmp_path: Path) -> None:
    outer, inner = made(tmp_path, "outer", "outer/build/inner")

    async def body(bench: Bench) -> None:
        await bench.add(outer, "build/")
        await bench.add(inner)
        assert not bench.roots.ignored(inner + b"/f", False)
        bench.told.clear()
        await bench.roots.remove(inner)
        await bench.roots.settled()
        assert bench.told == [("unwatch", inner), ("forget", inner), ("watch", outer), ("scan", outer)]

    run(body)
