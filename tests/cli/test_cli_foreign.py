"""Commands in another mount namespace than the daemon's: what happened to their files is not known, and said."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Final

import pytest
from ran import Result
from starting import Home, home
from support import HANG

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["home"]

may_have_users = pytest.mark.skipif(
    subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode != 0,
    reason="no user namespace may be made here",
)


@pytest.fixture
def inside(home: Home) -> Callable[..., Result]:
    """Runs a command in a mount namespace of its own, where another file system lies on a directory of the root."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no mount namespace may be made here")
    os.mkdir(os.path.join(home.root, "sub"))
    home.provd("start", "--root", home.root)
    script = f"mount -t tmpfs t '{home.root}/sub' && cd '{home.root}' && exec \"$@\""

    def run(*words: str, code: int) -> Result:
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", script, "sh", *home.command(*words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=HANG,
            check=False,
            env=home.environment(PATH=f"{home.bin}:/usr/bin:/bin:/usr/sbin:/sbin"),
        )
        result = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert result.code == code, result
        return result

    return run


def test_exec_does_not_say_that_nothing_changed(home: Home, inside: Callable[..., Result]) -> None:
    report = os.path.join(home.path, "report")
    for declared in ([], ["--write", "sub"]):
        said = inside("exec", *declared, "--report", report, "--", "sh", "-c", "echo x > sub/new", code=0).err
        assert "what it changed is not known" in said
        assert "you may see other files than the daemon" in said
        assert "nothing changed" not in said
        with open(report) as file:
            told = json.load(file)
        assert told["complete"] is False
        assert "other files" in told["trouble"]


def test_the_log_is_not_complete(home: Home, inside: Callable[..., Result]) -> None:
    clock = home.provd("clock").out.strip()
    for words in (["since", clock], ["since", clock, "--path", "sub"], ["log", "--since", clock]):
        assert "incomplete: you may see other files than the daemon" in inside(*words, code=0).err
        page = json.loads(inside(*words, "--json", code=0).out.splitlines()[-1])
        assert (page["complete"], page["foreign"]) == (False, True)
    assert "incomplete" not in home.provd("since", clock).err


def test_an_audit_says_whose_files_it_compared(home: Home, inside: Callable[..., Result]) -> None:
    said = inside("audit", "--root", ".", code=4)
    assert "you may see other files than the daemon" in said.err
    assert json.loads(inside("audit", "--json", code=4).out)["foreign"] is True
    assert "foreign" not in json.loads(home.provd("audit", "--json").out)


def test_a_daemon_that_is_begun_in_another_namespace_is_told_of(home: Home, inside: Callable[..., Result]) -> None:
    already = inside("start", code=0).err
    assert "already running" in already
    assert "you may see other files than the daemon" in already
    assert "mount namespace" not in home.provd("start").err
    pid = home.hello()["pid"]
    said = inside("restart", code=0).err
    assert "restarted in the background" in said
    assert "it runs in this mount namespace" in said
    assert "next: provd stop  # to have it there; then start it outside" in said
    assert home.hello()["pid"] != pid
    assert "you may see other files than the daemon" in home.provd("start").err
    home.provd("stop")
    assert "it runs in this mount namespace" in inside("start", code=0).err
    home.provd("stop")
    assert "mount namespace" not in home.provd("start").err


_IN_USER_NAMESPACE: Final = ["unshare", "--user", "--map-root-user", "--mount"]
_WITHOUT_NUMBER: Final = ["unshare", "--user"]


def _in_namespace(home: Home, namespace: list[str], *words: str, code: int) -> Result:
    home.env["PATH"] = f"{home.bin}:/usr/bin:/bin:/usr/sbin:/sbin"
    done = subprocess.run(
        [*namespace, *home.command(*words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=HANG,
        check=False,
        env=home.environment(),
    )
    result = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert result.code == code, result
    return result


@may_have_users
def test_a_daemon_that_is_begun_in_a_user_namespace_is_told_of(home: Home) -> None:
    """It may not look at who is outside, nor may its start: that the namespace of mounts is another cannot be seen."""
    said = _in_namespace(home, _IN_USER_NAMESPACE, "start", "--root", home.root, code=0).err
    assert "it runs in this user namespace" in said
    assert "next: provd stop  # to have it there; then start it outside" in said
    assert "you may see other files than the daemon" in home.provd("start").err
    home.provd("stop")
    assert "namespace" not in home.provd("start").err
    assert "you may see" not in _in_namespace(home, _IN_USER_NAMESPACE[:-1], "start", code=0).err


@may_have_users
def test_without_a_number_of_ones_own_nothing_is_started_and_nobody_believed(home: Home) -> None:
    said = _in_namespace(home, _WITHOUT_NUMBER, "start", "--root", home.root, code=5).err
    assert "no daemon was started: in this user namespace you are known by no number" in said
    assert "next: provd start  # outside of it, or in a user namespace that has your number" in said
    assert not os.path.exists(home.state)
    home.provd("start")
    asked = _in_namespace(home, _WITHOUT_NUMBER, "status", code=3).err
    assert "in this user namespace you have no number, as others: who listens at" in asked
    assert "next: provd status  # outside of it, or in a user namespace that has your number" in asked


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount something at /proc")
def test_where_nothing_is_mounted_at_proc_it_is_said_that_it_cannot_be_told(home: Home) -> None:
    script = 'mount -t tmpfs none /proc && exec "$@"'
    blind = ["unshare", "-m", "sh", "-c", script, "sh"]
    for verb in ("start", "start", "restart"):
        said = _in_namespace(home, blind, verb, code=0).err
        assert "nothing is mounted at /proc where it runs, so it cannot tell which files clients see" in said
        assert "it runs in this" not in said
    assert "cannot tell which files you see (no /proc)" in " ".join(home.provd("status").out.split())
    assert "next: ls /proc/self/ns/mnt  # let the daemon read it (mount /proc" in home.provd("doctor", code=1).out
    home.provd("stop")
