"""The answer at once: what happens while files are looked at, what is never learned, and what is learned in the end.

Each test says what is broken where it fails: it was seen to fail with that.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from desk import run
from sealing_help import exchange, in_namespace, may_mount, mount, mounted_image, unmount
from shortcutting import Scene, scene, without_clock

from provd import shortcut

__all__ = ["scene"]


def at_look(
    monkeypatch: pytest.MonkeyPatch, number: int, before: Callable[[], object], after: Callable[[], object]
) -> None:
    """Has something happen before, and something after one of the looks that an answer at once takes."""
    real, looks = os.lstat, 0

    def looking(path: Any, **how: Any) -> os.stat_result:
        nonlocal looks
        looks += 1
        if looks != number:
            return real(path, **how)
        before()
        try:
            return real(path, **how)
        finally:
            after()

    monkeypatch.setattr(os, "lstat", looking)


# between the first look and the last


def never_both(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """One directory is away while what is in the other is looked at, and the other way round: never are both there."""
    one, other = scene.root / "d", scene.root / "c"

    def exchanged() -> None:
        os.rename(one, scene.root / "one away")
        os.rename(scene.root / "other away", other)

    at_look(
        monkeypatch,
        1,
        lambda: os.rename(other, scene.root / "other away"),
        exchanged,
    )


def test_two_files_that_were_never_right_at_one_moment(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: `fresh` without the last `is_still`."""

    async def work() -> None:
        await scene.put("k", "file:d/e/f", "file:c/e/f")
        await scene.learned("k")
        with monkeypatch.context() as patched:
            never_both(scene, patched)
            assert scene.at_once("k") is None
        assert not (scene.root / "d").exists()
        assert (await scene.desk.found("k"))[:2] == ("dirty", "deleted")

    run(scene.desk, work)


@pytest.mark.parametrize("taken", [False, True])
def test_two_entries_that_were_never_right_at_one_moment(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, taken: bool
) -> None:
    """Broken: `all_fresh` without the last `_begin`, or without the comparison (where all was taken meanwhile)."""

    async def work() -> None:
        await scene.put("one", "file:d/e/f")
        await scene.put("two", "file:c/e/f")
        await scene.learned("one", "two")
        monkeypatch.setattr(shortcut, "SLICE", 1)
        monkeypatch.setattr(asyncio, "sleep", settling)
        with monkeypatch.context() as patched:
            never_both(scene, patched)
            told, at_once = await scene.ask("one", "two")
        assert not at_once
        assert [each["verdict"] for each in told.values()] == ["dirty", "fresh"]

    real = asyncio.sleep

    async def settling(seconds: float) -> None:
        if taken:
            scene.watch.settle()
        await real(seconds)

    run(scene.desk, work)


Act = Callable[[Scene], Any]
MEANWHILE: dict[str, Act] = {
    "put anew": lambda s: s.put("two", "file:missing", "file:c/e/f"),
    "other rules": lambda s: s.watch.begun(lambda path, _: path.endswith(b"/c")),
    "a fault": lambda s: s.watch.watcher._fault(ValueError("oh")),
    "written": lambda s: s.write("c/e/f", "two"),
}


