"""What makes other watchers lie: each scenario as a story, asked about in every way.

Those of the list in docs/scenarios.md that are not here have their tests where the part that decides has its own.
"""

from __future__ import annotations

import os
import shutil

import pytest
from scening import (
    Confined,
    all_say,
    comes_to_be_sealed,
    exchange,
    humble,
    may_confine,
    never_fresh,
    position,
    root_of,
    seals_hold,
    sh,
)
from sealing_help import in_namespace, may_mount, mount
from support import Daemon, Workspace
from writing_ways import CONTENT, Mapping

__all__ = ["humble"]

ROUNDS = 100


def test_an_edit_behind_a_move_out_that_has_no_other_half(watched: Workspace) -> None:
    """A watcher that waits for the second half of a move holds back what comes after it."""
    outside = os.path.join(watched.daemon.outside, os.path.basename(watched.root))
    watched.write("f", "0")
    for number in range(ROUNDS):
        watched.write("x", "goes")
        watched.put("k", "file:f", fetched_at=watched.clock())
        os.rename(watched.path("x"), outside)
        watched.write("f", f"{number + 1}")
        answer = watched.check("k", verify=("log", "auto")[number % 2])
        assert answer["verdict"] == "dirty", (number, answer)
        assert watched.verdict("k", revalidate=False) == "dirty", number


@pytest.mark.parametrize("edited", [True, False], ids=["edited", "untouched"])
def test_killed_and_asked_with_a_clock_of_before(own: Workspace, *, edited: bool) -> None:
    """Nobody saw what happened while the daemon was dead; an old clock must not make silence of it."""
    own.write("f", "one")
    clock = own.clock()
    own.put("k", "file:f", fetched_at=clock)
    own.daemon.kill9()
    if edited:
        own.write("f", "two")
    own.daemon.start()
    all_say(own, "k", "dirty" if edited else "fresh")
    assert own.check("k", verify="log")["checked"] != "log", "silence of a dead daemon is no proof"
    assert own("deps.check", deps=["file:f"], fetched_at=clock)["verdict"] != "fresh"
    assert own("entry.put", key="late", value=1, deps=["file:f"], fetched_at=clock)["unproven"] == ["file:f"]


@pytest.mark.parametrize("memory", [False, True], ids=["disk", "memory"])
def test_a_store_to_a_page_that_was_dirty_when_the_value_was_made(watched: Workspace, *, memory: bool) -> None:
    """It moves no time and makes no event; nor does the end of the mapping say what was stored."""
    path = f"/dev/shm/{os.path.basename(watched.root)}" if memory else os.fsdecode(watched.path("f"))
    try:
        with open(path, "wb") as file:
            file.write(CONTENT)
        mapping = Mapping(os.fsencode(path))
        mapping.store(b"b")
        watched.put("k", f"file:{path}")
        assert watched.verdict("k") == "fresh"
        was = os.stat(path)
        mapping.store(b"c")
        assert os.stat(path).st_mtime_ns == was.st_mtime_ns, "or this is another story"
        never_fresh(watched, "k", by_log=False)
        mapping.close()
        never_fresh(watched, "k", by_log=False)
    finally:
        os.unlink(path)


def test_a_store_through_one_of_two_names_is_one_to_both(watched: Workspace) -> None:
    watched.write("a", "one")
    os.link(watched.path("a"), watched.path("b"))
    for written in ("a", "b"):
        watched.put("a", "file:a")
        watched.put("b", "file:b")
        watched.write(written, f"by {written}")
        never_fresh(watched, written)
        never_fresh(watched, "ab".replace(written, ""), by_log=False)


def test_an_edit_in_a_directory_that_was_moved(watched: Workspace) -> None:
    """Watches that went with the directory report what happens there under the old path."""
    watched.write("dir/sub/deep/f", "one")
    watched.put("old", "file:dir/sub/deep/f", fetched_at=watched.clock())
    os.rename(watched.path("dir"), watched.path("moved"))
    watched.put("new", "file:moved/sub/deep/f", fetched_at=watched.clock())
    never_fresh(watched, "old")
    assert watched.check("old")["why"] == "deleted"
    all_say(watched, "new", "fresh")
    watched.write("moved/sub/deep/f", "two")
    never_fresh(watched, "old", "new")


