"""A daemon whose files have come to rest: what it says by their seals is what reading them says."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from asking import may_unshare, sh
from support import HANG, Daemon, Json, Workspace
from watching import seals_hold


@pytest.fixture
def rested(own: Workspace) -> Iterator[Workspace]:
    """A watched root with two entries, `k` and `both`, both of which are answered by seals."""
    if not seals_hold(own.root):
        pytest.skip("nothing can be sealed here")
    for name in ("f", "d/e/f", "d/g"):
        own.write(name, "one\n")
    own.put("k", "file:d/e/f")
    own.put("both", "file:f", "file:d/e/f")
    comes_to_be_sealed(own, "k", "both")
    yield own
    assert own.daemon.alive, own.daemon.said()
    assert "Traceback" not in own.daemon.said()


def comes_to_be_sealed(ws: Workspace, *keys: str) -> None:
    """Asks until each is answered by a seal, more than once: from then on it may be answered at once."""
    deadline = time.monotonic() + HANG
    for key in keys:
        times = 0
        while times < 3:
            answer = ws.check(key)
            assert answer["verdict"] == "fresh"
            times = times + 1 if (answer["why"], answer["checked"]) == ("untouched", "stat") else 0
            assert time.monotonic() < deadline, f"not at rest after {HANG} s"


def without_proof(answer: Json) -> Json:
    return {name: value for name, value in answer.items() if name not in {"clock", "checked", "why"}}


def test_what_seals_say_is_what_reading_says(rested: Workspace) -> None:
    both = rested("entry.check", keys=["k", "both"])["verdicts"]
    assert list(both) == ["k", "both"]
    for key in ("k", "both"):
        read = rested.check(key, verify="content")
        assert (read["why"], read["checked"]) == ("same", "content")
        for answer in (rested.check(key), both[key]):
            assert without_proof(answer) == without_proof(read)
    missing = rested("entry.check", keys=["k", "nobody"])["verdicts"]
    assert [missing[key]["verdict"] for key in missing] == ["fresh", "unknown"]


def stored(ws: Workspace) -> None:
    with open(ws.path("d/e/f"), "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        assert mapping[0]
        mapping[:3] = b"two"


def hard_linked(ws: Workspace) -> None:
    other = os.path.join(ws.daemon.outside, "other name")
    os.link(ws.path("d/e/f"), other)
    with open(other, "r+b") as file:
        file.write(b"two")


def with_its_old_time(ws: Workspace) -> None:
    was = os.stat(ws.path("d/e/f"))
    ws.write("d/e/f", "two\n")
    os.utime(ws.path("d/e/f"), ns=(was.st_atime_ns, was.st_mtime_ns))


def script(text: str) -> Callable[[Workspace], None]:
    return lambda ws: sh(ws, text)


CHANGES: dict[str, tuple[Callable[[Workspace], None], str]] = {
    "written": (script("echo two > d/e/f"), "dirty"),
    "written, old time": (with_its_old_time, "dirty"),
    "replaced": (script("echo two > d/e/n; mv d/e/n d/e/f"), "dirty"),
    "gone": (script("rm d/e/f"), "dirty"),
    "another directory": (script("mv d away; mkdir -p d/e; echo two > d/e/f"), "dirty"),
    "another directory above": (script("mv d/e away; mkdir d/e; cp -p f d/e/f; echo two >> d/e/f"), "dirty"),
    "a link on the way": (
        script("mv d away; mkdir -p ../outside/e; echo two > ../outside/e/f; ln -s ../outside d"),
        "dirty",
    ),
    "a directory": (script("rm d/e/f; mkdir d/e/f"), "dirty"),
    "stored": (stored, "dirty"),
    "by another name": (hard_linked, "dirty"),
    "replaced by the same": (script("cp d/e/f d/e/n; mv d/e/n d/e/f"), "fresh"),
    "mode": (script("chmod 600 d/e/f"), "fresh"),
    "there and back": (script("mv d away; mv away d"), "fresh"),
    "a link to the same": (script("mv d away; ln -s away d"), "fresh"),
    "another file": (script("echo two > d/g"), "fresh"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_in_the_next_answer(rested: Workspace, change: str) -> None:
    act, verdict = CHANGES[change]
    act(rested)
    assert rested.verdict("k") == verdict
    assert rested.verdict("both") == verdict
    told = rested("entry.check", keys=["both", "k"])["verdicts"]
    assert [told[key]["verdict"] for key in told] == [verdict, verdict]
    assert rested.verdict("k", verify="content") == verdict
    if verdict == "fresh":
        comes_to_be_sealed(rested, "k", "both")


def test_there_and_back_again_many_times(rested: Workspace) -> None:
    """Each question right after a change, whatever is still waiting to be heard."""
    path, away = rested.path("d"), rested.path("away")
    for _ in range(50):
        os.rename(path, away)
        assert rested.verdict("k") == "dirty"
        os.rename(away, path)
        assert rested.verdict("k") == "fresh"
        assert rested.verdict("k") == "fresh"


def test_a_put_counts_at_once(rested: Workspace) -> None:
    rested.put("k", "file:d/e/f", "file:none")
    rested.write("none")
    assert rested.verdict("k") == "dirty"
    version = rested.put("k", "file:d/e/f")["version"]
    comes_to_be_sealed(rested, "k")
    assert rested.check("k")["version"] == version
    rested("entry.forget", key="k")
    assert rested.verdict("k") == "unknown"
    assert rested.verdict("both") == "fresh"


def test_a_new_daemon_reads_before_it_believes(rested: Workspace) -> None:
    rested.daemon.restart().scanned()
    first = rested.check("k")
    assert (first["verdict"], first["why"], first["checked"]) == ("fresh", "same", "content")
    comes_to_be_sealed(rested, "k")


def test_what_changed_while_nobody_was_there_is_seen(rested: Workspace) -> None:
    rested.daemon.stop()
    with_its_old_time(rested)
    rested.daemon.start()
    assert rested.verdict("k") == "dirty"


def test_who_has_it_open_for_writing_is_believed_by_reading_alone(rested: Workspace) -> None:
    """The last store moves no time: it was made through a mapping that lived when the file was read."""
    with open(rested.path("d/e/f"), "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
    mapping[0] = mapping[0]
    for _ in range(20):
        assert rested.check("k")["checked"] == "content"
    mapping[:3] = b"two"
    assert rested.verdict("k") == "dirty"
    mapping.close()


def test_memory_is_always_read(daemon: Daemon) -> None:
    ws = daemon.scanned().workspace()
    path = f"/dev/shm/provd-{os.getpid()}"
    if not os.access("/dev/shm", os.W_OK) or seals_hold("/dev/shm"):
        pytest.skip("/dev/shm is no tmpfs here")
    ws.write("f", "one\n")
    ws.put("old", "file:f")
    try:
        with open(path, "wb") as new:
            new.write(b"one")
        ws.put("k", f"file:{path}")
        if seals_hold(ws.root):
            comes_to_be_sealed(ws, "old")
        assert ws.check("k")["checked"] == "content"
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
            assert mapping[0]
            mapping[:3] = b"two"
            assert ws.verdict("k") == "dirty"
    finally:
        os.unlink(path)


def test_writers_of_a_file_that_is_sealed_never_fail(rested: Workspace) -> None:
    """Nor does the daemon, whose leases they break."""
    program = "import os, sys\nprint(flush=True)\nfor _ in range(2000): os.close(os.open(sys.argv[1], os.O_WRONLY))\n"
    with subprocess.Popen([sys.executable, "-c", program, rested.path("f")], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        while writer.poll() is None:
            assert rested.verdict("both", verify="content") == "fresh"
    assert writer.returncode == 0


def test_a_file_mounted_over_a_file_is_in_the_next_answer() -> None:
    """In a mount namespace of its own, with who asks."""
    if not may_unshare():
        pytest.skip("nothing may be mounted here")
    program = "import test_seals_blackbox as t; t.mounts_over_a_file()"
    paths = [os.path.dirname(__file__), os.path.dirname(os.path.dirname(__file__)), *sys.path]
    done = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def mounts_over_a_file() -> None:
    daemon = Daemon()
    try:
        ws = daemon.start().scanned().workspace()
        if not seals_hold(ws.root):
            return
        ws.write("f", "one\n")
        ws.write("g", "two\n")
        ws.put("k", "file:f")
        comes_to_be_sealed(ws, "k")
        sh(ws, "mount --bind g f")
        assert ws.verdict("k") == "dirty"
        sh(ws, "umount f")
        assert ws.check("k")["checked"] == "content", "whatever was known before proves nothing"
        comes_to_be_sealed(ws, "k")
        sh(ws, "mount -t tmpfs none /mnt")
        assert ws.check("k")["checked"] == "content"
    finally:
        daemon.close()
