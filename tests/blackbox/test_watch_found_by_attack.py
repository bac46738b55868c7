"""Holes that an attacker found in the watcher, each as the smallest story that showed it."""

from __future__ import annotations

import mmap
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from support import Daemon, Json, Workspace
from test_watch_limits import Mounting, may_confine
from watching import comes_to_rest, eventually, put_by_clock, root_of, seals_hold, since, stopped

if TYPE_CHECKING:
    from collections.abc import Iterator


def by_log(ws: Workspace, key: str, *deps: str) -> Json:
    """A put of what is there, which the log alone can prove from then on."""
    ws.clock()
    ws.put(key, *deps)
    return ws.check(key, verify="log")


def both(ws: Workspace, key: str) -> tuple[str, str]:
    """The verdicts by the log and by reading."""
    return ws.verdict(key, verify="log"), ws.verdict(key)


# ---- mounts


@pytest.fixture
def mounting() -> Iterator[Mounting]:
    if not may_confine("-Urm", "mount -t tmpfs none /mnt"):
        pytest.skip("nothing may be mounted here")
    daemon = Mounting()
    try:
        for name in ("d/a", "over/a"):
            daemon.workspace().write(name, name)
        os.mkfifo(daemon.workspace().path("d/fifo"))
        daemon.start()
        yield daemon
        assert daemon.alive, daemon.said()
    finally:
        daemon.close()


def put_there(daemon: Mounting, dep: str, clock: str) -> Json:
    return daemon.ask("entry.put", key="k", value=1, root=daemon.root, deps=[dep], fetched_at=clock)


def rests(daemon: Mounting, dep: str) -> None:
    if not seals_hold(daemon.root):
        pytest.skip("files on this file system cannot be shown to be at rest")
    assert eventually(lambda: put_there(daemon, dep, daemon.clock())["unproven"] == [])


@pytest.mark.parametrize("beside", [":", "mount -t tmpfs none over"], ids=["alone", "beside another mount"])
def test_what_was_read_under_a_mount_that_came_and_went_is_not_shown(mounting: Mounting, beside: str) -> None:
    """The mount table is as before, and no file's time has moved."""
    rests(mounting, "file:d/a")
    clock = mounting.clock()
    with stopped(mounting):
        mounting.sh(f"mount --bind over d; test $(cat d/a) = over/a; umount d; {beside}")
    answer = put_there(mounting, "file:d/a", clock)
    assert (answer["unproven"], answer["verdict"]["verdict"]) != ([], "fresh")
    rests(mounting, "file:d/a")


def test_a_mount_that_came_and_went_is_a_gap(mounting: Mounting) -> None:
    clock = mounting.clock()
    with stopped(mounting):
        mounting.sh("mount --bind over d; umount d")
    assert mounting.since(clock, "d")["complete"] is False
    assert mounting.since(mounting.clock(), "d")["complete"] is True


def test_a_mount_over_a_name_changes_a_listing(mounting: Mounting) -> None:
    mounting.sh("mount --bind over/a d/fifo")
    mounting.clock()
    (held,) = mounting.ask("deps.snapshot", deps=["dir:d"], root=mounting.root)["digests"]
    deps = [{"dep": "dir:d", "digest": held["digest"]}]
    mounting.ask("entry.put", key="k", value=1, root=mounting.root, deps=deps)
    assert mounting.ask("entry.check", key="k", root=mounting.root, verify="log")["verdict"] == "fresh"
    mounting.sh("umount d/fifo")
    for verify in ("log", "auto"):
        assert mounting.ask("entry.check", key="k", root=mounting.root, verify=verify)["verdict"] == "dirty", verify


# ---- what a set holds, and what is watched


def test_a_set_named_through_a_link_is_not_judged_by_what_is_ignored_behind_it(own: Workspace) -> None:
    """By the name that was written nothing is ignored: so the set holds a place that nobody watches."""
    own.write("d/x/f")
    os.symlink("d", own.path("link"))
    own.rpc("root.add", path=own.root, ignore=["/d/x/"])
    assert by_log(own, "k", "tree:link")["verdict"] == "fresh"
    own.write("d/x/f", "two\n")
    assert both(own, "k") == ("dirty", "dirty")


def test_what_the_second_root_inside_ignores_is_not_ignored_by_the_outermost(own: Workspace) -> None:
    own.write("b/c/f")
    own.rpc("root.add", path=own.root, ignore=[])
    for inner in ("b", "b/c"):
        own.rpc("root.add", path=os.fsdecode(own.path(inner)), ignore=["x/"])
    own.write("b/c/x/f")
    assert by_log(own, "k", "tree:.")["verdict"] == "fresh"
    own.write("b/c/x/f", "two\n")
    assert both(own, "k") == ("dirty", "dirty")


