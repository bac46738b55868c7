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


def _line(said: bytes) -> str:
    """What was said, however it was folded."""
    return " ".join(said.decode().split())


def test_the_advice_for_an_unreadable_directory_can_be_run(someone: Someone) -> None:
    work = someone.made("work")
    closed, other = _closed(someone, "work/clo sed", "work/other")
    someone.start("--root", work)
    someone.ready()
    someone.run("watch", "add", work, "--ignore", "*.o")
    assert _root(someone)["coverage"] == "partial"

    told = [_line(someone.run(command, code=None).stdout) for command in ("status", "doctor")]
    found = [
        re.search(r"next: (chmod .*?) # opens them or: (provd watch add .* --ignore /other/) # leaves", each)
        for each in told
    ]
    (opening, leaving), again = [tuple(map(shlex.split, each.groups())) for each in found if each]
    assert again == (opening, leaving)
    assert opening == ["chmod", "u+rX", closed, other]
    assert leaving[0] == "provd"
    someone.run(*leaving[1:])
    assert (_root(someone)["coverage"], _root(someone)["ignore"]) == (
        "whole",
        [".git/", "*.o", "/clo sed/", "/other/"],
    )
    assert "chmod" not in someone.run("doctor", code=None).stdout.decode()


def test_what_is_not_watched_in_a_root_is_named_though_a_directory_above_it_may_not_be_read(someone: Someone) -> None:
    """Broken: `Coverage.state` that tells only of the one above."""
    someone.made("above")
    work = someone.made("above/work")
    (closed,) = _closed(someone, "above/work/closed")
    above = os.path.dirname(work)
    os.chmod(above, 0o311)
    someone.start("--root", work)
    someone.ready()
    named = {place["path"] for place in _root(someone)["uncovered"]}
    os.chmod(above, 0o755)
    assert named == {work, closed}


def test_a_root_for_a_daemon_that_runs_is_said_to_be_watched_only_where_it_is(someone: Someone) -> None:
    work, (closed,) = someone.made("work"), _closed(someone, "closed")
    someone.start("--root", work)
    someone.ready()

    said = _line(someone.run("start", "--root", closed, "--root", someone.made("open")).stderr)

    assert f"now watching {os.path.dirname(work)}/open" in said
    assert f"{closed}: not watched: no permission to read the directory" in said
    assert f"now watching {closed}" not in said
    assert "next: provd watch ls" in said


def _put(someone: Someone, work: str, dep: str, *how: str) -> str:
    """What a put of an entry that rests on `dep` says on stderr, on one line."""
    where = how or ("--as-of-now",)
    return someone.run("put", "k", "--value", "v", "--dep", dep, *where, "--root", work).stderr.decode()


def test_a_put_on_what_may_not_be_read_says_which_place_and_how_to_open_it(someone: Someone) -> None:
    work = someone.made("work")
    someone.made("work/d")
    someone.wrote(f"{work}/d/f", "one\n")
    someone.start("--root", work)
    someone.ready()
    clock = someone.run("clock").stdout.decode().strip()

    for place in (f"{work}/d/f", f"{work}/d"):
        os.chmod(place, 0)
        for dep in (f"file:{work}/d/f", f"tree:{work}", f"glob:{work}/*/*"):
            for how in ((), ("--fetched-at", clock)):
                told = _put(someone, work, dep, *how)
                assert f"next: chmod u+rX {place}  # permission denied (EACCES) for {place}; then put it again" in told
                assert "--as-of-now" not in told
        _put(someone, work, f"file:{work}/d/f")
        assert f"chmod u+rX {place} # permission denied" in _line(
            someone.run("why", "k", "--root", work, code=4).stdout
        )
        os.chmod(place, 0o700)

    assert _put(someone, work, f"tree:{work}") == ""


def test_the_answer_to_a_put_names_the_members_that_may_not_be_read(someone: Someone) -> None:
    work = someone.made("work")
    (closed,) = _closed(someone, "work/d")
    someone.start("--root", work)
    someone.ready()

    done = someone.run("put", "k", "--dep", f"tree:{work}", "--as-of-now", "--root", work, "--json")

    (item,) = json.loads(done.stdout)["verdict"]["evidence"]
    assert (item["paths"], item["detail"]) == ([closed], "unreadable: EACCES: Permission denied")


def test_a_check_of_what_became_unreadable_says_how_to_open_it(someone: Someone) -> None:
    work = someone.made("work")
    someone.wrote(f"{work}/f", "one\n")
    someone.start("--root", work)
    someone.ready()
    _put(someone, work, f"file:{work}/f")
    os.chmod(f"{work}/f", 0)

    told = _line(someone.run("why", "k", "--root", work, code=4).stdout)

    assert f"chmod u+rX {work}/f # permission denied (EACCES) for {work}/f; then ask again" in told
