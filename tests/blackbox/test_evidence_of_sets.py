"""Evidence of a changed set: it names the members that differ and their record, not what else happened there."""

from __future__ import annotations

import os
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


@pytest.mark.parametrize("dep", ["tree:s", "glob:s/*", "glob:s/**/*.py", "tree:link", "glob:link/*.py"])
def test_a_set_names_the_record_of_the_member_that_differs(own: Workspace, dep: str) -> None:
    own.write("s/a.py")
    own.write("s/b.py")
    os.symlink("s", own.path("link"))
    own.clock()  # else what happened before and after the put may be one record
    own.put("k", dep)
    own.write("s/a.py", "two\n")
    own.clock()
    own.write("s/b.py")
    own.write("s/unrelated/.hidden/x.py.txt")
    os.unlink(own.path("s/unrelated/.hidden/x.py.txt"))
    os.removedirs(own.path("s/unrelated/.hidden"))
    item = one(own.check("k"))
    assert (named(item), about(item)) == (["a.py"], "a.py")


@pytest.mark.parametrize("dep", ["dir:s", "names:s/*"])
def test_a_listing_names_the_record_of_the_name_that_came(own: Workspace, dep: str) -> None:
    own.write("s/b.py")
    own.put("k", dep)
    own.write("s/a.py")
    own.clock()
    own.write("s/b.py", "two\n")
    os.chmod(own.path("s/b.py"), 0o700)
    own.clock()
    item = one(own.check("k"))
    assert (item["why"], named(item), about(item)) == ("listing-changed", ["a.py"], "a.py")


def test_members_that_differ_are_named_the_newest_first(own: Workspace) -> None:
    for number in range(20):
        own.write(f"s/{number:02}")
    own.put("k", "tree:s")
    for number in (*range(7, 20), *range(7)):
        own.write(f"s/{number:02}", "two\n")
        own.clock()
    item = one(own.check("k"))
    assert (named(item), about(item)) == ([f"{n:02}" for n in (*range(6, -1, -1), *range(19, 10, -1))], "06")


def renamed_above(ws: Workspace) -> None:
    os.rename(ws.path("s/sub"), ws.path("s/other"))


def declared(ws: Workspace) -> None:
    ws("action.record", writes=["s/sub/a.py"])


@pytest.mark.parametrize(("happen", "told"), [(renamed_above, "other"), (declared, None)])
def test_what_names_a_directory_above_a_member_or_was_declared_counts(
    own: Workspace, happen: Callable[[Workspace], None], told: str | None
) -> None:
    own.write("s/sub/a.py")
    own.write("s/b.py")
    own.put("k", "glob:s/sub/*.py")
    own.write("s/sub/a.py", "two\n")
    own.clock()
    happen(own)
    own.clock()
    own.write("s/b.py", "two\n")
    mutation = one(own.check("k"))["mutation"]
    assert mutation["type"] == ("action" if told is None else "mutation")
    assert told is None or os.path.basename(mutation["path"]) == told


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("kind", ["tree", "glob", "dir"])
def test_an_action_that_began_before_the_clock_and_ended_after_it_is_named(
    own: Workspace, kind: str, *, ended: bool
) -> None:
    out = own.daemon.outside
    os.mkdir(f"{out}/s")
    dep = f"{kind}:{out}/s" + "/*" * (kind == "glob")
    action = own("action.begin", writes=[f"file:{out}/s/new"], session="somebody")
    own.put("k", dep)
    with open(f"{out}/s/new", "w") as file:
        file.write("x")
    if ended:
        own("action.end", id=action["id"], outcome="done")
    item = one(own.check("k"))
    assert (named(item), item["mutation"]["id"], item["mutation"]["session"]) == (["new"], action["id"], "somebody")


def test_what_touched_a_member_before_the_clock_is_not_named(own: Workspace) -> None:
    out = own.daemon.outside
    os.mkdir(f"{out}/s")
    own("action.record", writes=[f"file:{out}/s/a"])
    own.put("k", f"tree:{out}/s")
    with open(f"{out}/s/a", "w") as file:
        file.write("x")
    item = one(own.check("k"))
    assert (named(item), item.get("mutation")) == (["a"], None)
