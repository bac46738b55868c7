"""provd as people type it, with a home of its own, and a systemctl that is none but does what is asked of it.

Rule: commands are processes of their own, as start and service begin processes of their own. What they leave behind
is ended by its pid.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Final

import pytest
from ran import Result
from support import HANG, Rpc, clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAM: Final = """#!{python} -I
import json, os, select, shlex, signal, socket, subprocess, sys, time
HERE = os.path.dirname(os.path.abspath(__file__))
words = [word for word in sys.argv[1:] if not word.startswith("-")]
options = [word for word in sys.argv[1:] if word.startswith("-")]
with open(os.path.join(HERE, "told"), "a") as told:
    print(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]), file=told)
if os.path.basename(sys.argv[0]) == "loginctl":
    print("no")
    sys.exit()
verb = words[0]
if os.path.exists(os.path.join(HERE, "no-bus")):
    sys.exit("Failed to connect to bus: No medium found")
place = os.path.join(HERE, "unit.json")
unit = {{"enabled": False, "pid": 0}}
if os.path.exists(place):
    with open(place) as file:
        unit = json.load(file)
file = os.path.join(os.environ["HOME"], ".config/systemd/user/provd.service")
def words_of():
    with open(file) as text:
        lines = [line.rstrip() for line in text]
    environment = [shlex.split(line.partition("=")[2])[0] for line in lines if line.startswith("Environment=")]
    command = [line.partition("=")[2] for line in lines if line.startswith("ExecStart=")][-1]
    return shlex.split(command), dict(pair.split("=", 1) for pair in environment)
def stop():
    if unit["pid"]:
        try:
            handle = os.pidfd_open(unit["pid"])
            signal.pidfd_send_signal(handle, signal.SIGTERM)
            select.select([handle], [], [], 60)
        except ProcessLookupError:
            pass
    unit["pid"] = 0
def start():
    command, environment = words_of()
    kept = {{name: os.environ[name] for name in ("HOME", "XDG_RUNTIME_DIR", "PATH")}}
    daemon = subprocess.Popen(command, env=kept | environment, cwd="/", stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    path = command[command.index("--socket") + 1]
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(path)
            break
        except OSError:
            if daemon.poll() is not None:
                sys.exit("Job for provd.service failed because the control process exited with error code.")
            time.sleep(0.01)
    unit["pid"] = daemon.pid
if verb == "show" and "--property=UnitPath" in options:
    print("UnitPath=/run/x /etc/systemd/user " + os.path.dirname(file))
elif verb == "show":
    print("LoadState=" + ("loaded" if os.path.exists(file) else "not-found"))
    print("FragmentPath=" + (file if os.path.exists(file) else ""))
    print("DropInPaths=")
    print("UnitFileState=" + ("enabled" if unit["enabled"] else "disabled"))
    print("ActiveState=" + ("active" if unit["pid"] else "inactive"))
    print("MainPID=%d" % unit["pid"])
elif verb == "enable":
    unit["enabled"] = True
elif verb == "disable":
    unit["enabled"] = False
    if "--now" in options:
        stop()
elif verb == "stop":
    stop()
elif verb == "start":
    unit["pid"] or start()
elif verb == "restart":
    stop()
    start()
elif verb not in ("daemon-reload", "reset-failed", "show-environment"):
    sys.exit("what is " + verb)
if verb.startswith("show"):
    sys.exit()
with open(place, "w") as file:
    json.dump(unit, file)
"""


class Home:
    """A home, a runtime directory and a PATH; `provd(...)` runs a command there."""

    def __init__(self) -> None:
        self.path = os.path.realpath(tempfile.mkdtemp(prefix="provd-", dir="/tmp"))
        self.bin = os.path.join(self.path, "bin")
        self.run = os.path.join(self.path, "run")
        self.state = os.path.join(self.path, ".local", "state", "provd")
        self.socket = os.path.join(self.run, "provd", "provd.sock")
        self.log = os.path.join(self.state, "provd.log")
        self.unit = os.path.join(self.path, ".config", "systemd", "user", "provd.service")
        self.root = os.path.join(self.path, "a root")
        self.env = {"XDG_RUNTIME_DIR": self.run, "PATH": self.bin}
        for directory in (self.bin, self.run, self.root):
            os.mkdir(directory)
        self._sockets = {self.socket}

    def with_systemd(self) -> None:
        """From now on there is a manager that answers."""
        for name in ("systemctl", "loginctl"):
            path = os.path.join(self.bin, name)
            with open(path, "w") as file:
                file.write(_PROGRAM.format(python=sys.executable))
            os.chmod(path, 0o755)

    def told(self) -> list[str]:
        """What systemctl was told to do, in turn; questions are left out."""
        with contextlib.suppress(FileNotFoundError), open(os.path.join(self.bin, "told")) as file:
            calls = [json.loads(line) for line in file]
            verbs = [next(word for word in call[1:] if not word.startswith("-")) for call in calls]
            asked = {"show", "show-environment", "show-user", "reset-failed", "daemon-reload"}
            return [verb for verb in verbs if verb not in asked]
        return []

    def environment(self, **env: str) -> dict[str, str]:
        """The environment of a command."""
        return clean_environment(self.path, {**self.env, **env})

    def command(self, *words: str) -> list[str]:
        """The words of a command."""
        return [sys.executable, "-m", "provd", *words]

    def provd(self, *words: str, code: int = 0, **env: str) -> Result:
        """Runs a command, which must end with `code`."""
        done = subprocess.run(
            self.command(*words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=HANG,
            check=False,
            cwd=self.path,
            env=self.environment(**env),
        )
        result = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert result.code == code, (words, result)
        return result

    def hello(self, socket: str | None = None) -> dict[str, Any]:
        """What the daemon says of itself."""
        self._sockets.add(socket or self.socket)
        with contextlib.closing(Rpc(socket or self.socket)) as rpc:
            hello: dict[str, Any] = rpc("daemon.hello", protocol=1)
        return hello

    def close(self) -> None:
        """Ends what answers, and removes the home."""
        for socket in self._sockets:
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                end(self.hello(socket)["pid"])
        shutil.rmtree(self.path, ignore_errors=True)


def end(pid: int) -> None:
    """Ends a process and waits for that."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [], HANG)
        finally:
            os.close(handle)


@pytest.fixture
def home() -> Iterator[Home]:
    """One for a test."""
    home = Home()
    yield home
    home.close()
