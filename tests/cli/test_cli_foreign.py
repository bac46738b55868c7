"""Commands in another mount namespace than the daemon's: what happened to their files is not known, and said."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from ran import Result
from starting import Home, home
from support import HANG

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["home"]

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0,
    reason="no mount namespace may be made here",
)


@pytest.fixture
def inside(home: Home) -> Callable[..., Result]:
    """Runs a command in a mount namespace of its own, where another file system lies on a directory of the root."""
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
        assert "you see other files than the daemon" in said
        assert "nothing changed" not in said
        with open(report) as file:
            told = json.load(file)
        assert told["complete"] is False
        assert "other files" in told["trouble"]


def test_the_log_is_not_complete(home: Home, inside: Callable[..., Result]) -> None:
    clock = home.provd("clock").out.strip()
    for words in (["since", clock], ["since", clock, "--path", "sub"], ["log", "--since", clock]):
        assert "incomplete: you see other files than the daemon" in inside(*words, code=0).err
        page = json.loads(inside(*words, "--json", code=0).out.splitlines()[-1])
        assert (page["complete"], page["foreign"]) == (False, True)
    assert "incomplete" not in home.provd("since", clock).err


def test_an_audit_says_whose_files_it_compared(home: Home, inside: Callable[..., Result]) -> None:
    said = inside("audit", "--root", ".", code=4)
    assert "you see other files than the daemon" in said.err
    assert json.loads(inside("audit", "--json", code=4).out)["foreign"] is True
    assert "foreign" not in json.loads(home.provd("audit", "--json").out)


def test_a_daemon_that_is_begun_in_another_namespace_is_told_of(home: Home, inside: Callable[..., Result]) -> None:
    already = inside("start", code=0).err
    assert "already running" in already
    assert "you see other files than the daemon" in already
    assert "mount namespace" not in home.provd("start").err
    pid = home.hello()["pid"]
    said = inside("restart", code=0).err
    assert "restarted in the background" in said
    assert "it runs in this mount namespace" in said
    assert "next: provd stop  # to have it there; then start it outside" in said
    assert home.hello()["pid"] != pid
    assert "you see other files than the daemon" in home.provd("start").err
    home.provd("stop")
    assert "it runs in this mount namespace" in inside("start", code=0).err
    home.provd("stop")
    assert "mount namespace" not in home.provd("start").err