def test_a_tree_that_came_from_outside_is_watched_like_the_rest(watched: Workspace) -> None:
    outside = os.path.join(watched.daemon.outside, os.path.basename(watched.root))
    os.makedirs(f"{outside}/sub/deep")
    with open(f"{outside}/sub/deep/f", "w") as file:
        file.write("one")
    os.rename(outside, watched.path("in"))
    watched.put("k", "file:in/sub/deep/f", fetched_at=watched.clock())
    watched.write("in/sub/deep/f", "two")
    never_fresh(watched, "k")


def test_a_tree_that_was_edited_while_it_was_outside(watched: Workspace) -> None:
    """No event tells of the edit, and when the tree is back all is as it was but for it."""
    outside = os.path.join(watched.daemon.outside, os.path.basename(watched.root))
    watched.write("d/sub/f", "one")
    for key in ("file:d/sub/f", "tree:d", "glob:d/*/f"):
        watched.put(key, key, fetched_at=watched.clock())
    was = os.stat(watched.path("d/sub/f"))
    os.rename(watched.path("d"), outside)
    with open(f"{outside}/sub/f", "w") as file:
        file.write("two")
    os.utime(f"{outside}/sub/f", ns=(was.st_atime_ns, was.st_mtime_ns))
    os.rename(outside, watched.path("d"))
    never_fresh(watched, "file:d/sub/f", "tree:d", "glob:d/*/f")


def test_what_was_absent_appears_with_all_its_directories_at_once(watched: Workspace) -> None:
    """The file is there before the directory that holds it can be watched."""
    keys = [f"a{number}/b/c/f" for number in range(300)]
    for key in keys:
        watched.put(key, f"file:{key}", fetched_at=watched.clock())
    for number, key in enumerate(keys):
        os.makedirs(os.path.dirname(watched.path(key)))
        with open(watched.path(key), "w") as file:
            file.write("x")
        answer = watched.check(key, verify=("log", "auto", "content")[number % 3])
        assert (answer["verdict"], answer["why"]) == ("dirty", "created"), (number, answer)
        assert watched.verdict(key, revalidate=False) != "fresh", number


@pytest.mark.parametrize("changed", [False, True], ids=["same", "one byte"])
def test_a_tree_removed_and_made_again_at_once(watched: Workspace, *, changed: bool) -> None:
    """It is as fresh as its contents are equal: events alone say nothing of that."""
    for number in range(20):
        watched.write(f"d/{number % 4}/f{number}", f"content {number}")
    deps = ["tree:d", "glob:d/**/*", "file:d/3/f7", "dir:d/3"]
    for dep in deps:
        watched.put(dep, dep, fetched_at=watched.clock())
    shutil.copytree(os.fsdecode(watched.path("d")), os.fsdecode(watched.path("copy")))
    if changed:
        watched.write("copy/3/f7", "Content 7")
    shutil.rmtree(watched.path("d"))
    os.rename(watched.path("copy"), watched.path("d"))
    for dep in deps:
        all_say(watched, dep, "dirty" if changed and dep != "dir:d/3" else "fresh")


def test_all_that_an_atomic_change_touches(watched: Workspace) -> None:
    """A save aside and a rename over it, two names exchanged, a file that got its name when it was whole."""
    for name in ("saved", "one", "other"):
        watched.write(name, name)
    keys = ["saved", "one", "other", "nameless"]
    for key in keys:
        watched.put(key, f"file:{key}", fetched_at=watched.clock())
    watched.write(".saved.tmp", "SAVED")
    os.rename(watched.path(".saved.tmp"), watched.path("saved"))
    exchange(watched.path("one"), watched.path("other"))
    descriptor = os.open(watched.root, os.O_TMPFILE | os.O_WRONLY, 0o600)
    os.write(descriptor, b"whole")
    os.link(f"/proc/self/fd/{descriptor}", watched.path("nameless"), src_dir_fd=descriptor, follow_symlinks=True)
    never_fresh(watched, *keys)
    watched.put("nameless", "file:nameless", fetched_at=watched.clock())
    os.write(descriptor, b", and more")
    os.close(descriptor)
    never_fresh(watched, "nameless")


