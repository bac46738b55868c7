"""When a clock alone shows a dependency, and when it must not: each condition of SPEC 5, broken one at a time.

All places are made once and rest together; each test takes one of them, so that the three seconds are paid once.
"""

from __future__ import annotations

import itertools
import mmap
import os
import shutil
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, Final

import pytest
from asking import one, sh
from support import HANG, Daemon, Json, Workspace
from watching import comes_to_rest, eventually, put_by_clock, seals_hold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUICK: Final = 0.015
"""Seconds; the least step of any file system is 0.02."""

PLACES = 90
CONTENT = "content\n"


def furnish(ws: Workspace) -> None:
    """What every place holds before it rests."""
    for name in ("f", "g", "d/a", "d/b", "d/e/deep", ".git/HEAD", "h/linked"):
        ws.write(name, CONTENT)
    os.link(ws.path("h/linked"), ws.path("h/other"))
    for name, target in (("link", "f"), ("dlink", "d"), ("out", outside(ws)), ("outfile", f"{outside(ws)}/f")):
        os.symlink(target, ws.path(name))
    os.makedirs(f"{outside(ws)}/d")
    for name in ("f", "d/a"):
        with open(f"{outside(ws)}/{name}", "w") as file:
            file.write(CONTENT)


def outside(ws: Workspace) -> str:
    return os.path.join(ws.daemon.outside, ws.tag)


class Rested:
    """A daemon with places that have rested, a second root, and a root in memory."""

    def __init__(self, daemon: Daemon, memory: str) -> None:
        self.daemon = daemon
        self.memory = Workspace(daemon, memory, "memory")
        self.second = Workspace(daemon, os.path.join(daemon.home, "second"), "second")
        self.places = [Workspace(daemon, os.path.join(daemon.root, f"p{n}"), f"p{n}") for n in range(PLACES)]
        self._left = iter(self.places)

    def furnish(self) -> None:
        for ws in (*self.places, self.second):
            furnish(ws)
        self.memory.write("f", CONTENT)
        for ws in (self.second, self.memory):
            self.daemon.rpc("root.add", path=ws.root)
        self.places[0].write("probe")
        assert comes_to_rest(self.places[0], "file:probe")

    def take(self) -> Workspace:
        return next(self._left)


@pytest.fixture(scope="module")
def rested() -> Iterator[Rested]:
    daemon = Daemon()
    memory = tempfile.mkdtemp(prefix="provd-", dir="/dev/shm")
    try:
        if not seals_hold(daemon.root):
            pytest.skip("files on this file system cannot be shown to be at rest")
        rested = Rested(daemon.start().scanned(), memory)
        rested.furnish()
        yield rested
        assert daemon.alive, daemon.said()
    finally:
        shutil.rmtree(memory)
        daemon.close()


@pytest.fixture
def place(rested: Rested) -> Workspace:
    return rested.take()


def refused(ws: Workspace, dep: str, clock: str | None = None, key: str = "k") -> Json:
    """A put by a clock alone that must not be taken as shown; the entry is not fresh."""
    clock = clock or ws.clock()
    assert ws("deps.check", deps=[dep], fetched_at=clock)["verdict"] != "fresh", "what is asked at once is no better"
    answer = put_by_clock(ws, key, dep, clock=clock)
    assert answer["unproven"] == [dep], answer
    assert answer["verdict"]["verdict"] != "fresh"
    for verify in ("auto", "log", "content"):
        assert ws.verdict(key, verify=verify) != "fresh", verify
        assert ws("deps.check", deps=[dep], fetched_at=clock, verify=verify)["verdict"] != "fresh", verify
    kept = ws.found(key)
    alone = ws("deps.check", deps=[dep], fetched_at=clock)
    assert (alone["verdict"], alone["why"]) == kept
    return answer


