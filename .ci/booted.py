"""Words for checks in a systemd that was booted for them: a user with a manager, units of provd, printed lines.

Rule: for root where systemd is PID 1 and nothing is worth keeping.
"""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

USER, UID = "wanda", 4321
HOME, RUNTIME = f"/home/{USER}", f"/run/user/{UID}"
PATIENCE = 30.0
failed: list[str] = []


def check(name: str, good: object, detail: object = "") -> None:
    """Prints one line, and remembers what failed."""
    if good:
        print(f"ok      {name}", flush=True)
    else:
        failed.append(name)
        print(f"FAILED  {name}: {detail!r}", flush=True)


def until(shown: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Asks until the answer is true, or time is up; the last answer."""
    deadline = time.monotonic() + seconds
    while not (answer := shown()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return answer


def gone(path: str) -> bool:
    """Whether there is no such file."""
    return not os.path.lexists(path)


def root(*command: str) -> str:
    """Runs a command as root; what it printed."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def user(*command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a command as the user, as from a login."""
    environ = {
        "HOME": HOME,
        "USER": USER,
        "PATH": f"{HOME}/.local/bin:/usr/bin:/bin",
        "XDG_RUNTIME_DIR": RUNTIME,
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path={RUNTIME}/bus",
        "LANG": "C.UTF-8",
        **env,
    }
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=HOME,
        env=environ,
        user=UID,
        group=UID,
        extra_groups=[],
        umask=0o022,
    )


def write(path: str, text: str) -> None:
    """Writes a file as the user."""
    done = user("sh", "-c", 'mkdir -p "$(dirname "$1")" && printf %s "$2" > "$1"', "sh", path, text)
    assert done.returncode == 0, done.stderr


class Unit:
    """One unit of provd. `control` is systemctl and what says whose manager, `name` the unit, `at` how to ask provd."""

    def __init__(self, control: list[str], name: str, directory: str, **at: str) -> None:
        self.control = control
        self.name = name
        self.directory = directory
        self.at = at

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Has systemctl do something with units."""
        return user(*self.control, *command) if "--user" in self.control else self._as_root(*command)

    def _as_root(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.control, *command], check=False, capture_output=True, text=True)

    def show(self, key: str) -> str:
        """One property."""
        return self.run("show", "--value", "-p", key, self.name).stdout.strip()

    @property
    def pid(self) -> int:
        """Of the daemon; 0 where none runs."""
        return int(self.show("MainPID"))

    def provd(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A command of provd, as the user."""
        return user("provd", *command, **self.at)

    def ask(self, *command: str) -> int:
        """The exit status of a command of provd."""
        return self.provd(*command).returncode

    def why(self, key: str) -> str:
        """Why a key has the verdict that it has."""
        done = self.provd("check", key, "--json")
        return str(json.loads(done.stdout).get("why", done.stdout)) if done.stdout else done.stderr

    def put(self, key: str, dependency: str) -> None:
        """An entry that rests on what is there now."""
        done = self.provd("put", key, "--value", "v", "--dep", dependency, "--as-of-now")
        assert done.returncode == 0, done.stderr

    def another(self, pid: int) -> bool:
        """Waits until another process than `pid` is ready."""
        return bool(until(lambda: self.pid not in {0, pid} and self.show("ActiveState") == "active"))

    @contextlib.contextmanager
    def like(self, *lines: str) -> Iterator[None]:
        """The unit with these lines besides, started anew; afterwards as before."""
        drop_in = os.path.join(self.directory, f"{self.name}.d", "test.conf")
        put = "\n".join(["[Service]", *lines, ""])
        if "--user" in self.control:
            write(drop_in, put)
        else:
            os.makedirs(os.path.dirname(drop_in), exist_ok=True)
            with open(drop_in, "w", encoding="utf-8") as f:
                f.write(put)
        self._anew()
        try:
            yield
        finally:
            os.unlink(drop_in)
            self._anew()

    def _anew(self) -> None:
        self.run("daemon-reload")
        self.run("reset-failed", self.name)
        done = self.run("restart", self.name)
        assert done.returncode == 0, done.stderr
