"""doctor: the service, the way to the daemon, and places on disk; each finding is made to happen."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import replace
from typing import Any

import pytest
from doctoring import Doctor, doctor
from fake_daemon import Hangup, Raw, Refusal, Silence, cli, fake

import provd
from provd import reach, refusals, services
from provd.cli.commands.doctor import facts, keeping
from provd.cli.commands.doctor.facts import Directory, Facts
from provd.cli.processes.holding import Holder
from provd.client import ProvdUnreachable
from provd.services import Service

__all__ = ["cli", "doctor", "fake"]

Json = dict[str, Any]


# ---- the unit


def _unit(**fields: Any) -> Service:
    known: Json = {
        "manager": "systemd-user",
        "name": "provd.service",
        "file": "/u/provd.service",
        "enabled": True,
        "command": ["/bin/sh", "run"],
        "active": "active",
        "pid": 12,
        "linger": True,
    }
    return Service(**(known | fields))


_UNITS: list[tuple[str, Json, str]] = [
    ("unit.failed", {"active": "failed", "pid": None}, "journalctl --user -u provd.service"),
    ("unit.failed", {"active": "failed", "pid": None, "manager": "systemd-system"}, "journalctl -u provd.service"),
    ("unit.inactive", {"active": "inactive", "pid": None}, "provd start"),
    ("unit.other", {"pid": 99}, "provd stop"),
    ("unit.disabled", {"enabled": False}, "provd service install"),
    ("unit.linger", {"linger": False}, "loginctl enable-linger"),
    ("unit.program", {"command": ["/nowhere/provd", "run"]}, "provd service install"),
]


@pytest.mark.parametrize(("code", "fields", "following"), _UNITS)
def test_what_is_wrong_with_the_unit(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, code: str, fields: Json, following: str
) -> None:
    monkeypatch.setattr(services, "found", lambda: _unit(**fields))

    found = doctor.finding()

    assert found["code"] == code
    assert "provd.service" in found["what"]
    assert following in found["next"]


def test_a_unit_that_is_tried_again_and_again(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "found", lambda: _unit(active="activating", pid=None))

    absent, starting = doctor.findings("--socket", "none")

    assert (absent["code"], starting["code"]) == ("socket.absent", "unit.starting")
    assert "journalctl --user -u provd.service" in starting["next"]


def test_a_unit_that_is_well(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "found", _unit)

    assert "provd.service is active, and starts by itself" in doctor.screen(code=0).out


def test_an_agent_of_launchd_that_is_well_is_no_finding(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with its user's session, as agents do: there is nothing like lingering to be switched on."""
    agent = _unit(manager="launchd", name="provd", file="/u/Library/LaunchAgents/provd.plist", linger=False)
    monkeypatch.setattr(services, "found", lambda: agent)

    assert "provd is active, and starts by itself" in doctor.screen(code=0).out


def test_a_unit_whose_manager_cannot_be_asked_is_no_finding(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    unasked: Json = {"active": "unknown", "enabled": None, "pid": None, "linger": None}
    monkeypatch.setattr(services, "found", lambda: _unit(**unasked))

    assert "its manager cannot be asked from here" in " ".join(doctor.screen(code=0).out.split())


# ---- the way to the daemon


def _without_daemon(found: list[Json]) -> Json:
    """The finding about the socket, which must be the only one."""
    assert [one["check"] for one in found] == ["socket"]
    assert found[0]["level"] == "fail"
    assert found[0]["next"]
    return found[0]


def test_without_a_daemon_that_is_the_finding_and_the_rest_goes_on(doctor: Doctor) -> None:
    found = _without_daemon(doctor.findings("--socket", os.path.join(doctor.state, "none.sock")))
    told = doctor.cli("doctor", "--json", "--socket", "none", code=1).json
    out = doctor.screen("--socket", "none").out

    assert (found["code"], "provd start" in found["next"]) == ("socket.absent", True)
    levels = {row["check"]: row["level"] for row in told["checks"]}
    assert (levels["config"], levels["unit"], levels["state"], levels["roots"]) == ("ok", "ok", "ok", "skipped")
    assert re.search(r"- skipped namespace, version", out)


def test_a_socket_that_a_killed_daemon_left(doctor: Doctor) -> None:
    path = os.path.join(doctor.state, "left.sock")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)

    found = _without_daemon(doctor.findings("--socket", path))

    assert found["code"] == "socket.stale"
    assert "provd start" in found["next"]


