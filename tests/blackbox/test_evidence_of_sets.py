"""Evidence of a changed set: it names the members that differ and their record, not what else happened there."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import pytest
from asking import one
from support import Json, Workspace, unwire

if TYPE_CHECKING:
    from collections.abc import Callable


def named(item: Json) -> list[str]:
    return [os.path.basename(unwire(path)).decode() for path in item["paths"]]


def about(item: Json) -> str:
    return os.path.basename(unwire(item["mutation"]["path"])).decode()


def outside(ws: Workspace) -> str:
    """A new directory outside of all that is watched, in it an `s`."""
    path = tempfile.mkdtemp(dir=ws.daemon.outside)
    os.mkdir(f"{path}/s")
    return path


@pytest.mark.parametrize("dep", ["tree:s", "glob:s/*", "glob:s/**/*.py", "tree:link", "glob:link/*.py"])
def test_a_set_names_the_record_of_the_member_that_differs(watched: Workspace, dep: str) -> None:
    watched.write("s/a.py")
    watched.write("s/b.py")
    os.symlink("s", watched.path("link"))
    watched.clock()  # else what happened before and after the put may be one record
    watched.put("k", dep)
    watched.write("s/a.py", "two\n")
    watched.clock()
    watched.write("s/b.py")
    watched.write("s/unrelated/.hidden/x.py.txt")
    os.unlink(watched.path("s/unrelated/.hidden/x.py.txt"))
    os.removedirs(watched.path("s/unrelated/.hidden"))
    item = one(watched.check("k"))
    assert (named(item), about(item)) == (["a.py"], "a.py")


@pytest.mark.parametrize("dep", ["dir:s", "names:s/*"])
def test_a_listing_names_the_record_of_the_name_that_came(watched: Workspace, dep: str) -> None:
    watched.write("s/b.py")
    watched.put("k", dep)
    watched.write("s/a.py")
    watched.clock()
    watched.write("s/b.py", "two\n")
    os.chmod(watched.path("s/b.py"), 0o700)
    watched.clock()
    item = one(watched.check("k"))
    assert (item["why"], named(item), about(item)) == ("listing-changed", ["a.py"], "a.py")


def test_members_that_differ_are_named_the_newest_first(watched: Workspace) -> None:
    for number in range(20):
        watched.write(f"s/{number:02}")
    watched.put("k", "tree:s")
    for number in (*range(7, 20), *range(7)):
        watched.write(f"s/{number:02}", "two\n")
        watched.clock()
    item = one(watched.check("k"))
    assert (named(item), about(item)) == ([f"{n:02}" for n in (*range(6, -1, -1), *range(19, 10, -1))], "06")


def renamed_above(ws: Workspace) -> None:
    os.rename(ws.path("s/sub"), ws.path("s/other"))


def declared(ws: Workspace) -> None:
    ws("action.record", writes=["s/sub/a.py"])


@pytest.mark.parametrize(("happen", "told"), [(renamed_above, "other"), (declared, None)])
def test_what_names_a_directory_above_a_member_or_was_declared_counts(
    watched: Workspace, happen: Callable[[Workspace], None], told: str | None
) -> None:
    watched.write("s/sub/a.py")
    watched.write("s/b.py")
    watched.put("k", "glob:s/sub/*.py")
    watched.write("s/sub/a.py", "two\n")
    watched.clock()
    happen(watched)
    watched.clock()
    watched.write("s/b.py", "two\n")
    mutation = one(watched.check("k"))["mutation"]
    assert mutation["type"] == ("action" if told is None else "mutation")
    assert told is None or os.path.basename(mutation["path"]) == told


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("kind", ["tree", "glob", "dir"])
def test_an_action_that_began_before_the_clock_and_ended_after_it_is_named(
    watched: Workspace, kind: str, *, ended: bool
) -> None:
    out = outside(watched)
    dep = f"{kind}:{out}/s" + "/*" * (kind == "glob")
    action = watched("action.begin", writes=[f"file:{out}/s/new"], session="somebody")
    watched.put("k", dep)
    with open(f"{out}/s/new", "w") as file:
        file.write("x")
    if ended:
        watched("action.end", id=action["id"], outcome="done")
    item = one(watched.check("k"))
    assert (named(item), item["mutation"]["id"], item["mutation"]["session"]) == (["new"], action["id"], "somebody")


def test_what_touched_a_member_before_the_clock_is_not_named(watched: Workspace) -> None:
    out = outside(watched)
    watched("action.record", writes=[f"file:{out}/s/a"])
    watched.put("k", f"tree:{out}/s")
    with open(f"{out}/s/a", "w") as file:
        file.write("x")
    item = one(watched.check("k"))
    assert (named(item), item.get("mutation")) == (["a"], None)
