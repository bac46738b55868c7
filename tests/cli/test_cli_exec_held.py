"""exec beside a daemon that ends or refuses, and beside others at work: what it declared is its own, and not lost."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest
from executing import EXEC, actions, own
from real_cli import RealCli, cli
from support import HANG

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["cli", "own"]


def test_without_a_daemon_it_is_not_run(own: RealCli) -> None:
    own.daemon.stop()

    got = own.process("exec", "--", "touch", "made", code=3)

    assert "; the command was not run\n  next: provd start  # or run it with --anyway" in got.err
    assert "or run it with --anyway" in got.err
    assert not os.path.exists(os.path.join(own.root, "made"))
    assert (
        "it is run all the same" in own.process("exec", "--anyway", "--", "sh", "-c", "touch made; exit 4", code=4).err
    )
    assert os.path.exists(os.path.join(own.root, "made"))


def test_refused_it_is_not_run(cli: RealCli) -> None:
    got = cli.process("exec", "--if-usable", "none", "--anyway", "--", "touch", "made", code=5)

    assert "not usable: none (no-entry)" in got.err
    assert "the objects" not in got.err
    assert "the command was not run [action.stale]\n  next: c=$(provd clock)  # look again" in got.err
    assert not os.path.exists(os.path.join(cli.root, "made"))


def test_a_daemon_that_ends_meanwhile_changes_no_exit_code(own: RealCli) -> None:
    assert own.daemon.process is not None

    kill = f"echo 2 > q; kill -9 {own.daemon.process.pid}; exit 6"
    got = own.process("exec", "--", "sh", "-c", kill, code=6)

    assert "what it changed is not known: the daemon at" in got.err
    step = next(line for line in got.err.splitlines() if line.startswith("  next: provd since "))
    own.daemon.kill9()
    own.daemon.start().scanned()
    assert f"{own.root}/q" in own(*shlex.split(step.removeprefix("  next: provd "), comments=True)).out


def test_more_than_can_be_named_is_not_kept(cli: RealCli) -> None:
    clock = cli("clock").out.strip()

    got = cli.process("exec", "--", sys.executable, "-c", "for n in range(1001): open(f'f{n}', 'w').close()")

    assert "1001 paths changed" in got.err
    assert "  and 991 more\n  next: provd since c:" in got.err
    assert "nor is it looked what rests on them" in got.err
    assert [record["event"] for record in actions(cli, clock)] == ["begin", "end"]


@contextlib.contextmanager
def _waiting(cli: RealCli, *options: str, then: str, first: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command under `exec` that has said `ready`, does what comes `first`, and `then` when a byte comes."""
    pipe = os.path.join(cli.daemon.home, f"go-{len(os.listdir(cli.daemon.home))}")
    os.mkfifo(pipe)
    command = [*EXEC, *options, "--", "sh", "-c", f"echo ready; {first} read go <{pipe}; {then}"]
    process = subprocess.Popen(
        command, cwd=cli.root, env=cli.environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        yield process, pipe
    finally:
        process.kill()
        both = os.open(pipe, os.O_RDWR)  # nobody goes on waiting for it
        os.write(both, b"\n")
        process.communicate()
        os.close(both)


def _go(process: subprocess.Popen[str], pipe: str) -> str:
    """Lets it go on, until it has ended; what it said on stderr."""
    with open(pipe, "w", encoding="utf-8") as file:
        file.write("\n")
    said = process.communicate(timeout=HANG)[1]
    assert isinstance(said, str)
    return said


def _on_object(cli: RealCli, key: str) -> str:
    """Puts an entry that rests on `object:db`, looked at now; its verdict."""
    clock = cli.daemon.rpc("log.clock")["clock"]
    cli.daemon.rpc("entry.put", key=key, scope="s", value=1, deps=["object:db"], fetched_at=clock)
    return _of_object(cli, key)


def _of_object(cli: RealCli, key: str) -> str:
    told = cli.daemon.rpc("entry.check", key=key, scope="s")["verdict"]
    assert isinstance(told, str)
    return told


@pytest.mark.parametrize(("orderly", "options"), [(True, []), (False, []), (False, ["--if-usable", "plan"])])
def test_a_write_goes_on_over_the_end_of_the_daemon(own: RealCli, orderly: bool, options: list[str]) -> None:
    own("put", "plan", "--value", "v", "--no-deps")
    with _waiting(own, "--write", "object:db", *options, then="exit 3") as (process, pipe):
        begun = own.daemon.rpc("action.list")["actions"][0]["id"]
        if orderly:
            own.daemon.restart()
        else:
            own.daemon.kill9()
            own.daemon.start()
        assert _on_object(own, "during") == "dirty"
        _go(process, pipe)
        assert process.returncode == 3

    assert own.daemon.rpc("action.list")["actions"] == []
    assert _of_object(own, "during") == "dirty"
    assert _on_object(own, "after") == "fresh"
    assert _ends(own) == [(begun, "failed")]


def test_a_write_counts_until_the_command_ends_whoever_ended_it(cli: RealCli) -> None:
    with _waiting(cli, "--write", "object:db", then="true") as (process, pipe):
        begun = cli.daemon.rpc("action.list")["actions"][0]["id"]
        cli.daemon.rpc("action.end", id=begun, outcome="aborted")
        assert _on_object(cli, "between") == "fresh"
        assert "done" in _go(process, pipe)
        assert process.returncode == 0

    assert _of_object(cli, "between") == "dirty"


@pytest.mark.parametrize(("script", "code"), [("exit 0", 5), ("exit 6", 6)])
def test_a_write_that_could_not_be_recorded_is_told_and_no_success(
    own: RealCli, monkeypatch: pytest.MonkeyPatch, script: str, code: int
) -> None:
    monkeypatch.setattr("provd.cli.processes.held._PATIENCE", 0.0)
    pid = own.daemon.process.pid if own.daemon.process else 0

    got = own("exec", "--write", "object:db", "--", "sh", "-c", f"kill -9 {pid}; {script}", code=code)

    told = re.search(r"the log has that action (\d+) began to write object:db, and not that it ended: ", got.err)
    assert told is not None
    outcome = "failed" if code == 6 else "done"
    step = f"provd action end {told[1]} --outcome {outcome}"
    assert f"  next: provd start && {step}  # what rests on it is dirty until then" in got.err
    own.daemon.kill9()
    own.daemon.start()
    assert _on_object(own, "after") == "dirty"  # it is held until it is known that nobody holds it
    own(*step.split()[1:])
    assert _ends(own) == [(int(told[1]), outcome)]
    assert _on_object(own, "later") == "fresh"


_MARK: Final = f"{sys.executable} -m provd action record --write object:mark >/dev/null"
"""Leaves a record in the log, from which it can be told whether the action had ended before."""


def _killed(process: subprocess.Popen[str], pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    if pid == process.pid:
        process.wait(HANG)


def _go_alone(cli: RealCli, pipe: str) -> list[tuple[str, str | None]]:
    """Lets a command go on that nobody waits for, until its action has ended: what actions came to, in order."""
    with open(pipe, "w", encoding="utf-8") as file:
        file.write("\n")
    deadline = time.monotonic() + HANG
    while cli.daemon.rpc("action.list")["actions"]:
        assert time.monotonic() < deadline
    records = cli.daemon.rpc("log.since", last=1000)["records"]
    return [(record["event"], record.get("outcome")) for record in records if record["type"] == "action"]


@pytest.mark.parametrize("declared", [True, False])
def test_killed_its_action_goes_on_until_the_command_has_ended(own: RealCli, *, declared: bool) -> None:
    options = ["--write", "object:db"] if declared else []
    with _waiting(own, *options, then=_MARK) as (process, pipe):
        _killed(process, process.pid)
        if declared:
            assert _on_object(own, "during") == "dirty"

        assert _go_alone(own, pipe) == [("begin", None), ("record", "done"), ("end", "failed")]

    if declared:
        assert _of_object(own, "during") == "dirty"
        assert _on_object(own, "after") == "fresh"


@pytest.mark.parametrize("again", [True, False])
def test_killed_its_action_goes_on_over_the_end_of_the_daemon(own: RealCli, *, again: bool) -> None:
    with _waiting(own, "--write", "object:db", then=_MARK) as (process, pipe):
        if again:  # then the connection is another one than that of the beginning
            own.daemon.restart()
            _held_anew(own)
        _killed(process, process.pid)
        if not again:
            own.daemon.kill9()
            own.daemon.start()
        _held_anew(own)
        assert _on_object(own, "during") == "dirty"

        came_to = _go_alone(own, pipe)
        assert came_to == [("begin", None), ("record", "done"), ("end", "failed")]  # it was open all the time

    assert _of_object(own, "during") == "dirty"


_NOT_TOLD: Final = """
import os, signal
from provd.cli.processes import child
told, child._next_signal = child._next_signal, lambda: (signal.SIGTERM, True, None)
with child.blocked() as mask:
    pid = child.start(["tail", "-f", "/dev/null"], mask)
    handed = os.kill
    def kill(*given):
        child._next_signal = told
        handed(*given)
    os.kill = kill
    print(child.wait_for(pid, sender=os.getppid()))
"""


def test_a_signal_is_handed_on_where_nobody_tells_who_sent_it(cli: RealCli) -> None:
    """As on a Mac. Broken: exec can be ended there, and its command never hears of it."""
    done = subprocess.run(
        [sys.executable, "-c", _NOT_TOLD],
        stdin=subprocess.PIPE,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )
    assert (done.stdout, done.stderr) == (f"{-signal.SIGTERM}\n", "")


def test_a_name_that_is_longer_than_a_pipe_is_refused(cli: RealCli) -> None:
    """Broken: the keeper waits for ever until somebody reads what it says, and exec for the keeper."""
    got = cli.process("exec", "--", "a" * 100_000, code=126)

    assert "a" * 100 in got.err
    assert "Traceback" not in got.err


def _held_anew(cli: RealCli) -> None:
    """Waits until who holds the action holds it over a connection to the daemon of now."""
    deadline = time.monotonic() + HANG
    while not (there := cli.daemon.rpc("action.list")["actions"]) or there[0].get("waiting"):
        assert time.monotonic() < deadline


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux alone")
def test_where_its_keeper_is_killed_it_waits_for_the_command_itself(own: RealCli) -> None:
    with _waiting(own, "--write", "object:db", then=_MARK, first="echo $PPID;") as (process, pipe):
        assert process.stdout is not None
        _killed(process, int(process.stdout.readline()))
        assert _on_object(own, "during") == "dirty"
        said = _go(process, pipe)

    assert process.returncode == 128 + signal.SIGKILL
    assert "failed" in said
    assert "still run" not in said
    records = own.daemon.rpc("log.since", last=1000)["records"]
    assert [record["event"] for record in records if record["type"] == "action"] == ["begin", "record", "end"]


def _ends(cli: RealCli) -> list[tuple[int, str]]:
    """Which actions have ended, and how."""
    records = cli.daemon.rpc("log.since", last=1000)["records"]
    return [(end["id"], end["outcome"]) for end in records if end.get("event") == "end"]


@pytest.mark.parametrize("orderly", [True, False])
def test_what_declared_nothing_is_held_over_the_end_of_the_daemon_too(own: RealCli, orderly: bool) -> None:
    """Else the log would say that a command failed which did well."""
    with _waiting(own, then="exit 0") as (process, pipe):
        begun = own.daemon.rpc("action.list")["actions"][0]["id"]
        if orderly:
            own.daemon.restart()
        else:
            own.daemon.kill9()
            own.daemon.start()
        said = _go(process, pipe)

    assert process.returncode == 0
    assert f"action {begun} done" in said
    assert _ends(own) == [(begun, "done")]


def test_of_two_at_once_that_say_nothing_neither_gets_what_changed(cli: RealCli) -> None:
    clock = cli("clock").out.strip()
    with (
        _waiting(cli, "--session", "s1", then="echo 1 >one") as (first, pipe),
        _waiting(cli, "--session", "s2", then="echo 2 >two") as (second, other),
    ):
        ids = [item["id"] for item in cli.daemon.rpc("action.list")["actions"]]
        said = [_go(second, other), _go(first, pipe)]

    for text, number, session in zip(said, ids, ("s1", "s2"), strict=True):
        others = f"others were at work (action {number} of session {session})"
        assert f"  {others}, so none of it is kept as its doing: --write names what is" in text
    assert [action["event"] for action in actions(cli, clock)] == ["begin", "begin", "end", "end"]


def test_what_another_declared_afterwards_is_not_its_doing(cli: RealCli) -> None:
    clock = cli("clock").out.strip()
    record = f"{sys.executable} -m provd action record --write theirs --session s2 >/dev/null"

    cli.process("exec", "--session", "s1", "--", "sh", "-c", f"echo 1 >theirs; {record}; echo 2 >mine")

    records = [action for action in actions(cli, clock) if action["event"] == "record"]
    assert [(r["session"], r["paths"]) for r in records] == [
        ("s2", [f"{cli.root}/theirs"]),
        ("s1", [f"{cli.root}/mine"]),
    ]
    begun = next(action for action in actions(cli, clock) if action["event"] == "begin")
    assert records[1]["note"] == f"changed while action {begun['id']} ran"


def test_who_says_what_it_writes_gets_nothing_else(cli: RealCli) -> None:
    clock = cli("clock").out.strip()

    got = cli.process("exec", "--write", "object:db", "--", "sh", "-c", "echo 1 >file")

    assert "1 path changed meanwhile" in got.err
    assert [action["event"] for action in actions(cli, clock)] == ["begin", "end"]


def test_a_command_is_needed(cli: RealCli) -> None:
    assert "Missing argument 'CMD...'" in cli("exec", code=2).err