def test_a_file_where_the_socket_should_be(doctor: Doctor) -> None:
    path = os.path.join(doctor.state, "file.sock")
    with open(path, "w", encoding="ascii"):
        pass

    assert _without_daemon(doctor.findings("--socket", path))["code"] == "socket.file"


def test_a_path_that_is_too_long_for_a_socket(doctor: Doctor) -> None:
    assert _without_daemon(doctor.findings("--socket", "/tmp/" + 200 * "x"))["code"] == "socket.long"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "socket.stranger"),
        ({"name": "another"}, "socket.stranger"),
        (Hangup(), "socket.closed"),
        (Refusal("request", "only its user may ask", number=-32600), "socket.refused"),
    ],
)
def test_somebody_else_answers(doctor: Doctor, answer: Any, code: str) -> None:
    doctor.cli.fake.answers["daemon.hello"] = answer

    assert _without_daemon(doctor.findings())["code"] == code


def test_a_daemon_that_never_answers(doctor: Doctor) -> None:
    doctor.cli.fake.answers["daemon.hello"] = Silence()

    found = _without_daemon(doctor.findings("--timeout", "0.1"))

    assert found["code"] == "socket.silent"
    assert f"its process is {os.getpid()}" in found["why"]


def test_a_daemon_that_is_killed_and_does_not_end(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    doctor.cli.fake.answers["daemon.hello"] = Silence()
    monkeypatch.setattr(reach, "is_killed", lambda _: True)

    found = _without_daemon(doctor.findings("--timeout", "0.1"))

    assert f"its process {os.getpid()} is killed already" in found["why"]
    assert found["next"].startswith("provd start  # ")


def test_a_daemon_that_answers_and_never_tells_its_status(doctor: Doctor) -> None:
    doctor.cli.fake.answers["daemon.status"] = Silence()

    assert _without_daemon(doctor.findings("--timeout", "0.1"))["code"] == "socket.silent"


@pytest.mark.parametrize(
    ("error", "code"), [(PermissionError(1, "no"), "sandbox"), (PermissionError(13, "no"), "denied")]
)
def test_where_sockets_are_forbidden(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, error: OSError, code: str
) -> None:
    def refuse(*_: Any) -> None:
        raise error

    monkeypatch.setattr("provd.client.socket.socket", refuse)

    found = _without_daemon(doctor.findings())

    assert found["code"] == f"socket.{code}"
    assert "sandbox" in found["next"]


def test_a_daemon_on_the_same_state_that_answers_elsewhere(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provd.cli.commands.doctor.facts.holder", lambda path: Holder(77, "/t/b.sock"))

    found = _without_daemon(doctor.findings("--socket", "none"))

    assert "process 77 runs a daemon on this state directory" in found["why"]
    assert found["next"].startswith("export PROVD_SOCKET=/t/b.sock  # ")


# ---- places on disk

READ_ONLY = refusals.of(OSError(30, "Read-only file system"), "/state")


def _config(doctor: Doctor, text: str) -> str:
    path = os.path.join(doctor.cli.here, ".config", "provd", "config.toml")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


@pytest.mark.parametrize("text", ["[log]\nmax_record = 5\n", "[log]\nmax_records = 'many'\n", "not toml"])
def test_a_configuration_with_which_no_daemon_would_start(doctor: Doctor, text: str) -> None:
    path = _config(doctor, text)

    found = doctor.finding()

    assert (found["code"], found["level"]) == ("config", "fail")
    assert path in found["what"] + found["why"]


def test_a_root_of_the_configuration_that_is_not_there(doctor: Doctor) -> None:
    _config(doctor, 'roots = ["/nowhere/at/all"]\n')

    assert "/nowhere/at/all" in doctor.finding()["what"]


def test_a_configuration_that_is_right(doctor: Doctor) -> None:
    path = _config(doctor, "[log]\nmax_records = 5000\n")

    assert path in doctor.screen(code=0).out


def test_a_state_directory_that_others_may_look_into(doctor: Doctor) -> None:
    os.chmod(doctor.state, 0o755)

    found = doctor.finding()

    assert (found["code"], found["next"]) == ("state.mode", f"chmod 700 {doctor.state}")


def test_a_state_directory_that_was_removed_under_the_daemon(doctor: Doctor) -> None:
    os.rmdir(doctor.state)

    found = doctor.finding()

    assert (found["code"], found["level"]) == ("state.gone", "fail")
    assert found["next"].endswith("provd restart && provd import FILE")


def test_a_state_directory_that_is_none(doctor: Doctor) -> None:
    os.rmdir(doctor.state)
    with open(doctor.state, "w", encoding="ascii"):
        pass

    assert doctor.finding()["code"] == "state.unseen"


def test_a_store_that_was_set_aside_is_found_in_the_state_directory_without_a_daemon(doctor: Doctor) -> None:
    os.mkdir(os.path.join(doctor.state, "store.unusable-5"))

    absent, aside = doctor.findings("--socket", "none")

    assert (absent["code"], aside["code"]) == ("socket.absent", "store.aside")
    assert os.path.join(doctor.state, "store.unusable-5") in aside["what"]


def test_why_a_store_was_set_aside_is_said_where_the_daemon_knows(doctor: Doctor) -> None:
    os.mkdir(os.path.join(doctor.state, "store.unusable-5"))
    last = os.path.join(doctor.state, "store.unusable-6")
    doctor.tell(set_aside=last, set_aside_why="it was cut short")

    whys = {found["what"].split()[-1]: found["why"] for found in doctor.findings()}

    assert whys[last].startswith("it was cut short; its entries")
    assert whys[os.path.join(doctor.state, "store.unusable-5")].startswith("its entries")


_PLACES: list[tuple[str, str, Json]] = [
    ("state.network", "fail", {"network": True}),
    ("state.denied", "fail", {"writable": False}),
    ("state.owner", "fail", {"owner": 4321}),
    ("state.full", "warn", {"free": 100 * 1024**2}),
    ("state.full", "fail", {"free": 1024**2}),
    ("state.unseen", "fail", {"trouble": "it did not answer within 5 s"}),
    ("state.readonly", "fail", {"refusal": READ_ONLY, "free": 1024**2, "writable": False}),
    ("state.failing", "fail", {"refusal": refusals.of(OSError(5, "I/O"), "/state"), "trouble": "Input/output error"}),
]


@pytest.mark.parametrize(("code", "level", "fields"), _PLACES)
def test_what_a_state_directory_can_be_that_no_test_can_make(code: str, level: str, fields: Json) -> None:
    known: Json = {"owner": 1000} | fields
    facts = Facts("/s.sock", "1", "/p", directory=Directory("/state", **known), user=1000)

    (found,) = keeping.directory(facts)

    assert (found.code, found.level) == (code, level)
    assert found.next


def test_a_state_directory_that_cannot_be_made_on_a_read_only_file_system() -> None:
    absence = ProvdUnreachable("no daemon", "provd start", "absent")
    seen = Directory("/state", gone=True, writable=False, refusal=READ_ONLY)

    (found,) = keeping.directory(Facts("/s.sock", "1", "/p", absence=absence, directory=seen, user=1000))

    assert found.code == "state.readonly"


def test_a_store_that_is_open_for_reading_alone(doctor: Doctor) -> None:
    """The daemon saw it; from here the file system looks well. Broken: it advises a restart, which would not start."""
    doctor.tell(store={"reopened": 3, "map_bytes": 1 << 36, "reading_only": "the file system of /s is read-only"})

    found = doctor.finding()

    assert (found["code"], found["level"]) == ("store.reading", "fail")
    assert found["why"] == "the file system of /s is read-only"
    assert "restart" not in found["next"]


def test_of_a_disk_that_takes_no_writes_only_that_is_said(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    look = facts._look
    monkeypatch.setattr(facts, "_look", lambda path: replace(look(path), refusal=READ_ONLY))
    doctor.tell(store={"reopened": 3, "unusable": "EIO", "reading_only": "the file system of /s is read-only"})

    found = doctor.finding()

    assert found["code"] == "state.readonly"
    assert found["next"].startswith("findmnt -T /state  # ")


# ---- the code


def test_code_that_was_replaced_under_the_daemon_by_the_same_version(doctor: Doctor) -> None:
    doctor.tell(started_at="1000")

    found = doctor.finding()

    assert (found["code"], found["next"]) == ("version", "provd restart")
    assert "newer than itself" in found["what"]


def test_code_that_is_gone_from_under_the_daemon(doctor: Doctor) -> None:
    """As after `pip install -e .` where `pip install .` was before: the same version, and the old files are removed."""
    doctor.tell(package="/else/where/provd")

    found = doctor.finding()

    assert found["code"] == "version"
    assert "the files that the daemon (" in found["what"]
    assert "are gone" in found["what"]
    assert "nothing is left in /else/where/provd: " in found["why"]
    assert found["next"] == f"provd restart  # takes what this command runs from, {os.path.dirname(provd.__file__)}"
