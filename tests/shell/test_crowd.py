"""What is left of a crowd of clients is given back once, when it has gone."""

from __future__ import annotations

import asyncio

import pytest

from provd import crowd


def test_memory_is_given_back_when_a_crowd_has_gone_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: a thousand clients leave four times the memory for as long as the daemon runs."""
    given: list[int] = []
    monkeypatch.setattr(crowd, "_SOON", 0.0)
    monkeypatch.setattr(crowd, "give_back", lambda: given.append(1))

    async def told(one: crowd.Crowd, *counts: int) -> int:
        for count in counts:
            one.are(count)
        before = len(given)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return len(given) - before

    async def work() -> None:
        one = crowd.Crowd()
        assert await told(one, *range(64), *range(63, -1, -1)) == 0, "that is no crowd"
        assert await told(one, *range(401), *range(400, 100, -1)) == 0, "most of it is still there"
        assert await told(one, *range(100, 0, -1)) == 2, "at a quarter of it, and of that"
        assert await told(one, *range(100), *range(100, -1, -1)) == 1, "another one"

    asyncio.run(work())


def test_giving_back_is_possible_wherever_the_daemon_runs() -> None:
    crowd.give_back()
