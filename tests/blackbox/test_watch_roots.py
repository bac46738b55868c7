"""Roots that are renamed, replaced, deleted and come back; nested ones; many; and two daemons on one tree."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from support import Daemon, Json, Workspace, records_since, unwire
from watching import below, eventually, gaps, mutations, of_path, replayed, root_of, since, told, until

if TYPE_CHECKING:
    from collections.abc import Callable


def lost(ws: Workspace, clock: str) -> bool:
    """Whether the log has a gap for the workspace's root since a clock, and its state says that something is wrong."""
    return bool(gaps(records_since(ws.rpc, clock), ws.root)) and root_of(ws.daemon, ws.root)["state"] != "watching"


def watching(ws: Workspace) -> bool:
    return bool(root_of(ws.daemon, ws.root)["state"] == "watching")


def test_a_root_in_order_says_how_it_is_watched(own: Workspace) -> None:
    own.write("a/b/f")
    own.write("g")
    own.clock()
    assert eventually(lambda: watching(own))
    root = root_of(own.daemon)
    assert (root["coverage"], root["uncovered"], root["backend"]) == ("whole", [], "inotify")
    assert root["files"] == 2
    assert root["directories"] == 3
    (shown,) = own.rpc("daemon.status")["roots"]
    assert {field: shown[field] for field in ("path", "state", "backend", "coverage")} == {
        field: root[field] for field in ("path", "state", "backend", "coverage")
    }


def test_what_was_there_before_is_no_mutation(own: Workspace) -> None:
    """The first scan reads names and times, writes one record of coverage, and hashes nothing."""
    own.daemon.stop()
    tree = os.path.join(own.daemon.home, "tree")
    for number in range(50):
        os.makedirs(f"{tree}/d{number}")
        with open(f"{tree}/d{number}/f", "w") as file:
            file.write("x")
    own.daemon.start().scanned()
    clock = own.clock()
    own.rpc("root.add", path=tree)
    records = records_since(own.rpc, clock)
    assert [record["type"] for record in records if record["type"] in {"mutation", "hashed"}] == []
    covered = [record for record in records if record["type"] == "coverage"]
    assert [(unwire(r["path"]), r["coverage"]) for r in covered if r["coverage"] != "none"] == [
        (os.fsencode(tree), "whole")
    ]
    later = own.clock()
    path = os.path.join(tree, "d7", "f")
    with open(path, "a") as file:
        file.write("y")
    kinds = [record["kind"] for record in of_path(records_since(own.rpc, later), os.fsencode(path))]
    assert kinds
    assert set(kinds) == {"modified"}


@pytest.mark.parametrize("how", ["renamed", "deleted", "replaced", "moved above"])
def test_a_root_that_goes_is_a_gap_and_answers_stay_true(make_daemon: Callable[..., Daemon], how: str) -> None:
    daemon = make_daemon()
    top = os.path.join(daemon.home, "above")
    root = os.path.join(top, "root")
    os.makedirs(root)
    daemon.roots = [root]
    ws = Workspace(daemon.start().scanned(), root, "")
    ws.write("f", "one\n")
    ws.write("d/g", "one\n")
    ws.put("k", "file:f", "tree:d")
    ws.put("absent", "file:none")
    clock = ws.clock()
    away = os.path.join(daemon.home, "away")
    match how:
        case "renamed":
            os.rename(root, away)
        case "deleted":
            shutil.rmtree(root)
        case "replaced":
            os.rename(root, away)
            ws.write("f", "one\n")
        case _:
            os.rename(top, away)
    assert ws.verdict("k") == "dirty"
    assert ws.verdict("absent") == "fresh"
    answer = ws.rpc("log.since", clock=clock, paths=[root])
    assert answer["complete"] is False
    assert eventually(lambda: lost(ws, clock) or (how == "replaced" and bool(gaps(records_since(ws.rpc, clock), root))))
    if how != "replaced":
        assert root_of(daemon, root)["state"] == "gone"
    assert ws.check("k", verify="log")["verdict"] == "dirty"
    if how == "replaced":
        ws.write("d/g", "one\n")
        assert ws.verdict("k") == "fresh"
        ws.write("f", "two\n")
        assert ws.verdict("k") == "dirty"
    assert "Traceback" not in daemon.said()


