"""What the log tells: evidence of the newest record, clocks, and pages of records."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

import pytest
from by_log import desk, watch
from desk import Desk, Scripted, run

from provd.core import params
from provd.core.clock import parse
from provd.core.records import Actor, DigestState, Hashed, Mutation, MutationKind
from provd.watch.base import Uncovered

__all__ = ["desk", "watch"]

# evidence


def test_the_answer_right_after_a_write_names_it(desk: Desk, watch: Scripted) -> None:
    async def work() -> None:
        await desk.put("k", deps=["file:f"], as_of="put")
        (desk.root / "f").write_text("two")
        actor = Actor("s1", 40, 7)
        watch.told = [Mutation(1, MutationKind.MODIFIED, desk.path("f"), size=3, actor=actor)]
        watch.timeouts = []

        (item,) = (await desk.check("k"))["evidence"]

        assert (item["why"], item["mutation"]["type"], item["mutation"]["size"]) == ("changed", "mutation", 3)
        assert item["mutation"]["actor"] == {"session": "s1", "turn": 40, "action": 7}
        assert watch.timeouts == [0.25]

    run(desk, work)


def test_in_a_burst_the_verdict_does_not_wait_for_the_record_that_explains_it(desk: Desk, watch: Scripted) -> None:
    async def work() -> None:
        await desk.put("k", deps=["file:f"], as_of="put")
        (desk.root / "f").write_text("two")
        watch.told = [Mutation(1, MutationKind.MODIFIED, desk.path("f"), size=3)]
        watch.timeouts, watch.behind = [], True

        (item,) = (await desk.check("k"))["evidence"]

        assert (item["why"], item.get("mutation"), watch.timeouts) == ("changed", None, [])

    run(desk, work)


def test_in_a_burst_a_record_that_may_change_the_verdict_is_waited_for(desk: Desk, watch: Scripted) -> None:
    async def work() -> None:
        clock = (await desk.responder.clock())["clock"]
        (desk.root / "f").write_text("two")
        watch.lost = [Uncovered(desk.path("f"), "for the test")]
        await desk.put("k", deps=["file:f"], fetched_at=clock)
        watch.told = [Mutation(1, MutationKind.MODIFIED, desk.path("f"), size=3)]
        watch.timeouts, watch.behind = [], True

        told = await desk.check("k")

        assert (told["verdict"], told["why"]) == ("dirty", "touched")

    run(desk, work)


def test_a_clock_lies_after_all_that_anybody_was_shown(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: whoever sees an action end, then takes a clock, then reads, is told that the end came after."""
    told, committed, go_on = desk.store._tell, threading.Event(), threading.Event()

    def later(*given: Any) -> None:
        committed.set()
        assert go_on.wait(30)
        told(*given)

    async def work() -> None:
        monkeypatch.setattr(desk.store, "_tell", later)
        logged = asyncio.ensure_future(desk.log(desk.mutation("f")))
        await asyncio.to_thread(committed.wait, 30)
        with desk.store.view() as view:
            shown = view.head()
        assert shown > desk.store.head

        clock = asyncio.ensure_future(desk.clock())
        await asyncio.sleep(0)
        go_on.set()

        assert parse(await clock).position >= shown
        await logged

    run(desk, work)


def test_the_newest_record_tells_whether_action_or_mutation(desk: Desk) -> None:
    async def work() -> None:
        await desk.put("k", deps=["file:f"], as_of="put")
        (desk.root / "f").write_text("two")

        async def told() -> str:
            item = (await desk.check("k"))["evidence"][0]
            return str(item["mutation"]["type"]) if "mutation" in item else ""

        assert await told() == ""
        await desk.log(desk.mutation("f"))
        assert await told() == "mutation"
        await desk.write("file:f")
        assert await told() == "action"
        begun = await desk.actions.begin(params.ActionBegin(writes=["file:f"]), holder=1, foreign=False)
        assert await told() == "mutation", "what began after it did not make it"
        await desk.log(desk.mutation("f"))
        assert await told() == "mutation", "what happened inside the interval says more than that it was open"
        await desk.actions.end(params.ActionEnd(id=begun["id"], outcome="done"))
        assert await told() == "mutation"

    run(desk, work)


def test_a_record_before_the_clock_is_no_evidence(desk: Desk) -> None:
    async def work() -> None:
        await desk.log(desk.mutation("f"))
        await desk.put("k", deps=["file:f"], as_of="put", fetched_at=await desk.clock())
        (desk.root / "f").write_text("two")
        assert "mutation" not in (await desk.check("k"))["evidence"][0]

    run(desk, work)


def test_evidence_has_the_digest_that_came_later(desk: Desk) -> None:
    async def work() -> None:
        await desk.put("k", deps=["file:f"], as_of="put")
        (desk.root / "f").write_text("two")
        pending = Mutation(1, MutationKind.MODIFIED, desk.path("f"), digest_state=DigestState.PENDING)
        await desk.log(pending)
        assert (await desk.check("k"))["evidence"][0]["mutation"]["digest_state"] == "pending"
        digest = "xxh3:" + "7" * 32
        await desk.log(Hashed(1, desk.store.head, desk.path("f"), digest, DigestState.DONE))
        told = (await desk.check("k"))["evidence"][0]["mutation"]
        assert (told["digest"], told["digest_state"]) == (digest, "done")

    run(desk, work)


