"""One reader at one terminal: a bash with a home of its own, where `provd` is the command of this checkout.

Rule: what is started here ends here, by its process id. Documents say `/home/me`; the home is a scratch directory.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Final, Self

from support import HANG, Rpc, RpcError, clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

HOME: Final = "/home/me"
_OTHERS: Final = ("GIT_", "LC_", "LANG", "DBUS_")  # also so that nobody's own service manager is asked
_DONE: Final = ". {file} </dev/null >{output} 2>&1; printf '%d\\n' $?\n"
_SETUP: Final = """
await_daemon() { until provd clock "$@" >/dev/null 2>&1; do sleep 0.02; done; }
"""


class SessionEnded(Exception):
    """The shell is gone or hangs: what it was doing, and what was printed."""


class Session:
    """A bash that runs commands one after the other; directories, variables and jobs stay from one to the next."""

    def __init__(self) -> None:
        self._scratch = os.path.realpath(tempfile.mkdtemp(prefix="provd-doc-", dir="/tmp"))
        self.home = os.path.join(self._scratch, "me")
        self._step = os.path.join(self._scratch, "step")
        self._steps = 0
        for directory in (self.home, self._at("bin"), self._at("tmp")):
            os.mkdir(directory)
        self._command("provd", f'exec "{sys.executable}" -m provd "$@"')
        self._command("python3", f'exec "{sys.executable}" "$@"')
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.home,
            env=self._environment(),
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        """For `with`: the session ends with the block."""
        assert self.run(_SETUP) == (0, [])
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _at(self, name: str) -> str:
        return os.path.join(self._scratch, name)

    def _command(self, name: str, text: str) -> None:
        """Put a command on the reader's PATH."""
        with open(self._at(f"bin/{name}"), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(file.name, 0o755)

    def _environment(self) -> dict[str, str]:
        """Nothing of the caller's settings, but the PATH and what Python needs."""
        git = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "me", "GIT_AUTHOR_EMAIL": "me@localhost"}
        git |= {"GIT_COMMITTER_NAME": "me", "GIT_COMMITTER_EMAIL": "me@localhost", "GIT_CONFIG_GLOBAL": os.devnull}
        own = {"PATH": f"{self._at('bin')}:{os.environ['PATH']}", "TMPDIR": self._at("tmp"), "LC_ALL": "C.UTF-8"}
        kept = {k: v for k, v in clean_environment(self.home).items() if not k.startswith(_OTHERS)}
        return kept | own | git | {"TERM": "dumb", "SHELL": "/bin/bash"}

    def local(self, text: str) -> str:
        """Text of a document with the reader's home put in."""
        return text.replace(HOME, self.home)

    def shown(self, text: str) -> str:
        """Text that was printed as a document shows it."""
        return text.replace(self.home, HOME)

    def run(self, commands: str) -> tuple[int, list[str]]:
        """Run commands of a document; their status, and the lines printed on both streams.

        What goes on in the background keeps a file of its own to print to. Raises SessionEnded.
        """
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._steps += 1
        file, output = f"{self._step}{self._steps}", f"{self._step}{self._steps}.out"
        with open(file, "w", encoding="utf-8") as step:
            step.write(self.local(commands) + "\n")
        self._bash.stdin.write(_DONE.format(file=file, output=output).encode())
        self._bash.stdin.flush()
        ready, _, _ = select.select([self._bash.stdout], [], [], HANG)
        status = self._bash.stdout.readline() if ready else b""
        with open(output, encoding="utf-8", errors="replace") as printed:
            lines = self.shown(printed.read()).splitlines()
        if not status:
            raise SessionEnded(f"{'the shell ended' if ready else 'hangs'}: {commands!r} printed {lines}")
        return int(status), lines

    def write(self, path: str, text: str) -> None:
        """Make a file of the reader's, `~` being the home; a script where its first line says so."""
        target = os.path.join(self.home, self.local(path).replace("~", self.home, 1))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(self.local(text))
        if text.startswith("#!"):
            os.chmod(target, 0o755)

    def sockets(self) -> Iterator[str]:
        """The sockets below the home."""
        for directory, _, names in os.walk(self._scratch):
            yield from (os.path.join(directory, name) for name in names if name.endswith(".sock"))

    def daemon(self) -> str:
        """The socket of the daemon that the reader's commands ask; raises SessionEnded where none answers."""
        told = "import json, sys; print(json.load(sys.stdin)['socket'])"
        status, lines = self.run(f'provd status --json | python3 -c "{told}"')
        if status:
            raise SessionEnded(f"no daemon answers: {lines}")
        return self.local(lines[-1])

    def close(self) -> None:
        """End every daemon that was started here, then the shell and its jobs, and remove the home."""
        try:
            for path in list(self.sockets()):
                with contextlib.suppress(OSError):
                    self._end(path)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._bash.pid, signal.SIGKILL)
            self._bash.communicate()
            shutil.rmtree(self._scratch, ignore_errors=True)

    @staticmethod
    def _end(path: str) -> None:
        """End the daemon behind a socket, and wait until it has gone (elsewhere than on Linux: says no more)."""
        with contextlib.closing(Rpc(path)) as rpc:
            try:
                pid = rpc("daemon.hello", protocol=1)["pid"]
            except RpcError:  # it is stopping
                rpc.at_end()
                return
            gone = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else os.dup(rpc.sock.fileno())
            try:
                os.kill(pid, signal.SIGTERM)
                select.select([gone], [], [], HANG)
            finally:
                os.close(gone)
