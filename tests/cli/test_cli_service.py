"""service, and start, stop and restart where it is installed: what systemd is told, and that the daemon agrees."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from fake_daemon import Cli, cli, fake
from starting import Home, home
from support import HANG

from provd import services

__all__ = ["cli", "fake", "home"]

_USER = pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux")


@pytest.fixture
def managed(home: Home) -> Home:
    home.with_systemd()
    return home


def _tree(path: str) -> set[str]:
    return {os.path.join(where, name) for where, _, names in os.walk(path) for name in names if name != "told"}


@_USER
def test_install_says_what_it_did_and_the_daemon_answers(managed: Home) -> None:
    done = managed.provd("service", "install", "--root", "a root")

    hello = managed.hello()
    assert done.err.splitlines() == [
        f"wrote {managed.unit}",
        "enabled provd.service: it starts with your first login",
        "started provd.service",
        f"provd answers at {managed.socket} (pid {hello['pid']})",
        "it ends with your last logout; to keep it, and start it at boot: loginctl enable-linger",
    ]
    assert managed.told() == ["enable", "start"]
    assert hello["roots"] == [managed.root]


@_USER
def test_install_again_changes_nothing(managed: Home) -> None:
    managed.provd("service", "install")
    before = managed.hello()

    done = managed.provd("service", "install")

    assert done.err.splitlines()[0] == f"provd answers at {managed.socket} (pid {before['pid']})"
    assert managed.told() == ["enable", "start"]

    managed.provd("service", "install", "--root", managed.root)

    assert managed.told() == ["enable", "start", "restart"]
    assert managed.hello()["roots"] == [managed.root]


@_USER
def test_install_again_without_roots_keeps_those_of_the_unit(managed: Home) -> None:
    managed.provd("service", "install", "--root", managed.root, "--root", managed.path)
    before, unit = managed.hello(), _read(managed.unit)

    done = managed.provd("service", "install")

    kept = f"it goes on watching {managed.root}, {managed.path}: --root names others"
    assert done.err.splitlines()[:2] == [kept, f"provd answers at {managed.socket} (pid {before['pid']})"]
    assert managed.told() == ["enable", "start"]
    assert _read(managed.unit) == unit
    assert managed.provd("service", "print").out == unit


@_USER
def test_install_again_asks_for_roots_that_only_the_manager_can_resolve(managed: Home) -> None:
    managed.provd("service", "install", "--root", managed.root)
    unit = _read(managed.unit).replace(managed.root, "${WORK}")
    with open(managed.unit, "w", encoding="utf-8") as file:
        file.write(unit)

    done = managed.provd("service", "install", code=2)

    assert "the unit that is installed watches ${WORK}, which only its manager can resolve" in done.err
    assert "--root" in done.err
    assert _read(managed.unit) == unit


@_USER
def test_install_after_an_upgrade_takes_the_new_program(managed: Home) -> None:
    managed.provd("service", "install")
    words = ["service", "install"]
    code = f"import sys, provd; provd.__version__ = '99'; from provd.cli import main; sys.exit(main({words}))"

    subprocess.run([sys.executable, "-c", code], env=managed.environment(), timeout=HANG, check=True)

    assert managed.told() == ["enable", "start", "restart"]


@_USER
def test_a_daemon_in_the_background_makes_room(managed: Home) -> None:
    managed.provd("start", "--root", managed.root)
    elsewhere = os.path.join(managed.path, "s.sock")
    managed.provd("stop")
    managed.provd("start", "--state", managed.state, "--socket", elsewhere)
    pid = managed.hello(elsewhere)["pid"]

    done = managed.provd("service", "install")

    assert done.err.splitlines()[0] == f"stopped the daemon that ran outside the service (pid {pid})"
    assert managed.hello()["roots"] == [managed.root]


@_USER
def test_install_leaves_a_daemon_alone_that_an_old_lock_names(managed: Home) -> None:
    elsewhere = os.path.join(managed.path, "e.sock")
    managed.provd("start", "--state", "other", "--socket", elsewhere)
    pid = managed.hello(elsewhere)["pid"]
    os.makedirs(managed.state)
    with open(os.path.join(managed.state, "lock"), "w") as lock:
        lock.write(f"1\n{elsewhere}\n")

    assert "stopped" not in managed.provd("service", "install").err

    assert managed.hello(elsewhere)["pid"] == pid


@_USER
def test_start_stop_and_restart_are_the_managers(managed: Home) -> None:
    managed.provd("service", "install")

    assert managed.provd("stop").err == "stopped provd.service\n"
    assert "no daemon" in managed.provd("stop", code=3).err
    assert managed.provd("start", "--root", managed.root).err.startswith("started provd.service (pid ")
    before = managed.hello()
    assert managed.provd("start").err == f"already running (pid {before['pid']})\n"
    assert managed.provd("start", "--backend", "poll").err.endswith(
        "runs with watch.backend auto; to change that: "
        "provd restart  # when watch.backend is set in the configuration (provd config path)\n"
    )
    assert managed.provd("restart").err.startswith("restarted provd.service (pid ")
    assert managed.hello()["pid"] != before["pid"]
    assert managed.hello()["roots"] == [managed.root]
    assert managed.told() == ["enable", "start", "stop", "start", "restart"]
    assert "--backend is for a daemon in the background" in managed.provd("restart", "--backend", "poll", code=2).err
    assert not os.path.exists(managed.log)


@_USER
def test_a_daemon_at_another_socket_is_not_the_managers(managed: Home) -> None:
    managed.provd("service", "install")
    there = os.path.join(managed.path, "s.sock")

    managed.provd("start", "--state", "other", "--socket", "s.sock")
    other = managed.hello(there)
    managed.provd("restart", "--socket", "s.sock")
    assert managed.hello(there)["pid"] != other["pid"]
    assert managed.provd("stop", "--socket", "s.sock").err == "stopped\n"

    assert managed.told() == ["enable", "start"]


@_USER
def test_a_daemon_outside_the_service_is_stopped_by_its_own_word(managed: Home) -> None:
    managed.provd("service", "install")
    managed.provd("stop")
    managed.provd("run", "--state", "/dev/null/x", code=5)
    told = managed.told()
    os.rename(managed.unit, f"{managed.unit}.away")
    managed.provd("start")
    os.rename(f"{managed.unit}.away", managed.unit)

    managed.provd("restart")

    assert managed.told() == [*told, "restart"]
    assert managed.provd("stop").err == "stopped provd.service\n"


@_USER
def test_client_and_daemon_agree_whatever_the_variables_say(managed: Home) -> None:
    managed.env["PROVD_STATE_DIR"] = os.path.join(managed.path, "st ate")
    managed.env["XDG_CONFIG_HOME"] = os.path.join(managed.path, ".config")
    managed.provd("service", "install")

    socket = os.path.join(managed.path, "st ate", "provd.sock")
    assert managed.hello(socket)["name"] == "provd"
    with open(managed.unit) as unit:
        text = unit.read()
    assert f"Environment=XDG_CONFIG_HOME={managed.path}/.config\n" in text
    assert f'--state "{managed.path}/st ate" --socket "{socket}"' in text
    assert managed.provd("stop").err == "stopped provd.service\n"


@_USER
def test_uninstall_leaves_what_is_remembered(managed: Home) -> None:
    managed.provd("service", "install")
    managed.provd("put", "k", "--value", "v", "--no-deps", "--scope", "s")

    done = managed.provd("service", "uninstall")

    assert done.err.splitlines() == [
        "stopped and disabled provd.service",
        f"removed {managed.unit}",
        f"what it remembers stays in {managed.state}",
    ]
    assert managed.told() == ["enable", "start", "disable"]
    assert "no daemon" in managed.provd("stop", code=3).err
    assert managed.provd("service", "uninstall").err == "no service of provd is installed here\n"
    managed.provd("start")
    assert managed.provd("get", "k", "--scope", "s").out == "v"


@_USER
def test_a_unit_that_somebody_changed_is_left_alone(managed: Home) -> None:
    managed.provd("service", "install")
    with open(managed.unit, "a") as unit:
        unit.write("# mine\n")
    text = _read(managed.unit)

    done = managed.provd("service", "install", "--root", managed.root, code=5)

    assert "was not written by provd service install, or was changed since" in done.err
    shows = f"  next: provd service print | diff - {managed.unit}  # "
    assert f"\n{shows}" in done.err
    assert "\n  or: systemctl --user edit provd.service  # " in done.err
    assert text == managed.provd("service", "print").out + "# mine\n"
    left = managed.provd("service", "uninstall", code=5).err
    assert "was changed since" in left
    assert f"\n{shows}" in left
    assert _read(managed.unit) == text
    assert managed.told() == ["enable", "start"]


@_USER
def test_a_service_that_does_not_start(managed: Home) -> None:
    os.makedirs(os.path.dirname(managed.state))
    with open(managed.state, "w"):
        pass

    done = managed.provd("service", "install", code=5)

    assert f"wrote {managed.unit}\n" in done.err
    assert "systemd could not start provd.service: Job for provd.service failed" in done.err
    assert "next: systemctl --user status provd.service" in done.err


@_USER
def test_without_systemctl(home: Home) -> None:
    done = home.provd("service", "install", code=5)

    assert "there is no systemctl: this system is not run by systemd" in done.err
    assert "next: provd start" in done.err
    assert not os.path.exists(home.unit)
    done = home.provd("service", "uninstall", code=5)
    assert "no systemctl" in done.err
    assert "next: provd stop  # " in done.err
    assert "provd start" not in done.err


@_USER
def test_without_a_manager_that_answers(managed: Home) -> None:
    with open(os.path.join(managed.bin, "no-bus"), "w"):
        pass

    done = managed.provd("service", "install", code=5)

    assert "does not answer" in done.err or "systemd does not run here" in done.err
    assert "provd start  # in the background" in done.err
    assert not os.path.exists(managed.unit)


@_USER
def test_where_the_manager_has_gone_it_runs_in_the_background(managed: Home) -> None:
    managed.provd("service", "install")
    managed.provd("stop")
    with open(os.path.join(managed.bin, "no-bus"), "w"):
        pass

    done = managed.provd("start")

    pid = managed.hello()["pid"]
    assert done.err.splitlines() == [
        "provd: the manager of provd.service does not answer: going on without it",
        f"started in the background (pid {pid}); it logs to {managed.log}",
        "nothing is watched yet: provd watch add .  # or another directory",
    ]
    assert managed.provd("stop").err.endswith("\nstopped\n")


@_USER
def test_print_touches_nothing(managed: Home) -> None:
    before = _tree(managed.path)

    done = managed.provd("service", "print", "--root", managed.root, "--socket", "/s")

    assert done.err == ""
    assert f'--socket /s --root "{managed.root}"\n' in done.out
    assert "Type=notify\n" in done.out
    assert done.out.startswith("# Written by provd service install")
    assert _tree(managed.path) == before
    managed.provd("service", "install", "--root", managed.root, "--socket", managed.socket)
    assert _read(managed.unit) == done.out.replace("--socket /s", f"--socket {managed.socket}").replace(
        done.out.splitlines()[0], _read(managed.unit).splitlines()[0]
    )


@_USER
def test_print_for_the_system(home: Home) -> None:
    plain = home.provd("service", "print", "--system", "--user", "root").out

    assert "User=%i\n" in plain
    assert plain.splitlines()[-1] == "WantedBy=multi-user.target"
    assert "--state" not in plain
    both = home.provd("service", "print", "--system", "--user", "root", "--root", home.root).out
    assert both.startswith("# /etc/systemd/system/provd@.service\n")
    assert "\n# /etc/systemd/system/provd@root.service.d/provd.conf\n" in both
    assert both.endswith(f' run --root "{home.root}"\n')


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--user", "root"], "--user says whose unit of the system is meant"),
        (["--system"], "--system needs to know whose daemon it is"),
        (["--system", "--user", "no such"], "there is no user 'no such'"),
        (["--root", "/nowhere at all"], "there is no such directory"),
        (["--root", "/etc/passwd"], "is no directory"),
    ],
)
def test_what_cannot_be_meant(cli: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)

    got = cli("service", "print", *words, code=2)

    assert said in got.err
    assert "next: " in got.err


def test_print_on_a_mac(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "PLATFORM", "darwin")
    monkeypatch.setenv("HOME", cli.here)

    out = cli("service", "print").out

    assert f"<string>{cli.here}/Library/Logs/provd.log</string>" in out
    assert "<key>RunAtLoad</key>" in out
    assert "no system service on macOS" in cli("service", "print", "--system", code=2).err
    assert os.listdir(cli.here) == [os.path.basename(cli.fake.path)]


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()