# clocks and pages


def test_a_clock_comes_after_all_that_had_happened(desk: Desk, watch: Scripted) -> None:
    async def work() -> None:
        watch.told = [desk.mutation("f")]
        token = await desk.clock()
        assert desk.clocks.since(token).position == desk.store.head
        assert (watch.scans, watch.barriers, watch.told) == (1, 1, [])

    run(desk, work)


async def since(desk: Desk, clock: str, **fields: Any) -> Any:
    return await desk.responder.since(params.LogSince(clock=clock, **fields))


def test_a_page_is_complete_where_all_was_watched_and_recorded(desk: Desk, watch: Scripted) -> None:
    async def work() -> None:
        clock = await desk.clock()
        watch.told = [desk.mutation("f"), desk.mutation("d/a.py")]
        page = await since(desk, clock)
        assert [r["kind"] for r in page["records"]] == ["modified", "modified"]
        assert page["complete"]
        assert "uncovered" not in page
        watch.slow = True
        assert not (await since(desk, clock))["complete"]

    run(desk, work)


def test_records_are_those_of_the_paths_by_any_of_their_names(desk: Desk) -> None:
    async def work() -> None:
        clock = await desk.clock()
        await desk.log(
            desk.mutation("f"),
            desk.mutation("d/a.py"),
            desk.mutation("x", MutationKind.MOVED, "d/deep"),
            desk.mutation("d", MutationKind.ATTRIB),
        )
        page = await since(desk, clock, paths=["link/a.py"])
        assert [r["path"] for r in page["records"]] == [str(desk.root / "d" / "a.py"), str(desk.root / "d")]
        assert page["complete"]
        page = await since(desk, clock, paths=["d/deep/c.py"])
        assert [r.get("from") for r in page["records"]] == [str(desk.root / "d" / "deep"), None]

    run(desk, work)


def test_a_page_is_complete_only_for_paths_that_no_gap_concerns(desk: Desk) -> None:
    async def work() -> None:
        clock = await desk.clock()
        await desk.log(desk.gap("d"))
        assert not (await since(desk, clock))["complete"]
        assert not (await since(desk, clock, paths=["d/a.py"]))["complete"]
        assert not (await since(desk, clock, paths=["link/a.py"]))["complete"], "by its real name too"
        page = await since(desk, clock, paths=["f"])
        assert (page["records"], page["complete"]) == ([], True)
        assert (await since(desk, await desk.clock(), paths=["d/a.py"]))["complete"], "it lies before the clock"

    run(desk, work)


@pytest.mark.parametrize("gap", [True, False])
def test_what_is_watched_again_while_a_page_is_made_has_its_gap_still_to_come(
    desk: Desk, watch: Scripted, gap: bool
) -> None:
    async def work() -> None:
        watch.lost = [Uncovered(os.fsencode(desk.root / "d"), "limit")]
        clock = await desk.clock()
        before = watch.barriers

        def passing(number: int) -> None:
            if number == before + 1:
                watch.lost.clear()
            elif gap:
                watch.told = [desk.gap("d")]

        watch.at_barrier = passing
        page = await since(desk, clock)
        assert watch.barriers == before + 2, "what is told of it is recorded by a barrier that comes after it"
        assert page["complete"] is not gap, "without a gap it had only to be looked at"
        assert [told["type"] for told in page["records"]] == ["gap"] * gap
        assert "uncovered" not in page
        watch.at_barrier = lambda _: None
        assert (await since(desk, await desk.clock()))["complete"]

    run(desk, work)


def test_a_page_of_a_path_has_what_happened_to_the_links_on_the_way(desk: Desk) -> None:
    async def work() -> None:
        (desk.root / "outer").symlink_to("link")
        clock = await desk.clock()
        await desk.log(desk.mutation("link"), desk.mutation("f"), desk.mutation("linked"), desk.mutation("link/under"))
        page = await since(desk, clock, paths=["outer/a.py"])
        assert [r["path"] for r in page["records"]] == [str(desk.root / "link")]
        await desk.log(desk.gap("link"))
        assert not (await since(desk, clock, paths=["outer/a.py"]))["complete"]

    run(desk, work)


def test_a_page_names_the_places_that_are_not_watched(desk: Desk, watch: Scripted) -> None:
    async def work() -> None:
        clock = await desk.clock()
        watch.lost = [Uncovered(desk.path("d/deep"), "limit")]
        deep = {"path": str(desk.root / "d" / "deep"), "why": "limit"}
        page = await since(desk, clock)
        assert (page["complete"], page["uncovered"]) == (False, [deep])
        page = await since(desk, clock, paths=["link", "f", "d/deep/c.py"])
        assert (page["complete"], page["uncovered"]) == (False, [deep])
        assert (await since(desk, clock, paths=["f", "d/a.py"]))["complete"]
        (desk.root / "out").symlink_to("/etc")
        page = await since(desk, clock, paths=["out/passwd"])
        assert (page["complete"], page["uncovered"]) == (False, [{"path": "/etc", "why": "outside the watched roots"}])
        watch.lost = [Uncovered(desk.path(f"d/{n:03}"), "limit") for n in range(150)]
        page = await since(desk, clock)
        assert (len(page["uncovered"]), page["uncovered_more"]) == (100, 50)

    run(desk, work)
