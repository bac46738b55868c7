"""Puts with a clock alone: what is shown not to have changed since, and each single sign that is missing."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from desk import Desk, Scripted, run

from provd import clocks
from provd.core.clock import Clock
from provd.core.dependency import ABSENT
from provd.core.records import ALL, Gap, MutationKind
from provd.disk import seal as sealing
from provd.disk.files import coarse_clock
from provd.filesystems import magic
from provd.store import Writer
from provd.watch.base import Uncovered

LATER = 10_000_000_000
"""Nanoseconds by which clocks are ahead of the files that these tests write: nobody has to wait for them to rest."""


@pytest.fixture
def desk(tmp_path: Path, lease_breaks_ignored: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    del lease_breaks_ignored
    if magic(os.fsencode(tmp_path)) not in sealing.SEALABLE:
        pytest.skip("nothing can be sealed here")
    watch = Scripted(os.fsencode(tmp_path / "root"))
    made = Desk(tmp_path, watch)
    watch.store = made.store
    moment = clocks.moment
    monkeypatch.setattr(clocks, "moment", lambda: clocks.Moment(moment().at + LATER, moment().offset))
    monkeypatch.setattr(sealing, "coarse_clock", lambda: coarse_clock() + LATER + LATER)
    fill(made.root)
    yield made
    made.close()


def fill(root: Path) -> None:
    (root / "d" / "deep").mkdir(parents=True)
    (root / "f").write_text("one")
    (root / "d" / "a.py").write_text("a")
    (root / "d" / "b.txt").write_text("b")
    (root / "d" / "deep" / "c.py").write_text("c")
    (root / "d" / "l").symlink_to("b.txt")
    (root / "link").symlink_to("d")
    (root / "chain").symlink_to("link")


KINDS = [
    "file:f",
    "file:d/a.py",
    "file:link/a.py",
    "file:chain/deep/c.py",
    "file:d/l",
    "file:none",
    "file:d/none/deeper",
    "file:d",
    "dir:d",
    "dir:none",
    "names:d/*",
    "names:d/**/*.py",
    "names:none/*",
    "glob:d/*.py",
    "glob:d/**/*.py",
    "glob:d/a.py",
    "tree:d",
    "tree:link",
    "tree:none",
]


def change(root: Path, dep: str) -> None:
    """Makes a change that each of the dependencies sees."""
    kind, _, name = dep.partition(":")
    if dep in {"file:none", "dir:none", "tree:none"}:
        (root / "none").mkdir()
    elif dep == "file:d/none/deeper":
        (root / "d" / "none").mkdir()
        (root / "d" / "none" / "deeper").write_text("x")
    elif dep == "names:none/*":
        (root / "none").mkdir()
        (root / "none" / "x").write_text("x")
    elif dep == "file:d":
        shutil.rmtree(root / "d")
    elif kind == "file":
        (root / name).write_text("two")
    elif dep == "glob:d/a.py":
        (root / "d" / "a.py").write_text("two")
    else:
        (root / "d" / "new.py").write_text("new")


@pytest.mark.parametrize("dep", KINDS)
def test_what_rests_and_is_watched_is_kept_with_the_digest_of_now(desk: Desk, dep: str) -> None:
    async def work() -> None:
        clock = await desk.clock()

        told = await desk.put("k", deps=[dep], fetched_at=clock)

        assert told["unproven"] == []
        assert told["verdict"]["verdict"] == "fresh"
        (kept,) = desk.entry("k").deps or ()
        assert kept.shown
        assert kept.digest
        assert (told["absent"] == [dep]) == (kept.digest == ABSENT)
        assert (await desk.found("k"))[0] == "fresh"
        change(desk.root, dep)
        assert (await desk.found("k"))[0] == "dirty"

    run(desk, work)


Break = Callable[[Desk, Scripted, ExitStack], Any]


def hard_link(desk: Desk, _: Scripted, __: ExitStack) -> None:
    os.link(desk.path("f"), desk.path("other"))


def open_for_writing(desk: Desk, _: Scripted, stack: ExitStack) -> None:
    stack.enter_context(open(desk.path("f"), "r+b"))  # noqa: SIM115


def mapped(desk: Desk, _: Scripted, stack: ExitStack) -> None:
    with open(desk.path("f"), "r+b") as file:
        stack.enter_context(mmap.mmap(file.fileno(), 0))


def told(*make: Callable[[Desk], Any], barrier: int = 0) -> Break:
    """Records that come with the barrier of that number (0: they are in the log before the put)."""

    async def breaking(desk: Desk, watch: Scripted, _: ExitStack) -> None:
        made = [one(desk) for one in make]
        if not barrier:
            await desk.log(*made)
            return
        first = watch.barriers
        watch.at_barrier = lambda number: watch.told.extend(made) if number == first + barrier else None

    return breaking


def uncovered(name: str) -> Break:
    def breaking(desk: Desk, watch: Scripted, _: ExitStack) -> None:
        watch.lost.append(Uncovered(desk.path(name) if name else os.fsencode(desk.root), "limit"))

    return breaking


def late_uncovered(desk: Desk, watch: Scripted, _: ExitStack) -> None:
    """The watch is lost while the put reads: the second barrier finds out."""
    first = watch.barriers

    def barrier(number: int) -> None:
        if number == first + 2:
            watch.lost.append(Uncovered(os.fsencode(desk.root), "limit"))

    watch.at_barrier = barrier


def covered_again(desk: Desk, watch: Scripted, _: ExitStack) -> None:
    """The gap of what is watched again while the barrier is waited for is not recorded yet."""
    first = watch.barriers
    watch.lost.append(Uncovered(os.fsencode(desk.root), "limit"))

    def barrier(number: int) -> None:
        if number == first + 2:
            watch.lost.clear()

    watch.at_barrier = barrier


def slow(barrier: int) -> Break:
    def breaking(_: Desk, watch: Scripted, __: ExitStack) -> None:
        first = watch.barriers

        def at(number: int) -> None:
            watch.slow = number == first + barrier

        watch.at_barrier = at

    return breaking


def no_roots(_: Desk, watch: Scripted, __: ExitStack) -> None:
    watch.roots = ()


def root_elsewhere(desk: Desk, watch: Scripted, _: ExitStack) -> None:
    watch.roots = (os.path.dirname(os.fsencode(desk.root)) + b"/other",)


def young(desk: Desk, _: Scripted, stack: ExitStack) -> None:
    given = desk.clocks.given
    patched = stack.enter_context(pytest.MonkeyPatch.context())
    patched.setattr(desk.clocks, "given", lambda at: given(at) and os.stat(desk.path("f")).st_ctime_ns + 1_000_000)


def mtime_ahead(desk: Desk, _: Scripted, __: ExitStack) -> None:
    ahead = coarse_clock() + 3 * LATER
    os.utime(desk.path("f"), ns=(ahead, ahead))


def clock_set(_: Desk, __: Scripted, stack: ExitStack) -> None:
    moment = clocks.moment
    patched = stack.enter_context(pytest.MonkeyPatch.context())
    patched.setattr(clocks, "moment", lambda: clocks.Moment(moment().at, moment().offset + 1_000_000_000))


async def declared(desk: Desk, _: Scripted, __: ExitStack) -> None:
    await desk.write("file:f")


async def trimmed(desk: Desk, _: Scripted, __: ExitStack) -> None:
    await desk.log(Gap(1, b"/elsewhere", "x"), Gap(1, b"/elsewhere", "x"))

    def trim(writer: Writer) -> None:
        writer.trim(1, 0)

    await desk.store.submit(trim)


def never_sealed(_: Desk, __: Scripted, stack: ExitStack) -> None:
    patched = stack.enter_context(pytest.MonkeyPatch.context())
    patched.setattr(sealing, "SEALABLE", frozenset())


def clock_set_meanwhile(_: Desk, watch: Scripted, stack: ExitStack) -> None:
    first, moment = watch.barriers, clocks.moment
    patched = stack.enter_context(pytest.MonkeyPatch.context())

    def barrier(number: int) -> None:
        if number == first + 2:
            patched.setattr(clocks, "moment", lambda: clocks.Moment(moment().at, moment().offset + 1_000_000_000))

    watch.at_barrier = barrier


def changed_unseen(desk: Desk, watch: Scripted, stack: ExitStack) -> None:
    """Between the reading and the seal."""
    read = desk.inquiry.read
    patched = stack.enter_context(pytest.MonkeyPatch.context())

    async def reading(*some: Any, **how: Any) -> Any:
        there = await read(*some, **how)
        patched.undo()
        (desk.root / "f").write_text("two")
        (desk.root / "d" / "deep" / "c.py").write_text("two")
        return there

    patched.setattr(desk.inquiry, "read", reading)


BREAKS: dict[str, Break] = {
    "a hard link": hard_link,
    "open for writing": open_for_writing,
    "mapped writable": mapped,
    "a mutation since": told(lambda d: d.mutation("f")),
    "an attrib since": told(lambda d: d.mutation("f", MutationKind.ATTRIB)),
    "moved from it since": told(lambda d: d.mutation("g", MutationKind.MOVED, "f")),
    "a directory above moved since": told(lambda d: d.mutation("", MutationKind.ATTRIB)),
    "a mutation told by the first barrier": told(lambda d: d.mutation("f"), barrier=1),
    "a mutation told by the second barrier": told(lambda d: d.mutation("f"), barrier=2),
    "a gap since": told(lambda d: d.gap()),
    "a gap for it since": told(lambda d: d.gap("f")),
    "a gap for all since": told(lambda _: Gap(1, ALL, "x")),
    "a gap told by the second barrier": told(lambda d: d.gap(), barrier=2),
    "not covered": uncovered(""),
    "not covered itself": uncovered("f"),
    "not covered any more": late_uncovered,
    "covered again a moment ago": covered_again,
    "not recorded in time at first": slow(1),
    "not recorded in time at last": slow(2),
    "nothing is watched": no_roots,
    "outside the roots": root_elsewhere,
    "younger than the clock": young,
    "an mtime ahead": mtime_ahead,
    "the wall clock was set": clock_set,
    "the wall clock was set meanwhile": clock_set_meanwhile,
    "declared as written": declared,
    "the log was trimmed": trimmed,
    "another file system": never_sealed,
    "changed unseen meanwhile": changed_unseen,
}


@pytest.mark.parametrize("name", BREAKS)
def test_each_missing_sign_leaves_it_unproven(desk: Desk, name: str) -> None:
    async def work() -> None:
        clock = await desk.clock()
        assert isinstance(desk.watch, Scripted)
        with ExitStack() as stack:
            broken = BREAKS[name](desk, desk.watch, stack)
            if broken is not None:
                await broken

            told = await desk.put("k", deps=["file:f"], fetched_at=clock)

            assert told["unproven"] == ["file:f"]
            assert told["verdict"]["verdict"] != "fresh"
        desk.watch.slow = False
        desk.watch.at_barrier = lambda _: None
        assert (await desk.found("k"))[0] != "fresh"

    run(desk, work)


WAYS: list[tuple[str, Break]] = [
    ("file:link/a.py", told(lambda d: d.mutation("link", MutationKind.MOVED, "link.new"))),
    ("file:chain/a.py", told(lambda d: d.mutation("link", MutationKind.MOVED, "link.new"))),
    ("file:chain/a.py", told(lambda d: d.gap("link"))),
    ("file:link/a.py", uncovered("d")),
    ("file:chain/a.py", uncovered("link")),
    ("file:none", told(lambda d: d.mutation("none", MutationKind.DELETED))),
    ("file:d/none/deeper", told(lambda d: d.mutation("d/none", MutationKind.DELETED))),
    ("file:none", uncovered("")),
    ("dir:d", told(lambda d: d.mutation("d/x", MutationKind.CREATED))),
    ("dir:d", uncovered("d")),
    ("names:d/**/*.py", told(lambda d: d.mutation("d/deep/x.py", MutationKind.DELETED))),
    ("names:d/**/*.py", uncovered("d/deep")),
    ("glob:d/**/*.py", told(lambda d: d.mutation("d/deep/c.py"))),
    ("glob:d/**/*.py", told(lambda d: d.gap("d/deep"))),
    ("tree:d", told(lambda d: d.mutation("d/deep/c.py"))),
    ("tree:d", told(lambda d: d.gap("d/deep"))),
    ("tree:d", uncovered("d/deep")),
    ("tree:d", changed_unseen),
    ("glob:d/**/*.py", changed_unseen),
    ("tree:d", lambda d, *_: os.link(d.path("d/deep/c.py"), d.path("other"))),
    ("tree:d", lambda d, _, stack: stack.enter_context(open(d.path("d/deep/c.py"), "ab"))),  # noqa: SIM115
    ("glob:d/*", lambda *_: None),  # a link among the members is followed, and nobody knows where it led
]


@pytest.mark.parametrize("number", range(len(WAYS)))
def test_each_missing_sign_on_the_way_or_in_a_set_leaves_it_unproven(desk: Desk, number: int) -> None:
    dep, breaking = WAYS[number]

    async def work() -> None:
        clock = await desk.clock()
        assert isinstance(desk.watch, Scripted)
        with ExitStack() as stack:
            broken = breaking(desk, desk.watch, stack)
            if broken is not None and hasattr(broken, "__await__"):
                await broken
            told = await desk.put("k", deps=[dep], fetched_at=clock)
        assert told["unproven"] == [dep]

    run(desk, work)


@pytest.mark.parametrize(
    ("young", "deps"),
    [
        ("d/deep", ["tree:d", "names:d/**", "glob:d/**/*.py"]),
        ("d", ["tree:d", "dir:d", "names:d/*", "glob:d/*.py", "glob:d/a.py", "file:d/none/deeper"]),
        ("", ["file:none", "file:d", "dir:none", "tree:none", "names:none/*"]),
    ],
)
def test_a_directory_that_is_younger_than_the_clock_shows_nothing(
    desk: Desk, young: str, deps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = desk.path(young) if young else os.fsencode(desk.root)
    monkeypatch.setattr("provd.disk.resting.at_rest", lambda path, *_: path != directory)

    async def work() -> None:
        clock = await desk.clock()
        assert (await desk.put("k", deps=[*deps, "file:f"], fetched_at=clock))["unproven"] == deps

    run(desk, work)


def test_a_link_that_leads_out_of_the_roots_shows_nothing(desk: Desk) -> None:
    async def work() -> None:
        outside = desk.root.parent / "outside"
        outside.mkdir()
        (outside / "x").write_text("x")
        (desk.root / "out").symlink_to(outside)
        (desk.root / "back").symlink_to(outside / "in")
        (outside / "in").symlink_to(desk.root / "d")
        clock = await desk.clock()
        deps = ["file:out/x", "file:out/none", "tree:out", "file:back/a.py", f"file:{outside}/in/a.py"]

        assert (await desk.put("k", deps=[*deps, "file:f"], fetched_at=clock))["unproven"] == deps

    run(desk, work)


@pytest.mark.usefixtures("lease_breaks_ignored")
def test_in_memory_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    if magic(b"/dev/shm") in sealing.SEALABLE or not os.access("/dev/shm", os.W_OK):
        pytest.skip("/dev/shm is no tmpfs here")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as home:
        watch = Scripted(os.fsencode(home) + b"/root")
        desk = Desk(Path(home), watch)
        watch.store = desk.store
        fill(desk.root)
        monkeypatch.setattr(desk.clocks, "given", lambda _: coarse_clock() + LATER)

        async def work() -> None:
            clock = await desk.clock()
            assert (await desk.put("k", deps=["file:f", "dir:d"], fetched_at=clock))["unproven"] == ["file:f", "dir:d"]

        run(desk, work)
        desk.close()


def test_a_token_of_another_run_shows_nothing(desk: Desk) -> None:
    async def work() -> None:
        token = str(Clock(desk.store.log_id, "f" * 16, 1))
        assert (await desk.put("k", deps=["file:f"], fetched_at=token))["unproven"] == ["file:f"]

    run(desk, work)


def test_what_the_client_read_and_what_it_says_are_kept_as_read(desk: Desk) -> None:
    async def work() -> None:
        clock = await desk.clock()
        await desk.put("k", deps=["file:f"], as_of="put", fetched_at=clock)
        assert [kept.shown for kept in desk.entry("k").deps or ()] == [False]
        assert desk.watch.barriers == 1, "only that of the clock"  # type: ignore[attr-defined]

    run(desk, work)


def test_shown_and_unproven_stand_side_by_side(desk: Desk) -> None:
    async def work() -> None:
        clock = await desk.clock()
        os.link(desk.path("d/a.py"), desk.path("other"))
        deps = ["file:f", "file:d/a.py", "dir:d", "object:o"]
        assert (await desk.put("k", deps=deps, fetched_at=clock))["unproven"] == ["file:d/a.py"]
        assert [kept.shown for kept in desk.entry("k").deps or ()] == [True, False, True, False]

    run(desk, work)
