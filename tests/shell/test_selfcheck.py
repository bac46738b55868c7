"""The self-check: answers by seals are read in whole afterwards, and what nothing explains is a mistake."""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import msgspec
import pytest
from desk import run
from shortcutting import Scene, scene
from structlog.testing import capture_logs

from provd import selfcheck
from provd.core import clock
from provd.core.dependency import Kind
from provd.core.entry import EntryId
from provd.core.params import EntryCheck
from provd.core.reading import Reading
from provd.disk import signature
from provd.selfcheck import REASON

__all__ = ["scene"]


def forge(scene: Scene, name: str, content: str) -> None:
    """Has a seal stand for what is not there, as it would be if the kernel lied: other bytes, and the `stat` agrees."""
    path = os.fsencode(scene.root / name)
    seals = scene.sealed.seals
    row = seals.get(path)
    assert row is not None
    with open(path, "w") as file:
        file.write(content)
    now = signature(os.stat(path))
    seals._rows[path] = msgspec.structs.replace(row, signature=now)
    for reading, seal in seals._sets.items():
        things = tuple((p, msgspec.structs.astuple(now) if p == path else was) for p, was in seal.things)
        seals._sets[reading] = msgspec.structs.replace(seal, things=things)


async def look(scene: Scene) -> int:
    """Looks at all that was taken; how many there were."""
    check = scene.desk.self_check
    count = len(check._waiting)
    for _ in range(count):
        await check.look(check._waiting.popleft())
    return count


def counts(scene: Scene) -> tuple[int, int, int]:
    told = scene.desk.self_check.told()
    return told["checked"], told["skipped"], told["mismatches"]


def take(scene: Scene, key: str = "k") -> None:
    scene.desk.self_check.take(EntryId(os.fsencode(scene.root), key))


@pytest.mark.parametrize("dep", ["file:d/e/f", "tree:d", "glob:d/**/f", "dir:d/e"])
def test_what_is_as_it_was_sealed_is_no_mistake(scene: Scene, dep: str) -> None:
    async def work() -> None:
        scene.desk.self_check.take_share(1)
        await scene.put("k", dep)
        for _ in range(3):
            await scene.desk.check("k")
        take(scene)
        assert await look(scene)
        assert counts(scene)[1:] == (0, 0)
        assert scene.desk.owed == []

    run(scene.desk, work)


@pytest.mark.parametrize("dep", ["file:d/e/f", "tree:d", "glob:d/**/f"])
def test_other_content_under_the_same_stat_is_a_mistake(scene: Scene, dep: str) -> None:
    """Broken: whatever takes the seal for what was read."""

    async def work() -> None:
        await scene.put("k", dep, "file:g")
        await scene.desk.check("k")
        seals = scene.sealed.seals
        before = seals.current()
        take(scene)
        forge(scene, "d/e/f", "two")
        scene.desk.self_check._waiting.clear()
        take(scene)
        with capture_logs() as logged:
            assert await look(scene) == 1
        assert counts(scene) == (1, 0, 1)
        assert scene.desk.owed == [([os.fsencode(scene.root)], REASON)]
        (error,) = [line for line in logged if line["log_level"] == "error"]
        assert (error["event"], error["key"], error["dep"]) == (REASON, "k", dep)
        assert error["sealed"] != error["read"]
        assert seals.current() != before, "no seal of then is believed"
        assert scene.at_once("k") is None
        assert (await scene.desk.found("k"))[:2] == ("dirty", "changed")

    run(scene.desk, work)


def rewritten(scene: Scene) -> None:
    scene.write("d/e/f", "two")


def removed(scene: Scene) -> None:
    os.unlink(scene.root / "d/e/f")


def added(scene: Scene) -> None:
    scene.write("d/e/new", "two")


def unreadable(scene: Scene) -> None:
    os.rename(scene.root / "d", scene.root / "away")
    os.symlink("d", scene.root / "d")


@pytest.mark.parametrize("dep", ["file:d/e/f", "tree:d"])
@pytest.mark.parametrize("act", [rewritten, removed, added, unreadable])
def test_what_was_changed_since_is_no_mistake(scene: Scene, dep: str, act: Callable[[Scene], None]) -> None:
    async def work() -> None:
        await scene.put("k", dep)
        await scene.desk.check("k")
        take(scene)
        act(scene)
        assert await look(scene) == 1
        assert counts(scene) == (1, 0, 0)
        assert scene.desk.owed == []

    run(scene.desk, work)


