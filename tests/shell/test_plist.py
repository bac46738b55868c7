"""launchd: the property list, and the commands that macOS would get. No Mac is needed, and none has run this."""

from __future__ import annotations

import os
import plistlib
from typing import TYPE_CHECKING

import pytest

from provd import services
from provd.services import Launchd, Ran, owned, plist
from provd.services.base import Plan, ServiceError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_PLAN = Plan(("/opt/provd", "run", "--root", "/Users/u/a & <b>", "--socket", "/s"), {"XDG_CONFIG_HOME": "/c"})


class Mac:
    """launchctl as its manual describes it: one agent, which runs once it is loaded."""

    def __init__(self) -> None:
        self.loaded = False
        self.disabled = False
        self.session = True
        self.ending = 0
        self.pid = 100
        self.told: list[list[str]] = []

    def __call__(self, command: Sequence[str], timeout: float) -> Ran:
        assert timeout > 0
        assert command[0] == "launchctl"
        verb, *words = command[1:]
        target = f"gui/{os.getuid()}/local.provd"
        if verb not in {"print", "print-disabled"}:
            self.told.append([verb, *words])
        match verb:
            case "print" if words == [f"gui/{os.getuid()}"]:
                return Ran(0) if self.session else Ran(125, err="Domain does not support specified action")
            case "print":
                assert words == [target]
                if self.ending:
                    self.ending -= 1
                    self.loaded = self.ending > 0
                if not self.loaded:
                    return Ran(113, err="Could not find service")
                return Ran(0, f"{target} = {{\n\tactive count = 1\n\tstate = running\n\tpid = {self.pid}\n}}\n")
            case "print-disabled":
                word = "disabled" if self.disabled else "enabled"
                return Ran(0, f'disabled services = {{\n\t"local.provd" => {word}\n}}\n')
            case "enable":
                self.disabled = False
            case "bootstrap":
                if self.loaded:
                    return Ran(5, err="Bootstrap failed: 5: Input/output error")
                self.loaded = True
            case "bootout":
                self.ending = 3
            case "kickstart":
                self.pid += "-k" in words
            case _:
                raise AssertionError(command)
        return Ran(0)


@pytest.fixture
def mac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mac:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(services, "PLATFORM", "darwin")
    return Mac()


def test_the_keys_are_those_of_launchd() -> None:
    keys = plistlib.loads(plist.rendered(_PLAN, "/l").encode())

    assert keys == {
        "Label": "local.provd",
        "ProgramArguments": list(_PLAN.command),
        "EnvironmentVariables": {"XDG_CONFIG_HOME": "/c"},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ProcessType": "Standard",
        "LowPriorityIO": False,
        "SoftResourceLimits": {"NumberOfFiles": 10240},
        "Umask": 0o077,
        "StandardOutPath": "/l",
        "StandardErrorPath": "/l",
    }
    assert "EnvironmentVariables" not in plist.rendered(Plan(("/p",)), "/l")


@pytest.mark.parametrize("word", ["/\udcff", "/a\x01b"])
def test_what_no_property_list_holds_is_refused(word: str) -> None:
    with pytest.raises(ServiceError, match="no property list"):
        plist.rendered(Plan(("/p", word)), "/l")


@pytest.mark.parametrize("text", [b"", b"no xml", b"<plist>", plistlib.dumps([]), plistlib.dumps({"a": 1})])
def test_a_list_that_is_none_has_no_command(text: bytes) -> None:
    assert plist.command_of(text) == []


def test_installing(mac: Mac, tmp_path: Path) -> None:
    agent = Launchd(mac)
    file = f"{tmp_path}/Library/LaunchAgents/local.provd.plist"
    domain, target = f"gui/{os.getuid()}", f"gui/{os.getuid()}/local.provd"

    assert services.found(mac) is None
    assert list(agent.install(_PLAN)) == [f"wrote {file}", "started local.provd: it starts with each login"]
    assert mac.told == [["enable", target], ["bootstrap", domain, file]]
    with open(file, "rb") as written:
        keys = plistlib.load(written)
    log = f"{tmp_path}/Library/Logs/provd.log"
    assert keys["ProgramArguments"] == [*_PLAN.command, "--log-file", log]
    assert keys["StandardErrorPath"] == log
    assert os.path.isdir(os.path.dirname(log))
    found = services.found(mac)
    assert found is not None
    assert (found.manager, found.name, found.file, found.pid) == ("launchd", "local.provd", file, 100)
    assert (found.enabled, found.active, found.linger, found.socket) == (True, "active", False, "/s")
    assert list(agent.install(_PLAN)) == []
    assert list(agent.install(_PLAN, anew=True)) == ["restarted local.provd"]


def test_another_command_is_loaded_after_the_end_of_the_old_one(mac: Mac) -> None:
    agent = Launchd(mac)
    list(agent.install(_PLAN))
    mac.told.clear()

    assert len(list(agent.install(Plan(("/new", "run"))))) == 2

    assert [words[0] for words in mac.told] == ["bootout", "enable", "bootstrap"]
    assert mac.loaded


def test_uninstalling(mac: Mac) -> None:
    agent = Launchd(mac)
    list(agent.install(_PLAN))

    assert list(agent.uninstall()) == ["stopped local.provd", f"removed {agent.file}"]
    assert not mac.loaded
    assert services.found(mac) is None
    assert list(agent.uninstall()) == []


def test_start_stop_and_restart(mac: Mac) -> None:
    agent = Launchd(mac)
    list(agent.install(_PLAN))
    mac.told.clear()

    agent.stop()
    agent.start()
    agent.start()
    agent.restart()

    assert [words[0] for words in mac.told] == ["bootout", "bootstrap", "kickstart", "kickstart"]
    assert mac.pid == 101


def test_a_foreign_agent_is_left_alone(mac: Mac) -> None:
    agent = Launchd(mac)
    os.makedirs(os.path.dirname(agent.file))
    with open(agent.file, "w") as file:
        file.write("mine")

    for act in (agent.install(_PLAN), agent.uninstall()):
        with pytest.raises(ServiceError, match="was not written by provd") as caught:
            list(act)
        assert caught.value.hint.startswith(f"provd service print | diff - {agent.file}  # ")
    assert owned.read(agent.file) == "mine"
    assert mac.told == []


def test_a_session_without_launchd(mac: Mac) -> None:
    mac.session = False

    with pytest.raises(ServiceError, match="launchd does not answer") as caught:
        list(Launchd(mac).install(_PLAN))

    assert "provd start" in caught.value.hint
    assert not os.path.exists(Launchd(mac).file)


def test_a_disabled_agent(mac: Mac) -> None:
    list(Launchd(mac).install(_PLAN))
    mac.disabled, mac.loaded = True, False

    found = services.found(mac)

    assert found is not None
    assert (found.enabled, found.active, found.pid, found.runs) == (False, "inactive", None, False)


def test_without_launchctl_the_file_still_tells(mac: Mac) -> None:
    list(Launchd(mac).install(_PLAN))

    found = services.found(lambda *_: Ran(127, err="launchctl: no such file"))

    assert found is not None
    assert (found.active, found.enabled, found.pid) == ("unknown", None, None)
