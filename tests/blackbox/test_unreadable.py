"""A directory that its own user may not read: what is advised can be run as it stands, and helps."""

from __future__ import annotations

import json
import os
import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from someone import Someone, interpreter

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not interpreter(), reason="no Python that an ordinary user may run")


@pytest.fixture
def someone() -> Iterator[Someone]:
    made = Someone.new()
    yield made
    made.close()


def _closed(someone: Someone, *names: str) -> list[str]:
    """Directories of his that nobody may look into."""
    paths = [someone.made(name) for name in names]
    for path in paths:
        os.chmod(path, 0)
    return paths


def _root(someone: Someone) -> dict[str, Any]:
    (root,) = json.loads(someone.run("watch", "ls", "--json").stdout)["roots"]
    assert isinstance(root, dict)
    return root


def test_the_advice_for_an_unreadable_directory_can_be_run(someone: Someone) -> None:
    work = someone.made("work")
    closed, other = _closed(someone, "work/clo sed", "work/other")
    someone.start("--root", work)
    someone.ready()
    someone.run("watch", "add", work, "--ignore", "*.o")
    assert _root(someone)["coverage"] == "partial"

    for command in ("status", "doctor"):
        told = " ".join(someone.run(command, code=None).stdout.decode().split())
        found = re.search(r"next: (chmod .*), or leave them out: (provd watch add .* --ignore /other/)", told)
        assert found, told
        opening, leaving = shlex.split(found[1]), shlex.split(found[2])
        assert opening == ["chmod", "u+rx", closed, other]

    assert leaving[0] == "provd"
    someone.run(*leaving[1:])
    assert (_root(someone)["coverage"], _root(someone)["ignore"]) == (
        "whole",
        [".git/", "*.o", "/clo sed/", "/other/"],
    )
    assert "chmod" not in someone.run("doctor", code=None).stdout.decode()
