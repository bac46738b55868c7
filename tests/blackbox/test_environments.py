"""provd where the environment is poor, odd or hostile: it works as an ordinary user, or says what is wrong."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import stat
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from someone import PYTHONPATH, Someone, interpreter
from support import HANG, REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what is looked at here")

pytestmark = pytest.mark.skipif(not interpreter(), reason="no Python here that an ordinary user may run")


@pytest.fixture
def someone() -> Iterator[Someone]:
    made = Someone.new()
    try:
        yield made
    finally:
        made.close()


# ---- variables: each is set so, or unset where it is None

POOR: dict[str, dict[str, str | None]] = {
    "no variables at all": {"HOME": None, "PROVD_STATE_DIR": "{place}/state"},
    "an empty home": {"HOME": "", "PROVD_STATE_DIR": "{place}/state"},
    "a home that is not there": {"HOME": "/nonexistent/home", "PROVD_STATE_DIR": "{place}/state"},
    "a home that is a file": {"HOME": "/dev/null", "XDG_STATE_HOME": "{place}/state"},
    "desktop directories that are relative": {"XDG_STATE_HOME": "x", "XDG_RUNTIME_DIR": "y", "XDG_CONFIG_HOME": "z"},
    "empty variables": {"XDG_STATE_HOME": "", "XDG_RUNTIME_DIR": "", "XDG_CONFIG_HOME": "", "PROVD_SOCKET": ""},
    "a runtime directory that is not there": {"XDG_RUNTIME_DIR": "{place}/run/user/7"},
    "directories of a service manager": {"STATE_DIRECTORY": "{place}/s:/x", "RUNTIME_DIRECTORY": "{place}/r:/y"},
    "a terminal of no kind, no time zone, no place for temporary files": {
        "TERM": "dumb",
        "COLUMNS": "1",
        "TZ": "Nowhere/Nothing",
        "TMPDIR": "/nonexistent/tmp",
    },
    "a strict Python": {"PYTHONSAFEPATH": "1", "PYTHONOPTIMIZE": "2", "PYTHONPYCACHEPREFIX": "{place}/compiled"},
    "a Python that warns": {"PYTHONDEVMODE": "1", "PYTHONDONTWRITEBYTECODE": "1"},
}


def test_with_a_home_and_nothing_else_everything_works(someone: Someone) -> None:
    someone.everyday()


@pytest.mark.parametrize("variables", POOR.values(), ids=POOR.keys())
def test_in_a_poor_environment_everything_works(someone: Someone, variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            someone.env.pop(name, None)
        else:
            someone.env[name] = value.format(place=someone.place)
    someone.shortly()


LOCALES: dict[str, dict[str, str]] = {
    "C": {"LC_ALL": "C"},
    "C, without UTF-8 mode": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "one that is not there": {"LC_ALL": "xx_XX.ISO-8859-1"},
    "ASCII streams": {"LANG": "POSIX", "PYTHONIOENCODING": "ascii"},
}
NAMES = ("\u00e4\u00f6 \u4e2d.txt".encode(), b"\xff\xfe \xe4", b"a\nb\x1b[31m")


@pytest.mark.parametrize("locale", LOCALES.values(), ids=LOCALES.keys())
def test_in_any_locale_any_name_is_a_name(someone: Someone, locale: dict[str, str]) -> None:
    someone.env |= locale
    someone.env["HOME"] = someone.made(b"h" + b"".join(NAMES))
    someone.everyday(someone.made(b"w" + b"".join(NAMES)), *NAMES)


@pytest.mark.parametrize("locale", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {}])
def test_the_configuration_is_utf8_in_any_locale(someone: Someone, locale: dict[str, str]) -> None:
    someone.env |= locale
    root = someone.made("w\u00e4".encode())
    someone.env["PROVD_CONFIG"] = os.path.join(someone.place, "c.toml")
    someone.wrote(someone.env["PROVD_CONFIG"], f'roots = ["{someone.place}/w\u00e4", "~"]  # \u4e2d\n')
    assert someone.run("config", "check").stdout == b""
    someone.start()
    someone.ready()
    someone.remembers(root)
    assert len(someone.run("watch", "ls").stdout.splitlines()) >= 3
    someone.run("config", "show")


# ---- directories


def test_a_home_that_is_read_only_but_for_the_state(someone: Someone) -> None:
    home = someone.env["HOME"]
    state = home
    for part in (".local", "state", "provd"):
        state = os.path.join(state, part)
        os.mkdir(state)
        someone.own(state)
    for path in (os.path.dirname(state), os.path.dirname(os.path.dirname(state)), home):
        os.chmod(path, 0o500)
    someone.shortly()
    assert os.listdir(home) == [".local"]


@pytest.mark.parametrize(
    ("where", "by"),
    [
        ("a b\tc", "--state"),
        (b"\xff\xe4", "PROVD_STATE_DIR"),
        (b"\xff \xe4", "--state"),
        ("-x", "--state"),
        ("~", "PROVD_STATE_DIR"),
        ("a\nb", "--state"),
        ("link", "PROVD_STATE_DIR"),
    ],
)
def test_a_state_directory_of_any_name(someone: Someone, where: str | bytes, by: str) -> None:
    state = os.fsdecode(os.path.join(os.fsencode(someone.place), os.fsencode(where)))
    if where == "link":
        os.symlink(someone.made("real"), state)
    if by == "--state":
        someone.options = ("--state", state)
    else:
        someone.env[by] = state
    someone.shortly()
    assert os.path.exists(os.path.join(os.fsencode(state), b"store"))


def test_without_a_home_that_can_be_written_to_the_place_and_the_next_step_are_told(someone: Someone) -> None:
    someone.env["HOME"] = "/nonexistent/home"
    refused = someone.run("run", code=5).stderr.decode()
    assert "/nonexistent/home/.local/state/provd" in refused
    assert "--state" in refused
    unreachable = someone.run("status", code=3).stderr.decode()
    assert "/nonexistent/home/.local/state/provd/provd.sock" in unreachable


def test_a_home_too_deep_for_a_socket_is_told_with_what_to_do(someone: Someone) -> None:
    home = someone.env["HOME"] = os.path.join(someone.env["HOME"], "d" * 100)
    someone.run("status", code=3)
    refused = someone.run("run", code=5).stderr.decode()
    assert "107" in refused
    assert "--socket" in refused
    someone.env["XDG_RUNTIME_DIR"] = someone.made("r")
    someone.shortly()
    assert os.path.isdir(os.path.join(home, ".local", "state", "provd", "store"))


@pytest.mark.parametrize("gone", ["daemon", "commands"])
def test_a_current_directory_that_is_gone(someone: Someone, gone: str) -> None:
    work, away = someone.made("work"), os.path.join(someone.place, "away")
    leave = partial(_leave, away)
    someone.start("--root", work, **({"preexec_fn": leave} if gone == "daemon" else {}))
    someone.ready()
    someone.before = leave if gone == "commands" else None
    someone.remembers(work)
    if gone == "commands":
        someone.run("put", "of the only root", "--dep", f"{work}/f", "--as-of-now", "--value", "1")
        someone.run("exec", "--", "sh", "-c", f"echo three > {work}/f")
        assert b"dirty" in someone.run("check", "of the only root", "--root", work, code=1).stdout


def _leave(away: str) -> None:
    os.mkdir(away)
    os.chdir(away)
    os.rmdir(away)


# ---- descriptors and limits


def closing(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


@_LINUX
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (1, 2), (0, 1, 2)])
def test_a_daemon_without_standard_streams(someone: Someone, closed: tuple[int, ...]) -> None:
    work = someone.made("work")
    daemon = someone.start("--root", work, preexec_fn=partial(closing, *closed))
    someone.ready("clock" if 2 in closed else "log")
    someone.remembers(work)
    for descriptor in closed:  # none of them became a socket or the store
        assert os.readlink(f"/proc/{daemon.pid}/fd/{descriptor}") == os.devnull
    daemon.terminate()
    assert daemon.wait(HANG) == 0


def test_commands_without_standard_streams_say_by_their_code_what_was_delivered(someone: Someone) -> None:
    work = someone.made("work")
    someone.wrote(os.path.join(work, "f"), "one\n")
    someone.start("--root", work)
    someone.ready()
    put = ("put", "k", "--value", "v", "--dep", f"file:{work}/f", "--as-of-now")
    for closed in ((0,), (1,), (2,), (0, 1, 2)):
        code = 5 if 1 in closed else 0  # an answer that cannot be written is a failure, never a verdict
        someone.before = partial(closing, *closed)
        someone.run(*put, "--root", work, code=code)
        someone.run("get", "k", "--root", work, code=code)
    someone.run("check", "-q", "k", "--root", work)
    someone.run("status", code=5)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_full_disk_behind_standard_output_is_a_failure_of_commands_alone(someone: Someone) -> None:
    work = someone.made("work")
    with open("/dev/full", "wb") as full:
        daemon = someone.start("--root", work, stdout=full, stderr=full)
        someone.ready("clock")
        someone.remembers(work)
        assert b"No space" in someone.run("status", stdout=full, code=5).stderr
        someone.run("status", stderr=full)
        someone.run("check", "nothing", stderr=full, code=4)
        someone.run("stop", stderr=full, stdout=full, code=None)
    assert daemon.wait(HANG) == 0


@pytest.mark.parametrize("mask", [0o000, 0o777, 0o377])
def test_any_umask(someone: Someone, mask: int) -> None:
    someone.before = partial(_umask, mask)
    someone.env["XDG_RUNTIME_DIR"] = someone.made("r")
    someone.shortly()
    state = os.path.join(someone.env["HOME"], ".local", "state", "provd")
    modes = {"directory": set[int](), "file": set[int]()}
    for directory, _, files in os.walk(state):
        modes["directory"].add(stat.S_IMODE(os.stat(directory).st_mode))
        modes["file"] |= {stat.S_IMODE(os.lstat(os.path.join(directory, name)).st_mode) for name in files}
    assert modes == {"directory": {0o700}, "file": {0o600}}
    someone.run("config", "init")
    assert b"nothing wrong" in someone.run("config", "check").stderr
    settings = os.path.join(someone.env["HOME"], ".config")
    assert stat.S_IMODE(os.stat(settings).st_mode) == 0o777 & ~(mask & 0o077)


def _umask(mask: int) -> None:
    os.umask(mask)


BACKGROUND: dict[str, dict[str, Any]] = {
    "home and nothing else": {},
    "C locale, umask 777": {"preexec_fn": partial(_umask, 0o777), "env": {"LC_ALL": "C"}},
    "no standard streams": {"preexec_fn": partial(closing, 0, 1, 2)},
    "no home": {"env": {"HOME": "/nonexistent", "PROVD_STATE_DIR": "{place}/state"}},
}


@pytest.mark.parametrize("how", BACKGROUND.values(), ids=BACKGROUND.keys())
def test_a_daemon_in_the_background(someone: Someone, how: dict[str, Any]) -> None:
    someone.env |= {name: value.format(place=someone.place) for name, value in how.get("env", {}).items()}
    work = someone.made("work")
    before = {name: value for name, value in how.items() if name == "preexec_fn"}
    try:
        someone.run("start", "--root", work, **before)
        someone.remembers(work)
    finally:
        someone.run("stop")


LIMITS: dict[str, list[tuple[int, int]]] = {
    "4 GiB of addresses": [(resource.RLIMIT_AS, 4 * 1024**3)],
    "no core": [(resource.RLIMIT_CORE, 0)],
    "a small stack": [(resource.RLIMIT_STACK, 1024**2)],
    "no locked memory": [(resource.RLIMIT_MEMLOCK, 0)],
    "files of 64 MiB": [(resource.RLIMIT_FSIZE, 64 * 1024**2)],
}


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS.keys())
def test_under_low_limits(someone: Someone, limits: list[tuple[int, int]]) -> None:
    someone.before = partial(_limit, limits)
    someone.shortly()


def _limit(limits: list[tuple[int, int]]) -> None:
    for which, most in limits:
        resource.setrlimit(which, (most, most))


def test_with_64_descriptors_clients_over_the_limit_wait_and_nothing_breaks(someone: Someone) -> None:
    someone.before = partial(_limit, [(resource.RLIMIT_NOFILE, 64)])
    work = someone.made("work")
    someone.start("--root", work)
    someone.ready()
    path = os.path.join(someone.env["HOME"], ".local", "state", "provd", "provd.sock")
    crowd = []
    for _ in range(100):
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        crowd.append(client)
    for client in crowd:
        client.close()
    someone.remembers(work)


def test_with_fewer_descriptors_the_limit_is_named(someone: Someone) -> None:
    someone.before = partial(_limit, [(resource.RLIMIT_NOFILE, 40)])
    assert b"ulimit -n" in someone.run("run", code=5).stderr


def test_a_user_that_the_system_does_not_know(someone: Someone) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to be such a user")
    unknown = 4_000_000
    someone.env = {"PROVD_STATE_DIR": os.path.join(someone.place, "s")}
    os.chmod(someone.place, 0o777)
    as_unknown = {"user": unknown, "group": unknown}
    work = someone.made("work")
    someone.start("--root", work, **as_unknown)
    someone.ready()
    someone.run("clock", **as_unknown)
    someone.run("config", "show", **as_unknown)
    someone.run("stop", **as_unknown)
    someone.env = {}
    assert b"--state" in someone.run("run", code=5, **as_unknown).stderr


def test_with_too_little_memory_for_a_store_the_limit_is_named(someone: Someone) -> None:
    someone.before = partial(_limit, [(resource.RLIMIT_AS, 600 * 1024**2)])
    assert b"ulimit -v" in someone.run("run", code=5).stderr


def test_an_installation_that_cannot_be_written_to(someone: Someone) -> None:
    copy = os.path.join(someone.place, "site")
    shutil.copytree(f"{REPOSITORY}/provd", f"{copy}/provd", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["chmod", "-R", "a+rX,a-w", copy], check=True)
    someone.env["PYTHONPATH"] = copy + os.pathsep + PYTHONPATH
    someone.shortly()
    assert not any("__pycache__" in names for _, names, _ in os.walk(copy))
