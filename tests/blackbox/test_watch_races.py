"""What comes and goes faster than anybody can look: nothing of it is missing from the log."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading

import pytest
from asking import sh
from support import HANG, Workspace, unwire
from watching import Replay, mutations, of_path, replayed, since, told, walk


def test_a_file_in_directories_just_made_is_told_every_time(watched: Workspace) -> None:
    """`mkdir -p a/b/c && file`: the directories are watched after the file is there."""
    clock = watched.clock()
    script = "for n in $(seq 300); do mkdir -p d$n/b/c && printf $n > d$n/b/c/f; done"
    sh(watched, script)
    names = {name for _, name in told(watched, clock)}
    assert since(watched, clock)["complete"] is True
    missing = [n for n in range(1, 301) if not {b"d%d/b/c/f" % n, b"d%d/b/c" % n} <= names]
    assert missing == []
    replay = replayed(watched.daemon, clock)
    replay.agrees(watched.root)
    assert replay.repeated == [], "created is told of what was not there"


def test_a_file_in_directories_just_made_is_told_when_asked_at_once(watched: Workspace) -> None:
    for number in range(300):
        clock = watched.clock()
        path = watched.write(f"d{number}/b/c/f", str(number))
        assert of_path(mutations(watched, clock), path), number


def test_edits_in_directories_just_made_are_told(watched: Workspace) -> None:
    clock = watched.clock()
    for number in range(100):
        watched.write(f"d{number}/e/f", "one")
        if number % 3 == 0:
            watched.clock()
        watched.write(f"d{number}/e/f", "two, longer")
        os.rename(watched.path(f"d{number}/e"), watched.path(f"d{number}/g"))
    replay = replayed(watched.daemon, clock)
    replay.agrees(watched.root)
    assert {watched.path(f"d{number}/g/f") for number in range(100)} <= replay.digests.keys()


def test_what_was_made_and_removed_at_once_leaves_no_path_behind(watched: Workspace) -> None:
    clock = watched.clock()
    for number in range(300):
        path = watched.write(f"f{number}")
        os.unlink(path)
    records = mutations(watched, clock)
    assert Replay().follow(records).names == set()
    assert {unwire(r["path"]) for r in records} == {watched.path(f"f{number}") for number in range(300)}
    for number in range(300):
        assert of_path(records, watched.path(f"f{number}"))[-1]["kind"] == "deleted"
    assert since(watched, clock)["complete"] is True


def test_directories_made_and_removed_at_once_leave_nothing_behind(watched: Workspace) -> None:
    clock = watched.clock()
    sh(watched, "for n in $(seq 200); do mkdir -p d/b/c; printf x > d/b/c/f; rm -r d; done")
    assert Replay().follow(mutations(watched, clock)).names == set()
    assert since(watched, clock)["records"], "that something was there is told"
    path = watched.write("d/b/c/f", "last\n")
    assert of_path(mutations(watched, clock), path)
    replayed(watched.daemon, clock).agrees(watched.root)


def test_a_tree_removed_and_made_again_under_the_same_name_is_watched_anew(watched: Workspace) -> None:
    clock = watched.clock()
    for number in range(60):
        for name in ("d/f", "d/e/f", "d/e/g/f"):
            watched.write(name, f"{name} {number}")
        if number % 4 == 0:
            watched.clock()
        if number < 59:
            shutil.rmtree(watched.path("d"))
    replayed(watched.daemon, clock).agrees(watched.root)
    clock = watched.clock()
    for name in ("d/f", "d/e/f", "d/e/g/f"):
        watched.write(name, "edited")
    assert {b"d/f", b"d/e/f", b"d/e/g/f"} <= {name for _, name in told(watched, clock)}


@pytest.mark.parametrize("pause", [False, True], ids=["at once", "with questions between"])
def test_a_directory_swapped_for_another_is_watched_in_its_new_place(watched: Workspace, pause: bool) -> None:
    """As build tools do it: new beside old, old away, new in its place."""
    clock = watched.clock()
    before = walk(watched.root)
    for number in range(40):
        watched.write(f"new/sub/f{number}", "x")
        if pause:
            watched.clock()
        if os.path.lexists(watched.path("current")):
            os.rename(watched.path("current"), watched.path("old"))
        os.rename(watched.path("new"), watched.path("current"))
        watched.write("current/sub/late", str(number))
        shutil.rmtree(watched.path("old"), ignore_errors=True)
    replay = replayed(watched.daemon, clock, before)
    replay.agrees(watched.root)
    clock = watched.clock()
    watched.write("current/sub/late", "and edited")
    assert ("modified", b"current/sub/late") in told(watched, clock)


def test_the_watch_of_a_removed_directory_never_speaks_for_a_new_one(watched: Workspace) -> None:
    """Numbers of watches and inodes come again; a record under a wrong path would be a lie."""
    clock = watched.clock()
    for number in range(150):
        watched.write(f"a{number}/f", "x")
        os.rename(watched.path(f"a{number}/f"), watched.path("f"))
        os.rmdir(watched.path(f"a{number}"))
        os.mkdir(watched.path(f"b{number}"))
        watched.write(f"b{number}/only-b", "x")
    for record in mutations(watched, clock):
        name = os.path.relpath(unwire(record["path"]), os.fsencode(watched.root))
        if name.endswith(b"/only-b"):
            assert name.startswith(b"b"), record
    replayed(watched.daemon, clock).agrees(watched.root)


def test_two_writers_in_each_others_directories(watched: Workspace) -> None:
    clock = watched.clock()
    os.mkdir(watched.path("shared"))

    def work(me: int) -> None:
        for number in range(200):
            watched.write(f"shared/d{number}/f{me}", f"{me} {number}")

    threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        watched.clock()
    for thread in threads:
        thread.join()
    replay = replayed(watched.daemon, clock)
    replay.agrees(watched.root)
    assert len(replay.digests.keys() & walk(watched.root)) >= 800


def test_a_question_right_after_another_process_wrote_takes_it_into_account(watched: Workspace) -> None:
    writer = subprocess.Popen(
        ["bash", "-c", 'while read -r n; do printf "$n" > f; echo; done'],
        cwd=watched.root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert writer.stdin
    assert writer.stdout
    try:
        watched.write("f", "start")
        for number in range(200):
            watched.put("k", "file:f")
            clock = watched.clock()
            writer.stdin.write(b"%d\n" % number)
            writer.stdin.flush()
            writer.stdout.readline()
            assert watched.verdict("k") == "dirty", number
            assert ("modified", b"f") in told(watched, clock), number
    finally:
        writer.stdin.close()
        writer.stdout.close()
        assert writer.wait(HANG) == 0
