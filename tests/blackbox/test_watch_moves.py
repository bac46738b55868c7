"""Trees that move: within a root, into it, out of it, between two roots; and names that are no text."""

from __future__ import annotations

import ctypes
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from asking import sh
from support import Daemon, Workspace, unwire
from watching import Replay, eventually, is_of, mutations, of_path, replayed, settled, since, told, walk

if TYPE_CHECKING:
    from collections.abc import Callable

ODD = {
    "not UTF-8": b"\xff\xfe name",
    "newline": b"two\nlines",
    "quotes and backslashes": b"\"'\\ $`",
    "255 bytes": b"n" * 255,
    "trailing space": b"name ",
    "dashes": b"--",
    "looks like an escape": b"\\xff",
    "emoji": "\U0001f600".encode(),
    "control": b"\x01\x7f\x1b[31m",
    "decomposed": "e\u0301".encode(),
}


def fill(top: bytes) -> None:
    """A small deep tree at `top`."""
    for name in (b"f", b"a/f", b"a/b/f", b"a/b/c/f", b"z/f"):
        path = os.path.join(top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"content of " + name)


def exchange(first: bytes, second: bytes) -> None:
    """renameat2(2) with RENAME_EXCHANGE; skips where the file system does not know it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, first, -100, second, 2) != 0:
        pytest.skip(f"no RENAME_EXCHANGE here: {os.strerror(ctypes.get_errno())}")


# ---- names


@pytest.mark.parametrize("name", ODD.values(), ids=ODD.keys())
def test_any_name_is_told_byte_for_byte(watched: Workspace, name: bytes) -> None:
    clock = watched.clock()
    path = watched.write(name, "one\n")
    inside = watched.write(b"d-" + name[:200] + b"/" + name, "deep\n")
    records = settled(watched.daemon, clock)
    assert of_path(records, path)[0]["kind"] == "created"
    assert of_path(records, inside)[0]["kind"] == "created"
    clock = watched.clock()
    os.rename(path, watched.path(b"m" + name[1:]))
    os.unlink(inside)
    os.rmdir(os.path.dirname(inside))
    (moved,) = [r for r in mutations(watched, clock) if r["kind"] == "moved"]
    assert (unwire(moved["from"]), unwire(moved["path"])) == (path, watched.path(b"m" + name[1:]))
    assert ("deleted", os.path.relpath(inside, os.fsencode(watched.root))) in told(watched, clock)


def test_a_path_as_deep_as_the_system_takes_is_told(watched: Workspace) -> None:
    clock = watched.clock()
    top = os.fsencode(watched.root)
    parts = (4000 - len(top)) // 201
    deepest = os.path.join(top, *[b"%0200d" % number for number in range(parts)])
    os.makedirs(deepest)
    with open(os.path.join(deepest, b"f"), "wb") as file:
        file.write(b"x")
    assert replayed(watched.daemon, clock).names == walk(watched.root)


# ---- directories that move


def test_edits_below_a_renamed_directory_are_told_by_the_new_path(watched: Workspace) -> None:
    fill(watched.path("d"))
    before = walk(watched.root)
    clock = watched.clock()
    os.rename(watched.path("d"), watched.path("e"))
    watched.write("e/a/b/c/f", "edited after the move\n")
    watched.write("e/a/new/g", "new\n")
    os.unlink(watched.path("e/z/f"))
    found = [(kind, name) for kind, name in told(watched, clock) if kind != "attrib"]
    assert found[0] == ("moved", b"e")
    assert ("modified", b"e/a/b/c/f") in found
    assert {name for kind, name in found if kind == "created"} >= {b"e/a/new", b"e/a/new/g"}
    assert ("deleted", b"e/z/f") in found
    assert not [name for _, name in found if name.startswith(b"d")]
    replayed(watched.daemon, clock, before).agrees(watched.root)
    assert since(watched, clock)["complete"] is True


def test_a_directory_renamed_many_times_is_followed(watched: Workspace) -> None:
    fill(watched.path("d0"))
    before = walk(watched.root)
    clock = watched.clock()
    for number in range(100):
        os.rename(watched.path(f"d{number}"), watched.path(f"d{number + 1}"))
        watched.write(f"d{number + 1}/a/b/f", f"edit {number}\n")
    names = {name for _, name in told(watched, clock)}
    assert names >= {b"d%d" % number for number in range(1, 101)}, "each name that there ever was"
    replayed(watched.daemon, clock, before).agrees(watched.root)


def test_an_edit_before_a_rename_and_one_after_it_both_count(watched: Workspace) -> None:
    """Both in one go, so that the daemon hears of the edit when the old path is gone."""
    fill(watched.path("d"))
    before = walk(watched.root)
    for number in range(30):
        clock = watched.clock()
        sh(watched, f"printf first{number} > d/a/f; mv d e; printf second{number} > e/a/b/f; mv e d")
        touched = {name for _, name in told(watched, clock)}
        assert {b"d/a/f", b"e/a/f"} & touched
        assert {b"d/a/b/f", b"e/a/b/f"} & touched
        replayed(watched.daemon, clock, before).agrees(watched.root)


def test_a_directory_moved_below_another_and_that_one_moved(watched: Workspace) -> None:
    fill(watched.path("one"))
    fill(watched.path("two"))
    before = walk(watched.root)
    clock = watched.clock()
    sh(watched, "mv one two/a/; mv two three; printf deep > three/a/one/a/b/f; mkdir three/a/one/new; mv three two")
    watched.write("two/a/one/new/f", "last\n")
    replayed(watched.daemon, clock, before).agrees(watched.root)
    assert b"two/a/one/new/f" in {name for _, name in told(watched, clock)}


@pytest.mark.parametrize("what", ["files", "directories", "a file and a directory"])
def test_exchanged_names_are_both_told(watched: Workspace, what: str) -> None:
    first, second = watched.path("first"), watched.path("second")
    if what == "files":
        watched.write("first", "1")
        watched.write("second", "22")
    elif what == "directories":
        fill(first)
        watched.write("second/only", "2")
    else:
        watched.write("first", "1")
        fill(second)
    watched.put("k", "tree:.")
    clock = watched.clock()
    exchange(first, second)
    assert watched.verdict("k") == "dirty"
    touched = {unwire(r[field]) for r in mutations(watched, clock) for field in ("path", "from") if field in r}
    assert {first, second} <= touched
    if what != "files":  # what was at `second` is watched as `first` now
        edited = watched.write("first/edited", "after the exchange")
        assert of_path(mutations(watched, clock), edited)


# ---- across the border of what is watched


def test_a_tree_moved_in_is_told_file_by_file(watched: Workspace) -> None:
    clock = watched.clock()
    outside = os.path.join(os.fsencode(watched.daemon.outside), os.path.basename(os.fsencode(watched.root)))
    fill(outside)
    os.rename(outside, watched.path("in"))
    replay = replayed(watched.daemon, clock)
    replay.agrees(watched.root)
    assert replay.names >= walk(watched.root)
    assert len(replay.digests) >= 5
    clock = watched.clock()
    watched.write("in/a/b/c/f", "edited inside\n")
    assert ("modified", b"in/a/b/c/f") in told(watched, clock)


def test_a_tree_moved_out_is_told_as_deleted_file_by_file(watched: Workspace) -> None:
    fill(watched.path("out"))
    before = walk(watched.root)
    clock = watched.clock()
    outside = os.path.join(os.fsencode(watched.daemon.outside), os.path.basename(os.fsencode(watched.root)))
    os.rename(watched.path("out"), outside)
    deleted = {unwire(r["path"]) for r in mutations(watched, clock) if r["kind"] == "deleted"}
    assert deleted >= {name for name in before if not os.path.isdir(outside + name[len(watched.path("out")) :])}
    assert Replay(before).follow(mutations(watched, clock)).names == set()
    clock = watched.clock()
    with open(os.path.join(outside, b"a/f"), "wb") as file:
        file.write(b"nobody here watches this")
    assert mutations(watched, clock) == []
    os.rename(outside, watched.path("out"))
    assert b"out/a/b/c/f" in {name for _, name in told(watched, clock)}


def test_a_file_moved_in_and_out_is_told(watched: Workspace) -> None:
    outside = os.path.join(watched.daemon.outside, os.path.basename(watched.root))
    with open(outside, "wb") as file:
        file.write(b"from outside")
    clock = watched.clock()
    os.rename(outside, watched.path("f"))
    (first, *_) = told(watched, clock)
    assert first == ("created", b"f")
    clock = watched.clock()
    os.rename(watched.path("f"), outside)
    assert told(watched, clock)[-1] == ("deleted", b"f")


def test_a_tree_that_goes_from_one_root_to_another_is_told_in_both(own: Workspace) -> None:
    other = os.path.join(own.daemon.home, "other")
    os.mkdir(other)
    own.rpc("root.add", path=other)
    fill(own.path("d"))
    before = walk(own.root)
    clock = own.clock()
    os.rename(own.path("d"), os.path.join(os.fsencode(other), b"e"))
    replay = replayed(own.daemon, clock, before)
    assert not [name for name in replay.names if is_of({"type": "mutation", "path": os.fsdecode(name)}, own.root)]
    replay.agrees(other)
    assert os.path.join(os.fsencode(other), b"e/a/b/c/f") in replay.names
    clock = own.clock()
    path = os.path.join(os.fsencode(other), b"e/a/b/f")
    with open(path, "ab") as file:
        file.write(b"more")
    os.unlink(os.path.join(os.fsencode(other), b"e/f"))
    records = settled(own.daemon, clock)
    assert of_path(records, path)[-1]["kind"] == "modified"


def test_a_tree_copied_while_it_is_renamed_is_whole_in_the_log(watched: Workspace) -> None:
    clock = watched.clock()
    for number in range(20):
        fill(watched.path("src"))
        shutil.copytree(os.fsdecode(watched.path("src")), os.fsdecode(watched.path(f"copy{number}")))
        os.rename(watched.path("src"), watched.path(f"src{number}"))
    replayed(watched.daemon, clock).agrees(watched.root)


# ---- links


def test_a_link_to_a_tree_is_not_watched_through_but_answers_through_it_are_true(watched: Workspace) -> None:
    outside = os.path.join(os.fsencode(watched.daemon.outside), os.path.basename(os.fsencode(watched.root)))
    fill(outside)
    os.symlink(outside, watched.path("link"))
    watched.put("k", "file:link/a/f")
    clock = watched.clock()
    with open(os.path.join(outside, b"a/f"), "wb") as file:
        file.write(b"changed outside")
    assert watched.verdict("k") == "dirty"
    assert mutations(watched, clock) == []


def test_a_root_given_by_a_link_is_told_by_its_real_path(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    link = os.path.join(daemon.home, "link")
    os.symlink(daemon.root, link)
    daemon.roots = [link]
    daemon.start().scanned()
    ws = daemon.workspace()
    clock = ws.clock()
    path = ws.write("f")
    assert eventually(lambda: bool(of_path(mutations(ws, clock), path)), 1)