def test_what_the_log_has_a_record_of_is_no_mistake(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        await scene.put("k", "file:d/e/f")
        await scene.desk.check("k")
        forge(scene, "d/e/f", "two")
        take(scene)
        monkeypatch.setattr("provd.store.View.newest_mutation", lambda *_: clock.MAX_POSITION)
        assert await look(scene) == 1
        assert counts(scene) == (1, 0, 0)

    run(scene.desk, work)


def test_what_another_epoch_has_sealed_is_no_mistake(scene: Scene) -> None:
    """A mount over it, or a clock that was set, may have changed everything."""

    async def work() -> None:
        await scene.put("k", "file:d/e/f")
        await scene.desk.check("k")
        forge(scene, "d/e/f", "two")
        take(scene)
        scene.sealed.epoch.void()
        assert await look(scene) == 1
        assert counts(scene) == (1, 0, 0)

    run(scene.desk, work)


def test_answers_at_once_are_taken_by_their_share(scene: Scene) -> None:
    async def work() -> None:
        await scene.put("k", "file:d/e/f")
        await scene.put("other", "file:g")
        await scene.learned("k", "other")
        check = scene.desk.self_check
        for share, taken in ((0, 0), (1, 1)):
            check.take_share(share)
            assert scene.at_once("k") is not None
            assert len(check._waiting) == taken
            assert (await scene.ask("k", "other"))[1]
            assert len(check._waiting) == 2 * taken
            check._waiting.clear()

    run(scene.desk, work)


def test_no_more_is_kept_than_can_be_looked_at(scene: Scene) -> None:
    async def work() -> None:
        await scene.put("k", "file:d/e/f")
        await scene.learned("k")
        scene.desk.self_check.take_share(1)
        for _ in range(1000):
            scene.at_once("k")
        assert len(scene.desk.self_check._waiting) <= 16
        assert counts(scene)[1] == 1000 - len(scene.desk.self_check._waiting)

    run(scene.desk, work)


def test_what_is_too_large_is_skipped(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selfcheck, "_LARGEST", 1 << 20)

    async def work() -> None:
        os.truncate(scene.root / "g", (1 << 20) + 1)
        await scene.put("k", "file:g")
        take(scene)
        assert await look(scene) == 1
        assert counts(scene) == (0, 1, 0)

    run(scene.desk, work)


def test_an_entry_that_is_gone_is_not_looked_at(scene: Scene) -> None:
    async def work() -> None:
        take(scene, "none")
        assert await look(scene) == 0

    run(scene.desk, work)


@pytest.mark.parametrize("share", [0.5, 0.01])
def test_the_share_is_kept_on_the_whole(scene: Scene, share: float) -> None:
    check = scene.desk.self_check
    check.take_share(share)
    steps = [check._next() for _ in range(20_000)]
    assert all(step >= 1 for step in steps)
    assert math.isclose(sum(steps) / len(steps), 1 / share, rel_tol=0.1)
    assert check.told()["share"] == share


def test_questions_of_the_whole_way_are_counted_too(scene: Scene) -> None:
    async def work() -> None:
        await scene.put("k", "tree:d")
        scene.desk.self_check.take_share(1)
        await scene.desk.responder.check(EntryCheck(key="k"), foreign=False)
        assert scene.sealed.seals.get_set(Reading(Kind.TREE, os.fsencode(scene.root / "d"), "xxh3")) is not None
        await scene.desk.responder.check(EntryCheck(key="k"), foreign=False)
        assert len(scene.desk.self_check._waiting) >= 1

    run(scene.desk, work)


@pytest.mark.parametrize("share", [1e-17, 5e-324, 0.9999999999999999])
def test_any_share_can_be_kept(scene: Scene, share: float) -> None:
    check = scene.desk.self_check
    check.take_share(share)
    assert all(check._next() >= 1 for _ in range(100))
    assert not check.is_due() or share > 0.9


def test_what_fails_while_an_answer_is_taken_is_not_the_answers(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        await scene.put("k", "file:d/e/f")
        await scene.learned("k")
        scene.desk.self_check.take_share(1)
        monkeypatch.setattr(scene.desk.self_check, "_samples", lambda _: 1 / 0)
        assert scene.at_once("k") is not None

    run(scene.desk, work)
