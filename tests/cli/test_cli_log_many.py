"""log -n: as many lines as are asked for, however many records they are made of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from fake_daemon import Cli, FakeDaemon, cli

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["cli"]

_MUTATIONS = 12_000


def _records() -> list[dict[str, Any]]:
    """Each mutation and its digest."""
    made: list[dict[str, Any]] = []
    for seq in range(1, 2 * _MUTATIONS, 2):
        one = {"type": "mutation", "at": "1", "path": "/r/n", "seq": seq, "kind": "modified", "digest_state": "pending"}
        made += [one, {"type": "hashed", "at": "1", "path": "/r/n", "seq": seq + 1, "of": seq, "digest": "xxh3:aa"}]
    return made


@pytest.fixture
def fake() -> Iterator[FakeDaemon]:
    records = _records()

    def since(params: dict[str, Any]) -> dict[str, Any]:
        start = len(records) - params["last"] if "last" in params else int(params["clock"])
        found = records[start : start + params["limit"]]
        end = start + len(found)
        return {"records": found, "clock": str(end), "complete": True, "more": end < len(records)}

    with FakeDaemon(log_since=since) as daemon:
        yield daemon


@pytest.mark.parametrize("number", [100, 6000, 10_000])
def test_there_are_as_many_lines_as_were_asked_for(cli: Cli, number: int) -> None:
    got = cli("log", "-n", str(number))

    assert (len(got.out.splitlines()), got.err) == (number, "")
    asked = [params for _, params in cli.fake.questions]
    assert max(params["limit"] for params in asked) <= 10_000
    assert asked[0]["last"] == sum(params["limit"] for params in asked) == 2 * number
    assert f"{2 * _MUTATIONS - 1:>8}  " in got.out.splitlines()[-1]


def test_records_are_counted_with_json(cli: Cli) -> None:
    page = json.loads(cli("log", "-n", "10000", "--json").out)

    assert len(page["records"]) == 10_000