@pytest.fixture
def inside() -> Iterator[Workspace]:
    """A daemon whose socket lies in its root."""
    daemon = Daemon()
    daemon.socket = os.path.join(daemon.root, "s.sock")
    try:
        yield daemon.start().scanned().workspace()
        assert daemon.alive, daemon.said()
    finally:
        daemon.close()


def test_the_daemons_socket_is_a_name_in_a_listing(inside: Workspace) -> None:
    assert by_log(inside, "k", "dir:.")["verdict"] == "fresh"
    clock = inside.clock()
    os.unlink(inside.path("s.sock"))
    assert both(inside, "k") == ("dirty", "dirty")
    assert [r["kind"] for r in since(inside, clock)["records"] if r["type"] == "mutation"] == ["deleted"]


def test_a_file_at_the_place_of_the_socket_is_a_file(inside: Workspace) -> None:
    inside.clock()
    os.unlink(inside.path("s.sock"))
    inside.write("s.sock")
    by_log(inside, "k", "file:s.sock")
    inside.write("s.sock", "two\n")
    assert both(inside, "k") == ("dirty", "dirty")


# ---- the log


def test_a_link_on_the_way_that_was_turned_is_told_of_the_path(own: Workspace) -> None:
    for name in ("one/f", "two/f"):
        own.write(name, name)
    os.symlink("one", own.path("inner"))
    os.symlink("inner", own.path("outer"))
    clock = own.clock()
    os.symlink("two", own.path("new"))
    os.rename(own.path("new"), own.path("inner"))
    answer = since(own, clock, "outer/f")
    assert answer["records"] or not answer["complete"]


def test_a_root_that_was_removed_while_it_was_taken_up_leaves_the_outer_one_whole(own: Workspace) -> None:
    for number in range(300):
        own.write(f"big/{number}/f")
    inner = os.fsdecode(own.path("big"))
    for _ in range(5):
        own.rpc("root.add", path=inner, ignore=["nothing/"], wait=False)
        own.rpc("root.remove", path=inner)
    own.daemon.scanned()
    assert eventually(lambda: since(own, own.clock())["complete"])
    assert root_of(own.daemon)["state"] == "watching"


# ---- the shown put


def test_the_mounts_of_others_disturb_nobody(own: Workspace) -> None:
    """Mounts in a namespace of its own are not ours."""
    if not may_confine("-Urm", "mount -t tmpfs none /mnt"):
        pytest.skip("nothing may be mounted here")
    if not seals_hold(own.root):
        pytest.skip("files on this file system cannot be shown to be at rest")
    own.write("f")
    assert comes_to_rest(own, "file:f")
    clock = own.clock()
    subprocess.run(["unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/mnt"], check=True)
    assert put_by_clock(own, "k", "file:f", clock=clock)["unproven"] == []


# ---- what nobody can see: named in the guarantees


@pytest.mark.xfail(strict=True, reason="a name that is gone tells nothing, and no time moves: out of scope")
def test_a_store_through_a_mapping_whose_name_is_gone_is_not_taken_for_rest(own: Workspace) -> None:
    if not seals_hold(own.root):
        pytest.skip("files on this file system cannot be shown to be at rest")
    elsewhere = os.path.join(own.daemon.outside, "f")
    with open(elsewhere, "w+b") as file:
        file.write(b"A")
        file.flush()
        mapping = mmap.mmap(file.fileno(), 0)
    mapping[0:1] = b"A"  # from here on the page is dirty, and further stores move no time
    os.link(elsewhere, own.path("f"))
    os.unlink(elsewhere)
    own.write("other")
    assert comes_to_rest(own, "file:other")
    clock = own.clock()
    mapping[0:1] = b"B"
    with open(own.path("f"), "rb") as file:
        assert file.read() == b"B"
    mapping[0:1] = b"A"
    mapping.close()
    assert put_by_clock(own, "k", "file:f", clock=clock)["unproven"] == ["file:f"]


def test_what_is_written_by_a_descriptor_whose_name_is_gone_is_told_of_the_name_that_is_left(own: Workspace) -> None:
    with open(own.path("first"), "wb", buffering=0) as file:
        file.write(b"one")
        os.link(own.path("first"), own.path("second"))
        os.unlink(own.path("first"))
        clock = own.clock()
        file.write(b"two")
        answer = since(own, clock, "second")
        assert answer["records"] or not answer["complete"]
