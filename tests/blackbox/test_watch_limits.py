"""Too few watches, and mounts over what is watched: coverage says so, and answers stay true by reading.

The daemon runs in a user namespace of its own, where limits and mounts can be set; who asks it enters the same one.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from asking import ask_from
from support import HANG, Daemon, Json, Workspace, read_dep, unwire, wire
from watching import below, gaps, paths_of

if TYPE_CHECKING:
    from collections.abc import Iterator

WATCHES = 50
LIMIT = f"echo {WATCHES} > /proc/sys/user/max_inotify_watches"


class Confined(Daemon):
    """A daemon in namespaces of its own; `setup` is run there first."""

    flags = "-Ur"
    setup = ":"

    def command(self) -> list[str]:
        script = f'{self.setup} && exec "$@"'
        return ["unshare", self.flags, "sh", "-c", script, "sh", *super().command()]

    def enter(self) -> list[str]:
        """The beginning of a command that is to run where the daemon does."""
        assert self.process is not None
        mount = ["--mount"] if "m" in self.flags else []
        return ["nsenter", "--target", str(self.process.pid), "--user", *mount, "--preserve-credentials"]

    def ask(self, method: str, **params: Json) -> Json:
        """One request from inside; raises AssertionError where it is refused."""
        (reply,) = ask_from(self.workspace(), self.enter(), "", [(method, params)])
        assert "result" in reply, reply
        return reply["result"]

    def sh(self, script: str) -> None:
        """A script that is run in the root, inside."""
        command = [*self.enter(), "bash", "-euc", f"cd {self.root}; {script}"]
        subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=HANG)

    def since(self, clock: str, *paths: str) -> Json:
        return self.ask(
            "log.since", clock=clock, paths=[os.path.join(self.root, path) for path in paths] or [self.root]
        )

    def clock(self) -> str:
        clock = self.ask("log.clock")["clock"]
        assert isinstance(clock, str)
        return clock


class Mounting(Confined):
    flags = "-Urm"


def may_confine(flags: str, script: str) -> bool:
    probe = ["unshare", flags, "sh", "-c", script]
    return subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def furnish(ws: Workspace, directories: int) -> None:
    for number in range(directories):
        ws.write(f"d{number:03}/f", "one\n")


# ---- the limit of watches


@pytest.fixture
def limited() -> Iterator[Confined]:
    if not may_confine("-Ur", LIMIT):
        pytest.skip("no user namespace with a limit of its own may be made here")
    daemon = Confined()
    daemon.setup = LIMIT
    try:
        yield daemon
        assert daemon.alive, daemon.said()
        assert "Traceback" not in daemon.said()
    finally:
        daemon.close()


def keys(count: int) -> list[str]:
    return [f"k{number}" for number in range(count)]


def put_all(daemon: Confined, count: int) -> None:
    root = daemon.root
    requests: list[tuple[str, Json]] = [
        ("entry.put", {"key": f"k{n}", "value": 1, "root": root, "deps": [read_dep(f"file:d{n:03}/f", root)]})
        for n in range(count)
    ]
    assert all("result" in reply for reply in ask_from(daemon.workspace(), daemon.enter(), "", requests))


def verdicts(daemon: Confined, count: int) -> list[str]:
    found = daemon.ask("entry.check", keys=keys(count), root=daemon.root, timeout_ms=60_000)["verdicts"]
    return [found[key]["verdict"] for key in keys(count)]


def test_with_too_few_watches_answers_are_true_and_coverage_says_why(limited: Confined) -> None:
    ws = limited.workspace()
    furnish(ws, 200)
    limited.start()
    put_all(limited, 200)
    (root,) = limited.ask("root.list")["roots"]
    assert (root["state"], root["coverage"]) == ("degraded", "partial")
    assert root["uncovered"]
    assert all(item["why"] for item in root["uncovered"])
    text = str(root["uncovered"])
    assert "max_user_watches" in text or "watches" in text, "the reason names the limit"
    clock = limited.clock()
    assert verdicts(limited, 200) == ["fresh"] * 200
    for number in range(0, 200, 2):
        ws.write(f"d{number:03}/f", "two\n")
    assert verdicts(limited, 200) == ["dirty", "fresh"] * 100
    answer = limited.since(clock)
    assert answer["complete"] is False
    assert answer["uncovered"]
    told = {unwire(r["path"]) for r in answer["records"] if r["type"] == "mutation"}
    for number in range(0, 200, 2):
        name = f"d{number:03}"
        mine = limited.since(clock, name) if number % 50 == 0 else None
        if ws.path(f"{name}/f") not in told and mine is not None:
            assert mine["complete"] is False, "what was missed is never called complete"
            assert any(below(ws.path(name), path) or below(path, ws.path(name)) for path in paths_of(mine["uncovered"]))


def test_nothing_that_is_said_to_be_covered_is_missed_under_the_limit(limited: Confined) -> None:
    """For each directory: either it is told complete and its change is in the log, or it is not complete."""
    ws = limited.workspace()
    furnish(ws, 120)
    limited.start()
    clock = limited.clock()
    for number in range(120):
        ws.write(f"d{number:03}/f", "two\n")
        ws.write(f"d{number:03}/new/g", "new\n")
    requests: list[tuple[str, Json]] = [
        ("log.since", {"clock": clock, "paths": [os.path.join(ws.root, f"d{number:03}")]}) for number in range(120)
    ]
    for number, reply in enumerate(ask_from(ws, limited.enter(), "", requests)):
        answer = reply["result"]
        told = {unwire(r["path"]) for r in answer["records"] if r["type"] == "mutation"}
        wanted = {ws.path(f"d{number:03}/f"), ws.path(f"d{number:03}/new/g")}
        assert not answer["complete"] or wanted <= told, answer


@pytest.mark.parametrize("verify", ["log", "auto", "content"])
def test_no_proof_rests_on_a_directory_without_a_watch(limited: Confined, verify: str) -> None:
    ws = limited.workspace()
    furnish(ws, 100)
    limited.start()
    put_all(limited, 100)
    for number in range(100):
        ws.write(f"d{number:03}/f", "two\n")
    found = limited.ask("entry.check", keys=keys(100), root=ws.root, timeout_ms=60_000, verify=verify)["verdicts"]
    assert {answer["verdict"] for answer in found.values()} == {"dirty"}


def test_the_limit_may_be_reached_while_it_runs(limited: Confined) -> None:
    ws = limited.workspace()
    limited.start()
    clock = limited.clock()
    furnish(ws, 200)
    put_all(limited, 200)
    answer = limited.since(clock)
    assert answer["complete"] is False
    for number in range(200):
        ws.write(f"d{number:03}/f", "two\n")
    assert set(verdicts(limited, 200)) == {"dirty"}
    (root,) = limited.ask("root.list")["roots"]
    assert root["coverage"] == "partial"
    assert gaps(limited.since(clock)["records"], ws.root)


# ---- mounts


@pytest.fixture
def mounting() -> Iterator[Mounting]:
    if not may_confine("-Urm", "mount -t tmpfs none /mnt"):
        pytest.skip("nothing may be mounted in a namespace here")
    daemon = Mounting()
    try:
        furnish(daemon.workspace(), 3)
        yield daemon.start()  # type: ignore[misc]
        assert daemon.alive, daemon.said()
        assert "Traceback" not in daemon.said()
    finally:
        daemon.close()


def put(daemon: Confined, key: str, *deps: str) -> None:
    kept = [read_dep(dep, daemon.root) for dep in deps]
    daemon.ask("entry.put", key=key, value=1, root=daemon.root, deps=kept)


def check(daemon: Confined, key: str, **params: Json) -> str:
    verdict = daemon.ask("entry.check", key=key, root=daemon.root, timeout_ms=60_000, **params)["verdict"]
    assert isinstance(verdict, str)
    return verdict


def test_a_mount_over_a_directory_is_a_gap_and_answers_are_of_what_is_mounted(mounting: Mounting) -> None:
    put(mounting, "k", "file:d001/f")
    put(mounting, "other", "file:d002/f")
    clock = mounting.clock()
    mounting.sh("mount -t tmpfs none d001")
    assert check(mounting, "k") == "dirty"
    assert check(mounting, "other") == "fresh"
    assert check(mounting, "k", verify="log") == "dirty"
    answer = mounting.since(clock, "d001")
    assert answer["complete"] is False
    (root,) = mounting.ask("root.list")["roots"]
    mount = os.fsencode(os.path.join(mounting.root, "d001"))
    if root["coverage"] == "whole":  # then what is mounted is watched like the rest
        later = mounting.clock()
        mounting.sh("printf x > d001/new")
        assert mounting.since(later, "d001")["records"]
    else:
        assert any(below(mount, path) for path in paths_of(root["uncovered"]))
    assert gaps(mounting.since(clock)["records"], mount)
    mounting.sh("printf 'one\\n' > d001/f")
    assert check(mounting, "k") == "fresh", "the same content, wherever it lies"
    mounting.sh("printf 'two\\n' > d001/f")
    assert check(mounting, "k") == "dirty"
    mounting.sh("umount d001")
    assert check(mounting, "k") == "fresh"
    assert mounting.since(clock, "d001")["complete"] is False


def test_what_is_written_below_a_mount_is_not_missed_after_it(mounting: Mounting) -> None:
    put(mounting, "k", "tree:d001")
    mounting.sh("mount -t tmpfs none d001; mkdir d001/sub; printf x > d001/sub/f; umount d001")
    assert check(mounting, "k") == "fresh"
    clock = mounting.clock()
    mounting.sh("printf 'two\\n' > d001/f")
    assert check(mounting, "k") == "dirty"
    answer = mounting.since(clock, "d001")
    told = {unwire(r["path"]) for r in answer["records"] if r["type"] == "mutation"}
    assert os.fsencode(os.path.join(mounting.root, "d001/f")) in told or answer["complete"] is False


def test_a_bind_mount_shows_the_same_files_under_two_paths(mounting: Mounting) -> None:
    mounting.sh("mkdir bound; mount --bind d002 bound")
    put(mounting, "k", "file:d002/f")
    put(mounting, "bound", "file:d002/f")
    digest = read_dep("file:d002/f", mounting.root)["digest"]
    dep = {"dep": wire("file:bound/f"), "digest": digest}
    mounting.ask("entry.put", key="bound", value=2, root=mounting.root, deps=[dep])
    assert check(mounting, "bound") == "fresh"
    mounting.sh("printf 'two\\n' > bound/f")
    for verify in ("auto", "log", "content"):
        assert check(mounting, "bound", verify=verify) == "dirty"
        assert check(mounting, "k", verify=verify) == "dirty"
