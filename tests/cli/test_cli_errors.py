"""Errors: in the words of the command line, and as JSON where that was asked for."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tomllib
import types
from typing import TYPE_CHECKING, Any

import pytest
from fake_daemon import Cli, Refusal, cli, fake, verdict
from support import HANG

from provd.cli import output

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["cli", "fake"]

_WIRE = "send fetched_at, root or scope"


@pytest.mark.parametrize(
    ("code", "data", "hint"),
    [
        ("clock.missing", {}, "--fetched-at $c; for files --sums"),
        ("root.ambiguous", {}, "--root DIR, or --scope NAME"),
        ("root.missing", {}, "provd watch ls  # lists the roots"),
        ("entry.conflict", {"version": 15}, "then put with --based-on 15"),
        ("entry.conflict", {"version": 0}, "provd put --help  # --based-on 0 says that there is nothing yet"),
        ("entry.conflict", {}, _WIRE),
        ("action.stale", {}, "then begin"),
        ("limit", {}, _WIRE),
        ("params", {}, _WIRE),
        ("method", {}, "the daemon is of another version than this command"),
    ],
)
def test_hints_of_the_daemon_become_options(cli: Cli, code: str, data: dict[str, Any], hint: str) -> None:
    cli.fake.answers["entry.put"] = Refusal(code, "no", _WIRE, data)

    got = cli("put", "k", "--no-deps", code=5)

    assert got.err.startswith(f"provd: no [{code}]\n  next: ")
    assert hint in got.err
    assert (_WIRE in got.err) == (hint == _WIRE)


def test_what_is_too_long_is_told_in_characters(cli: Cli) -> None:
    message = "entry.put: Expected `str` of length <= 256 - at `$.session`"
    cli.fake.answers["entry.put"] = Refusal("params", message, "needed: key")

    got = cli("put", "k", "--no-deps", code=5)

    assert got.err.endswith("\n  next: provd put --help  # shorter: it may have at most 256 characters\n")


def test_a_refused_action_names_what_is_not_usable(cli: Cli) -> None:
    verdicts = {"plan": verdict("dirty", why="changed"), "good": verdict(), "other": verdict("unknown", why="gap")}
    cli.fake.answers["action.begin"] = Refusal("action.stale", "if_usable", "begin again", {"verdicts": verdicts})

    got = cli("action", "begin", "--write", "object:o", "--if-usable", "plan", code=5)

    assert got.err == (
        "provd: nothing was begun: not usable: plan (changed), other (gap); the objects named in --write count as"
        " unknown until they are looked at again [action.stale]\n  next: c=$(provd clock)  # look again, put the"
        " entries anew with --fetched-at $c, then begin\n"
    )
    path = cli("action", "begin", "--write", "f", "--if-usable", "plan", code=5)
    assert path.err.startswith("provd: nothing was begun: not usable: plan (changed), other (gap) [action.stale]\n")
    many = {f"k{n}": verdict("dirty", why="changed") for n in range(12)}
    cli.fake.answers["action.begin"] = Refusal("action.stale", "if_usable", "", {"verdicts": many})
    assert "k9 (changed) and 2 more; " in cli("action", "begin", "--write", "object:o", code=5).err


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        (["check", "k", "--json"], 5, "root.ambiguous"),
        (["check", "k", "--json", "--socket", "none"], 3, "unreachable"),
        (["check", "--json"], 2, "usage"),
        (["check", "k", "--json", "--verfy", "x"], 2, "usage"),
        (["chekc", "--json"], 2, "usage"),
        (["log", "--json"], 5, "internal"),
    ],
)
def test_an_error_as_json(cli: Cli, arguments: list[str], exit_code: int, code: str) -> None:
    cli.fake.answers |= {"entry.check": Refusal("root.ambiguous", "which root?", _WIRE), "log.since": {}}

    got = cli(*arguments, code=exit_code)

    told = got.json["error"]
    assert set(told) == {"code", "message", "hint"}
    assert told["code"] == code
    assert told["message"] in got.err
    assert "\n  next: " + told["hint"].replace("\n", "\n  or: ") + "\n" in got.err
    assert cli(*(word for word in arguments if word != "--json"), code=exit_code).out == ""


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("entry.put", ["put", "k", "--no-deps", "--value", "--json"]),
        ("action.begin", ["exec", "--write", "object:o", "echo", "--json"]),
        ("entry.export", ["export", "--all", "--json"]),
    ],
)
def test_a_word_that_is_no_option_asks_for_nothing(cli: Cli, method: str, arguments: list[str]) -> None:
    cli.fake.answers |= {"log.clock": {"clock": "c:1"}, method: Refusal("store.full")}

    got = cli(*arguments, code=5)

    assert "[store.full]" in got.err
    assert got.out == ""


@pytest.mark.parametrize("arguments", [["exec", "--bad", "echo", "--json"], ["start", "--bad", "--json"]])
def test_a_command_without_that_option_has_no_error_as_json(cli: Cli, arguments: list[str]) -> None:
    assert cli(*arguments, code=2).out == ""


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EMFILE, errno.ENOSPC])
def test_every_error_of_the_system_has_a_next_step(cli: Cli, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(output, "line", fail)

    assert "\n  next: " in cli("config", "path", code=5).err


def test_stdin_is_called_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    class Directory:
        @staticmethod
        def read(_size: int = -1) -> bytes:
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))

    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=Directory))

    assert ": stdin: Is a directory" in cli("put", "k", "--no-deps", "--value-file", "-", code=2).err


def test_json_after_the_end_of_options_is_a_key(cli: Cli) -> None:
    cli.fake.answers["entry.check"] = Refusal("limit")

    assert cli("check", "--", "--json", code=5).out == ""


def test_an_interrupt_while_the_command_is_imported_shows_nothing(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}

    done = subprocess.run(
        [sys.executable, "-m", "provd", "try"], env=env, capture_output=True, check=False, timeout=HANG
    )

    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_the_installed_command_is_the_one_that_may_be_interrupted() -> None:
    project = os.path.join(os.path.dirname(__file__), "..", "..", "pyproject.toml")
    with open(project, "rb") as file:
        assert tomllib.load(file)["project"]["scripts"] == {"provd": "provd.__main__:run"}
