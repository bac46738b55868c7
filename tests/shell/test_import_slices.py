"""Lines are understood outside of the loop, some at a time: nobody else waits for a long import."""

from __future__ import annotations

import asyncio
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
