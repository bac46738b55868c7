"""No name of a place steers a terminal, whoever tells it."""

from __future__ import annotations

import os
import sys

import pytest
from doctoring import Doctor, doctor
from fake_daemon import Cli, cli, fake

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
