"""revalidate: what it asks for, and its exit codes."""

from __future__ import annotations

import pytest
from fake_daemon import Cli, cli, fake, verdict
from test_cli_questions import _WORDS

__all__ = ["cli", "fake"]


@pytest.mark.parametrize(("word", "code"), _WORDS.items())
def test_revalidate(cli: Cli, word: str, code: int) -> None:
    cli.fake.answers["entry.revalidate"] = answer = {"key": "k", "version": 3, "verdict": verdict(word)}

    assert word in cli("revalidate", "k", code=code).out
    assert cli("revalidate", "k", "--json", "--scope", "s", code=code).json == answer
    assert cli.fake.params_of("entry.revalidate") == {"key": "k", "scope": "s"}


def test_revalidate_with_a_bare_verdict(cli: Cli) -> None:
    cli.fake.answers["entry.revalidate"] = {"key": "k", "version": 3, "verdict": "dirty"}

    cli("revalidate", "k", code=1)
