"""Puts that ask together are read for together, and never by what was read before they came."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import xxhash
from desk import Desk, Scripted, run

from provd.core import params
from provd.core.entry import EntryId
from provd.disk import Workers


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    watch = Scripted(os.fsencode(tmp_path / "root"))
    made = Desk(tmp_path, watch)
    watch.store = made.store
    (made.root / "f").write_text("one")
    (made.root / "g").write_text("two")
    yield made
    made.close()


class Reads:
    """Counts what is read for puts; each reading waits until it `may_end`."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of: list[list[str]] = []
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.error: Exception | None = None
        real = desk.inquiry.reader.read

        async def read(readings: Any, *arguments: Any, **more: Any) -> Any:
            self.of.append(sorted(os.fsdecode(os.path.basename(reading.path)) for reading in readings))
            found = await real(readings, *arguments, **more)
            self.begun.set()
            await self.may_end.wait()
            if self.error is not None:
                raise self.error
            return found

        monkeypatch.setattr(desk.inquiry.reader, "read", read)


def _digest(desk: Desk, key: str) -> str | None:
    with desk.store.view() as view:
        entry = view.entry(EntryId(os.fsencode(desk.root), key))
    assert entry is not None
    assert entry.deps is not None
    return entry.deps[0].digest


def _of(content: bytes) -> str:
    return f"xxh3:{xxhash.xxh3_128_hexdigest(content)}"


def test_what_many_puts_rest_on_is_read_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        reads = Reads(desk, monkeypatch)
        some = [desk.put(f"k{n}", deps=["file:f"], as_of="put") for n in range(5)]
        others = [desk.put("other", deps=["file:g"], as_of="put"), desk.put("both", deps=["f", "g"], as_of="put")]
        answers = await asyncio.gather(*some, *others, desk.put("none", deps=[]))
        assert sorted(reads.of) == [["f"], ["f", "g"], ["g"]]
        assert {answer["verdict"]["verdict"] for answer in answers} == {"fresh"}
        assert {_digest(desk, f"k{n}") for n in range(5)} == {_of(b"one")}

    run(desk, work)


def test_a_put_that_comes_while_is_read_is_read_for_anew(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: a reading that has begun is shared as well."""

    async def work() -> None:
        reads = Reads(desk, monkeypatch)
        reads.may_end.clear()
        early = asyncio.ensure_future(desk.put("early", deps=["file:f"], as_of="put"))
        await reads.begun.wait()
        (desk.root / "f").write_text("other")
        late = asyncio.ensure_future(desk.put("late", deps=["file:f"], as_of="put"))
        await asyncio.sleep(0)
        reads.may_end.set()
        await asyncio.gather(early, late)
        assert (_digest(desk, "early"), _digest(desk, "late")) == (_of(b"one"), _of(b"other"))
        assert len(reads.of) == 2

    run(desk, work)


def test_one_that_goes_takes_nothing_from_those_that_share_its_reading(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        reads = Reads(desk, monkeypatch)
        reads.may_end.clear()
        goes, stays = (asyncio.ensure_future(desk.put(key, deps=["file:f"], as_of="put")) for key in ("goes", "stays"))
        await reads.begun.wait()
        goes.cancel()
        await asyncio.sleep(0)
        reads.may_end.set()
        assert (await stays)["verdict"]["verdict"] == "fresh"
        with pytest.raises(asyncio.CancelledError):
            await goes
        assert len(reads.of) == 1

    run(desk, work)


def test_a_reading_that_fails_fails_for_all_and_is_not_kept(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        reads = Reads(desk, monkeypatch)
        reads.error = RuntimeError("no")
        some = [desk.put(f"k{n}", deps=["file:f"], as_of="put") for n in range(2)]
        assert [type(one) for one in await asyncio.gather(*some, return_exceptions=True)] == [RuntimeError] * 2
        reads.error = None
        assert (await desk.put("k", deps=["file:f"], as_of="put"))["verdict"]["verdict"] == "fresh"

    run(desk, work)


def test_a_put_of_one_small_file_needs_no_thread(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async def each(*_: Any, **__: Any) -> Any:
            raise AssertionError("a thread was asked")

        if not desk.workers.mounts.all_local():
            pytest.skip("something is mounted here that may hang")
        (desk.root / "link").symlink_to("f")
        monkeypatch.setattr(Workers, "each", each)
        await desk.put("k", deps=["file:link", "file:none"], as_of="put")
        kept = {k.dep.name: k.real for k in desk.entry("k").deps or ()}
        assert kept == {desk.path("link"): desk.path("f"), desk.path("none"): desk.path("none")}

    run(desk, work)


def test_where_something_may_hang_real_paths_are_asked_for_in_threads(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        asked: list[Any] = []
        real = Workers.each

        async def each(workers: Workers, function: Any, paths: Any, *more: Any, **also: Any) -> Any:
            asked.append(type(function).__name__)
            return await real(workers, function, paths, *more, **also)

        monkeypatch.setattr(Workers, "each", each)
        monkeypatch.setattr(type(desk.workers.mounts), "all_local", lambda _: False)
        await desk.put("k", deps=["file:f"], as_of="put")
        assert "RealPaths" in asked
        assert [k.real for k in desk.entry("k").deps or ()] == [desk.path("f")]

    run(desk, work)


def test_the_answer_comes_when_all_that_was_put_together_is_durable(desk: Desk) -> None:
    async def work() -> None:
        answers = await asyncio.gather(*(desk.put(f"k{n}", deps=["file:f"], as_of="put") for n in range(20)))
        versions = sorted(answer["version"] for answer in answers)
        assert versions == list(range(versions[0], versions[0] + 20))
        with desk.store.view() as view:
            assert view.head() == versions[-1] == desk.store.head
            assert {one.version for one in view.all_entries()} == set(versions)
        assert (await desk.check("k3"))["verdict"] == "fresh"
        listed = await desk.responder.listed(params.EntryList(limit=100), foreign=False)
        assert len(listed["entries"]) == 20

    run(desk, work)
