"""Some awaits and calls that fail, drawn with a fixed seed: no answer is false, nobody waits for ever, nothing is lost.

Broken: a task of a connection that ends in an error and tells nobody; its client waits for ever. A socket that was
bound, failed and stayed: the daemon never makes it anew.
"""

from __future__ import annotations

import pytest
from support import run_module


def _fail(*arguments: str) -> None:
    run_module("tests.injected.injections", "--seed", "5", *arguments)


@pytest.mark.timeout(600)
def test_each_scene_is_right_where_nothing_fails_and_each_site_is_passed_or_has_its_reason() -> None:
    _fail("--list")


@pytest.mark.timeout(300)
def test_what_fails_while_clients_ask() -> None:
    _fail("--when", "play", "--scenes", "Scene", "--sites", "12")


@pytest.mark.timeout(300)
def test_what_fails_while_it_answers_and_while_it_starts() -> None:
    _fail("--scenes", "Scene", "--only", "server.py", "--sites", "6")


@pytest.mark.timeout(300)
def test_what_fails_in_a_store_that_fails_and_while_it_ends() -> None:
    _fail("--scenes", "Failing", "--only", "recorder/", "--sites", "8")
