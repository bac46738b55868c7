"""The answer at once: the same as the whole way gives, and never fresh where that would not be.

Each test says what is broken where it fails: it was seen to fail with that.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import shutil
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from desk import run
from sealing_help import chain, wall_clock_was_set
from shortcutting import Scene, scene, without_clock
from support import content_of, write_over

from provd.core import errors, params

__all__ = ["scene"]

# the same answer


def test_it_is_what_the_whole_way_gives(scene: Scene) -> None:
    async def work() -> None:
        await scene.put("k", "file:d/e/f", "file:g")
        await scene.put(
            "other key \U0001f511", f"file:{scene.root}/g", value=msgspec.Raw(b'"x"'), meta=msgspec.Raw(b"{}")
        )
        keys = ["k", "other key \U0001f511"]
        await scene.learned(*keys)
        whole = await scene.whole(*keys)
        told, at_once = await scene.ask(*keys)
        assert at_once
        assert list(told) == keys
        for key in keys:
            assert whole[key]["why"] == "untouched"
            assert without_clock(told[key]) == without_clock(whole[key])
            assert without_clock(scene.at_once(key)) == without_clock(whole[key])
            assert list(scene.at_once(key)) == list(whole[key])
            assert scene.at_once(key)["clock"] == told[key]["clock"] == await scene.desk.clock()
        assert (await scene.ask("k", "k"))[1]

    run(scene.desk, work)


def test_its_clock_is_that_of_the_newest_record(scene: Scene) -> None:
    async def work() -> None:
        await scene.put("k", "file:g")
        await scene.learned("k")
        before = scene.at_once("k")
        await scene.desk.write("object:other")
        after = scene.at_once("k")
        assert after is not None, "records of other things disturb nobody"
        assert after["clock"] != before["clock"]
        assert after["clock"] == await scene.desk.clock()

    run(scene.desk, work)


HOWS: list[dict[str, Any]] = [{"verify": "content"}, {"verify": "log"}, {"revalidate": False}, {"scope": "other"}]


@pytest.mark.parametrize("how", HOWS)
def test_who_asks_for_another_proof_or_elsewhere_gets_the_whole_way(scene: Scene, how: dict[str, Any]) -> None:
    """Broken: `by_seal` always; the scope left out."""

    async def work() -> None:
        await scene.put("k", "file:g")
        await scene.learned("k")
        assert scene.at_once("k", **how) is None

    run(scene.desk, work)


# the store


@pytest.mark.parametrize("how", ["one by seals", "one by silence", "several"])
def test_a_store_that_was_written_over_is_not_answered_for(scene: Scene, how: str) -> None:
    """Broken: no look at the store while the head stands still."""
    fields: dict[str, Any] = {"keys": ["k"]} if how == "several" else {"key": "k"}
    asked = params.EntryCheck(**fields, verify="log" if how == "one by silence" else "auto")

    async def at_once() -> bytes | None:
        answers = scene.desk.responder.at_once
        return await answers.all(asked) if how == "several" else answers.one(asked)

    async def work() -> None:
        data = os.path.join(scene.desk.store.environment.directory, "data.mdb")
        await scene.desk.write("object:x")
        older = content_of(data)
        await scene.put("k", "file:g")
        await scene.learned("k")
        await scene.desk.responder.check(asked, foreign=False)
        assert await at_once() is not None
        write_over(data, older)
        assert await at_once() is None
        with pytest.raises(errors.StoreUnusable, match="came back at record"):
            await scene.desk.responder.check(asked, foreign=False)

    run(scene.desk, work)


# changes before the question

Change = Callable[[Scene], Any]


def rename(name: str, other: str) -> Change:
    return lambda scene: os.rename(scene.root / name, scene.root / other)


def put_another(scene: Scene, name: str) -> None:
    """Has a directory made way for one like it with another file."""
    os.rename(scene.root / name, scene.home / f"{name} away")
    scene.write(f"{name}/e/f", "two")


def linked(scene: Scene, content: str) -> None:
    """Has a directory made way for a link to one that is not watched."""
    os.rename(scene.root / "d", scene.root / "was")
    (scene.home / "out" / "e").mkdir(parents=True)
    (scene.home / "out" / "e" / "f").write_text(content)
    os.symlink(scene.home / "out", scene.root / "d")


def link_at_the_end(scene: Scene) -> None:
    os.rename(scene.root / "d/e/f", scene.root / "d/e/real")
    os.symlink("real", scene.root / "d/e/f")


def stored(scene: Scene) -> None:
    with open(scene.root / "d/e/f", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        assert mapping[0]
        mapping[:3] = b"two"


def hard_linked(scene: Scene) -> None:
    os.link(scene.root / "d/e/f", scene.home / "outside")
    (scene.home / "outside").write_text("two")


def replaced(scene: Scene, content: str) -> None:
    scene.write("new", content)
    os.rename(scene.root / "new", scene.root / "d/e/f")


DIRTY: dict[str, Change] = {
    "written": lambda s: s.write("d/e/f", "two"),
    "replaced": lambda s: replaced(s, "two"),
    "gone": lambda s: os.unlink(s.root / "d/e/f"),
    "another directory": lambda s: put_another(s, "d"),
    "another directory, empty": chain(rename("d/e", "x"), lambda s: os.mkdir(s.root / "d/e")),
    "a link on the way": lambda s: linked(s, "two"),
    "stored": stored,
    "by another name": hard_linked,
    "a directory": chain(lambda s: os.unlink(s.root / "d/e/f"), lambda s: os.mkdir(s.root / "d/e/f")),
    "put anew": lambda s: s.put("k", "file:d/e/f", "file:missing"),
}
FRESH: dict[str, Change] = {
    "replaced by the same": lambda s: replaced(s, "one"),
    "written as it was": lambda s: s.write("d/e/f", "one"),
    "a link to the same on the way": lambda s: linked(s, "one"),
    "a link at the end": link_at_the_end,
    "a directory like it": chain(rename("d", "x"), rename("c", "d")),
    "there and back": chain(rename("d", "x"), rename("x", "d")),
    "put anew": lambda s: s.put("k", "file:d/e/f"),
}


@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.parametrize("change", [*DIRTY, *(f"fresh: {name}" for name in FRESH)])
def test_after_a_change_it_is_what_the_whole_way_gives(scene: Scene, change: str, *, taken: bool) -> None:
    """Broken: `_is_untouched` says yes (what was changed by content); `_all_kept` says yes (what was put)."""

    async def work() -> None:
        await scene.put("k", "file:d/e/f", "file:g")
        await scene.put("alone", "file:g")
        await scene.learned("k", "alone")
        acted = (FRESH[change.removeprefix("fresh: ")] if change.startswith("fresh: ") else DIRTY[change])(scene)
        if asyncio.iscoroutine(acted):
            await acted
            if change in DIRTY:
                scene.write("missing", "there")
        if taken:
            scene.watch.settle()
        for _ in range(3):
            whole = await scene.whole("k", "alone")
            told = scene.at_once("k") or await scene.desk.check("k")
            assert (told["verdict"] == "fresh") is change.startswith("fresh: ")
            assert (told["verdict"], told["version"]) == (whole["k"]["verdict"], whole["k"]["version"])
            both, _ = await scene.ask("k", "alone")
            assert [both[key]["verdict"] for key in both] == [whole[key]["verdict"] for key in both]
            scene.watch.settle()

    run(scene.desk, work)


def test_what_was_changed_and_put_back_is_answered_at_once_again(scene: Scene) -> None:
    """Broken: what is learned already is not learned anew."""

    async def work() -> None:
        await scene.put("k", "file:d/e/f", "file:g")
        await scene.learned("k")
        for content, verdict in (("two", "dirty"), ("one", "fresh")):
            scene.write("d/e/f", content)
            scene.watch.settle()
            assert scene.at_once("k") is None
            assert (await scene.desk.check("k"))["verdict"] == verdict
        await scene.learned("k")

    run(scene.desk, work)


def test_what_was_forgotten_is_not_fresh(scene: Scene) -> None:
    """Broken: `_all_kept` says yes."""

    async def work() -> None:
        await scene.put("k", "file:g")
        await scene.learned("k")
        await scene.desk.entries.forget(params.EntryForget(key="k"), foreign=False)
        assert scene.at_once("k") is None
        assert (await scene.desk.found("k"))[0] == "unknown"
        assert (await scene.ask("k"))[0]["k"]["verdict"] == "unknown"

    run(scene.desk, work)


def test_a_key_that_is_not_known_is_left_to_the_whole_way(scene: Scene) -> None:
    async def work() -> None:
        await scene.put("k", "file:g")
        await scene.learned("k")
        assert scene.at_once("nobody") is None
        told, at_once = await scene.ask("k", "nobody")
        assert not at_once
        assert [each["verdict"] for each in told.values()] == ["fresh", "unknown"]
        assert scene.at_once("k") is not None

    run(scene.desk, work)


# what the watcher says


def test_while_anything_waits_to_be_heard_or_taken_nothing_is_said(scene: Scene) -> None:
    """Broken: `is_still` without the watcher; `glance` without what is left in memory."""

    async def work() -> None:
        await scene.put("k", "file:g")
        await scene.learned("k")
        scene.write("other", "x")
        assert scene.at_once("k") is None
        scene.watch.read()
        assert scene.at_once("k") is None
        scene.watch.settle()
        assert scene.at_once("k") is not None, "a file is no way"
        (scene.root / "new").mkdir()
        scene.watch.settle()
        assert scene.at_once("k") is not None, "nor is a directory that is new"
        os.rename(scene.root / "c", scene.root / "moved")
        scene.watch.settle()
        assert scene.at_once("k") is None, "one that moved may be"
        await scene.learned("k")

    run(scene.desk, work)


LOSSES = ["fault", "rules", "rules for files", "the root goes", "its end", "its end, another below"]


@pytest.mark.parametrize("what", LOSSES)
def test_after_a_loss_nothing_is_said(scene: Scene, what: str) -> None:
    """Broken: `glance` without its shifts; no `losses` in `begin` (rules for files) or in `demote` (the last)."""

    async def work() -> None:
        watcher, root = scene.watch.watcher, os.fsencode(scene.root)
        if what == "its end, another below":
            shutil.rmtree(scene.root / "c")
            for _ in watcher.add(root + b"/d", lambda *_: False):
                pass
        await scene.put("k", "file:g" if what == LOSSES[-1] else "file:d/e/f")
        await scene.learned("k")
        if what == "fault":
            watcher._fault(ValueError("oh"))
        elif what == "rules":
            scene.watch.begun(lambda path, _: path.endswith(b"/e"))
        elif what == "rules for files":
            scene.watch.begun(lambda path, is_dir: not is_dir and path.endswith(b"/f"))
        elif what == "the root goes":
            os.rename(scene.root, scene.home / "elsewhere")
            os.rename(scene.home / "elsewhere", scene.root)
        else:
            watcher.remove(root)
        for _ in range(2):
            assert scene.at_once("k") is None
            scene.watch.settle()

    run(scene.desk, work)


def test_no_count_of_losses_comes_back_after_a_fault(scene: Scene) -> None:
    """Broken: `_fault` begins to count anew."""
    for _ in range(10):
        scene.watch.begun()
    before = scene.watch.glance()
    scene.watch.watcher._fault(ValueError("oh"))
    assert scene.watch.glance() is None
    scene.watch.settle()
    after = scene.watch.glance()
    assert before is not None
    assert after is not None
    assert after[0] > before[0]


@pytest.mark.parametrize("void", ["clock", "end"])
def test_when_seals_are_void_nothing_is_said(scene: Scene, void: str) -> None:
    """Broken: `_begin` without `is_still`."""

    async def work() -> None:
        await scene.put("k", "file:g")
        await scene.learned("k")
        if void == "clock":
            wall_clock_was_set(scene.sealed.clock)
        else:
            scene.sealed.close()
        assert scene.at_once("k") is None
        assert (await scene.desk.found("k")) == ("fresh", "same", "content")
        if void == "clock":
            await scene.learned("k")
        else:
            assert (await scene.desk.found("k")) == ("fresh", "same", "content")

    run(scene.desk, work)
