"""provd under launchd: an agent of the user's own session on macOS.

Rule: launchd is asked through the runner alone. Written by Apple's launchd.plist(5) and launchctl(1).
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Final

from provd.ownfile import open_file
from provd.services import owned, plist
from provd.services.base import Plan, Service, ServiceError
from provd.services.runner import MISSING, QUICK, SLOW, Ran, run
from provd.umask import usable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.services.base import Kind
    from provd.services.runner import Runner

_END_S: Final = 30.0
_NAP_S: Final = 0.1
_PID: Final = re.compile(r"^\s*pid = ([0-9]+)$", re.MULTILINE)
_STATE: Final = re.compile(r"^\s*state = (.+)$", re.MULTILINE)


class Launchd:
    """The agent of this user."""

    kind: Kind = "launchd"
    name = plist.LABEL
    user = None
    socket = None

    def __init__(self, runner: Runner = run) -> None:
        self._runner = runner
        self._domain = f"gui/{os.getuid()}"
        self._target = f"{self._domain}/{plist.LABEL}"

    @property
    def file(self) -> str:
        """Where launchd looks for a user's agents."""
        return os.path.join(os.path.expanduser("~"), "Library", "LaunchAgents", f"{plist.LABEL}.plist")

    @property
    def log(self) -> str:
        """Where the agent's log goes; Console.app shows what is there."""
        return os.path.join(os.path.expanduser("~"), "Library", "Logs", "provd.log")

    def text(self, plan: Plan) -> str:
        """The whole file; raises ServiceError. The daemon turns its log over itself, as launchd does not."""
        plan = Plan((*plan.command, "--log-file", self.log), plan.environment)
        return owned.marked(plist.rendered(plan, self.log), "<!-- ", " -->", after="<!DOCTYPE")

    # -- asking

    def _launchctl(self, *words: str, timeout: float = SLOW) -> Ran:
        return self._runner(["launchctl", *words], timeout)

    def service(self) -> Service | None:
        """The agent as launchd knows it; None where it is not installed."""
        try:
            with open(open_file(self.file, os.O_RDONLY), "rb") as file:
                command = plist.command_of(file.read())
        except OSError:
            return None
        told = self._launchctl("print", self._target, timeout=QUICK)
        pid, state = _PID.search(told.out), _STATE.search(told.out)
        disabled = self._launchctl("print-disabled", self._domain, timeout=QUICK)
        off = re.search(rf'"{re.escape(plist.LABEL)}" => (true|disabled)', disabled.out)
        if told.code == MISSING:
            active = "unknown"
        else:
            active = "active" if pid or (state and state[1] == "running") else "inactive"
        return Service(
            manager="launchd",
            name=plist.LABEL,
            file=self.file,
            command=command,
            enabled=None if disabled.code else off is None,
            active=active,
            pid=int(pid[1]) if pid else None,
            linger=False,  # an agent ends with its user's session
        )

    def check(self) -> None:
        """Raises ServiceError, with the reason, where there is no launchd to talk to."""
        ran = self._launchctl("print", self._domain, timeout=QUICK)
        if ran.code:
            raise ServiceError(
                f"launchd does not answer for your session: {ran.said}",
                "provd start  # without a service manager; or log in at the screen once",
            )

    def _loaded(self) -> bool:
        return self._launchctl("print", self._target, timeout=QUICK).code == 0

    # -- doing

    def prepare(self, plan: Plan) -> None:
        """Raises ServiceError where `install` would refuse; changes nothing, so a daemon that runs is left alone."""
        self.check()
        owned.check_place(self.file, self.text(plan), _advice)

    def install(self, plan: Plan, *, anew: bool = False) -> Iterator[str]:
        """Writes the agent and starts it; `anew` restarts it even where nothing changed. Yields what was done.

        Raises ServiceError.
        """
        self.prepare(plan)
        with usable():
            os.makedirs(os.path.dirname(self.log), exist_ok=True)  # launchd makes no directory for a log
        changed = owned.replace(self.file, self.text(plan), _advice)
        if changed:
            yield f"wrote {self.file}"
        if changed and self._loaded():
            self.stop()
        if not self._loaded():
            self._must("enable", self._target)
            self._must("bootstrap", self._domain, self.file)
            yield f"started {self.name}: it starts with each login"
        elif anew:
            self.restart()
            yield f"restarted {self.name}"

    def uninstall(self) -> Iterator[str]:
        """Ends the agent and removes its file. Yields what was done. Raises ServiceError."""
        owned.check(self.file, _advice)
        self.check()
        if self._loaded():
            self.stop()
            yield f"stopped {self.name}"
        if owned.remove(self.file, _advice):
            yield f"removed {self.file}"

    def start(self, timeout: float = SLOW) -> None:
        """Starts the agent; raises ServiceError."""
        if self._loaded():
            self._must("kickstart", self._target, timeout=timeout)
        else:
            self._must("bootstrap", self._domain, self.file, timeout=timeout)

    def restart(self, timeout: float = SLOW) -> None:
        """Ends the agent and starts it again; raises ServiceError."""
        if self._loaded():
            self._must("kickstart", "-k", self._target, timeout=timeout)
        else:
            self.start(timeout)

    def stop(self) -> None:
        """Ends the agent until the next login or start, and waits for it; raises ServiceError."""
        self._must("bootout", self._target)
        deadline = time.monotonic() + _END_S
        while self._loaded():  # bootout may answer before the end, and bootstrap fails until then
            if time.monotonic() >= deadline:
                raise ServiceError(f"{self.name} is still there after {_END_S:g} s", f"launchctl print {self._target}")
            time.sleep(_NAP_S)

    def _must(self, *words: str, timeout: float = SLOW) -> None:
        ran = self._launchctl(*words, timeout=timeout)
        if ran.code:
            command = f"launchctl {' '.join(words)}"
            raise ServiceError(f"{command} failed: {ran.said}", f"{command}  # by hand")


def _advice(path: str) -> str:
    return owned.difference("provd service print", path, "move that file away, then do this again")
