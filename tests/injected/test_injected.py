"""Some awaits and calls that fail, drawn with a fixed seed: no answer is false, nobody waits for ever, nothing is lost.

Broken: a task of a connection that ends in an error and tells nobody; its client waits for ever.
"""

from __future__ import annotations

import pytest
from support import run_module


def _fail(*arguments: str) -> None:
    run_module("tests.injected.injections", *arguments)


@pytest.mark.timeout(300)
def test_what_fails_while_clients_ask() -> None:
    _fail("--when", "play", "--sites", "20", "--seed", "5")


@pytest.mark.timeout(300)
def test_what_fails_while_it_answers_and_while_it_starts() -> None:
    _fail("--only", "server.py", "--sites", "6", "--seed", "5")
