"""What takes long to parse is parsed beside the loop, so that others do not wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from desk import Desk, Scripted

from provd import resolver


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    watch = Scripted(b"/nowhere")
    made = Desk(tmp_path, watch)
    watch.store = made.store
    yield made
    made.close()


@pytest.mark.parametrize(
    ("deps", "apart"),
    [
        (["names:/" + "*[a-c]" * 600], False),
        ([f"names:/{number}" + "*[a-c]" * 600 for number in range(10)], True),
        ([f"file:/{number}" for number in range(2000)], False),
        ([f"file:/{number}" for number in range(2001)], True),
    ],
    ids=["one pattern", "long patterns", "many", "too many"],
)
def test_what_takes_long_to_parse_leaves_the_loop(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, deps: list[Any], apart: bool
) -> None:
    seen: list[int] = []
    real = resolver.dependencies

    def parsed(*arguments: Any) -> Any:
        seen.append(threading.get_ident())
        return real(*arguments)

    monkeypatch.setattr(resolver, "dependencies", parsed)
    ours = resolver.Resolver(desk.store, desk.workers, list)

    assert len(asyncio.run(ours.dependencies(deps, None))) == len(deps)
    assert [one != threading.get_ident() for one in seen] == [apart]
