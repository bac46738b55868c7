"""Many files by their seals: others are answered between the slices, and what they find out ends it.

Each test says what is broken where it fails: it was seen to fail with that.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from desk import run
from sealing_help import wall_clock_was_set
from shortcutting import Scene, scene

from provd import sealed
from provd.core.dependency import Kind
from provd.core.reading import Reading, Signature
from provd.disk import IgnoreRules, read_single, signature_of
from provd.ground import Ground
from provd.sealed import SealedReader

__all__ = ["scene"]

RULES = IgnoreRules()
FILES = 6
READING, LOOKING = 2, 2
"""How often others have their turn while ways are looked up, and while things are looked at: after every second one."""


class Many:
    """Some sealed files, read two at a time."""

    def __init__(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sealed, "SLICE", 2)
        self.scene = scene
        for number in range(FILES):
            scene.write(f"d/f{number}", "one")
        self.ground = Ground(scene.desk.workers, scene.watch)
        self.reader = SealedReader(scene.desk.workers, self.ground)
        self.paths = [scene.desk.path(f"d/f{number}") for number in range(FILES)]
        self.readings = [Reading(Kind.FILE, path, "sha256") for path in self.paths]

    async def seal(self) -> None:
        self.scene.watch.settle()
        await self.scene.desk.workers.read(self.readings, RULES, 60.0)


async def turns(work: asyncio.Task[object]) -> int:
    """How often another one has its turn until `work` is done."""
    had = 0
    while not work.done():
        await asyncio.sleep(0)
        had += 1
    return had


def test_others_have_their_turn_while_many_files_are_read_by_seals(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken: `_seals_of` and `read` that go through all of them at once."""

    async def work() -> None:
        many = Many(scene, monkeypatch)
        await many.seal()
        task = asyncio.ensure_future(many.reader.read(many.readings, RULES, frozenset()))
        assert await turns(task) > READING + LOOKING
        assert set(task.result() or ()) == set(many.readings)

    run(scene.desk, work)


def test_ways_are_looked_up_no_further_when_something_else_stands(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another question may have begun anew with the ways that are known. Broken: `_seals_of` without `_still`."""
    looked: list[bytes] = []
    holds = Ground.holds

    def holding(ground: Ground, kind: Kind, base: bytes, coverage: object) -> bool:
        looked.append(base)
        if len(looked) == 1:
            wall_clock_was_set(scene.sealed.clock)
        return holds(ground, kind, base, coverage)  # type: ignore[arg-type]

    async def work() -> None:
        many = Many(scene, monkeypatch)
        await many.seal()
        monkeypatch.setattr(Ground, "holds", holding)
        assert await many.reader.read(many.readings, RULES, frozenset()) is None
        assert len(looked) < FILES

    run(scene.desk, work)


def test_the_strict_rule_looks_up_many_ways_in_slices(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: `_held` without `_still`."""
    looked: list[bytes] = []
    holds_file = Ground.holds_file

    def holding(ground: Ground, path: bytes, coverage: object) -> bool:
        looked.append(path)
        if len(looked) == 1:
            wall_clock_was_set(scene.sealed.clock)
        return holds_file(ground, path, coverage)  # type: ignore[arg-type]

    async def work() -> None:
        many = Many(scene, monkeypatch)
        await many.seal()
        stats, found = await many.reader.stats(many.paths, 60.0)
        expected: dict[bytes, Signature | None] = {path: signature_of(path) for path in many.paths}
        assert stats == expected
        assert set(found) >= set(many.readings)
        monkeypatch.setattr(Ground, "holds_file", holding)
        stats, found = await many.reader.stats(many.paths, 60.0)
        assert stats == expected
        assert not found
        assert len(looked) < FILES

    run(scene.desk, work)


@pytest.mark.parametrize("few", [3, 4])
def test_more_files_that_changed_than_few_are_left_to_threads(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """Few of the whole question, whatever each reading has of them. Broken: `_look_again` that counts its own alone."""
    read: list[bytes] = []

    def reading(path: bytes, *arguments: Any, **more: Any) -> Any:
        read.append(path)
        return read_single(path, *arguments, **more)

    async def work() -> None:
        many = Many(scene, monkeypatch)
        await many.seal()
        for number in range(4):
            scene.write(f"d/f{number}", "two")
        scene.watch.settle()
        monkeypatch.setattr(sealed, "_FEW", few)
        monkeypatch.setattr(sealed, "read_single", reading)
        found = await many.reader.read(many.readings, RULES, frozenset())
        assert (found is None) == (few < 4)
        assert len(set(read)) == few

    run(scene.desk, work)


def test_a_question_ends_in_time_whatever_its_seals_take(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: `Reader.read` without its end, or with all of the time again for the threads."""
    given: list[float] = []

    async def endless(*_: object) -> None:
        await asyncio.Event().wait()

    async def reading(*_: object, **__: object) -> dict[Reading, object]:
        given.append(float(_[-1]))  # type: ignore[arg-type]
        return {}

    async def work() -> None:
        many = Many(scene, monkeypatch)
        reader = scene.desk.inquiry.reader
        monkeypatch.setattr(reader, "_sealed", many.reader)
        monkeypatch.setattr(SealedReader, "read", endless)
        monkeypatch.setattr(reader, "_is_quick", lambda _: False)
        monkeypatch.setattr(reader._workers, "read", reading)
        await reader.read(frozenset(many.readings), 0.01, by_seal=True)
        assert given == [0.0]

    run(scene.desk, work)
