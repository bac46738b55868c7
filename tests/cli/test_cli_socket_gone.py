"""A daemon that lives and whose socket is gone: said as it is, by every command; start has it made anew."""

from __future__ import annotations

import fcntl
import functools
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

import pytest
from starting import Home, home

from provd.cli.processes import holding, serving
from provd.client import ProvdUnreachable
from provd.places import LOCK_NAME

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["home"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only there the system says who holds a lock")


@pytest.fixture
def bereft(home: Home) -> int:
    """The process of a daemon whose socket was taken away."""
    home.provd("start")
    pid: int = home.hello()["pid"]
    os.unlink(home.socket)
    return pid


def test_questions_say_that_it_runs(home: Home, bereft: int) -> None:
    said = f"provd: process {bereft} runs, its socket is gone: {home.socket}\n"
    try:
        for words in (["check", "k"], ["status"], ["status", "--json"], ["ls"]):
            err = home.provd(*words, code=3).err

            assert err == f"{said}  next: kill -HUP {bereft}  # it makes its socket anew\n", words
        found = home.provd("doctor", code=1).out
        assert "its socket is gone" in found
        assert f"kill -HUP {bereft}" in found
        assert "elsewhere" not in found
    finally:
        home.provd("start")


def test_what_lies_in_its_place_is_said_and_that_it_is_stopped(home: Home, bereft: int) -> None:
    with open(home.socket, "w"):
        pass
    os.kill(bereft, signal.SIGSTOP)
    try:
        err = home.provd("check", "k", code=3).err

        assert f"provd: process {bereft} is stopped, a file lies in place of its socket: {home.socket}\n" in err
        assert f"  next: kill -CONT {bereft}  # it is stopped" in err
    finally:
        os.kill(bereft, signal.SIGCONT)
        os.unlink(home.socket)
        home.provd("start")


_LYING: Final[dict[str, Callable[[str], None]]] = {
    "a file": lambda path: os.close(os.open(path, os.O_CREAT)),
    "a directory": os.mkdir,
    "a special file": os.mkfifo,
    "a link that leads nowhere": functools.partial(os.symlink, "/nowhere/s"),
}


@pytest.mark.parametrize("there", _LYING)
def test_what_lies_in_its_place_is_no_reason_to_wait(home: Home, bereft: int, there: str) -> None:
    _LYING[there](home.socket)
    away = f"mv {home.socket} {home.socket}.other"

    for word in ("restart", "start"):  # the one that works is not ended for one that could not start
        err = home.provd(word, code=5).err
        assert err.startswith(f"provd: process {bereft} runs, {there} lies in place of its socket: {home.socket}\n")
        assert f"  next: {away} && kill -HUP {bereft}" in err
    assert holding.holder(home.state) is not None

    told = home.provd("stop").err
    assert told == f"provd: {there} lies in place of its socket\n  next: {away}  # then start\nstopped\n"
    assert holding.holder(home.state) is None
    assert f"no daemon: {home.socket} is {there}, not a socket" in home.provd("stop", code=3).err


def test_start_has_it_made_anew(home: Home, bereft: int) -> None:
    done = home.provd("start", "--root", home.root)

    assert f"the socket of process {bereft} was gone, and it has made it anew: {home.socket}\n" in done.err
    assert f"already running (pid {bereft})\n" in done.err
    assert home.hello()["pid"] == bereft
    assert f"now watching {home.root}" in done.err


@pytest.mark.parametrize("word", ["stop", "restart"])
def test_it_can_be_stopped(home: Home, bereft: int, word: str) -> None:
    assert "has made it anew" in home.provd(word).err

    assert (holding.holder(home.state) is None) == (word == "stop")
    assert word == "stop" or home.hello()["pid"] != bereft


def test_what_lies_in_its_place_is_named(home: Home, bereft: int) -> None:
    with open(home.socket, "w", encoding="utf-8"):
        pass

    err = home.provd("check", "k", code=3).err
    os.unlink(home.socket)
    home.provd("start")

    assert err.endswith(
        f"next: mv {home.socket} {home.socket}.other && kill -HUP {bereft}  # it makes its socket anew\n"
    )


@pytest.mark.parametrize(
    ("held", "is_told"),
    [
        (None, False),
        (holding.Holder(4, "", sure=True), False),
        (holding.Holder(4, "/nowhere/s"), False),
        (holding.Holder(4, "/dev/null", sure=True), False),
        (holding.Holder(4, "/nowhere/s", sure=True), True),
    ],
)
def test_only_the_holder_that_the_kernel_names_is_told(
    monkeypatch: pytest.MonkeyPatch, held: holding.Holder | None, is_told: bool
) -> None:
    told: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _: told.append(pid))
    monkeypatch.setattr(holding, "holder", lambda _: held)

    assert serving.rebound("/state", 0.01) is None
    assert told == ([4] if is_told else [])


@pytest.mark.parametrize("own", [True, False])
def test_a_holder_is_sure_where_the_kernel_has_the_same_number(tmp_path: Path, own: bool) -> None:
    pid = os.getpid() if own else os.getppid()
    (tmp_path / LOCK_NAME).write_text(f"{pid}\n/nowhere/s\n")

    with (tmp_path / LOCK_NAME).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held = holding.holder(str(tmp_path))

    assert held == holding.Holder(pid, "/nowhere/s", sure=own)
    assert holding.holder(str(tmp_path)) is None


def test_another_socket_and_other_reasons_stay_as_they_are() -> None:
    gone = ProvdUnreachable("m", "h", "absent")
    denied = ProvdUnreachable("m", "h", "denied")

    assert holding.bereft(gone, None, "/s", "/") is gone
    assert holding.bereft(gone, holding.Holder(7, "/t"), "/s", "/") is gone
    assert holding.bereft(denied, holding.Holder(7, "/s"), "/s", "/") is denied