def shown(ws: Workspace, *deps: str, clock: str | None = None) -> None:
    clock = clock or ws.clock()
    alone = ws("deps.check", deps=list(deps), fetched_at=clock)
    assert (alone["verdict"], alone["evidence"]) == ("fresh", []), alone
    answer = put_by_clock(ws, "k", *deps, clock=clock)
    assert (answer["unproven"], answer["verdict"]["verdict"]) == ([], "fresh"), answer
    assert ws.verdict("k") == "fresh"


def write(path: str | bytes, content: str) -> None:
    with open(path, "w") as file:
        file.write(content)


# ---- shown

SHOWN = [
    ("file:f", "printf other > f", "changed"),
    ("file:f", "rm f", "deleted"),
    ("file:f", "rm f; mkdir f", "type-changed"),
    ("file:link", "printf other > f", "changed"),
    ("file:link", "ln -s nowhere n; mv -T n link", "deleted"),
    ("file:dlink/a", "printf other > d/a", "changed"),
    ("file:d/e/deep", "mv d/e d/away", "deleted"),
    ("file:none", "printf x > none", "created"),
    ("file:none/below", "mkdir none; printf x > none/below", "created"),
    ("file:d/e/none", "printf x > d/e/none", "created"),
    ("dir:d", "printf x > d/new", "listing-changed"),
    ("dir:d", "rm d/b", "listing-changed"),
    ("dir:none", "mkdir none", "created"),
    ("names:d/*", "printf x > d/new", "listing-changed"),
    ("names:d/**/*", "rm d/e/deep", "listing-changed"),
    ("glob:d/*", "printf other > d/a", None),
    ("glob:d/**/deep", "printf other > d/e/deep", None),
    ("glob:none/*", "mkdir none; printf x > none/f", None),
    ("glob:no*", "printf x > none", None),
    ("tree:dlink", "printf other > d/a", None),
    ("tree:none", "mkdir none", "created"),
]


@pytest.mark.parametrize(("dep", "change", "why"), SHOWN)
def test_what_rests_is_shown_and_dirty_once_it_changed(
    place: Workspace, dep: str, change: str, why: str | None
) -> None:
    shown(place, dep)
    sh(place, change)
    answer = place.check("k")
    assert answer["verdict"] == "dirty"
    assert why is None or one(answer)["why"] == why, answer
    assert one(answer)["mutation"]


def test_a_shown_file_is_fresh_again_when_its_content_is_back(place: Workspace) -> None:
    shown(place, "file:f", "dir:d")
    sh(place, "printf other > f; touch d/new")
    assert place.verdict("k") == "dirty"
    place.write("f", CONTENT)
    os.unlink(place.path("d/new"))
    assert place.verdict("k") == "fresh"


def test_work_elsewhere_does_not_make_a_shown_put_unproven(place: Workspace) -> None:
    clock = place.clock()
    place.write("g", "changed")
    place.write("new")
    shown(place, "file:f", "file:d/a", "dir:d", "names:d/*", clock=clock)


# ---- each condition broken


@pytest.mark.parametrize("dep", ["file:f", "file:link", "glob:f*", "tree:."])
def test_written_after_the_clock(place: Workspace, dep: str) -> None:
    clock = place.clock()
    place.write("f", "other\n")
    refused(place, dep, clock)
    assert place.found("k") == ("dirty", "touched")


@pytest.mark.parametrize(
    ("dep", "script"),
    [
        ("file:f", "printf other > f; printf 'content\\n' > f"),
        ("file:f", "mv f x; mv x f"),
        ("file:f", "cp -p f x; mv x f"),
        ("file:f", "printf other > f; printf 'content\\n' > f; touch -d 2001-01-01 f"),
        ("file:link", "ln -s g n; mv -T n link; ln -s f n; mv -T n link"),
        ("file:dlink/a", "mv d x; mv x d"),
        ("file:d/e/deep", "mv d x; mv x d"),
        ("file:d/e/deep", "mv d x; mkdir -p d/e; printf other > d/e/deep; rm -r d; mv x d"),
        ("file:none", "printf x > none; rm none"),
        ("file:none/below", "mkdir none; printf x > none/below; rm -r none"),
        ("dir:d", "touch d/new; rm d/new"),
        ("names:d/*", "rm d/b; printf 'content\\n' > d/b"),
        ("glob:d/*", "printf other > d/a; printf 'content\\n' > d/a"),
        ("tree:none", "mkdir none; rmdir none"),
    ],
)
def test_changed_and_changed_back_after_the_clock(place: Workspace, dep: str, script: str) -> None:
    """The value may be that of the moment between."""
    clock = place.clock()
    sh(place, script)
    refused(place, dep, clock)
    # A name that went and came between two looks is one change of what it names: no record says that names changed.
    assert place.verdict("k") in ({"dirty", "unknown"} if dep.startswith("names:") else {"dirty"})