def test_there_and_back_again_is_fresh_and_the_clock_goes_on(watched: Workspace) -> None:
    watched.write("f", "A")
    watched.put("k", "file:f", fetched_at=watched.clock())
    before = watched.clock()
    watched.write("f", "B")
    watched.write("f", "A")
    all_say(watched, "k", "fresh")
    between = watched.clock()
    assert position(between) > position(before), "what happened is in the log all the same"
    watched.write("f", "B")
    all_say(watched, "k", "dirty")
    watched.write("f", "A")
    all_say(watched, "k", "fresh")
    assert position(watched.clock()) > position(between)


def test_what_was_absent_below_what_was_absent(watched: Workspace) -> None:
    """Another way of being absent is none that counts: it is dirty from when it can be read."""
    watched.put("k", "file:conf/x.toml", fetched_at=watched.clock())
    steps = [("mkdir conf", "fresh"), ("rmdir conf; touch conf", "fresh"), ("rm conf", "fresh")]
    steps += [("mkdir conf; ln -s nowhere conf/x.toml", "fresh"), ("touch conf/nowhere", "dirty")]
    steps += [("rm conf/nowhere", "fresh"), ("rm conf/x.toml; mkdir conf/x.toml", "dirty")]
    for script, verdict in steps:
        sh(watched, script)
        all_say(watched, "k", verdict)


def test_a_listing_is_of_names_and_types_alone(watched: Workspace) -> None:
    sh(watched, "mkdir src; touch src/a.py src/b.py src/c.txt outside.py")
    deps = ["names:src/*.py", "dir:src"]
    for script in (
        "touch src/new.py",
        "rm src/a.py",
        "mv outside.py src/",
        "mv src/b.py src/B.py",
        "rm src/B.py; mkdir src/B.py",
    ):
        for dep in deps:
            watched.put(dep, dep, fetched_at=watched.clock())
        sh(watched, script)
        never_fresh(watched, *deps)
    for dep in deps:
        watched.put(dep, dep, fetched_at=watched.clock())
    sh(watched, "echo edited > src/new.py; touch -d 2001-01-01 src/new.py; echo > src/c.txt")
    for dep in deps:
        all_say(watched, dep, "fresh")


LINKS = {
    "turned": "ln -s d2 n; mv -T n link",
    "its target edited": "echo two > d1/f",
    "its target outside edited": "echo two > out/f",
    "a link between turned": "ln -s d2 n; mv -T n between",
    "a directory between replaced by a link": "mv d1 gone; ln -s d2 d1",
    "what it led to is there now": "echo two > nowhere",
}


@pytest.mark.parametrize("change", LINKS)
def test_a_link_anywhere_on_the_way(watched: Workspace, change: str) -> None:
    """Who watches the path that was named watches none of this."""
    outside = os.path.join(watched.daemon.outside, os.path.basename(watched.root))
    sh(watched, f"mkdir d1 d2 {outside}; echo one > d1/f; echo other > d2/f; echo one > {outside}/f")
    sh(watched, f"ln -s d1 link; ln -s d1 between; ln -s between chain; ln -s nowhere dangling; ln -s {outside} out")
    deps = {
        "turned": ["file:link/f"],
        "its target edited": ["file:link/f", "file:chain/f", "tree:link", "glob:li*/f"],
        "its target outside edited": ["file:out/f", "tree:out"],
        "a link between turned": ["file:chain/f", "tree:chain"],
        "a directory between replaced by a link": ["file:link/f", "file:d1/f", "file:chain/f"],
        "what it led to is there now": ["file:dangling"],
    }[change]
    for dep in deps:
        watched.put(dep, dep, fetched_at=watched.clock())
        all_say(watched, dep, "fresh")
    sh(watched, LINKS[change])
    never_fresh(watched, *deps)


def test_what_may_not_be_read_is_neither_gone_nor_as_it_was(humble: Workspace) -> None:
    humble.write("d/f", "one")
    deps = ["file:d/f", "tree:d", "glob:d/*", "file:d/none"]
    for dep in deps:
        humble.put(dep, dep, fetched_at=humble.clock())
    os.chmod(humble.path("d"), 0)
    for dep in deps:
        all_say(humble, dep, "unknown")
        assert humble.check(dep)["why"] == "unreadable"
        assert humble.verdict(dep, revalidate=False) != "fresh"
    os.chmod(humble.path("d"), 0o755)
    for dep in deps:
        all_say(humble, dep, "fresh")
    humble.write("d/f", "two")
    never_fresh(humble, *deps[:3])


