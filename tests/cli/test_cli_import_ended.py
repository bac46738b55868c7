"""An import that ended on its way tells what was taken before, and that it can be run again."""

from __future__ import annotations

import json
import sys
from io import BytesIO, TextIOWrapper
from typing import Any, Final

import pytest
from fake_daemon import Cli, Hangup, Refusal, cli, fake, in_turn

__all__ = ["cli", "fake"]

ALL: Final = {"added": 400, "archived": 50, "replaced": 0, "late": 0, "unchanged": 50, "refused": []}
SOME: Final = ALL | {"added": 7, "archived": 0, "unchanged": 0, "refused": [{"index": 2, "code": "params"}]}
SUM: Final = {"added": 407, "archived": 50, "replaced": 0, "late": 0, "unchanged": 50}


@pytest.fixture(autouse=True)
def _lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """An export of 600 lines, which are two requests."""
    lines = ['{"provd-export": 1}', *('{"key": "k"}' for _ in range(600)), '{"provd-export-end": 600}']
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO("\n".join(lines).encode())))


def full(**data: Any) -> Refusal:
    return Refusal("store.full", "no space left in /s: nothing was changed", "free space there", data)


def test_a_full_disk(cli: Cli) -> None:
    cli.fake.answers["entry.import"] = in_turn(ALL, full(taken=SOME))

    got = cli("import", "-", code=5)

    assert got.out == "407 added, 50 archived, 0 replaced, 0 late, 50 unchanged\n"
    assert "507 lines were taken, then no space left in /s: nothing was changed [store.full]" in got.err
    assert "then import the same again" in got.err


def test_a_full_disk_for_programs(cli: Cli) -> None:
    cli.fake.answers["entry.import"] = in_turn(ALL, full(taken=SOME))

    told, error = map(json.loads, cli("import", "-", "--json", code=5).out.splitlines())

    assert told == SUM | {"refused": [{"line": 504, "code": "params"}]}
    assert error["error"]["code"] == "store.full"


def test_a_daemon_that_tells_less(cli: Cli) -> None:
    cli.fake.answers["entry.import"] = in_turn(ALL, full())

    assert "500 lines were taken, then" in cli("import", "-", code=5).err


@pytest.mark.parametrize("as_json", [True, False])
def test_a_daemon_that_is_gone(cli: Cli, as_json: bool) -> None:
    cli.fake.answers["entry.import"] = in_turn(ALL, Hangup())

    got = cli("import", "-", *(["--json"] if as_json else []), code=3)

    assert "500 lines were taken, perhaps some more, then the daemon at" in got.err
    assert "then import the same again" in got.err
    if as_json:
        assert json.loads(got.out.splitlines()[0]) == ALL
    else:
        assert got.out == "400 added, 50 archived, 0 replaced, 0 late, 50 unchanged\n"


def test_what_is_refused_before_anything_was_taken_is_said_plainly(cli: Cli) -> None:
    cli.fake.answers["entry.import"] = Refusal("root.missing", "there is no /r", "make it")

    got = cli("import", "-", code=5)

    assert got.out == ""
    assert "taken" not in got.err