@pytest.mark.parametrize("what", MEANWHILE)
def test_what_happens_while_others_are_answered_is_taken_into_account(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Meanwhile another entry is learned, on the new ground.

    Broken: `all_fresh` compares what was heard alone (rules); the last `_begin` without `_all_kept` (put anew).
    """

    async def work() -> None:
        await scene.put("one", "file:d/e/f")
        await scene.put("two", "file:c/e/f")
        await scene.put("third", "file:g")
        await scene.learned("one", "two")
        monkeypatch.setattr(shortcut, "SLICE", 1)
        real = asyncio.sleep

        async def acting(seconds: float) -> None:
            monkeypatch.setattr(asyncio, "sleep", real)
            acted = MEANWHILE[what](scene)
            if asyncio.iscoroutine(acted):
                await acted
                scene.write("missing", "there")
            scene.watch.settle()
            heard = scene.watch.glance()
            await scene.desk.check("third")
            await scene.desk.check("third")
            assert scene.watch.glance() == heard
            await real(seconds)

        monkeypatch.setattr(asyncio, "sleep", acting)
        _, at_once = await scene.ask("one", "two")
        assert not at_once

    run(scene.desk, work)


# what is never learned


NEVER: dict[str, Callable[[Scene], list[str]]] = {
    "outside": lambda s: [f"file:{s.home}/outside"],
    "one outside": lambda s: ["file:g", f"file:{s.home}/outside"],
    "out and in": lambda s: [f"file:{s.home}/../{s.home.name}/root/g"],
    "by a link": lambda _: ["file:link/e/f"],
    "a link": lambda _: ["file:l"],
    "ignored": lambda _: ["file:ignored/f"],
    "absent": lambda _: ["file:none"],
    "a directory's names": lambda _: ["file:g", "dir:d"],
    "a tree": lambda _: ["tree:d"],
    "another entry": lambda _: ["file:g", "entry:base"],
}


@pytest.mark.parametrize("what", NEVER)
def test_what_could_change_unheard_is_never_learned(scene: Scene, what: str) -> None:
    """Broken: `_is_real` says yes, or does not look at the last name (a link)."""

    async def work() -> None:
        (scene.home / "outside").write_text("one")
        os.symlink("d", scene.root / "link")
        os.symlink("g", scene.root / "l")
        scene.write("ignored/f", "one")
        scene.watch.begun(lambda path, _: path.endswith(b"/ignored"))
        await scene.put("base", "file:g")
        await scene.put("k", *NEVER[what](scene), fetched_at=await scene.desk.clock())
        scene.watch.settle()
        await scene.learned("base")
        for _ in range(3):
            assert (await scene.desk.found("k"))[0] == "fresh"
            assert scene.at_once("k") is None
        assert not (await scene.ask("k", "base"))[1]
        (learned,) = scene.desk.responder.at_once._shortcut._learned.values()
        assert list(learned) == ["base"]

    run(scene.desk, work)


def test_more_files_than_can_be_looked_at_at_once_are_not_learned(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        monkeypatch.setattr(shortcut, "MAX_FILES", 1)
        await scene.put("two", "file:g", "file:d/e/f")
        await scene.put("one", "file:g")
        await scene.learned("one")
        for _ in range(3):
            await scene.desk.found("two")
        assert scene.at_once("two") is None

    run(scene.desk, work)


@pytest.mark.parametrize("limit", ["shortcut._MAX_ENTRIES", "shortcut._MAX_ALL_FILES", "ground._MAX_DIRECTORIES"])
def test_what_is_too_much_to_keep_is_learned_again(scene: Scene, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    async def work() -> None:
        monkeypatch.setattr(f"provd.{limit}", 2)
        keys = [f"k{number}" for number in range(3)]
        for number, key in enumerate(keys):
            scene.write(f"{number}/f", "one")
            await scene.put(key, f"file:{number}/f")
        for _ in range(2):
            for key in keys:
                await scene.learned(key)
                assert without_clock(scene.at_once(key)) == without_clock((await scene.whole(key))[key])

    run(scene.desk, work)


# what is learned in the end


def test_what_was_not_watched_at_first_is_learned_when_it_is(
    tmp_path: Path, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while a root is scanned. Broken: a directory that was not watched is remembered as such."""
    del tmp_path, monkeypatch

    async def work() -> None:
        await scene.put("k", "file:d/e/f")
        steps = scene.watch.begin()
        next(steps)
        for _ in range(3):
            assert (await scene.desk.found("k"))[0] == "fresh"
            assert scene.at_once("k") is None
        for _ in steps:
            pass
        scene.watch.settle()
        await scene.learned("k")

    run(scene.desk, work)


# mounts


def a_file_over_a_file(home: bytes) -> None:
    """Broken: `is_still` without the mount table."""
    scene = Scene(Path(os.fsdecode(home)))
    scene.watch.begun()

    async def work() -> None:
        path = os.fsencode(scene.root / "g")
        await scene.put("k", "file:g")
        await scene.learned("k")
        mount("--bind", os.fsencode(scene.root / "other"), path)
        assert scene.at_once("k") is None
        assert (await scene.desk.found("k"))[:2] == ("dirty", "changed")
        unmount(path)
        assert scene.at_once("k") is None
        assert (await scene.desk.found("k"))[0] == "fresh"

    scene.write("other", "two")
    run(scene.desk, work)
    scene.close()


def a_link_that_takes_the_place_of_a_file_unseen(home: bytes) -> None:
    """Xfs leaves no trace on inodes that exchange names. Broken: `_is_untouched` follows links."""
    with mounted_image("xfs", home) as there:
        (Path(os.fsdecode(there)) / "h").mkdir()
        scene = Scene(Path(os.fsdecode(there)) / "h")
        os.symlink("l", scene.root / "l")
        scene.watch.begun()

        async def work() -> None:
            await scene.put("k", "file:g")
            await scene.learned("k")
            exchange(os.fsencode(scene.root / "g"), os.fsencode(scene.root / "l"))
            scene.watch.settle()
            assert scene.at_once("k") is None
            assert (await scene.desk.found("k"))[0] == "fresh"
            assert scene.at_once("k") is None

        run(scene.desk, work)
        scene.close()


@pytest.mark.skipif(not may_mount(), reason="nothing may be mounted here")
@pytest.mark.parametrize("case", [a_file_over_a_file, a_link_that_takes_the_place_of_a_file_unseen])
def test_what_is_mounted(case: Callable[[bytes], None], tmp_path: Path) -> None:
    in_namespace(case, os.fsencode(tmp_path))
