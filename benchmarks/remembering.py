"""A peer for row 17 of `benchmarks/run`: freshctx or memcite, asked in the process that remembers.

    remembering.py freshctx|memcite ROOT FILE...

Run by a Python that has the product. It remembers one thing that rests on these files of ROOT and prints the product's
version. Then each line of standard input is one of `fresh` (prints `true` or `false`: the product's own answer, asked
now) and `COUNT SECONDS` (prints the nanoseconds of each question, at most so many and for so long, as a JSON list).
"""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import sys
from collections.abc import Callable

from speed.figures import measure


def freshctx(root: str, files: list[str]) -> Callable[[], bool]:
    """Its quickstart: a decision that depends on observations, in memory; what is read is what links lead to."""
    from freshctx import MemoryStore, guard, observe, reasoning  # noqa: PLC0415  only one of the two is imported

    context = guard(policy="block", store=MemoryStore(), audit_path=f"{root}/.freshctx/audit.jsonl")
    context.__enter__()  # it stays for as long as this process
    seen = [observe(file, follow_symlinks=True, root=root) for file in files]
    with reasoning("ten_files", depends_on=seen) as decision:
        pass
    return lambda: context.check(decision).state.value == "CURRENT"


def memcite(root: str, files: list[str]) -> Callable[[], bool]:
    """Its quickstart: one memory that cites files; `validate` gives those that are stale."""
    from agentic_memory import FileRef, Memory  # noqa: PLC0415  only one of the two is imported

    memory = Memory(root)
    memory.add("what ten files say", evidence=[FileRef(os.path.relpath(file, root)) for file in files])
    return lambda: not memory.validate()


def main() -> None:
    """See the module."""
    name, root, *files = sys.argv[1:]
    fresh = {"freshctx": freshctx, "memcite": memcite}[name](root, files)
    print(importlib.metadata.version(name), flush=True)
    gc.disable()
    for line in sys.stdin:
        if line.strip() == "fresh":
            answer: object = fresh()
        else:
            count, seconds = line.split()
            answer = measure(fresh, int(count), float(seconds))
            gc.collect()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
