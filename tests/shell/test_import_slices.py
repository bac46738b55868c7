"""Lines are understood outside of the loop, some at a time: nobody else waits for a long import."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from provd.clocks import Clocks
from provd.core import errors, params, portable
from provd.core.records import ALL, Gap
from provd.recorder import arriving
from provd.recorder.importing import Importing
from provd.store import Store

KIB: Final = 1024
RUN: Final = "0123456789abcdef"


@pytest.mark.parametrize(
    ("sizes", "slices"),
    [
        ([], []),
        ([10], [1]),
        ([10] * 600, [250, 250, 100]),
        ([100 * KIB] * 5, [2, 2, 1]),
        ([10, 9000 * KIB, 10, 10], [1, 1, 2]),
        ([9000 * KIB] * 2, [1, 1]),
    ],
)
def test_a_slice_has_some_lines_and_few_bytes(sizes: list[int], slices: list[int]) -> None:
    told = list(arriving.slices([msgspec.Raw(b"x" * size) for size in sizes]))
    assert [len(some) for some in told] == slices
    assert [index for some in told for index, _ in some] == list(range(len(sizes)))


def test_lines_are_understood_in_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()

    def decode(_: bytes) -> portable.Line:
        threads.add(threading.get_ident())
        raise errors.InvalidParams("no line", "none")

    async def main() -> dict[str, Any]:
        store = Store(str(tmp_path / "store"))
        store.run(lambda writer: writer.append(Gap(writer.now, ALL, "started", RUN)))
        store.start(asyncio.get_running_loop())
        nobody: Any = None
        asked = params.EntryImport(entries=[msgspec.Raw(b"1")] * 300)
        try:
            return await Importing(store, nobody, nobody, Clocks(store, RUN)).take(asked, foreign=True)
        finally:
            store.stop()

    monkeypatch.setattr(portable, "decode", decode)
    told = asyncio.run(main())
    assert len(told["refused"]) == 300
    assert threads
    assert threading.get_ident() not in threads, "the loop runs in this one"


def test_an_error_on_the_way_tells_what_was_taken_before_it(tmp_path: Path) -> None:
    """A disk that is full after the first lines; the error belongs to others of the same transaction too."""
    full = errors.StoreFull("full", "free space")
    line = {"scope": "s", "version": 1, "deps": [], "value": 1}
    token = f"c:{'1' * 16}:{1:016x}:5"
    lines = [json.dumps(line | {"key": f"k{n}", "made": token, "renewed": token}).encode() for n in range(600)]
    lines[1] = b"1"

    async def main() -> errors.StoreFull:
        store = Store(str(tmp_path / "store"))
        store.run(lambda writer: writer.append(Gap(writer.now, ALL, "started", RUN)))
        store.start(asyncio.get_running_loop())
        filling = Filling(store, full, after=2)
        nobody: Any = None
        try:
            asked = params.EntryImport(entries=[msgspec.Raw(line) for line in lines])
            with pytest.raises(errors.StoreFull) as caught:
                await Importing(filling, nobody, nobody, Clocks(store, RUN)).take(asked, foreign=True)  # type: ignore[arg-type]
            return caught.value
        finally:
            store.stop()

    error = asyncio.run(main())
    assert (error.message, error.hint) == (full.message, full.hint)
    assert full.detail == {}
    taken = error.detail["taken"]
    assert [one["index"] for one in taken.pop("refused")] == [1]
    assert taken == {"added": 499, "archived": 0, "replaced": 0, "late": 0, "unchanged": 0}


class Filling:
    """A store that takes some commands, and is full then."""

    def __init__(self, store: Store, error: errors.StoreFull, *, after: int) -> None:
        self._store = store
        self._error = error
        self._left = after

    async def submit(self, command: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise self._error
        return await self._store.submit(command)
