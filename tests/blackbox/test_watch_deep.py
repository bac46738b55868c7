"""A tree of many hundred directories in each other: nothing in the daemon may go down it by calling itself."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from asking import sh
from watching import content_digest, of_path, settled, since

if TYPE_CHECKING:
    from support import Workspace

DEPTH = 700


def deep(ws: Workspace, top: str) -> bytes:
    """The path of the lowest directory of a new tree."""
    path = ws.path(top)
    for _ in range(DEPTH):
        os.mkdir(path)
        path += b"/d"
    return path.removesuffix(b"/d")


def test_what_happens_at_the_bottom_is_in_the_log(own: Workspace) -> None:
    clock = own.clock()
    path = deep(own, "top") + b"/file"
    with open(path, "wb") as file:
        file.write(b"content\n")
    records = of_path(settled(own.daemon, clock), path)
    assert records, "nothing was told of it"
    later = own.clock()
    with open(path, "ab") as file:
        file.write(b"more\n")
    found = settled(own.daemon, later)
    assert {r["kind"] for r in of_path(found, path)} == {"modified"}
    digests = {r["digest"] for r in found if r["type"] == "hashed" and r["digest_state"] == "done"}
    assert digests == {content_digest(path)}
    assert since(own, later)["complete"]
    assert own.rpc("daemon.audit")["mismatches"] == []
    sh(own, "rm -rf top")  # pytest cannot


def test_such_a_tree_is_moved_and_removed_and_asked_about(own: Workspace) -> None:
    bottom = deep(own, "top")
    clock = own.clock()
    own.rpc("entry.put", key="k", value=1, deps=["glob:**/x", "tree:top"], fetched_at=clock)
    with open(bottom + b"/x", "wb"):
        pass
    for verify in ("auto", "log"):
        assert own.rpc("entry.check", key="k", verify=verify)["verdict"] != "fresh"
    os.rename(own.path("top"), own.path("other"))
    answer = since(own, clock)
    assert [r["kind"] for r in of_path(answer["records"], own.path("other"))] == ["moved"]
    sh(own, "rm -rf other")
    assert own.rpc("daemon.audit")["mismatches"] == []
    assert own.rpc("daemon.status")["roots"][0]["files"] == 0
