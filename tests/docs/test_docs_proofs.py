"""What a document says is proved by a test is: the test is there, by that name."""

from __future__ import annotations

import os
import re
from typing import Final

import pytest
from doc_blocks import read
from support import REPOSITORY, content_of

_NAMED: Final = re.compile(r"`(test_\w+(?:\.py)?)(?:\[[^`]*\])?`")
_CASE: Final = re.compile(r"`(test_\w+)\[([^`]*)\]`")
_DEFINED: Final = re.compile(r"def (test_\w+)\(")


def _there() -> dict[str, str]:
    """The names of all files of tests, and of the tests in them, each with the text of its file."""
    found: dict[str, str] = {}
    for directory, _, files in os.walk(os.path.join(REPOSITORY, "tests")):
        for name in files:
            if name.startswith("test_") and name.endswith(".py"):
                text = content_of(os.path.join(directory, name)).decode()
                found |= dict.fromkeys((name, *_DEFINED.findall(text)), text)
    return found


@pytest.mark.parametrize("document", ["docs/security.md", "docs/scenarios.md"])
def test_every_test_that_is_named_is_there(document: str) -> None:
    named, there = set(_NAMED.findall(read(document))), _there()
    assert named
    assert named - there.keys() == set()
    assert [case for test, case in _CASE.findall(read(document)) if case not in there[test]] == []


def test_every_line_of_the_scenarios_has_its_proof() -> None:
    rows = [line for line in read("docs/scenarios.md").splitlines() if line.startswith("| ")]
    told = [row for row in rows if not row.startswith(("| ---", "| scenario", "| incident"))]
    assert len(told) > 60
    assert [row for row in told if not _NAMED.search(row) and "out of scope" not in row] == []
