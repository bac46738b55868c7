"""exec: the command is run as if nobody stood between, and what it changed is kept as its doing."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import stat
import subprocess
import sys
from typing import IO, TYPE_CHECKING, Any, Final

import pytest
from executing import EXEC, actions
from real_cli import RealCli, cli
from support import HANG, records_since

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["cli"]

_WAITER: Final = """
import signal, sys
def told(number, frame):
    print("got", signal.Signals(number).name, flush=True)
    sys.exit(9)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, told)
print("ready", flush=True)
signal.pause()
"""
_COUNTER: Final = """
import os, signal
os.setpgid(0, 0)
reading, writing = os.pipe()
os.set_blocking(writing, False)
signal.set_wakeup_fd(writing)
count = []
signal.signal(signal.SIGINT, lambda *_: count.append(print("told", flush=True)))
signal.signal(signal.SIGUSR1, lambda *_: None)
print("ready", flush=True)
while os.read(reading, 1)[0] != signal.SIGUSR1:
    pass
print("count", len(count), flush=True)
"""


@contextlib.contextmanager
def _started(cli: RealCli, *command: str, **how: Any) -> Iterator[subprocess.Popen[str]]:
    """A command under `exec`, when it has said `ready`."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = cli.environment()
    process = subprocess.Popen(
        [*EXEC, "--", *command], cwd=cli.root, env=environment, text=True, start_new_session=True, **(pipes | how)
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the command too, which else would keep the streams open
        process.communicate()


def test_its_streams_are_the_commands_own(cli: RealCli) -> None:
    got = cli.process("exec", "-q", "--", "sh", "-c", "cat; echo err >&2", stdin="in\n")

    assert (got.out, got.err) == ("in\n", "err\n")


def test_other_descriptors_are_handed_on(cli: RealCli) -> None:
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8") as told:
        command = [*EXEC, "-q", "--", sys.executable, "-c", f"import os; os.write({writing}, b'here\\n')"]
        subprocess.run(command, env=cli.environment(), pass_fds=[writing], timeout=HANG, check=True)
        os.close(writing)
        assert told.read() == "here\n"


def test_a_closed_stdout_is_closed_for_the_command_too(cli: RealCli) -> None:
    script = f"{' '.join(EXEC)} -q -- sh -c 'echo x 2>/dev/null || exit 44' >&-"
    done = subprocess.run(["sh", "-c", script], env=cli.environment(), timeout=HANG, check=False)

    assert done.returncode == 44


@pytest.mark.parametrize(
    ("command", "code", "outcome"),
    [
        (["true"], 0, "done"),
        (["sh", "-c", "exit 7"], 7, "failed"),
        (["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM, "failed"),
        (["sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL, "failed"),
        (["no-such-command"], 127, "aborted"),
        (["./plain"], 126, "aborted"),
        (["plain/none"], 127, "aborted"),
    ],
)
def test_its_exit_code_is_the_commands(cli: RealCli, command: list[str], code: int, outcome: str) -> None:
    cli.write("plain", "not to be run\n")
    clock = cli("clock").out.strip()

    cli.process("exec", "--session", "s1", "--turn", "4", "--note", "why", "--", *command, code=code)

    begin, end = actions(cli, clock)
    assert (begin["event"], begin["session"], begin["turn"], begin["note"]) == ("begin", "s1", 4, "why")
    assert (end["event"], end["id"], end["outcome"]) == ("end", begin["id"], outcome)
    assert cli.daemon.rpc("action.list")["actions"] == []


def test_what_could_not_be_started_says_what_to_do(cli: RealCli) -> None:
    assert "cannot run 'none': " in (said := cli.process("exec", "--", "none", code=127).err)
    assert "\n  next: printenv PATH  # " in said
    assert "\n  next: ls /none  # correct the path" in cli.process("exec", "--", "/none/here", code=127).err
    cli.write("script", "#!/none/here\n")
    os.chmod(os.path.join(cli.root, "script"), 0o700)
    assert "\n  next: head -n1 ./script  # its first line (#!)" in cli.process("exec", "--", "./script", code=127).err


@pytest.mark.parametrize("arguments", [["echo", "-n", "--json"], ["--", "echo", "-n", "--json"]])
def test_options_behind_the_command_are_the_commands(cli: RealCli, arguments: list[str]) -> None:
    assert cli.process("exec", "-q", *arguments).out == "--json"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"])
def test_signals_for_us_are_for_the_command(cli: RealCli, name: str) -> None:
    with _started(cli, sys.executable, "-c", _WAITER) as process:
        process.send_signal(getattr(signal, name))
        out, _ = process.communicate(timeout=HANG)

    assert (out, process.returncode) == (f"got {name}\n", 9)


def test_ctrl_c_is_for_the_terminal_to_send(cli: RealCli) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [*EXEC, "-q", "--", sys.executable, "-c", _COUNTER], cli.environment())
    with open(terminal, "r+b", buffering=0) as line:
        _until(line, b"ready")
        line.write(b"\x03")
        _until(line, b"^C")
        os.kill(pid, signal.SIGUSR1)  # whatever would be handed on of Ctrl-C is handed on before this
        _until(line, b"count ")
        told = line.read(1)
        os.waitpid(pid, 0)
    assert told == b"0"  # the command has left our process group, so it hears of it by nobody but us


def test_a_terminal_that_goes_away_ends_the_command(cli: RealCli) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        script = "import signal; print('ready', flush=True); signal.pause()"
        os.execve(sys.executable, [*EXEC, "-q", "--", sys.executable, "-c", script], cli.environment())
    with open(terminal, "r+b", buffering=0) as line:
        _until(line, b"ready\r\n")  # all that is written is taken: a write that was cut short would be another end
    try:
        _, status = os.waitpid(pid, 0)
    except BaseException:
        os.killpg(pid, signal.SIGKILL)
        raise

    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGHUP


def _until(line: IO[bytes], word: bytes) -> bytes:
    """What a terminal shows, until a word of it."""
    said = b""
    while word not in said:
        said += line.read(1)
    return said


def test_what_changed_is_kept_as_its_doing(cli: RealCli) -> None:
    cli.write("f", "one\n")
    cli.write("g", "one\n")
    cli("clock")  # all of that is recorded
    for name in ("f", "g"):
        cli("put", name, "--value", "v", "--dep", name, "--as-of-now")
    clock = cli("clock").out.strip()

    got = cli.process("exec", "--session", "s1", "--", "sh", "-c", "echo two > f; echo new > made")

    root = cli.root
    assert "): 2 paths changed meanwhile\n" in got.err
    assert f"  modified {root}/f\n" in got.err
    assert f"  created {root}/made\n" in got.err
    assert got.err.splitlines()[-1] == "  dirty now: f"
    declared = next(record for record in actions(cli, clock) if record["event"] == "record")
    assert (declared["session"], declared["outcome"]) == ("s1", "done")
    assert sorted(declared["writes"]) == [f"file:{root}/f", f"file:{root}/made"]
    begun = next(record for record in actions(cli, clock) if record["event"] == "begin")
    assert f"provd: action {declared['id']} done (begun as record {begun['id']}): " in got.err, "who has the paths"
    why = " ".join(cli("why", "f", code=1).out.split())
    assert (
        f"(declared afterwards by action {declared['id']}, session s1, note changed while action {begun['id']} ran)"
        in why
    )
    assert "where nobody is named" not in why
    assert f"touched by action {declared['id']} declared afterwards at " in why


def test_a_command_that_wrote_nothing_is_not_what_made_it_dirty(cli: RealCli) -> None:
    cli.write("f", "one\n")
    cli("clock")
    cli("put", "k", "--value", "v", "--dep", "f", "--as-of-now")
    cli.write("f", "two\n")
    cli("clock")

    cli.process("exec", "--write", "f", "--session", "idle", "--", "true")

    why = " ".join(cli("why", "k", code=1).out.split())
    assert "touched by record " in why
    assert "touched by action" not in why


def test_what_somebody_else_changed_stays_nobodys(cli: RealCli) -> None:
    cli.write("f", "one\n")
    cli("clock")
    cli("put", "f", "--value", "v", "--dep", "f", "--as-of-now")
    cli.process("exec", "--session", "s1", "--", "sh", "-c", "echo two > f")
    cli.write("f", "three\n")

    told = cli("why", "f", code=1).out

    assert told.count("declared afterwards by") == 1
    assert "where nobody is named, no action declared it" in told


def test_nothing_else_counts_as_written(cli: RealCli) -> None:
    cli.write("f", "one\n")
    cli.write("g", "one\n")
    clock = cli("clock").out.strip()
    cli("put", "g", "--value", "v", "--dep", "g", "--as-of-now")
    cli("put", "unproven", "--value", "v", "--dep", "g", "--fetched-at", clock)

    cli.process("exec", "--", "sh", "-c", "echo two > f")

    assert cli("check", "g", "--verify", "content", "--json").json["verdict"] == "fresh"
    assert "(touched)" not in cli.process("check", "g", "--no-revalidate").out  # sealed by now, or unproven
    assert "dirty" not in cli("check", "g").out


def test_a_declared_place_is_its_doing_as_it_happens(cli: RealCli) -> None:
    os.mkdir(os.path.join(cli.root, "src"))
    cli.write("src/f", "one\n")
    cli("put", "f", "--value", "v", "--dep", "src/f", "--as-of-now")
    clock = cli("clock").out.strip()

    got = cli.process("exec", "--write", "src", "--session", "s1", "--", "sh", "-c", "echo two > src/f; echo 2 > other")

    assert "1 path changed\n" in got.err
    assert got.err.splitlines()[-1] == "  dirty now: f"
    found = [record for record in records_since(cli.daemon.rpc, clock) if record["type"] == "mutation"]
    actors = {os.path.basename(record["path"]): record["actor"] for record in found}
    assert actors["f"]["session"] == "s1"
    assert actors["other"] == {"unknown": True}
    assert [record["event"] for record in actions(cli, clock)] == ["begin", "end"]


def test_objects_are_written_from_begin_to_end(cli: RealCli) -> None:
    cli("put", "o", "--value", "3", "--dep", "object:exec", "--fetched-at", cli("clock").out.strip())

    cli.process("exec", "--write", "object:exec", "--", "true")

    assert "(written)" in cli("check", "o", code=1).out


def test_nothing_changed(cli: RealCli) -> None:
    assert (
        f"done: nothing changed in {cli.root}; ignored places, by default .git/, are not looked at\n"
        in cli.process("exec", "--", "true").err
    )


def test_what_is_declared_and_not_watched_is_not_said_to_be_unchanged(cli: RealCli) -> None:
    there = os.path.join(cli.daemon.outside, "written")

    said = cli.process("exec", "--write", there, "--", "sh", "-c", f"echo 1 > {there}").err

    assert f"done: nothing is known to have changed in {there}\n" in said
    assert "incomplete" in said


def test_where_nothing_is_watched_nobody_knows(cli: RealCli) -> None:
    done = subprocess.run(
        [*EXEC, "--", "true"],
        cwd=cli.daemon.outside,
        env=cli.environment(),
        capture_output=True,
        text=True,
        timeout=HANG,
        check=True,
    )

    assert "no watched directory is here, so nobody knows what changed\n  next: provd watch add .  # " in done.stderr


def test_above_watched_directories_those_are_looked_at(cli: RealCli) -> None:
    name = os.path.basename(cli.root)
    command = [*EXEC, "--report", "-", "--", "sh", "-c", f"echo 2 > {name}/q"]
    done = subprocess.run(
        command, cwd=cli.daemon.home, env=cli.environment(), capture_output=True, text=True, timeout=HANG, check=True
    )

    assert ": 1 path changed meanwhile\n" in done.stderr
    assert f"  created {cli.root}/q\n" in done.stderr
    assert "only what is watched below here was looked at: " in done.stderr
    assert json.loads(done.stdout)["complete"] is False, "the directory itself is not watched"


def test_the_report_is_for_programs(cli: RealCli) -> None:
    cli.write("f", "one\n")
    cli("put", "f", "--value", "v", "--dep", "f", "--as-of-now")

    got = cli.process(
        "exec",
        "-q",
        "--report",
        "../outside/r.json",
        "--",
        "sh",
        "-c",
        "echo x > f; echo y > g; mv g h; exit 3",
        code=3,
    )

    assert got.err == ""
    with open(os.path.join(cli.daemon.outside, "r.json"), encoding="utf-8") as file:
        told = json.load(file)
    assert (told["exit"], told["outcome"], told["complete"], told["trouble"]) == (3, "failed", True, "")
    assert told["verdicts"]["f"]["verdict"] == "dirty"
    assert os.path.join(cli.root, "f") in {mutation["path"] for mutation in told["changed"]}
    assert told["affects"]["keys"] == ["f"]


def test_a_report_to_stdout_is_its_last_line(cli: RealCli) -> None:
    done = cli.process("exec", "-q", "--report", "-", "--", "sh", "-c", "printf said; exit 3", code=3)

    said, told = done.out.splitlines()
    assert (said, json.loads(told)["exit"], done.err) == ("said", 3, "")
    assert not os.path.lexists(os.path.join(cli.root, "-"))


def test_a_report_to_a_stdout_that_nobody_reads_leaves_the_exit_code(cli: RealCli) -> None:
    script = f"{sys.executable} -m provd exec -q --report - -- sh -c 'exit 3' >/dev/full"

    done = subprocess.run(["sh", "-c", script], cwd=cli.root, env=cli.environment(), capture_output=True, check=False)

    assert done.returncode == 3
    assert b"the report could not be written: stdout: No space left" in done.stderr


@pytest.mark.parametrize(("mask", "mode"), [(0o777, 0o600), (0o000, 0o666), (0o277, 0o600)])
def test_a_report_can_be_read_whatever_the_umask_and_the_command_has_its_own(
    cli: RealCli, mask: int, mode: int
) -> None:
    report = os.path.join(cli.daemon.outside, f"{mask:o}")
    script = f"umask {mask:03o}; exec {sys.executable} -m provd exec -q --report {report} -- sh -c 'umask >&2'"

    done = subprocess.run(["sh", "-c", script], cwd=cli.root, env=cli.environment(), capture_output=True, check=True)

    assert int(done.stderr, 8) == mask
    assert stat.S_IMODE(os.stat(report).st_mode) == mode


def test_a_report_that_cannot_be_written_is_no_failure_of_the_command(cli: RealCli) -> None:
    said = cli.process("exec", "--report", "none/r", "--", "true").err

    assert "the report could not be written" in said
    assert "\n  next: provd since c:" in said
