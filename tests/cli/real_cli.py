"""The command line against a real daemon, in a watched root that no other test has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from support import HANG, clean_environment

from provd.cli import main

if TYPE_CHECKING:
    import pytest
    from support import Daemon


@dataclass(frozen=True)
class Result:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)


class RealCli:
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
        self._capsys = capsys

    def __call__(self, *arguments: str | bytes, code: int | None = 0) -> Result:
        """Run one command, which must end with `code` (None: with any)."""
        got = main([os.fsdecode(argument) for argument in arguments])
        out, err = self._capsys.readouterr()
        assert code in (None, got), (arguments, out, err)
        return Result(got, out, err)

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
