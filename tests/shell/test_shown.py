"""Puts with a clock alone: what is shown not to have changed since, and each single sign that is missing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from desk import Desk, Scripted, run
from signs import BREAKS, LATER, Break, changed_unseen, told, uncovered

from provd import clocks, showing
from provd.core import errors, params
from provd.core.clock import MOUNTED, SET, Clock
from provd.core.dependency import ABSENT
from provd.core.records import MutationKind
from provd.disk import come_after
from provd.disk import seal as sealing
from provd.disk.files import coarse_clock
from provd.filesystems import magic


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


def test_a_question_waits_for_no_barrier_longer_than_it_may_take(desk: Desk) -> None:
    async def work() -> None:
        clock = await desk.clock()
        assert isinstance(desk.watch, Scripted)
        desk.watch.timeouts.clear()
        asked = params.DepsCheck(deps=["file:d/a.py"], fetched_at=clock, timeout_ms=300)
        assert (await desk.responder.deps_check(asked, foreign=False))["verdict"] == "fresh"
        assert len(desk.watch.timeouts) > 1
        assert all(timeout is not None and timeout <= 0.3 for timeout in desk.watch.timeouts)

    run(desk, work)


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


# ---- clocks that are spent


def mounting(desk: Desk) -> None:
    """Something is mounted, and nothing tells of it but the table of mounts."""
    desk.clocks._mounts += 1


def setting(_: Desk) -> None:
    """The wall clock is set."""
    moment = clocks.moment
    clocks.moment = lambda: clocks.Moment(moment().at, moment().offset + 1_000_000_000)


@pytest.mark.parametrize(("spend", "why"), [(mounting, MOUNTED), (setting, SET)])
def test_a_clock_that_is_taken_after_a_mount_counts_and_the_one_before_does_not(
    desk: Desk, spend: Callable[[Desk], None], why: str
) -> None:
    async def work() -> None:
        await desk.write("object:o")
        before = await desk.clock()
        await desk.put("o", deps=["object:o"], fetched_at=before)
        before = await desk.clock()
        spend(desk)
        after = await desk.clock()
        assert after != before
        assert await desk.clock() == after, "one record is enough"

        for clock, verdict in ((before, "unknown"), (after, "fresh")):
            asked = params.DepsCheck(deps=["file:f"], fetched_at=clock)
            told = await desk.responder.deps_check(asked, foreign=False)
            assert told["verdict"] == verdict
            put = (await desk.put("k", deps=["file:f"], fetched_at=clock))["verdict"]
            assert put["verdict"] == verdict
            for item in [*told["evidence"], *put["evidence"]]:
                assert item["detail"] == why
                assert "take a new clock" in item["hint"]

        page = await desk.responder.since(params.LogSince(clock=before))
        first = page["records"][0]
        assert (first["type"], first["event"], first["path"]) == ("root", "renewed", str(desk.root))
        assert page["complete"], "it is no gap"
        assert (await desk.found("o"))[0] == "fresh", "nor is anybody's object concerned"

    run(desk, work)


def test_nothing_is_recorded_for_a_clock_that_counts_by_itself(desk: Desk) -> None:
    async def work() -> None:
        before = await desk.clock()
        mounting(desk)
        await desk.log(desk.gap("elsewhere"))
        head = desk.store.head
        assert await desk.clock() != before
        assert desk.store.head == head

    run(desk, work)


def test_a_clock_is_given_where_no_record_can_be_made_for_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        before = await desk.clock()
        mounting(desk)

        def full(*_: object) -> None:
            raise errors.StoreFull("no space", "make some")

        monkeypatch.setattr(desk.store, "submit", full)
        assert await desk.clock() == before

    run(desk, work)


@pytest.mark.parametrize("dep", ["file:link/a.py", "tree:link", "file:d/none/deeper"])
def test_what_shows_before_its_event_is_waited_for(desk: Desk, monkeypatch: pytest.MonkeyPatch, dep: str) -> None:
    """A rename takes effect before its event is queued, both under the lock of its directory.

    Broken: a whole put may fit in between, which keeps the digest of what is there now for what was read before.
    """
    passed: list[bytes] = []
    watch = desk.watch
    assert isinstance(watch, Scripted)

    def queued(directory: bytes) -> bool:
        """The lock is free: so the event of what held it is there."""
        passed.append(directory)
        watch.told = [desk.mutation("link", MutationKind.MOVED)]
        return come_after(directory)

    async def work() -> None:
        clock = await desk.clock()
        monkeypatch.setattr(showing, "come_after", queued)
        told = await desk.put("k", deps=[dep], fetched_at=clock)
        assert bool(told["unproven"]) == ("link" in dep)
        assert {os.fsencode(desk.root), b"/"} <= set(passed)

    run(desk, work)


def test_a_way_that_cannot_be_listed_in_time_shows_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(directory: bytes) -> bool:
        raise FileNotFoundError(directory)

    async def work() -> None:
        clock = await desk.clock()
        monkeypatch.setattr(showing, "come_after", gone)
        assert (await desk.put("k", deps=["file:f"], fetched_at=clock))["unproven"] == ["file:f"]

    run(desk, work)
