"""What answers is asked who it is first: what hangs, or is no provd, is told within seconds, by every command."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any

import pytest
from fake_daemon import HELLO, Cli, FakeDaemon, Raw, Refusal, Silence, fake

from provd import reach
from provd.cli import command
from provd.cli.processes import holding
from provd.client import MAX_LINE

__all__ = ["fake"]

_COMMANDS = [
    ["check", "k"],
    ["get", "k"],
    ["why", "k"],
    ["ls"],
    ["clock"],
    ["since", "c:0"],
    ["log"],
    ["log", "-f"],
    ["watch", "ls"],
    ["watch", "add", "."],
    ["action", "ls"],
    ["action", "begin", "--write", "a"],
    ["put", "k", "--value", "1", "--no-deps"],
    ["confirm", "k", "--as-of-now"],
    ["forget", "k"],
    ["export"],
    ["audit"],
    ["config", "reload"],
    ["exec", "--", "true"],
    ["status", "--json"],
    ["stop"],
]


@pytest.fixture
def cli(fake: FakeDaemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setattr(command, "GREETING", 0.2)
    return Cli(fake, capsys, monkeypatch)


@pytest.mark.parametrize("asked", _COMMANDS, ids=" ".join)
def test_what_is_not_provd(cli: Cli, asked: list[str]) -> None:
    strange: Any
    for strange in ({}, [], None, "x", Raw(b"[" * 200_000 + b"\n"), Raw(b"\xff\xfe hello\n")):
        cli.fake.answers["daemon.hello"] = strange

        assert cli(*asked, code=3).err.startswith(f"provd: what answers at {cli.fake.path} is not provd")

    assert cli.fake.questions == []


@pytest.mark.parametrize("asked", _COMMANDS, ids=" ".join)
def test_what_hangs(cli: Cli, asked: list[str]) -> None:
    cli.fake.answers["daemon.hello"] = Silence()

    err = cli(*asked, code=5 if asked == ["stop"] else 3).err  # 3 of stop says that there was none

    assert err.startswith(f"provd: the daemon at {cli.fake.path} did not answer within 0.2 s")
    if reach.state(os.getpid()):  # it is us
        again = "then try again, or run it with --anyway" if asked[0] == "exec" else "then try again"
        assert f"next: provd doctor  # tells more; {again}\n  or: kill -9 {os.getpid()}  # ends its process\n" in err


def test_what_is_stopped(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.fake.answers["daemon.hello"] = Silence()
    monkeypatch.setattr(reach, "state", lambda _: "T")

    told = f"next: kill -CONT {os.getpid()}  # it is stopped, by a signal or a debugger: this lets it go on\n"
    for words in ("check k", "status", "status --prometheus", "start", "restart"):
        err = cli(*words.split(), code=3).err
        assert err.endswith(told), words
        assert words == "status" or "did not answer within 0.2 s" in err, "no command waits longer for a greeting"
    assert cli("stop", code=5).err.endswith(told)
    assert cli("version").err.endswith(told)


def test_what_is_stopped_and_takes_no_more_connections(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.path.join(cli.here, "full")
    monkeypatch.setattr(reach, "state", lambda _: "T")
    for module in ("provd.cli.processes.holding", "provd.cli.commands.doctor.facts"):
        monkeypatch.setattr(f"{module}.holder", lambda _: holding.Holder(4242, path))
    with contextlib.ExitStack() as open_ones:
        listener = open_ones.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(path)
        listener.listen(0)
        for _ in range(1000):
            waiting = open_ones.enter_context(socket.socket(socket.AF_UNIX))
            waiting.setblocking(False)
            if waiting.connect_ex(path) != 0:
                break

        for word in ("clock", "status"):
            assert "takes no new connections" in (said := cli(word, "--socket", path, "--state", cli.here, code=3).err)
            assert "next: kill -CONT 4242  # " in said


def test_an_answer_without_end(cli: Cli) -> None:
    cli.fake.answers["log.clock"] = Raw(b"x" * (MAX_LINE + 200_000))

    assert "is not provd" in cli("clock", code=3).err


@pytest.mark.parametrize("strange", [[], None, "x", 7])
def test_an_answer_that_is_no_object(cli: Cli, strange: Any) -> None:
    cli.fake.answers["daemon.audit"] = strange

    assert "is not provd" in cli("audit", code=3).err


def test_no_metrics_of_what_is_not_provd(cli: Cli) -> None:
    cli.fake.answers["daemon.hello"] = {}

    got = cli("status", "--prometheus", code=3)

    assert "\nprovd_up 0\n" in got.out
    assert "is not provd" in got.err


def _runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is not run exits with 7: the real ones need a process without other threads or children."""
    for runs in ("child", "keeper"):
        monkeypatch.setattr(f"provd.cli.processes.{runs}.run", lambda *_, **__: 7)
    monkeypatch.setattr("provd.cli.processes.orphans.adopt", lambda: True)


def test_a_command_is_run_anyway_where_the_daemon_hangs(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _runs_nothing(monkeypatch)
    cli.fake.answers["daemon.hello"] = Silence()

    got = cli("exec", "--anyway", "--", "make", code=7)

    assert "it is run all the same" in got.err


def test_a_daemon_that_hangs_when_the_command_has_ended(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _runs_nothing(monkeypatch)
    greetings = iter([HELLO])
    cli.fake.answers |= {
        "daemon.hello": lambda _: next(greetings, Silence()),
        "log.clock": {"clock": "c:1"},
        "action.begin": {"id": 7},
        "action.list": {"actions": []},
    }

    got = cli("exec", "--", "make", code=7)

    assert "what it changed is not known: the daemon at" in got.err
    assert "did not answer within 0.2 s" in got.err


def test_the_settings_of_a_daemon_that_hangs(cli: Cli) -> None:
    cli.fake.answers["daemon.hello"] = Silence()

    out = cli("config", "show").out

    assert "daemon  does not tell its settings: " in out
    assert "none answers" not in out


def test_the_version_is_told_whatever_the_daemon_says(cli: Cli) -> None:
    answer: Any
    for answer in (Silence(), Refusal("version", "only protocol 2"), {}):
        cli.fake.answers["daemon.hello"] = answer

        got = cli("version")

        assert got.out.startswith("provd ")
        assert got.err


@pytest.mark.parametrize("error", [b'{"id":2,"error":{}}\n', b'{"id":2,"error":"no"}\n'])
def test_an_error_without_a_code(cli: Cli, error: bytes) -> None:
    cli.fake.answers["log.clock"] = Raw(error)

    assert "is not provd" in cli("clock", code=3).err


def test_a_method_that_the_daemon_does_not_have(cli: Cli) -> None:
    cli.fake.answers["log.clock"] = Raw(b'{"id":2,"error":{"code":-32601,"message":"no method"}}\n')

    assert "or: provd restart  # ends that" in cli("clock", code=5).err
