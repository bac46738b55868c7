"""install and restart where nothing would come of them: the daemon that works is left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from changes import until
from starting import Home, home
from support import HANG

from provd.services import Ran, Systemd

__all__ = ["home"]

_USER = pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux")


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def _configure(home: Home, text: str) -> None:
    _write(os.path.join(home.path, ".config", "provd", "config.toml"), text)


@_USER
@pytest.mark.parametrize("obstacle", ["a foreign unit", "a file in the way", "a wrong configuration"])
def test_an_install_that_is_refused_stops_nobody(home: Home, obstacle: str) -> None:
    home.with_systemd()
    home.provd("start")
    pid = home.hello()["pid"]
    if obstacle == "a foreign unit":
        _write(home.unit, "[Service]\n")
    elif obstacle == "a file in the way":
        _write(os.path.dirname(home.unit), "")
    else:
        _configure(home, "nonsense = 1\n")

    done = home.provd("service", "install", code=5)

    assert "stopped" not in done.err.replace("so nothing was stopped", "")
    assert "\n  next: " in done.err
    assert home.hello()["pid"] == pid
    assert home.told() == []


@pytest.mark.parametrize("text", ["nonsense = 1\n", 'roots = ["/not/there"]\n', "[\n"])
def test_a_restart_with_a_wrong_configuration_stops_nobody(home: Home, text: str) -> None:
    home.provd("start")
    pid = home.hello()["pid"]
    _configure(home, text)

    done = home.provd("restart", code=5)

    assert "so nothing was stopped" in done.err
    assert "next: provd config check  # " in done.err
    assert home.hello()["pid"] == pid
    _configure(home, "")
    home.provd("restart")
    assert home.hello()["pid"] != pid


@_USER
def test_a_restart_of_a_service_looks_at_its_own_configuration(home: Home) -> None:
    home.with_systemd()
    own, other = os.path.join(home.path, "own.toml"), os.path.join(home.path, "other.toml")
    _write(own, "")
    _write(other, "nonsense = 1\n")
    home.provd("service", "install", PROVD_CONFIG=own)
    pid = home.hello()["pid"]

    home.provd("restart", PROVD_CONFIG=other)
    assert home.hello()["pid"] != pid, "what it does not read is not in its way"
    pid = home.hello()["pid"]
    _write(own, "nonsense = 1\n")
    assert own in home.provd("restart", code=5).err
    assert home.hello()["pid"] == pid
    assert home.told() == ["enable", "start", "restart"]


@_USER
def test_a_service_that_hangs_is_restarted(home: Home) -> None:
    home.with_systemd()
    home.provd("service", "install")
    pid = home.hello()["pid"]
    os.kill(pid, signal.SIGSTOP)
    restart = subprocess.Popen(home.command("restart"), cwd=home.path, env=home.environment())
    try:
        until(lambda: home.told()[-1] == "restart", home.bin, restart)
    finally:
        os.kill(pid, signal.SIGKILL)  # as a manager does in the end

    assert restart.wait(HANG) == 0
    assert home.hello()["pid"] != pid


@_USER
@pytest.mark.parametrize("variable", ["PROVD_CONFIG", "CONFIGURATION_DIRECTORY"])
def test_a_configuration_elsewhere_moves_no_unit(home: Home, variable: str) -> None:
    home.with_systemd()
    file = os.path.join(home.path, "else", "where", "config.toml")
    _write(file, "")
    home.env[variable] = file if variable == "PROVD_CONFIG" else os.path.dirname(file)

    home.provd("service", "install")

    with open(home.unit) as unit:
        carried = f"Environment=PROVD_CONFIG={file}\n" in unit.read()
    assert carried == (variable == "PROVD_CONFIG")
    assert home.provd("stop").err == "stopped provd.service\n"


@pytest.mark.parametrize("variable", ["PROVD_CONFIG", "CONFIGURATION_DIRECTORY"])
def test_where_the_manager_does_not_tell_units_lie_where_all_do(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/c")
    monkeypatch.setenv(variable, "/else/where/config.toml")

    assert Systemd(lambda *_: Ran(1, "", "")).file == "/c/systemd/user/provd.service"
