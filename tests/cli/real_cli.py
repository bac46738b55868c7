"""The command line against a real daemon, in a watched root that no other test has."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest
from ran import InProcess, Result
from support import HANG, clean_environment

if TYPE_CHECKING:
    from support import Daemon


class RealCli(InProcess):
    """Runs commands in `root`. `cli(...)` in this process, `cli.process(...)` as a process of their own."""

    def __init__(self, daemon: Daemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        for name in list(os.environ):
            if name.startswith(("PROVD_", "XDG_", "_PROVD")) or name == "NO_COLOR":
                monkeypatch.delenv(name)
        monkeypatch.setenv("PROVD_SOCKET", daemon.socket)
        self.daemon = daemon
        self.root = tempfile.mkdtemp(prefix="root-", dir=daemon.home)
        daemon.rpc("root.add", path=self.root)  # answers when it is scanned
        monkeypatch.chdir(self.root)
        super().__init__(capsys)

    def environment(self) -> dict[str, str]:
        """The environment of a process that asks this daemon."""
        return clean_environment(self.daemon.home, {"PROVD_SOCKET": self.daemon.socket})

    def process(self, *arguments: str | bytes, code: int = 0, stdin: str = "") -> Result:
        """The same, as a process."""
        done = subprocess.run(
            [sys.executable, "-m", "provd", *arguments],
            cwd=self.root,
            env=self.environment(),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=HANG,
            check=False,
        )
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        return Result(done.returncode, done.stdout, done.stderr)

    def write(self, name: str, content: str) -> None:
        """Write a file of the root in place."""
        with open(os.path.join(self.root, name), "w", encoding="utf-8") as file:
            file.write(content)


@pytest.fixture
def cli(module_daemon: Daemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RealCli:
    """The command line against the module's daemon, which goes on running."""
    return RealCli(module_daemon, capsys, monkeypatch)
