"""why: how long ago things were, by one moment for the whole screen."""

from __future__ import annotations

import itertools
import re
from types import SimpleNamespace

import pytest
from fake_daemon import Cli, cli
from test_cli_why import _A, _AT, _B, _entry, _mutation, _page, fake

from provd.cli.commands import why
from provd.cli.screens import drawing

__all__ = ["cli", "fake"]


def test_what_was_at_one_moment_is_told_to_be_as_long_ago(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    change = _mutation(9, "modified", "/r/f", digest=_B, digest_state="done")
    fault = {"dep": "file:/r/f", "why": "changed", "was": _A, "is": _B, "hint": "read again", "mutation": change}
    cli.fake.answers["entry.get"] = _entry("file:/r/f", word="dirty", evidence=[fault])
    cli.fake.answers["log.since"] = _page(change)
    minutes = itertools.count(1)
    passing = SimpleNamespace(time_ns=lambda: int(_AT) + next(minutes) * 60 * 10**9)
    for module in (why, drawing):
        monkeypatch.setattr(module, "time", passing, raising=False)

    out = cli("why", "k", code=1).out

    assert re.findall(r"just now|\d+ \w+ ago", out) == ["1 min ago"] * 3
