"""What a document says is proved by a test is: the test is there, by that name."""

from __future__ import annotations

import os
import re
from typing import Final

import pytest
from doc_blocks import read
from support import REPOSITORY, content_of

_NAMED: Final = re.compile(r"`(test_\w+(?:\.py)?)`")
_DEFINED: Final = re.compile(r"def (test_\w+)\(")


def _there() -> set[str]:
    """The names of all files of tests, and of the tests in them."""
    found = set()
    for directory, _, files in os.walk(os.path.join(REPOSITORY, "tests")):
        for name in files:
            if name.startswith("test_") and name.endswith(".py"):
                found |= {name, *_DEFINED.findall(content_of(os.path.join(directory, name)).decode())}
    return found


@pytest.mark.parametrize("document", ["docs/security.md"])
def test_every_test_that_is_named_is_there(document: str) -> None:
    named = set(_NAMED.findall(read(document)))
    assert named
    assert named - _there() == set()
