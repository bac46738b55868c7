"""provd under systemd: as a unit of the user's own manager, or as an instance of the system's `provd@.service`.

Rule: systemd is asked through the runner alone. No file is touched before it is known that a manager answers, and
lingering is never switched on unasked.
"""

from __future__ import annotations

import itertools
import os
import pwd
import re
import time
from typing import TYPE_CHECKING, Final

from provd import places
from provd.services import itself, owned, units
from provd.services.base import Plan, Service, ServiceError
from provd.services.runner import MISSING, QUICK, SLOW, Ran, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.services.base import Kind
    from provd.services.runner import Runner

_BY_HAND: Final = "provd start  # in the background, without a service manager"
_SYSTEM_DIRECTORY: Final = "/etc/systemd/system"
_BOOTED: Final = "/run/systemd/system"
"""What sd_booted(3) looks at."""
_LINGERING: Final = "/var/lib/systemd/linger"
_ASKED: Final = "LoadState,FragmentPath,DropInPaths,UnitFileState,ActiveState,MainPID"

_ERROR: Final = "provd: "
"""How the line begins with which provd ends."""
_WAY: Final = re.compile(r"\s+(?:next|or): (.+)")


class Systemd:
    """One place for provd in systemd: the user's own manager, or an instance of the system's for `user`."""

    def __init__(self, runner: Runner = run, user: str | None = None) -> None:
        self._runner = runner
        self.user = user
        self.kind: Kind = "systemd-user" if user is None else "systemd-system"
        self.name = "provd.service" if user is None else f"provd@{user}.service"
        self.template = "user/provd.service" if user is None else "system/provd@.service"

    @property
    def file(self) -> str:
        """Where the unit is written: where the manager says that it reads, which may know another home than we do."""
        if self.user is not None:
            return os.path.join(_SYSTEM_DIRECTORY, "provd@.service")
        wanted = os.path.join(places.config_home().path, "systemd", "user")
        read = self._show("--property=UnitPath").get("UnitPath", "").split()
        own = [path for path in read if path.endswith("/.config/systemd/user")]
        return os.path.join(own[0] if own and wanted not in read else wanted, "provd.service")

    @property
    def socket(self) -> str | None:
        """Where an instance of the system answers; None where the command of the unit says it."""
        return None if self.user is None else places.system_socket(self.user)

    def _override(self) -> str:
        return os.path.join(_SYSTEM_DIRECTORY, f"{self.name}.d", "provd.conf")

    # -- asking

    def _systemctl(self, *words: str, timeout: float = SLOW) -> Ran:
        scope = ["--user"] if self.user is None else []
        return self._runner(["systemctl", *scope, "--no-ask-password", *words], timeout)

    def _show(self, *words: str) -> dict[str, str]:
        lines = self._systemctl("show", *words, timeout=QUICK).out.splitlines()
        return {name: value for name, equals, value in (line.partition("=") for line in lines) if equals}

    def service(self) -> Service | None:
        """The unit as systemd knows it; None where it is not installed, or the instance was never made."""
        here = next((path for path in self._candidates() if os.path.exists(path)), None)
        if here is None:
            return None
        told = self._show(self.name, f"--property={_ASKED}")
        if told.get("LoadState") == "not-found":
            return None
        file = told.get("FragmentPath") or here
        active = told.get("ActiveState", "unknown")
        state = told.get("UnitFileState", "")
        if self.user is not None and not state.startswith("enabled") and active in {"inactive", "unknown"}:
            return None
        texts = [owned.read(path) or "" for path in (file, *told.get("DropInPaths", "").split())]
        return Service(
            manager=self.kind,
            name=self.name,
            file=file,
            command=units.command_of("\n".join(texts)),
            enabled=state.startswith("enabled") if state else None,
            active=active,
            pid=int(told.get("MainPID", "0")) or None,
            linger=self.lingers() if self.user is None else True,
        )

    def _candidates(self) -> Iterator[str]:
        """Where the unit may lie, by systemd.unit(5)."""
        scope = "system" if self.user is not None else "user"
        name = "provd@.service" if self.user is not None else self.name
        if self.user is None:
            yield os.path.join(places.config_home().path, "systemd", "user", name)
            for home in dict.fromkeys((os.path.expanduser("~"), itself.home_of_the_system())):
                if home is not None:
                    yield os.path.join(home, ".config/systemd/user", name)
                    yield os.path.join(home, ".local/share/systemd/user", name)
        for base in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"):
            yield os.path.join(base, "systemd", scope, name)

    def lingers(self) -> bool | None:
        """Whether the user's manager outlives the last logout; None where that cannot be told."""
        name = _user_name()
        if os.path.exists(os.path.join(_LINGERING, name)):
            return True
        told = self._runner(["loginctl", "show-user", name, "--property=Linger", "--value"], QUICK).out.strip()
        return {"yes": True, "no": False}.get(told)

    def check(self) -> None:
        """Raises ServiceError, with the reason, where there is no manager to talk to."""
        if self.user is not None and os.geteuid() != 0:
            raise ServiceError(
                "a system unit is root's to install",
                "sudo provd service install --system --user NAME\nprovd service install  # yours alone",
            )
        ran = self._systemctl("show-environment", timeout=QUICK)
        if ran.code == MISSING:
            raise ServiceError("there is no systemctl: this system is not run by systemd", _BY_HAND)
        if ran.code == 0:
            return
        if not os.path.isdir(_BOOTED):
            raise ServiceError("systemd does not run here (a container, a chroot, or another init)", _BY_HAND)
        if self.user is not None:
            raise ServiceError(f"systemd does not answer: {ran.said}", _BY_HAND)
        raise ServiceError(f"your systemd manager does not answer: {ran.said}", f"{_no_bus()}\n{_BY_HAND}")

    def _check_program(self, plan: Plan) -> None:
        """Raises ServiceError where the user of a system unit cannot run what root can."""
        if self.user is None:
            return
        variables = [f"{name}={value}" for name, value in plan.environment.items()]
        ran = self._runner(["runuser", "-u", self.user, "--", "env", *variables, *plan.program, "--version"], QUICK)
        if ran.code not in {0, MISSING}:
            message = f"{self.user} cannot run {plan.program[0]}: {ran.said}"
            raise ServiceError(message, "install provd where that user can read it, for example in /opt")

    # -- doing

    def prepare(self, plan: Plan, template: str) -> None:
        """Raises ServiceError where `install` would refuse; changes nothing, so a daemon that runs is left alone."""
        self.check()
        self._check_program(plan)
        texts = self.texts(plan, template)
        for path, text in texts.items():
            owned.check_place(path, text, self._advice)
        if self.user is not None and self._override() not in texts:
            owned.check(self._override(), self._advice)

    def texts(self, plan: Plan, template: str) -> dict[str, str]:
        """What is written, by file; raises ServiceError where it cannot be said in a unit."""
        if self.user is None:
            return {self.file: owned.marked(units.rendered(template, plan))}
        # A template serves every user: what is said for this one stands in a drop-in.
        common = Plan((*plan.program, "run"), plan.environment)
        texts = {self.file: owned.marked(units.rendered(template, common))}
        if plan.command != common.command:
            texts[self._override()] = owned.marked(units.override(plan))
        return texts

    def install(self, plan: Plan, template: str, *, anew: bool = False) -> Iterator[str]:
        """Writes the unit, enables and starts it; `anew` restarts it even where nothing changed. Yields what was done.

        Raises ServiceError.
        """
        self.prepare(plan, template)
        changed = False
        for line in self._write(plan, template):
            changed = True
            yield line
        self._must("daemon-reload")
        before = self._show(self.name, f"--property={_ASKED}")
        if not before.get("UnitFileState", "").startswith("enabled"):
            self._must("enable", self.name)
            yield f"enabled {self.name}: it starts {'at boot' if self.user else 'with your first login'}"
        if before.get("ActiveState") != "active":
            self.start()
            yield f"started {self.name}"
        elif changed or anew:
            self.restart()
            yield f"restarted {self.name}"

    def _advice(self, path: str) -> str:
        shown = owned.difference(self._print(), path, "move that file away, then install again")
        return f"{shown}\n{self._hand('edit', self.name)}  # keeps your changes in a file beside it"

    def _left(self, path: str) -> str:
        return owned.difference(self._print(), path, "remove that file yourself if it is not wanted")

    def _print(self) -> str:
        """The command that prints what is written."""
        return "provd service print" + (f" --system --user {self.user}" if self.user is not None else "")

    def _write(self, plan: Plan, template: str) -> Iterator[str]:
        advice = self._advice
        texts = self.texts(plan, template)
        for path, text in texts.items():
            if owned.replace(path, text, advice):
                yield f"wrote {path}"
        if self.user is not None and self._override() not in texts and owned.remove(self._override(), advice):
            yield f"removed {self._override()}"

    def uninstall(self) -> Iterator[str]:
        """Stops and disables the unit and removes its file. Yields what was done: nothing where there was nothing.

        Raises ServiceError.
        """
        self.check()
        file = self.file
        mine = [self._override()] if self.user is not None else [file]
        advice = self._left
        for path in (file, *mine):
            owned.check(path, advice)
        if os.path.exists(file):
            self._disable(file)
            yield f"stopped and disabled {self.name}"
        else:
            yield from self._end_without_file(file)
        if self.user is not None and not self._others():
            mine.append(file)
        for path in mine:
            if owned.remove(path, advice):
                yield f"removed {path}"
        self._must("daemon-reload")
        self._systemctl("reset-failed", self.name, timeout=QUICK)  # it may not have failed

    def _disable(self, file: str) -> None:
        try:
            self._must("disable", "--now", self.name)
        except ServiceError as error:
            again = "provd service uninstall" + (f" --system --user {self.user}" if self.user is not None else "")
            hint = f"{'sudo ' if self._as_root('disable') else ''}{again}  # again\n{error.hint}"
            raise ServiceError(f"{error.message}; the unit stays: {file}", hint) from None

    def _end_without_file(self, file: str) -> Iterator[str]:
        """Somebody removed the file: the unit may run all the same, and the link that starts it may stand."""
        if self._show(self.name, f"--property={_ASKED}").get("ActiveState", "inactive") not in {"inactive", "failed"}:
            self._must("stop", self.name)
            yield f"stopped {self.name}, whose file was gone"
        wants = "default.target.wants" if self.user is None else "multi-user.target.wants"
        link = os.path.join(os.path.dirname(file), wants, self.name)
        if os.path.islink(link) and not os.path.exists(link):
            os.unlink(link)
            yield f"removed {link}"

    def _others(self) -> bool:
        """Whether an instance of another user hangs on the template."""
        listed = self._systemctl("list-unit-files", "--no-legend", "--plain", "provd@*.service", timeout=QUICK).out
        running = self._systemctl("list-units", "--no-legend", "--plain", "provd@*.service", timeout=QUICK).out
        names = {line.split()[0] for line in (listed + running).splitlines() if line.strip()}
        return bool(names - {self.name, "provd@.service"})

    def linger(self) -> list[str]:
        """Lets the user's manager outlive logouts; raises ServiceError."""
        ran = self._runner(["loginctl", "enable-linger"], QUICK)
        if ran.code:
            raise ServiceError(
                f"lingering cannot be switched on: {ran.said}", f"sudo loginctl enable-linger {_user_name()}"
            )
        return ["switched lingering on: it goes on after logout, and starts at boot"]

    def start(self, timeout: float = SLOW) -> None:
        """Starts the unit and waits until it says that it is ready; raises ServiceError."""
        self._begin("start", timeout)

    def restart(self, timeout: float = SLOW) -> None:
        """Stops and starts the unit; raises ServiceError."""
        self._begin("restart", timeout)

    def stop(self) -> None:
        """Stops the unit and waits for its end; raises ServiceError."""
        self._must("stop", self.name)

    def _begin(self, verb: str, timeout: float) -> None:
        self._systemctl("reset-failed", self.name, timeout=QUICK)  # after a row of crashes it would not start again
        begun = int(time.time())
        ran = self._systemctl(verb, self.name, timeout=timeout)
        if ran.code:
            if as_root := self._as_root(verb, self.name):
                raise ServiceError(f"{self.name} is a unit of the system, which root tells: {ran.said}", as_root)
            if self.user is None:
                self.check()  # it may be the manager that is not there
            read = ["journalctl", *(["--user"] if self.user is None else []), "-u", self.name]
            lines = self._runner([*read, f"--since=@{begun}", "-n20", "-ocat", "--no-pager"], QUICK).out.splitlines()
            hint = f"{' '.join(read)} -n 50" if lines else self._hand("status", self.name)
            if "masked" in ran.said:
                hint = self._hand("unmask", self.name)
            why, ways = _own_error(lines)
            if not why:
                said = " / ".join(line.strip() for line in lines[-5:])
                why = ran.said + (f"; it logged: {said}" if said else "")
            raise ServiceError(
                f"systemd could not {verb} {self.name}: {why}",
                self._as_root(verb, self.name) or "\n".join([*ways, hint]),
            )

    def _must(self, *words: str) -> None:
        ran = self._systemctl(*words)
        if ran.code:
            command = self._hand(*words)
            hint = self._as_root(*words) or f"{command}  # by hand"
            if "masked" in ran.said:
                hint = self._hand("unmask", self.name)
            raise ServiceError(f"{command} failed: {ran.said}", hint)

    def _hand(self, *words: str) -> str:
        """The command as one types it."""
        return " ".join(["systemctl", *(["--user"] if self.user is None else []), *words])

    def _as_root(self, verb: str, *words: str) -> str:
        """What to do where a unit of the system is not this user's to tell; empty where it is."""
        return "" if self.user is None or os.geteuid() == 0 else f"sudo {self._hand(verb, *words)}"


def _own_error(lines: list[str]) -> tuple[str, list[str]]:
    """The last error that provd ended with, and the next steps that it named, out of a log; empty where there is none.

    Beside it all that systemd says of a failed start says nothing.
    """
    at = max((number for number, line in enumerate(lines) if line.startswith(_ERROR)), default=None)
    if at is None:
        return "", []
    following = itertools.takewhile(bool, map(_WAY.match, lines[at + 1 :]))
    return lines[at].removeprefix(_ERROR), [way[1] for way in following if way is not None]


def is_instance(user: str) -> bool:
    """Whether a user's name can stand in `provd@NAME.service` and `User=` as it is: no escape, no number."""
    return re.fullmatch(r"[A-Za-z0-9_.-]+", user) is not None and not user.isdigit()


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a number without a name, as containers have it
        return str(os.getuid())


def _no_bus() -> str:
    """What to do where the user's manager cannot be reached."""
    runtime = f"/run/user/{os.getuid()}"
    if os.environ.get("XDG_RUNTIME_DIR") != runtime and os.path.isdir(runtime):
        return f"export XDG_RUNTIME_DIR={runtime}  # then try again"
    return f"sudo loginctl enable-linger {_user_name()}  # or log in as the user itself: su and sudo give no manager"
