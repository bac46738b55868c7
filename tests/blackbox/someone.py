"""Somebody without privileges who uses provd in an environment of his own: his daemon and his commands.

Rule: nothing of this machine's environment reaches him but the checkout and the libraries. Root steps down to the user
`nobody` where an interpreter is to be had that `nobody` may run.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from changes import until
from support import HANG, REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable

NOBODY: Final = 65534
PYTHONPATH: Final = os.pathsep.join((REPOSITORY, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))


def libraries() -> list[str]:
    """The modules that provd needs beside Python's own: each is called as its distribution is."""
    with open(os.path.join(REPOSITORY, "pyproject.toml"), "rb") as file:
        needed = tomllib.load(file)["project"]["dependencies"]
    return [re.split(r"[^\w]", dependency)[0] for dependency in needed]


def down() -> dict[str, Any]:
    """What `subprocess` is told so that a child has no privileges; nothing where this process has none."""
    if os.geteuid() != 0:
        return {}
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []}


@functools.cache
def interpreter() -> str:
    """A Python that the ordinary user may run with the libraries; "" where there is none."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(OSError):
            done = subprocess.run(
                [candidate, "-c", f"import {', '.join(libraries())}"],
                env={"PYTHONPATH": PYTHONPATH},
                capture_output=True,
                check=False,
                timeout=HANG,
                **down(),
            )
            if done.returncode == 0:
                return candidate
    return ""


@dataclass
class Someone:
    """Who uses provd. `env` is all of his environment but PYTHONPATH, `before` runs in each of his processes first."""

    place: str  # his own directory, for all that is made here
    env: dict[str, str] = field(default_factory=dict)
    cwd: str = "/"
    before: Callable[[], None] | None = None
    options: tuple[str, ...] = ()  # of every command
    daemon: subprocess.Popen[bytes] | None = None

    @classmethod
    def new(cls) -> Someone:
        """Somebody with a directory of his own, a home in it, and nothing else."""
        place = tempfile.mkdtemp(prefix="provd-", dir="/tmp")
        someone = cls(place)
        someone.env = {"HOME": someone.made("home")}
        someone.own(place)
        return someone

    def own(self, path: str | bytes) -> None:
        """Makes something his."""
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    def made(self, name: str | bytes) -> str:
        """A new directory of his, by its path."""
        path = os.path.join(os.fsencode(self.place), os.fsencode(name))
        os.mkdir(path)
        self.own(path)
        return os.fsdecode(path)

    def wrote(self, path: str | bytes, content: str) -> None:
        """A file of his, written in place."""
        with open(path, "wb") as file:
            file.write(content.encode())
        self.own(path)

    def start(self, *arguments: str, **popen: Any) -> subprocess.Popen[bytes]:
        """The process of `provd run`, not waited for. What it says goes to `daemon.log`."""
        with open(os.path.join(self.place, "daemon.log"), "ab") as log:
            self.daemon = subprocess.Popen(
                [interpreter(), "-m", "provd", "run", *self.options, *arguments],
                **self._how({"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log} | popen),
            )
        return self.daemon

    def run(self, *arguments: str, code: int | None = 0, **popen: Any) -> subprocess.CompletedProcess[bytes]:
        """A command; it must end with `code`."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        name, *rest = arguments
        command = [interpreter(), "-m", "provd", name, *self.options, *rest]
        done = subprocess.run(command, timeout=HANG, check=False, **self._how(pipes | popen))
        assert code is None or done.returncode == code, (arguments, done, self.said())
        return done

    def _how(self, popen: dict[str, Any]) -> dict[str, Any]:
        return (
            {"env": {"PYTHONPATH": PYTHONPATH, **self.env}, "cwd": self.cwd, "preexec_fn": self.before} | down() | popen
        )

    def ready(self, by: str = "log", **popen: Any) -> None:
        """Waits until the daemon says that it is ready or, where nobody hears it (`by` "clock"), answers a command."""
        assert self.daemon is not None
        if by == "log":
            until(lambda: "ready" in self.said(), self.place, self.daemon)
            return
        deadline = time.monotonic() + HANG
        while self.run("clock", code=None, **popen).returncode != 0:
            assert self.daemon.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.005)  # as the support's daemon waits for what cannot tell

    def said(self) -> str:
        """What the daemon has said."""
        try:
            with open(os.path.join(self.place, "daemon.log"), "rb") as log:
                return log.read().decode(errors="backslashreplace")
        except OSError:
            return ""

    def everyday(self, work: str | None = None, *names: str | bytes) -> None:
        """What everybody does: a daemon on a directory, an entry, true verdicts before and after a change, all that
        is to be seen, the end.
        """
        work = work or self.made("work")
        self.start("--root", work)
        self.ready()
        self.remembers(work, *names)
        assert b"put" in self.run("log").stdout
        self.run("why", "k", "--root", work, code=1)
        assert b"provd" in self.run("status").stdout
        self.run("stop")
        assert self.daemon is not None
        assert self.daemon.wait(HANG) == 0, self.said()

    def shortly(self) -> None:
        """The same with the fewest commands: what the environment could break at the start, and true verdicts."""
        work = self.made("work")
        daemon = self.start("--root", work)
        self.ready()
        self.remembers(work)
        daemon.terminate()
        assert daemon.wait(HANG) == 0, self.said()

    def remembers(self, work: str, *names: str | bytes) -> None:
        """Puts an entry that rests on files of these names, asks, and is told the truth by a daemon that runs."""
        paths = [os.path.join(os.fsencode(work), os.fsencode(name)) for name in names or ("f",)]
        for path in paths:
            self.wrote(path, "one\n")
        there = ("--root", work)
        deps = [word for path in paths for word in ("--dep", f"file:{os.fsdecode(path)}")]
        assert b"absent" not in self.run("put", "k", "--value", "v", *deps, "--as-of-now", *there).stderr
        assert self.run("get", "k", *there).stdout == b"v"
        for path in paths:
            self.wrote(path, "two\n")
        (told,) = map(json.loads, self.run("check", "k", "--json", *there, code=1).stdout.splitlines())
        assert [evidence["why"] for evidence in told["evidence"]] == ["changed"] * len(paths)

    def close(self) -> None:
        """Ends the daemon, and removes what was made."""
        if self.daemon is not None and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()
        shutil.rmtree(os.fsencode(self.place), onerror=_open_up)


def _open_up(remove: Callable[..., Any], path: Any, _: Any) -> None:
    """A directory that was made unreadable is opened, and what failed is done again."""
    for closed in (os.path.dirname(path), path):
        with contextlib.suppress(OSError):
            os.chmod(closed, 0o700)
    with contextlib.suppress(OSError):
        remove(path)
