"""No name of a place steers a terminal, whoever tells it."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Final

import pytest
from doctoring import Doctor, doctor
from fake_daemon import Cli, cli, fake, verdict

from provd.cli import output
from provd.cli.commands import portable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["cli", "doctor", "fake"]

ODD = "a\x1b[31mb"


@pytest.fixture
def odd(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> str:
    """A directory of such a name, with a state and a configuration that cannot be read."""
    place = os.path.join(cli.here, ODD)
    os.makedirs(os.path.join(place, "provd"))
    with open(os.path.join(place, "provd", "config.toml"), "w", encoding="utf-8") as file:
        file.write("a = = 1\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", place)
    return place


@pytest.mark.parametrize("option", ["--state", "--socket"])
def test_doctor_of_a_place(doctor: Doctor, odd: str, option: str) -> None:
    os.chmod(odd, 0o755)
    shown = doctor.screen(option, odd if option == "--state" else f"{odd}/s.sock", code=1)

    assert "a\\x1b[31mb" in shown.out
    assert "\x1b" not in shown.out + shown.err


@pytest.mark.parametrize(
    "command",
    [
        *("status", "version", "audit", "ls", "check k", "stop", "log", "why k", "export", "watch ls", "exec -- true"),
        *("config check", "config show", "config init", "config reload", "start"),
    ],
)
def test_other_commands(cli: Cli, odd: str, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.delenv("PROVD_SOCKET")
    monkeypatch.setenv("PROVD_STATE_DIR", odd)

    shown = cli(*command.split(), code=None)

    assert "a\\x1b[31mb" in shown.out + shown.err
    assert "\x1b" not in shown.out + shown.err


def test_a_path_for_programs_is_as_it_is_and_for_people_harmless(
    cli: Cli, odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("config", "path").out == f"{odd}/provd/config.toml\n"

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    assert cli("config", "path").out == f"{cli.here}/a\\x1b[31mb/provd/config.toml\n"


STEERING: Final = "a\x1b[2J\x07\x7f\x9b2J\u202eb\r\n\tc\u2028é"
_STEERS: Final = set("\x1b\x07\x7f\x9b\u202e\r\u2028")


def test_a_value_steers_no_terminal_and_goes_raw_elsewhere(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.fake.answers["entry.get"] = verdict("fresh", value=STEERING)
    raw = cli("get", "k")
    assert (raw.out, raw.err) == (STEERING, "")

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    shown = cli("get", "k")
    assert shown.out == "a\\x1b[2J\\x07\\x7f\\x9b2J\\u202eb\\r\n\tc\\u2028é\n"
    assert shown.err.startswith("provd: control characters are shown escaped on a terminal")
    cli.fake.answers["entry.get"] = verdict("fresh", value="plain")
    plain = cli("get", "k")
    assert (plain.out, plain.err) == ("plain\n", "")


@pytest.mark.parametrize("command", ["check k --json", "ls --json"])
def test_json_steers_no_terminal_and_means_the_same(cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    cli.fake.answers["entry.check"] = verdict("fresh", note=STEERING)
    cli.fake.answers["entry.list"] = {"entries": [], "note": STEERING}
    raw = cli(*command.split()).out
    assert "\u202e" in raw

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    shown = cli(*command.split()).out
    assert not _STEERS & set(shown)
    assert json.loads(shown) == json.loads(raw)


@pytest.mark.parametrize("write", [output.line_written, portable.write])
def test_json_that_is_handed_on_steers_no_terminal_either(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, write: Callable[[str], None]
) -> None:
    text = json.dumps(STEERING, ensure_ascii=False)
    write(text)
    assert capsys.readouterr().out == text + "\n"

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    write(text)

    shown = capsys.readouterr().out
    assert not _STEERS & set(shown)
    assert json.loads(shown) == STEERING


def test_a_line_of_data_keeps_its_colours_and_nothing_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    output.line("\x1b[32m+\x1b[0m a\x1b]0;t\x07 \u202eb")

    assert capsys.readouterr().out == "\x1b[32m+\x1b[0m a\\x1b]0;t\\x07 \\u202eb\n"
