"""Sets by their seals, and the strict rule: what is looked at twice, and what ends while it is looked at.

Each test says what is broken where it fails: it was seen to fail with that.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from desk import run
from sealing_help import wall_clock_was_set
from shortcutting import Scene, scene

from provd.core.dependency import Kind
from provd.core.reading import Reading
from provd.disk import IgnoreRules, Seals, files
from provd.ground import Ground
from provd.sealed import SealedReader

__all__ = ["scene"]

RULES = IgnoreRules()
"""Seals are believed for the very rules under which they were made."""


def before_reading(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], object]) -> None:
    """Has something happen before one of the contents is read, which are numbered from 1."""
    real, count = files.read_whole, 0

    def reading(descriptor: int, size: int) -> bytes:
        nonlocal count
        count += 1
        if count == number:
            act()
        return real(descriptor, size)

    monkeypatch.setattr(files, "read_whole", reading)


def mapped(path: Path) -> mmap.mmap:
    """A file's content to store in: no store makes an event, and only the first one moves a time."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        return mmap.mmap(descriptor, 0)
    finally:
        os.close(descriptor)


class Sets:
    """The readings of some sets, and who reads them by seals."""

    def __init__(self, scene: Scene, *names: str) -> None:
        self.scene = scene
        self.reader = reader_of(scene)
        self.readings = [Reading(Kind.TREE, scene.desk.path(name), "sha256") for name in names]

    async def seal(self) -> list[str | None]:
        """Reads until all is sealed; gives the digests."""
        self.scene.watch.settle()
        found = await self.scene.desk.workers.read(self.readings, RULES, 60.0)
        assert all(self.kept(reading) for reading in self.readings)
        return [found[reading].digest for reading in self.readings]

    def kept(self, reading: Reading) -> bool:
        """Whether its seal is one of this moment."""
        seals = self.scene.sealed.seals
        return bool(seals.current()) and seals.get_set(reading) is not None

    async def read(self, *fresh: str | None) -> list[str | None] | None:
        """The digests by seals; None where that is left to the whole way. `fresh`: what is hoped for."""
        hoped = {(reading, digest) for reading, digest in zip(self.readings, fresh, strict=False) if digest}
        found = await self.reader.read(self.readings, RULES, hoped)
        return None if found is None else [found[reading].digest for reading in self.readings]


def reader_of(scene: Scene) -> SealedReader:
    """Who reads by the seals of a scene."""
    return SealedReader(scene.desk.workers, Ground(scene.desk.workers, scene.watch))


# the end of an epoch


@pytest.mark.parametrize("somebody_asks", [False, True])
def test_no_set_is_answered_or_kept_over_the_end_of_an_epoch(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, somebody_asks: bool
) -> None:
    """The wall clock is set while the one member is read that changed. Broken: `read` without the last `stand`."""

    def end() -> None:
        wall_clock_was_set(scene.sealed.clock)
        if somebody_asks:
            scene.sealed.seals.current()

    async def work() -> None:
        sets = Sets(scene, "d")
        await sets.seal()
        scene.write("d/e/f", "two")
        scene.watch.settle()
        with monkeypatch.context() as patched:
            before_reading(patched, 1, end)
            assert await sets.read() is None
        assert not sets.kept(sets.readings[0])
        await sets.seal()
        assert await sets.read() is not None, "it is sealed anew"

    run(scene.desk, work)