def test_what_happens_in_a_root_under_its_new_name_is_never_told_under_the_old_one(own: Workspace) -> None:
    own.write("f", "one\n")
    own.put("k", "file:f")
    away = os.path.join(own.daemon.home, "away")
    clock = own.clock()
    os.rename(own.root, away)
    with open(f"{away}/f", "w") as file:
        file.write("two\n")
    with open(f"{away}/new", "w") as file:
        file.write("new\n")
    assert own.verdict("k") == "dirty"
    assert own.rpc("log.since", clock=clock, paths=[own.root])["complete"] is False
    assert not of_path(mutations(own, clock), own.path("new"))
    os.rename(away, own.root)
    assert own.verdict("k") == "dirty"
    own.write("f", "one\n")
    assert own.verdict("k") == "fresh"


def test_a_root_that_comes_back_is_watched_again(own: Workspace) -> None:
    own.write("d/f", "one\n")
    own.put("k", "file:d/f")
    away = os.path.join(own.daemon.home, "away")
    clock = own.clock()
    os.rename(own.root, away)
    assert eventually(lambda: lost(own, clock))
    with open(f"{away}/d/f", "w") as file:
        file.write("changed while away\n")
    os.rename(away, own.root)
    assert own.verdict("k") == "dirty"
    assert eventually(lambda: watching(own))
    assert root_of(own.daemon)["coverage"] == "whole"
    assert since(own, clock)["complete"] is False
    later = own.clock()
    own.write("d/f", "one\n")
    assert own.verdict("k") == "fresh"
    assert ("modified", b"d/f") in told(own, later)
    assert since(own, later)["complete"] is True


def test_a_root_that_is_gone_at_the_start_is_told_and_found_later(own: Workspace) -> None:
    own.write("f", "one\n")
    own.put("k", "file:f")
    own.daemon.stop()
    away = os.path.join(own.daemon.home, "away")
    os.rename(own.root, away)
    own.daemon.roots = []
    own.daemon.start()
    assert root_of(own.daemon)["state"] == "gone"
    assert own.verdict("k") == "dirty"
    os.rename(away, own.root)
    assert own.verdict("k") == "fresh"
    own.rpc("root.add", path=own.root)
    assert eventually(lambda: watching(own))
    clock = own.clock()
    own.write("f", "two\n")
    assert ("modified", b"f") in told(own, clock)
    assert own.verdict("k") == "dirty"


# ---- nested roots


def test_a_root_below_another_is_the_same_watch(own: Workspace) -> None:
    path = own.write("inner/deep/f", "one\n")
    inner = os.path.join(own.root, "inner")
    own.rpc("root.add", path=inner)
    clock = own.clock()
    own.write("inner/deep/f", "two\n")
    mine = of_path(mutations(own, clock), path)
    assert len({record["seq"] for record in mine}) == len(mine)
    assert len([record for record in mine if record["kind"] == "modified"]) <= 2, "one watch tells it once"
    assert root_of(own.daemon, inner)["state"] == "watching"


@pytest.mark.parametrize("first", ["inner", "outer"])
def test_of_nested_roots_one_goes_and_the_other_stays_watched(own: Workspace, first: str) -> None:
    outer = os.path.join(own.daemon.home, "outer")
    inner = os.path.join(outer, "inner")
    os.makedirs(os.path.join(inner, "deep"))
    for path in (inner, outer) if first == "inner" else (outer, inner):
        own.rpc("root.add", path=path)
    ws = Workspace(own.daemon, outer, "")
    clock = ws.clock()
    ws.write("inner/deep/f", "one")
    ws.write("other/f", "one")
    assert {b"inner/deep/f", b"other/f"} <= {name for _, name in told(ws, clock)}
    own.rpc("root.remove", path=outer)
    clock = ws.clock()
    ws.write("inner/deep/f", "two")
    ws.write("other/f", "two")
    assert {name for _, name in told(ws, clock)} == {b"inner/deep/f"}
    assert since(ws, clock, "inner")["complete"] is True
    assert since(ws, clock, "other")["complete"] is False
    own.rpc("root.add", path=outer)
    own.rpc("root.remove", path=inner)
    clock = ws.clock()
    ws.write("inner/deep/f", "three")
    ws.write("other/f", "three")
    assert {b"inner/deep/f", b"other/f"} <= {name for _, name in told(ws, clock)}