def test_written_after_the_clock_through_another_name(place: Workspace) -> None:
    clock = place.clock()
    write(place.path("h/other"), "other\n")
    write(place.path("h/other"), CONTENT)
    refused(place, "file:h/linked", clock)


@pytest.mark.parametrize("dep", ["file:h/linked", "glob:h/*", "tree:h"])
def test_a_file_of_two_names(place: Workspace, dep: str) -> None:
    """The other name might lie where nobody watches."""
    refused(place, dep)
    write(place.path("h/other"), "other\n")
    assert place.verdict("k") != "fresh"


@pytest.mark.parametrize("how", ["descriptor", "mapping", "mapping of a closed descriptor"])
def test_open_for_writing(place: Workspace, how: str) -> None:
    file = open(place.path("f"), "r+b")  # noqa: SIM115  held while the daemon is asked
    mapping = None if how == "descriptor" else mmap.mmap(file.fileno(), 0)
    if how == "mapping of a closed descriptor":
        file.close()
    refused(place, "file:f")
    refused(place, "glob:f*")
    if mapping is not None:
        mapping[0:1] = b"X"
        mapping.close()
    if not file.closed:
        os.pwrite(file.fileno(), b"Y", 0)
        file.close()
    assert place.verdict("k") != "fresh"


def test_a_store_through_a_live_mapping_after_the_clock(place: Workspace) -> None:
    """It moves no time and makes no event, where its page is dirty already."""
    with open(place.path("f"), "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[0:1] = b"A"
        clock = place.clock()
        mapping[0:1] = b"B"
        refused(place, "file:f", clock)
    assert place.verdict("k") != "fresh"


def test_open_for_writing_in_another_process(place: Workspace) -> None:
    holder = subprocess.Popen(
        ["bash", "-c", "exec 9<>f; echo; read -r; printf other >&9; exec 9>&-; echo; read -r"],
        cwd=place.root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdin
    assert holder.stdout
    try:
        holder.stdout.readline()
        clock = place.clock()
        refused(place, "file:f", clock)
        holder.stdin.write(b"\n")
        holder.stdin.flush()
        holder.stdout.readline()
        assert place.verdict("k") != "fresh"
        refused(place, "file:f", clock)
    finally:
        holder.communicate(b"\n", timeout=HANG)


def clock_right_after(place: Workspace, change: Callable[[], object]) -> str:
    """A clock taken sooner after a change than the step; the change is made again until that was so."""
    for _ in range(500):
        start = time.monotonic()
        change()
        clock = place.clock()
        if time.monotonic() - start < QUICK:
            return clock
    pytest.skip(f"no answer within {QUICK} s on this machine")


def test_times_younger_than_the_clock_by_less_than_the_step(place: Workspace) -> None:
    clock = clock_right_after(place, lambda: place.write("f", "just written\n"))
    refused(place, "file:f", clock)
    assert place.found("k") == ("unknown", "unproven")
    assert "the digest of what you read" in one(place("deps.check", deps=["file:f"], fetched_at=clock))["hint"]
    place.write("f", "other\n")
    assert place.verdict("k") != "fresh"


def test_times_set_to_long_ago_prove_nothing(place: Workspace) -> None:
    def change() -> None:
        place.write("f", "just written\n")
        os.utime(place.path("f"), (1, 1))

    refused(place, "file:f", clock_right_after(place, change))


def test_times_set_to_the_future(place: Workspace) -> None:
    os.utime(place.path("f"), (2**32, 2**32))
    refused(place, "file:f")


@pytest.mark.parametrize("dep", ["file:{}/f", "dir:{}/d", "glob:{}/d/*", "tree:{}", "file:{}/none"])
def test_outside_every_root(place: Workspace, dep: str) -> None:
    there = outside(place)
    dep = dep.format(there)
    refused(place, dep)
    for name in ("f", "d/a", "none", "d/new"):
        write(f"{there}/{name}", "other\n")
    assert place.verdict("k") != "fresh"


@pytest.mark.parametrize(
    "dep", ["file:out/f", "file:outfile", "dir:out/d", "glob:out/d/*", "tree:out", "file:out/none"]
)
def test_through_a_link_to_what_is_outside(place: Workspace, dep: str) -> None:
    refused(place, dep)
    for name in ("f", "d/a", "none", "d/new"):
        write(f"{outside(place)}/{name}", "other\n")
    assert place.verdict("k") != "fresh"


def test_a_set_with_a_link_to_a_file_outside(place: Workspace) -> None:
    refused(place, "glob:out*")
    write(f"{outside(place)}/f", "other\n")
    assert place.verdict("k") != "fresh"


@pytest.mark.parametrize("dep", ["file:.git/HEAD", "tree:.git", "dir:.git", "file:.git/none"])
def test_in_an_ignored_place(place: Workspace, dep: str) -> None:
    refused(place, dep)
    place.write(".git/HEAD", "other\n")
    place.write(".git/none", "other\n")
    assert place.verdict("k") != "fresh"


def test_in_memory(rested: Rested) -> None:
    """A lease granted on tmpfs proves nothing."""
    refused(rested.memory, "file:f")
    rested.memory.write("f", "other\n")
    assert rested.memory.verdict("k") != "fresh"


def test_a_gap_since_the_clock(rested: Rested) -> None:
    ws = rested.second
    assert eventually(lambda: put_by_clock(ws, "k", "file:f")["unproven"] == [])
    clock = ws.clock()
    ws.rpc("root.add", path=ws.root, ignore=["nothing-of-that-name"])
    refused(ws, "file:f", clock, "late")
    refused(ws, "file:none", clock, "none")
    shown(ws, "file:f")
    ws.write("f", "other\n")
    assert ws.verdict("k") == "dirty"


def test_a_restart_since_the_clock(rested: Rested) -> None:
    ws = rested.take()
    shown(ws, "file:f")
    clock = ws.clock()
    rested.daemon.restart()
    refused(ws, "file:f", clock, "late")
    assert ws.verdict("k") == "fresh", "kept by its digest before, and unchanged"
    assert eventually(lambda: put_by_clock(ws, "k", "file:f")["unproven"] == [])
    assert ws.verdict("k") == "fresh"
    ws.write("f", "other\n")
    assert ws.verdict("k") == "dirty"


def test_changed_while_the_daemon_was_down(rested: Rested) -> None:
    ws = rested.take()
    shown(ws, "file:f", "file:none")
    clock = ws.clock()
    rested.daemon.stop()
    ws.write("f", "other\n")
    ws.write("f", CONTENT)
    rested.daemon.start()
    assert ws.verdict("k") == "fresh", "kept by its digest, and its content is back"
    refused(ws, "file:f", clock, "late")


@pytest.mark.parametrize("race", range(10))
def test_a_write_right_before_the_put_is_never_missed(place: Workspace, race: int) -> None:
    """One connection puts, the write has just returned."""
    names = itertools.cycle(["f", "g", "d/a", "d/b"])
    clock = place.clock()
    for _ in range(4):
        name = next(names)
        place.write(name, f"other {race}\n")
        refused(place, f"file:{name}", clock)