def test_a_set_is_not_kept_where_an_epoch_ends_after_the_last_look(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a thread of another question may find out just then. What was seen until then may still be told.

    Broken: `_keep` with the epoch of its own moment; `keep_set` does not ask of which epoch it is.
    """

    async def work() -> None:
        sets = Sets(scene, "d")
        await sets.seal()
        scene.write("d/e/f", "two")
        scene.watch.settle()
        stand, get_set = Ground.stand, Seals.get_set
        looked: list[object] = []

        def standing(ground: Ground) -> Any:
            looked.append(stand(ground))
            return looked[-1]

        def getting(seals: Seals, reading: Reading) -> Any:
            there = get_set(seals, reading)
            if looked:
                wall_clock_was_set(scene.sealed.clock)
                seals.current()
            return there

        with monkeypatch.context() as patched:
            patched.setattr(Ground, "stand", standing)
            patched.setattr(Seals, "get_set", getting)
            told = await sets.read()
        assert not sets.kept(sets.readings[0])
        assert told == await whole(sets)

    run(scene.desk, work)


# the second look at sets


def test_what_was_read_anew_may_be_another_content_by_then(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two members are stored through mappings, one after the other was read: both were never so. No time moves.

    Broken: `read` without `again.stand`.
    """

    async def work() -> None:
        sets = Sets(scene, "d", "c")
        await sets.seal()
        with mapped(scene.root / "d/e/f") as one, mapped(scene.root / "c/e/f") as other:
            one[:3], other[:3] = b"two", b"two"
            scene.watch.settle()

            def store() -> None:
                one[:3], other[:3] = b"not", b"new"

            assert await sets.read() is not None, "few files changed"
            with monkeypatch.context() as patched:
                before_reading(patched, 2, store)
                assert await sets.read() is None
            told = await sets.read()
            assert told is not None
            assert told == await whole(sets)

    run(scene.desk, work)


@pytest.mark.parametrize("hoped", [True, False])
def test_what_was_looked_at_first_may_change_without_an_event_before_the_other_is_read(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, hoped: bool
) -> None:
    """`d` was as it is sealed, `c` became as it is hoped for: never at one moment. Only a digest that is hoped for
    needs that look: what differs differs at the moment of its reading.

    Broken: `read` without the second `_changed`.
    """

    async def work() -> None:
        sets = Sets(scene, "d", "c")
        before = await sets.seal()
        with mapped(scene.root / "c/e/f") as other, mapped(scene.root / "d/e/f") as one:
            other[:3] = b"two"
            scene.watch.settle()
            with monkeypatch.context() as patched:

                def store() -> None:
                    one[:3], other[:3] = b"two", b"one"

                before_reading(patched, 1, store)
                told = await sets.read(*(before if hoped else ()))
        assert (told is None) is hoped

    run(scene.desk, work)


async def whole(sets: Sets) -> list[str | None]:
    """The digests by reading."""
    found = await sets.scene.desk.workers.read(sets.readings, RULES, 60.0)
    return [found[reading].digest for reading in sets.readings]


# the second look of the strict rule


class Strict:
    """Two sealed files, and what is taken from their seals when only `stat` is asked."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.reader = reader_of(scene)
        self.paths = [scene.desk.path("d/e/f"), scene.desk.path("c/e/f")]

    async def taken(self, *paths: bytes) -> set[bytes]:
        """The files of which a seal is believed."""
        stats, found = await self.reader.stats(paths or self.paths, 60.0)
        assert set(stats) == set(paths or self.paths)
        return {reading.path for reading in found}

    async def seal(self, *more: bytes) -> None:
        self.scene.watch.settle()
        for path in (*self.paths, *more):
            self.scene.sealed.ask(path)
            assert self.scene.sealed.has(path)


def at_stat(
    monkeypatch: pytest.MonkeyPatch, before: Callable[[bytes], object], after: Callable[[bytes], object] = len
) -> None:
    """Has something happen before and after each `stat` of a path, whichever thread makes it."""
    real, turn = os.stat, threading.Lock()

    def looking(path: Any, **how: Any) -> os.stat_result:
        if not isinstance(path, bytes):
            return real(path, **how)
        with turn:
            before(path)
            try:
                return real(path, **how)
            finally:
                after(path)

    monkeypatch.setattr(os, "stat", looking)


def test_the_strict_rule_takes_seals_that_hold_at_one_moment(scene: Scene) -> None:
    async def work() -> None:
        strict = Strict(scene)
        await strict.seal()
        assert await strict.taken() == set(strict.paths)

    run(scene.desk, work)


def test_the_strict_rule_takes_no_seals_of_files_that_were_never_there_together(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two directories one is away while the other is looked at. Broken: `stats` without the second `stand`."""
    tops = {scene.desk.path("d"), scene.desk.path("c")}
    looked: set[bytes] = set()

    def alone(path: bytes) -> None:
        for top in tops:
            if path.startswith(top + b"/"):
                looked.add(top)
                (other,) = tops - {top}
                os.rename(other, other + b"-away")
                if os.path.lexists(top + b"-away"):
                    os.rename(top + b"-away", top)

    def both_again(_: bytes) -> None:
        for top in tops if looked == tops else ():
            if os.path.lexists(top + b"-away"):
                os.rename(top + b"-away", top)

    async def work() -> None:
        strict = Strict(scene)
        await strict.seal()
        with monkeypatch.context() as patched:
            at_stat(patched, alone, both_again)
            assert await strict.taken() == set()
        scene.watch.settle()
        assert await strict.taken() == set(strict.paths), "now they are"

    run(scene.desk, work)


@pytest.mark.parametrize("files_asked", [1, 2])
def test_the_strict_rule_takes_no_seal_that_is_void_before_the_answer(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, files_asked: int
) -> None:
    """Broken: `stats` without the second `current` (one), without the second `stand` too (two)."""

    async def work() -> None:
        strict = Strict(scene)
        await strict.seal()

        def end(path: bytes) -> None:
            if path == strict.paths[0]:
                wall_clock_was_set(scene.sealed.clock)

        with monkeypatch.context() as patched:
            at_stat(patched, end)
            assert await strict.taken(*strict.paths[:files_asked]) == set()

    run(scene.desk, work)


def test_of_several_files_the_strict_rule_takes_seals_only_where_ways_are_watched(scene: Scene) -> None:
    """One alone needs no watcher: its `stat` is its moment. Broken: `stats` without `holds_file`."""

    async def work() -> None:
        strict = Strict(scene)
        outside = os.fsencode(scene.home / "outside")
        (scene.home / "outside").write_text("one")
        await strict.seal(outside)
        assert await strict.taken(*strict.paths, outside) == set(strict.paths)
        assert await strict.taken(outside) == {outside}

    run(scene.desk, work)