def test_a_removed_root_is_not_watched_and_its_entries_are_answered_for(own: Workspace) -> None:
    own.write("f", "one\n")
    own.put("k", "file:f")
    clock = own.clock()
    own.rpc("root.remove", path=own.root)
    assert gaps(records_since(own.rpc, clock), own.root)
    later = own.clock()
    own.write("f", "two\n")
    assert mutations(own, later) == []
    assert own.verdict("k") == "dirty"
    assert since(own, later)["complete"] is False


# ---- many


def test_two_thousand_roots_are_all_watched(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    many = os.path.join(daemon.home, "many")
    roots = [os.path.join(many, f"root{number}") for number in range(2000)]
    for root in roots:
        os.makedirs(os.path.join(root, "d"))
    daemon.roots = roots
    daemon.start()
    for root in roots[::200]:  # answers when it is scanned: who asks for all again and again takes the time for himself
        daemon.rpc("root.add", path=root)
    ws = Workspace(daemon.scanned(), many, "")
    clock = ws.clock()
    for root in roots:
        with open(os.path.join(root, "d", "f"), "w") as file:
            file.write(root)
    names = {name for _, name in told(ws, clock)}
    missing = [number for number in range(2000) if b"root%d/d/f" % number not in names]
    assert missing == []
    told_roots = daemon.rpc("root.list")["roots"]
    assert len(told_roots) == 2000
    assert {root["coverage"] for root in told_roots} == {"whole"}


def test_two_daemons_on_one_tree_do_not_disturb_each_other(make_daemon: Callable[..., Daemon]) -> None:
    one = make_daemon()
    two = make_daemon(roots=[one.root])
    spaces = [Workspace(daemon.start().scanned(), one.root, "") for daemon in (one, two)]
    spaces[0].write("f", "one\n")
    clocks = [ws.clock() for ws in spaces]
    for ws in spaces:
        ws.put("k", "file:f", "tree:.")
    quiet = [ws.clock() for ws in spaces]
    spaces[0].write("d/f", "two\n")
    for ws, clock, before in zip(spaces, clocks, quiet, strict=True):
        assert ws.verdict("k") == "dirty"
        assert {b"d", b"d/f"} == {name for _, name in told(ws, before)}
        replayed(ws.daemon, clock, {ws.path("f")}).agrees(ws.root)
    one.kill9()
    clock = spaces[1].clock()
    spaces[1].write("f", "three\n")
    assert ("modified", b"f") in told(spaces[1], clock)


def test_a_root_added_without_waiting_is_complete_once_it_is_watched(own: Workspace) -> None:
    tree = os.path.join(own.daemon.home, "tree")
    for number in range(300):
        os.makedirs(f"{tree}/d{number}/e")
    clock = own.clock()
    own.rpc("root.add", path=tree, wait=False)
    ws = Workspace(own.daemon, tree, "")
    made = [ws.write(f"d{number}/e/f", "written while it is scanned") for number in range(300)]
    ws.put("k", "tree:.")
    ws.write("d299/e/f", "and changed")
    assert ws.verdict("k") == "dirty"
    assert eventually(lambda: watching(ws))
    later = ws.clock()
    for path in made:
        with open(path, "ab") as file:
            file.write(b" and edited")
    assert {b"d%d/e/f" % number for number in range(300)} <= {name for _, name in told(ws, later)}
    assert since(ws, later)["complete"] is True
    assert since(ws, clock)["complete"] is False

    def covered(records: list[Json]) -> bool:
        return any(
            r["type"] == "coverage" and r["coverage"] == "whole" and below(unwire(r["path"]), tree) for r in records
        )

    until(own.daemon, clock, covered)