def test_without_an_instance_to_watch_with_answers_are_true_and_coverage_says_why() -> None:
    none_left = "echo 0 > /proc/sys/user/max_inotify_instances"
    if not may_confine("-Ur", none_left):
        pytest.skip("no user namespace with a limit of its own may be made here")
    daemon = Confined()
    daemon.setup = none_left
    try:
        ws = daemon.workspace()
        ws.write("f", "one")
        daemon.start()
        (root,) = daemon.ask("root.list")["roots"]
        assert (root["backend"], root["coverage"]) == ("poll", "partial")
        assert "max_user_instances" in str(root["uncovered"]) or "max_inotify_instances" in str(root["uncovered"])
        clock = daemon.clock()
        kept = [ws.dep("file:f")]
        daemon.ask("entry.put", key="k", value=1, root=ws.root, deps=kept, fetched_at=clock)
        ws.write("f", "two")
        for how in ({"verify": "log"}, {"verify": "auto"}, {"revalidate": False}):
            answer = daemon.ask("entry.check", key="k", root=ws.root, timeout_ms=60_000, **how)
            assert answer["verdict"] != "fresh", how
            assert answer["verdict"] == "dirty" or how == {"revalidate": False}, how
        assert daemon.since(clock)["complete"] is False
    finally:
        daemon.close()


def layers_are_edited(home: bytes) -> None:
    """What is below a mount of layers changes without the mount: nothing is told, and all is read."""
    for name in (b"/low", b"/up", b"/work", b"/over", b"/low/d", b"/daemon"):
        os.mkdir(home + name)
    for name in (b"/low/f", b"/low/d/f", b"/low/gone", b"/up/upper"):
        with open(home + name, "wb") as file:
            file.write(b"one")
    layers = b"lowerdir=%s/low,upperdir=%s/up,workdir=%s/work" % (home, home, home)
    mount("-t", "overlay", "overlay", "-o", layers, home + b"/over")
    daemon = Daemon(home=os.fsdecode(home + b"/daemon"), roots=[os.fsdecode(home + b"/over")])
    try:
        ws = Workspace(daemon.start().scanned(), daemon.roots[0], "")
        root = root_of(daemon, ws.root)
        assert root["coverage"] == "partial"
        deps = ["file:f", "file:upper", "file:d/f", "file:d/new", "tree:d"]
        kept = {dep: ws.digest(dep) for dep in deps}
        for dep in deps:
            ws.put(dep, dep, fetched_at=ws.clock())
            all_say(ws, dep, "fresh")
        for name in (b"/low/f", b"/low/d/f", b"/low/d/new", b"/up/upper"):
            with open(home + name, "r+b" if b"new" not in name else "wb") as file:
                file.write(b"two")
        seen = {dep: ws.digest(dep) != kept[dep] for dep in deps}
        assert any(seen.values()), "the kernel shows nothing of it: this is no story"
        for dep in deps:
            all_say(ws, dep, *(("dirty", "unknown") if seen[dep] else ("fresh",)))
    finally:
        daemon.close()


@pytest.mark.skipif(not may_mount(), reason="nothing may be mounted here")
def test_layers_that_are_edited_below_their_mount(tmp_path_factory: pytest.TempPathFactory) -> None:
    in_namespace(layers_are_edited, os.fsencode(tmp_path_factory.mktemp("layers")))


def test_a_thousand_edits_of_a_sealed_file_are_each_in_the_next_answer(own: Workspace) -> None:
    """A thousand edits, each asked about at once, of a file that had come to rest."""
    if not seals_hold(own.root):
        pytest.skip("nothing can be sealed here")
    own.write("f", "0000")
    own.put("k", "file:f")
    comes_to_be_sealed(own, "k")
    for number in range(1000):
        own.write("f", f"{number + 1:04}")
        assert own.verdict("k") == "dirty", number
        if number % 5 == 0:
            own.write("f", "0000")
            assert own.verdict("k") == "fresh", number
