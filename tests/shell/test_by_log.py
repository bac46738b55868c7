"""What the log says: proofs by its silence, the strict rule, and what waits for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest
from by_log import desk, watch
from desk import Desk, Scripted, run

from provd.core import params
from provd.core.records import ALL, Coverage, Gap, MutationKind
from provd.store import Writer
from provd.watch.base import Uncovered

__all__ = ["desk", "watch"]

BY_LOG = ("fresh", "untouched", "log")
BY_READING = ("fresh", "same", "content")
DEPS = ["file:f", "file:none", "file:link/a.py", "file:d", "dir:d", "names:d/**", "glob:d/**/*.py", "tree:d"]


# verify: log


@pytest.mark.parametrize("dep", DEPS)
def test_where_nothing_was_heard_and_all_is_watched_nothing_is_read(
    desk: Desk, dep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        await desk.put("k", deps=[dep], as_of="put")
        monkeypatch.setattr(desk.inquiry.reader, "read", lambda *_, **__: pytest.fail("it was read"))
        assert await desk.found("k", verify="log") == BY_LOG

    run(desk, work)


def test_what_was_proven_before_anything_was_mounted_is_read(desk: Desk, watch: Scripted) -> None:
    async def work() -> None:
        await desk.put("k", deps=["file:f"], as_of="put")
        watch.mounted = desk.store.head
        assert await desk.found("k", verify="log") == BY_READING

    run(desk, work)


@pytest.mark.parametrize("verify", ["auto", "content"])
def test_who_does_not_ask_for_less_gets_a_reading(desk: Desk, verify: str) -> None:
    async def work() -> None:
        await desk.put("k", deps=DEPS, as_of="put")
        assert await desk.found("k", verify=verify) == BY_READING

    run(desk, work)


HEARD: list[tuple[str, Callable[[Desk], Any]]] = [
    ("file:f", lambda d: d.mutation("f")),
    ("file:f", lambda d: d.mutation("f", MutationKind.ATTRIB)),
    ("file:f", lambda d: d.gap()),
    ("file:f", lambda d: d.gap("f")),
    ("file:f", lambda _: Gap(1, ALL, "x")),
    ("file:link/a.py", lambda d: d.mutation("link", MutationKind.MOVED, "other")),
    ("file:link/a.py", lambda d: d.mutation("d/a.py")),
    ("file:link/a.py", lambda d: d.gap("d")),
    ("file:none", lambda d: d.mutation("none", MutationKind.DELETED)),
    ("dir:d", lambda d: d.mutation("d/x", MutationKind.DELETED)),
    ("glob:d/**/*.py", lambda d: d.mutation("d/deep/c.py")),
    ("tree:d", lambda d: d.mutation("d/deep/c.py", MutationKind.ATTRIB)),
    ("tree:d", lambda d: d.gap("d/deep")),
]


@pytest.mark.parametrize("number", range(len(HEARD)))
@pytest.mark.parametrize("when", ["before", "at the barrier"])
def test_where_something_was_heard_it_is_read(desk: Desk, watch: Scripted, number: int, when: str) -> None:
    dep, record = HEARD[number]

    async def work() -> None:
        await desk.put("k", deps=[dep], as_of="put")
        if when == "before":
            await desk.log(record(desk))
        else:
            watch.told = [record(desk)]
        assert await desk.found("k", verify="log") == BY_READING
        await asyncio.sleep(0)
        assert await desk.found("k", verify="log") == BY_READING, "and until it is proven again"
        await desk.entries.revalidate(params.EntryRevalidate(key="k"), foreign=False)
        assert await desk.found("k", verify="log") == BY_LOG

    run(desk, work)


QUIET: list[tuple[str, Callable[[Desk], Any]]] = [
    ("file:f", lambda d: d.mutation("g")),
    ("file:f", lambda d: d.gap("g")),
    ("dir:d", lambda d: d.mutation("d/a.py")),
    ("dir:d", lambda d: d.mutation("d/deep/x", MutationKind.CREATED)),
    ("names:d/**", lambda d: d.mutation("d/deep/c.py")),
    ("glob:d/*.py", lambda d: d.mutation("d/x.txt", MutationKind.CREATED)),
]


@pytest.mark.parametrize("number", range(len(QUIET)))
def test_what_concerns_others_disturbs_nobody(desk: Desk, number: int) -> None:
    dep, record = QUIET[number]

    async def work() -> None:
        await desk.put("k", deps=[dep], as_of="put")
        await desk.log(record(desk))
        assert await desk.found("k", verify="log") == BY_LOG

    run(desk, work)


UNSEEN: list[tuple[str, str]] = [
    ("file:f", ""),
    ("file:f", "f"),
    ("file:link/a.py", "d"),
    ("file:link/a.py", "link"),
    ("tree:d", "d/deep"),
    ("glob:d/**/*.py", "d/deep"),
    ("names:d/**", "d/deep"),
]


@pytest.mark.parametrize(("dep", "place"), UNSEEN)
def test_where_not_all_is_watched_it_is_read(desk: Desk, watch: Scripted, dep: str, place: str) -> None:
    async def work() -> None:
        await desk.put("k", deps=[dep, "dir:d"], as_of="put")
        watch.lost = [Uncovered(desk.path(place) if place else os.fsencode(desk.root), "limit")]
        assert (await desk.found("k", verify="log"))[0] == "fresh"
        (desk.root / "f").write_text("two")
        (desk.root / "d" / "a.py").write_text("two")
        (desk.root / "d" / "new.py").write_text("two")
        assert (await desk.found("k", verify="log"))[0] == "dirty"

    run(desk, work)


def test_outside_every_root_and_through_a_link_out_it_is_read(desk: Desk) -> None:
    async def work() -> None:
        outside = desk.root.parent / "outside"
        outside.mkdir()
        (outside / "x").write_text("x")
        (desk.root / "out").symlink_to(outside / "x")
        for dep in (f"file:{outside}/x", "file:out", "glob:*"):
            await desk.put("k", deps=[dep], as_of="put")
            assert await desk.found("k", verify="log") == BY_READING

    run(desk, work)


def test_what_was_unequal_when_it_was_put_is_never_fresh_by_silence(desk: Desk) -> None:
    async def work() -> None:
        other = "xxh3:" + "0" * 32
        given = params.WireDependency(dep="file:f", digest=other)
        await desk.put("k", deps=[given])
        assert (await desk.found("k", verify="log"))[:2] == ("dirty", "changed")

    run(desk, work)


def test_silence_counts_from_when_it_was_read_and_the_log_must_hold_it_all(desk: Desk) -> None:
    async def work() -> None:
        clock = await desk.clock()
        await desk.log(desk.mutation("f"))
        given = params.WireDependency(dep="file:f", digest=(await _digest(desk, "file:f")))
        await desk.put("k", deps=[given], fetched_at=clock)
        assert await desk.found("k", verify="log") == BY_LOG, "it was equal after the mutation"
        await desk.log(desk.mutation("g"), desk.mutation("g"))

        def trim(writer: Writer) -> None:
            writer.trim(1, 0)

        await desk.store.submit(trim)
        assert await desk.found("k", verify="log") == BY_READING

    run(desk, work)


async def _digest(desk: Desk, dep: str) -> str:
    told = await desk.responder.snapshot(params.DepsSnapshot(deps=[dep]), foreign=False)
    digest = told["digests"][0]["digest"]
    assert isinstance(digest, str)
    return digest


def test_a_mixed_question_is_of_one_moment(desk: Desk, watch: Scripted) -> None:
    """What is proven by silence is asked about again when the others were read."""

    async def work() -> None:
        await desk.put("k", deps=["file:f", "file:d/a.py"], as_of="put")
        await desk.log(desk.mutation("d/a.py"))
        read = desk.inquiry.reader.read
        asked: list[int] = []

        async def reading(readings: Any, timeout: float, **how: Any) -> Any:  # noqa: ASYNC109
            asked.append(len(readings))
            if len(asked) == 1:
                (desk.root / "f").write_text("two")
                watch.told = [desk.mutation("f")]
            return await read(readings, timeout, **how)

        desk.inquiry.reader.read = reading  # type: ignore[method-assign]
        assert (await desk.found("k", verify="log"))[:2] == ("dirty", "changed")
        assert asked == [1, 2]

    run(desk, work)


# what was not recorded in time


@pytest.mark.parametrize("how", [{"verify": "log"}, {"revalidate": False}])
def test_what_is_not_recorded_in_time_is_unknown(desk: Desk, watch: Scripted, how: dict[str, Any]) -> None:
    async def work() -> None:
        await desk.put("k", deps=["file:f"], as_of="put")
        watch.slow, watch.timeouts = True, []
        assert (await desk.found("k", timeout_ms=1500, **how))[:2] == ("unknown", "timeout")
        assert watch.timeouts[0] == 1.5
        assert (await desk.found("k"))[:2] == ("fresh", "same"), "reading waits for nobody"

    run(desk, work)


def test_what_is_not_recorded_when_its_way_was_seen_is_read(desk: Desk, watch: Scripted) -> None:
    async def work() -> None:
        await desk.put("k", deps=["file:f"], as_of="put")
        first = watch.barriers

        def barrier(number: int) -> None:
            watch.slow = number == first + 2

        watch.at_barrier = barrier
        assert await desk.found("k", verify="log") == BY_READING

    run(desk, work)


def test_what_is_covered_again_a_moment_ago_is_read(desk: Desk, watch: Scripted) -> None:
    """Its gap is not recorded yet."""

    async def work() -> None:
        await desk.put("k", deps=["file:f"], as_of="put")
        watch.lost = [Uncovered(desk.path("f"), "limit")]
        first = watch.barriers

        def barrier(number: int) -> None:
            if number == first + 2:
                watch.lost = []

        watch.at_barrier = barrier
        assert await desk.found("k", verify="log") == BY_READING
        watch.at_barrier = lambda _: watch.lost.clear()
        watch.lost = [Uncovered(desk.path("f"), "limit")]
        assert await desk.found("k", verify="log") == BY_LOG, "covered when the question was taken up"

    run(desk, work)


def test_a_place_that_is_covered_from_now_on_was_not_before(desk: Desk) -> None:
    async def work() -> None:
        await desk.put("k", deps=["file:f"], as_of="put")
        await desk.log(Coverage(1, os.fsencode(desk.root), "whole", "watched"))
        assert await desk.found("k", verify="log") == BY_READING

    run(desk, work)


def test_a_fresh_answer_by_reading_waits_for_nothing(desk: Desk, watch: Scripted) -> None:
    async def work() -> None:
        await desk.put("k", deps=["file:f"], as_of="put")
        barriers, reads = watch.barriers, watch.reads
        assert (await desk.found("k"))[0] == "fresh"
        assert (watch.barriers, watch.reads) == (barriers, reads + 1)
        await desk.put("o", deps=["object:o"], fetched_at=await desk.clock())
        await desk.write("object:o")
        barriers = watch.barriers
        assert (await desk.found("o"))[1] == "written"
        assert watch.barriers == barriers, "nor does one about what no watcher sees"

    run(desk, work)


# the strict rule and what is kept without a digest


@pytest.mark.parametrize(
    ("deps", "record", "found"),
    [
        (["file:f"], lambda d: d.mutation("f"), ("dirty", "touched")),
        (["file:f"], lambda d: d.mutation("f", MutationKind.ATTRIB), ("dirty", "touched")),
        (["file:link/a.py"], lambda d: d.mutation("d/a.py"), ("dirty", "touched")),
        (["file:d/deep/c.py"], lambda d: d.mutation("d", MutationKind.MOVED, "e"), ("dirty", "touched")),
        (["tree:d"], lambda d: d.mutation("d/deep/c.py"), ("dirty", "touched")),
        (["dir:d"], lambda d: d.mutation("d/a.py"), ("unknown", "unproven")),
        (["file:f"], lambda d: d.mutation("g"), ("unknown", "unproven")),
        (["file:f"], lambda d: d.gap(), ("unknown", "unproven")),
    ],
)
@pytest.mark.parametrize("digest", [True, False])
def test_a_record_since_the_clock_is_a_touch(
    desk: Desk, watch: Scripted, deps: list[str], record: Callable[[Desk], Any], found: tuple[str, str], digest: bool
) -> None:
    async def work() -> None:
        clock = await desk.clock()
        if digest:
            await desk.put("k", deps=deps, as_of="put", fetched_at=clock)
            ask: dict[str, Any] = {"revalidate": False}
        else:
            watch.slow = True  # so that nothing is shown
            await desk.put("k", deps=deps, fetched_at=clock)
            watch.slow = False
            ask = {}
        assert (await desk.found("k", **ask))[:2] == ("unknown", "unproven")
        watch.told = [record(desk)]
        assert (await desk.found("k", **ask))[:2] == found
        assert (await desk.found("k"))[0] == ("fresh" if digest else found[0])

    run(desk, work)


def test_a_record_before_the_clock_is_none(desk: Desk) -> None:
    async def work() -> None:
        await desk.log(desk.mutation("f"))
        await desk.put("k", deps=["file:f"], as_of="put", fetched_at=await desk.clock())
        assert (await desk.found("k", revalidate=False))[:2] == ("unknown", "unproven")

    run(desk, work)


def test_a_put_that_was_overtaken_is_touched_at_birth(desk: Desk, watch: Scripted) -> None:
    async def work() -> None:
        clock = await desk.clock()
        watch.told = [desk.mutation("f")]
        told = await desk.put("k", deps=["file:f"], fetched_at=clock)
        assert told["verdict"]["why"] == "touched"
        (item,) = told["verdict"]["evidence"]
        assert (item["mutation"]["kind"], item["mutation"]["path"]) == ("modified", str(desk.root / "f"))

    run(desk, work)


@pytest.mark.parametrize("dep", ["file:f", "file:link/a.py"])
def test_dependencies_without_an_entry_are_touched_too(desk: Desk, watch: Scripted, dep: str) -> None:
    async def work() -> None:
        clock = await desk.clock()
        watch.told = [desk.mutation("f"), desk.mutation("d/a.py")]
        told = await desk.responder.deps_check(params.DepsCheck(deps=[dep], fetched_at=clock), foreign=False)
        assert (told["verdict"], told["why"]) == ("dirty", "touched")
        assert told["evidence"][0]["mutation"]["kind"] == "modified"

    run(desk, work)
