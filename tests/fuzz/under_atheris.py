"""`under_atheris.py MODULE TARGET TOLD OPTION...`: one target under atheris, which ends the process.

MODULE has the TARGETS, the options are libFuzzer's. TOLD is the file into which what is measured is written.
"""

from __future__ import annotations

import importlib
import mmap
import os
import struct
import sys
import time
import zlib
from typing import TYPE_CHECKING, Any, Final

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.dirname(os.path.dirname(HERE))]

from fuzz.loop import held  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

TOLD: Final = struct.Struct("<3d")
"""What is measured: the longest input in seconds of CPU, what the process held first and last, in MiB."""
_CELLS: Final = 1024


def main(module: str, name: str, told: str, *options: str) -> None:
    """Runs; does not come back."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["provd", "tomllib", "pathspec"]):
        reached = importlib.import_module("fuzz.reached")
        target = importlib.import_module(module).TARGETS[name]
    cells = [atheris._reserve_counter() for _ in range(_CELLS)]

    def mark(said: str) -> None:  # counts as code that was reached
        atheris._trace_branch(cells[zlib.crc32(said.encode("utf-8", "replace")) % _CELLS])

    with reached.refusals(mark):
        atheris.Setup([__file__, *options], _measured(target, told))
        atheris.Fuzz()


def _measured(target: Callable[[bytes], None], told: str) -> Callable[[bytes], None]:
    """The target; how long its longest input took and what the process held, first and last, is written as it goes."""
    with open(told, "r+b") as file:
        place = mmap.mmap(file.fileno(), TOLD.size)  # libFuzzer ends the process without a word to Python
    count, longest, before, after = 0, 0.0, 0.0, 0.0

    def one(data: bytes) -> None:
        nonlocal count, longest, before, after
        start = time.process_time()
        target(data)
        longest = max(longest, time.process_time() - start)
        count += 1
        if count % 1000 == 0:
            after = held()
            if count <= 10_000:  # what is kept for good, caches among it, is there by then
                before = after
        TOLD.pack_into(place, 0, longest, before, after)

    return one


if __name__ == "__main__":
    main(*sys.argv[1:])
