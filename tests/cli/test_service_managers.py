"""Managers of services, with a runner that only notes what it is told; and what is found of a service."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from provd import services
from provd.services import Plan, Ran, Service, ServiceError, Systemd, itself, option

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Notes:
    """A systemctl of the system that says yes, and notes what it was told."""

    def __init__(self, **fails: Ran) -> None:
        self.told: list[list[str]] = []
        self.fails = fails

    def __call__(self, command: Sequence[str], timeout: float) -> Ran:
        assert timeout > 0
        self.told.append(list(command))
        return next((ran for word, ran in self.fails.items() if word in command), Ran(0))

    @property
    def verbs(self) -> list[str]:
        """What systemctl was told to do."""
        asked = {"show", "show-environment", "reset-failed", "list-unit-files", "list-units"}
        verbs = [command[2] for command in self.told if command[0] == "systemctl"]
        return [verb for verb in verbs if verb not in asked]


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("provd.services.systemd._SYSTEM_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return str(tmp_path)


_TEMPLATE = "[Service]\nUser=%i\nExecStart=/usr/local/bin/provd run\n"


def test_a_unit_of_the_system_is_a_template_and_what_is_one_users_a_drop_in(system: str) -> None:
    notes = Notes()
    unit = Systemd(notes, "ci")

    done = list(unit.install(Plan(("/opt/provd", "run", "--root", "/r")), _TEMPLATE))

    assert done == [
        f"wrote {system}/provd@.service",
        f"wrote {system}/provd@ci.service.d/provd.conf",
        "enabled provd@ci.service: it starts at boot",
        "started provd@ci.service",
    ]
    assert notes.verbs == ["daemon-reload", "enable", "start"]
    assert ["runuser", "-u", "ci", "--", "env", "/opt/provd", "--version"] in notes.told
    assert _read(f"{system}/provd@.service").endswith("User=%i\nExecStart=/opt/provd run\n")
    assert _read(f"{system}/provd@ci.service.d/provd.conf").endswith("ExecStart=\nExecStart=/opt/provd run --root /r\n")
    again = list(unit.install(Plan(("/opt/provd", "run")), _TEMPLATE))
    assert again[0] == f"removed {system}/provd@ci.service.d/provd.conf"
    assert os.listdir(system) == ["provd@.service"]


def test_an_uninstall_whose_systemctl_was_killed_names_the_unit_that_stays(system: str) -> None:
    list(Systemd(Notes(), "ci").install(Plan(("/opt/provd", "run")), _TEMPLATE))

    with pytest.raises(ServiceError) as refused:
        list(Systemd(Notes(disable=Ran(-9)), "ci").uninstall())

    unit = f"{system}/provd@.service"
    told = "systemctl disable --now provd@ci.service failed: signal 9 ended it"
    assert refused.value.message == f"{told}; the unit stays: {unit}"
    assert refused.value.hint.startswith(
        "provd service uninstall --system --user ci  # again\nsystemctl disable --now "
    )
    assert os.path.exists(unit)


def test_the_template_stays_while_another_user_has_an_instance(system: str) -> None:
    list(Systemd(Notes(), "ci").install(Plan(("/opt/provd", "run", "--root", "/r")), _TEMPLATE))
    others = Ran(0, "provd@.service disabled enabled\nprovd@other.service enabled enabled\n")

    done = list(Systemd(Notes(**{"list-unit-files": others}), "ci").uninstall())

    assert done == ["stopped and disabled provd@ci.service", f"removed {system}/provd@ci.service.d/provd.conf"]
    assert os.listdir(system) == ["provd@.service"]
    assert list(Systemd(Notes(), "ci").uninstall())[-1] == f"removed {system}/provd@.service"
    assert os.listdir(system) == []


def test_a_program_that_the_user_cannot_run_is_not_installed(system: str) -> None:
    notes = Notes(runuser=Ran(126, err="env: /root/x: Permission denied"))

    with pytest.raises(ServiceError, match="ci cannot run /root/x: env"):
        list(Systemd(notes, "ci").install(Plan(("/root/x", "run")), _TEMPLATE))

    assert os.listdir(system) == []


def test_a_unit_of_the_system_is_roots(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(ServiceError, match="root's to install"):
        list(Systemd(Notes(), "ci").install(Plan(("/opt/provd", "run")), _TEMPLATE))
    with pytest.raises(ServiceError, match="Interactive authentication required") as caught:
        Systemd(Notes(start=Ran(1, err="Interactive authentication required.")), "ci").start()

    assert caught.value.hint == "sudo systemctl start provd@ci.service"
    assert os.listdir(system) == []


_SAID = "Starting it\nprovd: a: no such key\n  next: provd config check  # lists\n  or: provd b\nexited, status=5\n"


def test_the_error_that_provd_ended_with_is_the_reason_and_has_the_next_step() -> None:
    notes = Notes(start=Ran(1, err="Job failed, see there"), journalctl=Ran(0, f"provd: of before\n{_SAID}Stopped\n"))

    with pytest.raises(ServiceError) as caught:
        Systemd(notes).start()

    assert caught.value.message == "systemd could not start provd.service: a: no such key"
    assert caught.value.hint.split("\n") == [
        "provd config check  # lists",
        "provd b",
        "journalctl --user -u provd.service -n 50",
    ]


def test_without_such_an_error_it_is_what_the_journal_has_last() -> None:
    lines = "".join(f"line {number}\n" for number in range(9))
    notes = Notes(start=Ran(1, err="Job failed"), journalctl=Ran(0, lines))

    with pytest.raises(ServiceError, match=r"Job failed; it logged: line 4 / line 5 / .* / line 8") as caught:
        Systemd(notes).start()

    assert caught.value.hint == "journalctl --user -u provd.service -n 50"


def test_lingering_is_switched_on_only_when_asked() -> None:
    assert list(Systemd(Notes()).linger()) == ["switched lingering on: it goes on after logout, and starts at boot"]
    with pytest.raises(ServiceError, match="lingering cannot be switched on: no") as caught:
        Systemd(Notes(loginctl=Ran(1, err="no"))).linger()
    assert caught.value.hint.startswith("sudo loginctl enable-linger ")


def test_found_never_raises_and_starts_nothing_where_nothing_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(itself, "home_of_the_system", lambda: None)
    notes = Notes()

    if not os.path.exists("/etc/systemd/system/provd@.service"):
        assert services.found(notes) is None
        assert notes.told == []
    unit = tmp_path / ".config/systemd/user/provd.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/x/provd run --state '/a b'\n")

    def broken(_command: Sequence[str], _timeout: float) -> Ran:
        raise OSError

    silent = services.found(lambda *_: Ran(127))
    assert services.found(broken) is None
    assert silent is not None
    assert (silent.command, silent.active, silent.enabled, silent.pid) == (
        ["/x/provd", "run", "--state", "/a b"],
        "unknown",
        None,
        None,
    )
    assert silent.socket == "/a b/provd.sock"


def test_a_unit_is_found_in_the_home_that_its_manager_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "other"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(itself, "home_of_the_system", lambda: str(tmp_path))
    unit = tmp_path / ".config/systemd/user/provd.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/x/provd run\n")

    found = services.found(lambda *_: Ran(127))

    assert found is not None
    assert found.file == str(unit)


def test_the_words_of_a_found_service() -> None:
    service = Service("systemd-user", "n", "/f", ["/p", "run", "--socket=/s"], None, "activating", None, None)

    assert (service.socket, service.runs) == ("/s", True)
    assert option(["--state", "/x", "--state"], "--state") == "/x"
    assert option(["--state"], "--state") is None


def test_this_provd_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "provd"
    script.write_text("#!/bin/sh\n")
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert itself.words() == (sys.executable, "-P", "-m", "provd")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["provd"])
    assert itself.words() == (str(script),)
    monkeypatch.setenv("PYTHONPATH", "lib::/abs")
    path = itself.search_path().get("PYTHONPATH", f"x:{tmp_path}/lib:/abs").split(":")
    assert path[1:] == [f"{tmp_path}/lib", "/abs"]


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


@pytest.mark.parametrize("name", ["samba$", "a%b", "with space", "jürgen", "1000", ""])
def test_names_that_systemd_takes_for_something_else(name: str) -> None:
    assert not services.is_instance(name)
    assert services.is_instance("ci-1.x_Y")


def test_a_masked_unit_is_said_with_what_to_do() -> None:
    masked = Ran(1, err="Failed to start provd.service: Unit provd.service is masked.")
    with pytest.raises(ServiceError, match="is masked") as caught:
        Systemd(Notes(start=masked)).start()
    assert caught.value.hint == "systemctl --user unmask provd.service"


def test_a_unit_whose_file_was_removed_by_hand_is_ended(system: str) -> None:
    link = f"{system}/multi-user.target.wants/provd@ci.service"
    os.mkdir(os.path.dirname(link))
    os.symlink(f"{system}/provd@.service", link)
    notes = Notes(show=Ran(0, "LoadState=loaded\nActiveState=active\n"))

    done = list(Systemd(notes, "ci").uninstall())

    assert done == ["stopped provd@ci.service, whose file was gone", f"removed {link}"]
    assert notes.verbs == ["stop", "daemon-reload"]
    assert not os.path.lexists(link)
