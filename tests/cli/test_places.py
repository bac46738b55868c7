"""Where the socket, the state and the configuration are."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from provd import places

if TYPE_CHECKING:
    from pathlib import Path

_HOME = "/home/u"
_STATE = f"{_HOME}/Library/Application Support/provd" if sys.platform == "darwin" else f"{_HOME}/.local/state/provd"
_NAMES = (
    "PROVD_SOCKET",
    "PROVD_STATE_DIR",
    "RUNTIME_DIRECTORY",
    "STATE_DIRECTORY",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
)


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", _HOME)


@pytest.mark.parametrize(
    ("given", "env", "path"),
    [
        ((None, None), {}, f"{_STATE}/provd.sock"),
        ((None, None), {"XDG_STATE_HOME": "/x"}, "/x/provd/provd.sock"),
        ((None, None), {"XDG_RUNTIME_DIR": "/run/user/1"}, "/run/user/1/provd/provd.sock"),
        ((None, None), {"XDG_RUNTIME_DIR": "run"}, f"{_STATE}/provd.sock"),
        ((None, None), {"RUNTIME_DIRECTORY": "/run/a:/run/b", "XDG_RUNTIME_DIR": "/r"}, "/run/a/provd.sock"),
        ((None, None), {"STATE_DIRECTORY": "/var/a", "XDG_RUNTIME_DIR": "/r"}, "/r/provd/provd.sock"),
        ((None, None), {"STATE_DIRECTORY": "/var/a"}, "/var/a/provd.sock"),
        ((None, None), {"PROVD_STATE_DIR": "/s", "XDG_RUNTIME_DIR": "/r", "RUNTIME_DIRECTORY": "/q"}, "/s/provd.sock"),
        ((None, "/t"), {"PROVD_STATE_DIR": "/s", "XDG_RUNTIME_DIR": "/r"}, "/t/provd.sock"),
        ((None, "/t"), {"PROVD_SOCKET": "/p"}, "/p"),
        (("/e", "/t"), {"PROVD_SOCKET": "/p"}, "/e"),
        ((None, None), {"PROVD_SOCKET": ""}, f"{_STATE}/provd.sock"),
    ],
)
def test_socket(
    given: tuple[str | None, str | None], env: dict[str, str], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    assert path == places.socket_path(*given)


@pytest.mark.parametrize(
    ("explicit", "env", "path"),
    [
        (None, {}, _STATE),
        (None, {"XDG_STATE_HOME": "/x"}, "/x/provd"),
        (None, {"XDG_STATE_HOME": "x"}, _STATE),
        (None, {"STATE_DIRECTORY": "/a:/b", "XDG_STATE_HOME": "/x"}, "/a"),
        (None, {"PROVD_STATE_DIR": "/s", "STATE_DIRECTORY": "/a"}, "/s"),
        ("/e", {"PROVD_STATE_DIR": "/s"}, "/e"),
    ],
)
def test_state(explicit: str | None, env: dict[str, str], path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    assert path == places.state_dir(explicit)


def test_config(monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"{_HOME}/.config/provd/config.toml" == places.config_path()

    monkeypatch.setenv("XDG_CONFIG_HOME", "/c")

    assert places.config_path() == "/c/provd/config.toml"


def test_what_says_where_the_home_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {places.state_place().source, places.config_place().source, places.socket_place().source} == {"$HOME"}

    monkeypatch.setenv("HOME", "")

    place = places.config_place()
    assert place.source == "the system's list of users"
    assert place.path.endswith("/.config/provd/config.toml")
    assert not place.named


def test_relative_names_become_absolute_and_are_not_normalised(monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.getcwd()
    monkeypatch.setenv("PROVD_STATE_DIR", "a/../b")

    assert places.socket_path("s.sock") == f"{here}/s.sock"
    assert places.socket_path() == f"{here}/a/../b/provd.sock"
    assert places.state_dir() == f"{here}/a/../b"


def test_a_directory_that_its_owner_is_kept_out_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.getuid() or 4242
    monkeypatch.setattr(os, "geteuid", lambda: user)
    above, state = tmp_path / "a", tmp_path / "a" / "state"
    state.mkdir(parents=True)
    (state / "file").touch(0o000)
    if os.getuid() != user:
        for path in (above, state, state / "file"):
            os.chown(path, user, -1)

    assert places.shut(str(state)) == ""
    assert places.shut(str(state / "file")) == ""
    state.chmod(0o500)
    assert places.shut(str(state)) == str(state)
    assert places.shut(str(state / "file")) == ""
    state.chmod(0o000)
    assert places.shut(str(state)) == str(state)
    above.chmod(0o600)
    assert places.shut(str(state)) == str(above)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert places.shut(str(state)) == ""
    above.chmod(0o700)
    state.chmod(0o700)
    assert places.shut(str(tmp_path / "none" / "s")) == ""
