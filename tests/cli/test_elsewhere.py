"""Nobody answers where a command looks, and a daemon of the same user listens somewhere else."""

from __future__ import annotations

import os
import pwd
import socket
from typing import TYPE_CHECKING

import pytest
from starting import Home, home

from provd import elsewhere, places
from provd.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["home"]


@pytest.fixture
def system_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The socket of a unit of the system, with somebody who listens; this user's environment names nothing."""
    for name in list(os.environ):
        if name.startswith(("PROVD_", "XDG_")) or name in {"RUNTIME_DIRECTORY", "STATE_DIRECTORY"}:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(places, "SYSTEM_SOCKETS", str(tmp_path / "run"))
    monkeypatch.setattr(places, "DESKTOP_RUNTIME", str(tmp_path / "desktop"))
    path = places.system_socket(pwd.getpwuid(os.getuid()).pw_name)
    os.makedirs(os.path.dirname(path))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        yield path


def test_without_the_runtime_directory_the_lock_tells_where_it_listens(home: Home) -> None:
    home.provd("start")
    first = home.hello()
    del home.env["XDG_RUNTIME_DIR"]

    for command in ("status", "clock"):
        assert f"\n  next: export PROVD_SOCKET={home.socket}  # a daemon of yours listens there\n" in (
            home.provd(command, code=3).err
        )
    for command in ("stop", "restart"):
        assert f"next: export PROVD_SOCKET={home.socket}  # then ask again" in home.provd(command, code=5).err
    refused = home.provd("start", code=5).err
    assert f"another daemon of yours listens at {home.socket}" in refused
    assert f"export PROVD_SOCKET={home.socket}" in refused
    assert f"export PROVD_SOCKET={home.socket}" in home.provd("doctor", code=1).out
    assert home.hello()["run"] == first["run"]


def test_after_its_end_nobody_listens_elsewhere(home: Home) -> None:
    home.provd("start")
    home.provd("stop")
    del home.env["XDG_RUNTIME_DIR"]

    assert "provd start" in home.provd("clock", code=3).err


def test_beside_a_unit_of_the_system_no_second_one_is_started(
    system_socket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["start"]) == 5
    assert f"another daemon of yours listens at {system_socket}" in capsys.readouterr().err
    assert main(["clock"]) == 3
    assert f"export PROVD_SOCKET={system_socket}  # " in capsys.readouterr().err
    assert main(["doctor"]) == 1
    assert f"export PROVD_SOCKET={system_socket}  # " in capsys.readouterr().out
    assert not os.path.exists(places.state_dir())


def test_a_place_that_was_named_is_the_place(
    system_socket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert elsewhere.listening(places.socket_path()) == system_socket
    assert elsewhere.listening(places.socket_path(None, str(tmp_path / "state"))) is None
    monkeypatch.setenv("PROVD_STATE_DIR", str(tmp_path / "state"))
    assert elsewhere.listening(places.socket_path()) is None
    monkeypatch.setenv("PROVD_SOCKET", str(tmp_path / "s"))
    assert elsewhere.listening(places.socket_path()) is None


def test_what_others_put_in_the_way_is_neither_waited_for_nor_believed(home: Home) -> None:
    os.makedirs(home.state)
    os.mkfifo(os.path.join(home.state, "lock"))
    del home.env["XDG_RUNTIME_DIR"]

    for command in ("status", "clock"):
        assert "provd start" in home.provd(command, code=3).err
    assert "no daemon" in home.provd("stop", code=3).err
