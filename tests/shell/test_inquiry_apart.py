"""Judging what is much: it is done beside the loop, so that nobody waits for it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from desk import Desk, run

from provd import inquiry
from provd.core import verdict
from provd.core.verdict import Verdict
from provd.recorder import entries as putting
from provd.store import reads
from provd.watching import Unwatched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path, Unwatched())
    yield made
    made.close()


def test_an_entry_on_very_many_files_is_thought_about_beside_the_loop(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes as long as there are dependencies holds nobody: not what is to be read at the put, not decoding."""
    where: dict[str, set[bool]] = {"decoded": set(), "read": set(), "equal": set()}

    def noting(what: str, module: Any, name: str) -> None:
        before = getattr(module, name)

        def noted(*given: Any) -> Any:
            where[what].add(threading.current_thread() is threading.main_thread())
            return before(*given)

        monkeypatch.setattr(module, name, noted)

    async def work() -> None:
        deps = [f"file:/none/{n:060}" for n in range(3000)]
        noting("read", putting, "reading_for")
        noting("equal", verdict.NeedDigests, "fresh")
        await desk.put("k", deps=deps, as_of="put")
        noting("decoded", reads, "decode_entry")

        assert (await desk.check("k"))["verdict"] == "fresh"

        assert where == {"decoded": {False}, "read": {False}, "equal": {False}}

    run(desk, work)


@pytest.mark.parametrize("long", [False, True])
def test_what_differs_of_very_many_members_is_looked_for_beside_the_loop(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, long: bool
) -> None:
    """Also what the set had is taken from the store there, and what was put meanwhile is not compared."""
    monkeypatch.setattr(inquiry, "_BIG", 2 if long else 3)
    in_loop: list[bool] = []
    settle = verdict.settle

    def noting(*given: Any) -> Any:
        in_loop.append(threading.current_thread() is threading.main_thread())
        return settle(*given)

    async def work() -> None:
        for name in "ab":
            (desk.root / name).write_text("one")
        await desk.put("k", deps=["names:*"], as_of="put")
        (desk.root / "c").write_text("one")
        monkeypatch.setattr(verdict, "settle", noting)

        judged = await desk.judge("k")

        assert (judged.verdict, judged.faults[0].paths) == (Verdict.DIRTY, (desk.path("c"),))
        assert set(in_loop) == {not long}

    run(desk, work)
