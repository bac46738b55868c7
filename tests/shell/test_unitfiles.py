"""The unit files: as shipped, what they must not take away, and what systemd itself says of them."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from provd import unitfiles

if TYPE_CHECKING:
    from pathlib import Path

MOUNTS = re.compile(
    r"Private(Tmp|Devices|Mounts|IPC|Users|Network)|Protect(System|Home|Proc|Kernel\w+|ControlGroups)|ProcSubset"
    r"|(ReadOnly|ReadWrite|Inaccessible|Exec|NoExec|Bind|BindReadOnly)Paths|TemporaryFileSystem|Root(Directory|Image)"
    r"|DynamicUser|MountAPIVFS|MountFlags|LogNamespace|NetworkNamespacePath"
)
"""Settings with which a unit gets mounts, or a view of the system, of its own: systemd.exec(5)."""
PRIVILEGED = {
    "CapabilityBoundingSet",
    "DevicePolicy",
    "IPAddressDeny",
    "Nice",
    "ProtectClock",
    "ProtectHostname",
    "User",
}
"""Settings that the manager of a user cannot carry out."""
EXPOSED = {"user": 65, "system": 35}
"""Tenths of systemd's exposure, at most: some more than 252 finds, since each version rates a little otherwise."""


def service(name: str) -> dict[str, str]:
    """The section [Service] of a unit; of a key that comes twice the last value."""
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=["="])
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unitfiles.read(name))
    return dict(parser["Service"])


@pytest.mark.parametrize("name", unitfiles.NAMES)
def test_the_daemon_sees_what_its_users_see(name: str) -> None:
    assert [key for key in service(name) if MOUNTS.fullmatch(key)] == []


@pytest.mark.parametrize("name", unitfiles.NAMES)
def test_what_a_service_of_provd_is(name: str) -> None:
    keys = service(name)
    wanted = {"Type": "notify", "NotifyAccess": "main", "WatchdogSec": "30", "Restart": "on-failure", "UMask": "0077"}
    assert {key: keys[key] for key in wanted} == wanted
    assert keys["ExecStart"].endswith("/bin/provd run")
    reload = re.findall(r"^ExecReload=(.*)$", unitfiles.read(name), re.MULTILINE)
    # One after the other: where the file has mistakes the first fails, and with it the reload.
    assert reload == [f"{keys['ExecStart'].removesuffix(' run')} config check --quiet", "kill -HUP $MAINPID"]


def test_the_units_of_users_and_system_differ_only_in_what_a_user_may_not() -> None:
    user, system = (service(name) for name in unitfiles.NAMES)
    more = {"RuntimeDirectory", "RuntimeDirectoryMode", "StateDirectory", "StateDirectoryMode", "LimitNOFILE"}
    assert system.keys() - user.keys() == PRIVILEGED | more
    assert {key for key in user if user[key] != system[key]} == {"ExecStart"}


def test_the_places_of_the_system_unit_are_those_of_one_user() -> None:
    keys = service("system/provd@.service")
    assert (keys["User"], keys["RuntimeDirectory"], keys["StateDirectory"]) == ("%i", "provd/%i", "provd/%i")


def test_there_are_no_other_units() -> None:
    with pytest.raises(FileNotFoundError):
        unitfiles.read("user/other.service")


@pytest.fixture(params=unitfiles.NAMES)
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A unit as it would be installed, of a program that every machine has, for some user."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    path = tmp_path / str(request.param).replace("@", "@someone")
    path.parent.mkdir()
    path.write_text(
        unitfiles.read(request.param).replace(service(request.param)["ExecStart"][: -len(" run")], "/bin/true")
    )
    return path


def _analyze(unit: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *words, str(unit)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(unit.parent), "HOME": str(unit.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_systemd_finds_nothing_wrong(unit: Path) -> None:
    done = _analyze(unit, *(["--user"] if unit.parent.name == "user" else []), "verify")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Unknown" not in done.stderr, done.stderr  # a key that is not known is passed over with a warning


def test_systemd_finds_the_units_exposed_no_more_than_this(unit: Path) -> None:
    most = EXPOSED[unit.parent.name]

    found = [_analyze(unit, "security", "--offline=yes", "--no-pager", f"--threshold={limit}") for limit in (most, 10)]
    assert [done.returncode for done in found] == [0, 1], found[0].stdout[-200:]
