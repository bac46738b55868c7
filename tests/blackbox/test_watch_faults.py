"""Faults that are not the watcher's: closed directories, no descriptors, long paths, a full disk: all told, all end.

What cannot be looked at is never told as deleted, and never as complete; once it can be, log and disk agree again.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from typing import TYPE_CHECKING

import pytest
from asking import code, may_unshare
from humble import humble
from support import HANG, Daemon, Workspace, records_since, unwire
from watching import below, eventually, gaps, mutations, paths_of, root_of, since, told

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["humble"]


def is_whole(ws: Workspace) -> bool:
    root = root_of(ws.daemon)
    return (root["state"], root["coverage"]) == ("watching", "whole")


def agrees(ws: Workspace) -> None:
    """All is watched again, soon; then the log knows what is there, and is told what happens."""
    assert eventually(lambda: is_whole(ws), HANG), root_of(ws.daemon)
    assert ws.rpc("daemon.audit")["mismatches"] == []


@pytest.mark.parametrize("closed", ["d/e", "d", ""])
def test_what_happens_in_a_directory_that_was_closed_is_no_deletion_and_is_found_when_it_opens(
    humble: Workspace, closed: str
) -> None:
    ws, directory = humble, os.fsdecode(humble.path(closed))
    clock = ws.clock()
    os.chmod(directory, 0)
    ws.write("d/e/f", "22")
    ws.write("d/e/new/g", "3")
    answer = since(ws, clock)
    assert answer["complete"] is False
    assert "deleted" not in [kind for kind, _ in told(ws, clock)]
    assert not is_whole(ws)
    later = ws.clock()
    ws.write("d/e/f", "333")
    assert since(ws, later)["complete"] is False
    os.chmod(directory, 0o755)
    agrees(ws)
    later = ws.clock()
    ws.write("d/e/new/g", "44")
    assert ("modified", b"d/e/new/g") in told(ws, later)
    assert since(ws, later)["complete"] is True


def test_new_directories_are_watched_once_there_are_descriptors_again(own: Workspace) -> None:
    process = own.daemon.process
    assert process is not None
    clock = own.clock()
    before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        for number in range(20):
            own.write(f"d{number}/e/f", "1")
        answer = since(own, clock)
        assert answer["complete"] is False
        assert "descriptors" in str(answer["uncovered"])
    finally:
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
    agrees(own)
    later = own.clock()
    for number in range(20):
        own.write(f"d{number}/e/f", "22")
    assert {path for _, path in told(own, later)} == {b"d%d/e/f" % number for number in range(20)}
    assert since(own, later)["complete"] is True


def test_what_lies_deeper_than_a_path_can_say_is_uncovered(own: Workspace) -> None:
    """The directories below can be watched, but nobody can look at what their events name."""
    clock = own.clock()
    at = os.open(own.root, os.O_RDONLY)
    with contextlib.ExitStack() as opened:
        opened.callback(lambda: os.close(at))
        for _ in range(20):
            os.mkdir(b"x" * 250, dir_fd=at)
            at, above = os.open(b"x" * 250, os.O_RDONLY, dir_fd=at), at
            os.close(above)
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=at))
        answer = since(own, clock)
        assert answer["complete"] is False
        (place,) = paths_of(answer["uncovered"])
        assert len(place) >= 4096
        assert below(place, own.root)
        assert not any(unwire(record["path"]).startswith(place + b"/") for record in mutations(own, clock))
        assert gaps(answer["records"], place)
    later = own.clock()
    own.write("short/f", "1")
    assert since(own, later, "short")["complete"] is True, "the rest of the root is as before"
    assert own.rpc("daemon.audit")["mismatches"] == []


class Cramped(Daemon):
    """A daemon whose store lies on a small file system of its own namespace."""

    def command(self) -> list[str]:
        os.makedirs(self.state, exist_ok=True)
        script = f'mount -t tmpfs -o size=24m none {self.state} && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", script, "sh", *super().command()]

    def inside(self, script: str) -> None:
        assert self.process is not None
        command = ["nsenter", "--target", str(self.process.pid), "--mount", "sh", "-euc", f"cd {self.state}; {script}"]
        subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=HANG)


def test_what_a_full_disk_kept_out_of_the_log_is_a_gap_once_and_is_found_when_asked() -> None:
    """An almost full one takes gaps and nothing else: they must not fill it, nor put off the scan for long."""
    if not may_unshare():
        pytest.skip("no mount namespace may be made here")
    daemon = Cramped()
    try:
        ws = daemon.start().scanned().workspace()
        clock = ws.clock()
        daemon.inside("fallocate -l $(($(stat -f -c '%a*%S' .) - 300000)) fill")
        for number in range(3000):
            ws.write(f"d{number % 20}/f{number}", b"%d" % number)
        assert since(ws, clock)["complete"] is False
        assert code(ws.rpc, "entry.put", key="k", value="x" * 400_000, deps=[], root=daemon.root) == "store.full"
        daemon.inside("rm fill")
        assert ws.rpc("daemon.audit")["mismatches"] == []
        assert 1 <= len(gaps(records_since(ws.rpc, clock), ws.root)) <= 100
        assert ws.put("k")["version"]
        assert daemon.said().count("could not be written") <= 100
        assert "Traceback" not in daemon.said()
    finally:
        daemon.close()


def test_the_audit_leaves_the_daemons_own_socket_out(make_daemon: Callable[..., Daemon]) -> None:
    daemon = make_daemon()
    daemon.socket, daemon.state = os.path.join(daemon.root, "s.sock"), os.path.join(daemon.root, "state")
    ws = daemon.start().scanned().workspace()
    ws.write("f", "1")
    answer = ws.rpc("daemon.audit")
    assert (answer["files"], answer["mismatches"], answer["skipped"]["count"]) == (1, [], 0)


class Mute(Cramped):
    """And whose standard error takes nothing, as on the same full disk, or when its terminal is gone."""

    def command(self) -> list[str]:
        return ["sh", "-c", 'exec "$@" 2>/dev/full', "sh", *super().command()]


def test_nothing_depends_on_what_is_said_on_standard_error() -> None:
    if not may_unshare():
        pytest.skip("no mount namespace may be made here")
    daemon = Mute()
    try:
        ws = daemon.start().scanned().workspace()
        clock = ws.clock()
        daemon.inside("fallocate -l $(($(stat -f -c '%a*%S' .) - 300000)) fill")
        for number in range(1000):
            ws.write(f"d{number % 20}/f{number}", b"%d" % number)
        assert since(ws, clock)["complete"] is False
        daemon.inside("rm fill")
        assert ws.rpc("daemon.audit")["mismatches"] == []
        assert gaps(records_since(ws.rpc, clock), ws.root)
        assert daemon.stop() == 0
    finally:
        daemon.close()
