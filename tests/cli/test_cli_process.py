"""The command as a process: what it imports, odd arguments, pipes that break, interrupts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from fake_daemon import FakeDaemon, Silence, Stream, verdict

import provd

if TYPE_CHECKING:
    from collections.abc import Iterator

_CALL: Final = (
    "import signal, sys\n"
    # A shell in the background hands its children an ignored SIGINT; a test must not depend on who started it.
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from provd.cli import main\n"
    "sys.exit(main())\n"
)
_HANG: Final = 60


@pytest.fixture
def fake() -> Iterator[FakeDaemon]:
    with FakeDaemon(entry_check=verdict()) as daemon:
        yield daemon


def _environment(fake: FakeDaemon, **more: str) -> dict[str, str]:
    source = os.path.dirname(os.path.dirname(provd.__file__))
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR" and not name.startswith("PROVD_")}
    return kept | {"PYTHONPATH": source, "PROVD_SOCKET": fake.path} | more


def _run(
    fake: FakeDaemon, *arguments: str | bytes, script: str = _CALL, **more: str
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, env=_environment(fake, **more), capture_output=True, timeout=_HANG, check=False)


def test_as_a_module(fake: FakeDaemon) -> None:
    command = [sys.executable, "-m", "provd", "check", "k", "--json"]
    done = subprocess.run(command, env=_environment(fake), capture_output=True, timeout=_HANG, check=False)

    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, verdict(), b"")


def test_check_imports_only_what_it_needs(fake: FakeDaemon) -> None:
    script = _CALL.replace("sys.exit(main())", "main(); sys.stdout.write(chr(10).join(sys.modules))")
    modules = set(_run(fake, "check", "-q", "k", script=script).stdout.decode().split())
    foreign = {"lmdb", "structlog", "watchdog", "msgspec", "uvloop", "xxhash", "pathspec", "asyncio", "logging"}

    assert "provd.client" in modules
    assert modules & foreign == set()
    assert {name for name in modules if name.startswith("provd.")} == {
        "provd.cli",
        "provd.cli.app",
        "provd.cli.command",
        "provd.cli.commands",
        "provd.cli.commands.ask",
        "provd.cli.given",
        "provd.cli.given.asking",
        "provd.cli.given.completing",
        "provd.cli.given.exact",
        "provd.cli.given.looking",
        "provd.cli.given.names",
        "provd.cli.given.present",
        "provd.cli.given.sums",
        "provd.cli.helptext",
        "provd.cli.output",
        "provd.cli.steps",
        "provd.cli.words",
        "provd.cli.words.hints",
        "provd.cli.words.nothing",
        "provd.cli.words.permissions",
        "provd.cli.words.verdicts",
        "provd.client",
        "provd.codes",
        "provd.farend",
        "provd.fastpath",
        "provd.hello",
        "provd.places",
        "provd.quoting",
        "provd.reach",
    }


def test_arguments_that_are_not_utf8(fake: FakeDaemon) -> None:
    fake.answers["deps.check"] = verdict()

    assert _run(fake, "check", "--dep", b"/a\xff", "--fetched-at", "c:1").returncode == 0
    assert fake.params_of("deps.check")["deps"] == [{"dep": {"b64": "ZmlsZTovYf8="}}]
    done = _run(fake, "check", b"k\xff")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"not UTF-8" in done.stderr


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_any_encoding_of_the_terminal(fake: FakeDaemon, encoding: str) -> None:
    fake.answers["entry.check"] = answer = verdict("dirty", key="é☃\U0001f600")

    done = _run(fake, "check", "k", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (1, b"")
    assert (b"\xe2\x9c\x97" in done.stdout) == (encoding == "utf-8")
    assert json.loads(_run(fake, "check", "k", "--json", PYTHONIOENCODING=encoding).stdout) == answer


@pytest.mark.parametrize("arguments", [["ls"], ["ls", "--json"], ["check", "k"]])
def test_a_reader_that_has_gone(fake: FakeDaemon, arguments: list[str]) -> None:
    entry = {"key": "k" * 1000, "version": 1, "standing": "active", "clock": "c:1", "dependencies": 1}
    fake.answers["entry.list"] = {"entries": [entry] * 1000}
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "-c", _CALL, *arguments]
        done = subprocess.run(
            command, env=_environment(fake), stdout=writing, stderr=subprocess.PIPE, timeout=_HANG, check=False
        )
    finally:
        os.close(writing)

    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_messages_that_nobody_reads(fake: FakeDaemon) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", _CALL, "check", "k", "--socket", "/none"]
    done = subprocess.run(command, env=_environment(fake), stdout=writing, stderr=writing, timeout=_HANG, check=False)
    os.close(writing)

    assert done.returncode == 128 + signal.SIGPIPE


def _in_a_shell(fake: FakeDaemon, arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = ["sh", "-c", f'exec "$0" -m provd {arguments}', sys.executable]
    return subprocess.run(command, env=_environment(fake), capture_output=True, timeout=_HANG, check=False)


@pytest.mark.parametrize(("word", "code"), [("fresh", 0), ("dirty", 1), ("unknown", 4)])
def test_closed_streams(fake: FakeDaemon, word: str, code: int) -> None:
    fake.answers["entry.check"] = verdict(word)

    assert _in_a_shell(fake, "check -q k <&- >&- 2>&-").returncode == code
    assert _in_a_shell(fake, "check k <&- 2>&-").returncode == code
    assert _in_a_shell(fake, "check k <&- >&- 2>&-").returncode == 5


def test_a_stdin_that_was_closed_is_what_cannot_be_read(fake: FakeDaemon) -> None:
    got = _in_a_shell(fake, "import - <&-")

    assert got.returncode == 2
    assert b"cannot read stdin: Bad file descriptor" in got.stderr


@pytest.mark.parametrize("options", ["", "--json"])
@pytest.mark.parametrize("value", ["text", "", "long" * 10_000, 7, None])
def test_a_value_that_a_closed_stdout_cannot_take(fake: FakeDaemon, value: object, options: str) -> None:
    fake.answers["entry.get"] = verdict(value=value)

    done = _in_a_shell(fake, f"get k {options} >&-")

    assert done.returncode == 5
    told = b"provd: [Errno 9] stdout is closed, so the answer is lost\n  next: provd doctor  # open stdout; "
    assert done.stderr.startswith(told)
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr
    assert _in_a_shell(fake, f"get k {options} >/dev/null").returncode == 0


def test_a_stdout_that_is_only_for_reading(fake: FakeDaemon) -> None:
    done = _in_a_shell(fake, "check k 1</dev/null")

    assert done.returncode == 5
    assert b"Traceback" not in done.stderr


def test_no_answer_needs_no_stdout(fake: FakeDaemon) -> None:
    fake.answers["entry.get"] = verdict()

    assert _in_a_shell(fake, "get k >&-").returncode == 0  # it has no value, and stderr says so
    fake.answers["entry.get"] = verdict("dirty")
    assert _in_a_shell(fake, "get k >&-").returncode == 1


def test_a_full_device(fake: FakeDaemon) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-c", _CALL, "check", "k"]
        done = subprocess.run(
            command, env=_environment(fake), stdout=full, stderr=subprocess.PIPE, timeout=_HANG, check=False
        )

    assert done.returncode == 5
    assert b"provd: " in done.stderr
    assert b"Traceback" not in done.stderr


def _interrupt(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=_HANG)
    return process.returncode, out, err


def test_an_interrupt_while_it_waits(fake: FakeDaemon) -> None:
    fake.answers["entry.check"] = silence = Silence()
    with subprocess.Popen(
        [sys.executable, "-c", _CALL, "check", "k"],
        env=_environment(fake),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert silence.asked.wait(_HANG)

        assert _interrupt(process) == (130, b"", b"")


def test_an_interrupt_while_it_follows(fake: FakeDaemon) -> None:
    record = {"seq": 1, "at": "1", "type": "gap", "scope": "all", "reason": "started"}
    fake.answers["log.subscribe"] = Stream({}, after=[{"method": "log.record", "params": record}], close=False)
    with subprocess.Popen(
        [sys.executable, "-c", _CALL, "log", "-f", "--since", "c:0", "--json"],
        env=_environment(fake),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == record  # each line comes when it happens

        assert _interrupt(process) == (130, b"", b"")


def test_colour_only_on_a_terminal_that_wants_it(fake: FakeDaemon) -> None:
    def shown(**more: str) -> bytes:
        controller, terminal = os.openpty()
        command = [sys.executable, "-c", _CALL, "check", "k"]
        environment = _environment(fake, TERM="xterm") | more
        done = subprocess.run(command, env=environment, stdout=terminal, stderr=terminal, timeout=_HANG, check=False)
        os.close(terminal)
        said = os.read(controller, 4096)
        os.close(controller)
        assert done.returncode == 0
        return said

    assert b"\x1b[32m" in shown()
    assert b"\x1b" not in shown(NO_COLOR="1")
    assert b"\x1b" not in shown(TERM="dumb")
    assert b"\x1b" not in _run(fake, "check", "k").stdout


def test_a_value_without_a_newline_and_its_message_are_two_lines(fake: FakeDaemon) -> None:
    fake.answers["entry.get"] = verdict("dirty", value="old")
    command = [sys.executable, "-c", _CALL, "get", "k", "--even-if", "dirty"]
    environment = _environment(fake, NO_COLOR="1", PYTHONIOENCODING="ascii")
    together = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_HANG, check=False
    )
    controller, terminal = os.openpty()
    subprocess.run(command, env=environment, stdout=terminal, stderr=terminal, timeout=_HANG, check=False)
    os.close(terminal)
    said = os.read(controller, 4096)
    os.close(controller)

    assert together.stdout.splitlines()[:2] == [b"old", b"! dirty    k  (same)"]
    assert said.splitlines()[:2] == [b"old", b"! dirty    k  (same)"]
    assert _run(fake, "get", "k", "--even-if", "dirty").stdout == b"old"


def test_a_full_device_takes_no_error_either(fake: FakeDaemon) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-c", _CALL, "check", "k", "--json"]
        done = subprocess.run(
            command, env=_environment(fake), stdout=full, stderr=subprocess.PIPE, timeout=_HANG, check=False
        )

    assert done.returncode == 5
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr
