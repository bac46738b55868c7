"""Checks of the way to the daemon: configuration, socket, whether it is ours, its version, its unit.

Rule: a daemon that cannot be asked is one finding with the reason; what only it could tell is not guessed at.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from provd.cli import output, steps
from provd.cli.commands.doctor.results import Result, fail, ok, warn
from provd.cli.processes import process
from provd.cli.words import permissions
from provd.client import local_path
from provd.reach import ask_it

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.cli.commands.doctor.facts import Facts
    from provd.services import Service

_KINDS: Final = frozenset(
    (
        *("absent", "gone", "stale", "file", "busy", "sandbox", "denied", "long", "stranger", "silent", "closed"),
        *("refused", "hung"),
    )
)
_LOG: Final = "provd config show  # the state directory has its log: see what it says"
_STALE: Final = "provd start  # a daemon that was killed left it behind; the next one replaces it"
_KILLED: Final = "provd start  # when that has ended: no other signal ends it sooner"
_HUNG: Final = "kill -9 {pid}; provd start  # or see what it logs"


def config(facts: Facts) -> Iterator[Result]:
    """Whether a daemon would start with the configuration."""
    if facts.mistake is not None:
        what, hint = facts.mistake
        yield fail("config", f"a daemon would not start: {what}", f"it reads {facts.config}", hint)
    else:
        yield ok(facts.config if os.path.exists(facts.config) else "there is none: every setting has its default")


def socket(facts: Facts) -> Iterator[Result]:
    """Whether a daemon answers where this command looks."""
    absence = facts.absence
    if absence is None:
        yield ok(f"a daemon answers at {facts.socket}")
        return
    code = f"socket.{absence.kind if absence.kind in _KINDS else 'other'}"
    ways = [way for way in absence.hint.split("\n") if not way.startswith(steps.MORE)]  # this is it
    hint = steps.pasteable(steps.ways(*ways), "provd start") or _LOG  # not doctor again
    why = ""
    if absence.kind == "stale":
        hint = _STALE
    elif absence.kind in {"silent", "busy"}:
        why = f"its process is {facts.peer}" if facts.peer else ""
        hint = _HUNG.format(pid=facts.peer) if facts.peer else hint
        if facts.peer_killed:
            why = f"its process {facts.peer} is killed already, and ends when the file system that holds it answers"
            hint = _KILLED
        elif facts.peer_state in process.STOPPED:
            code, why = "socket.stopped", f"its process {facts.peer} is stopped, by a signal or a debugger"
            hint = f"kill -CONT {facts.peer}  # lets it go on"
    elif absence.kind in {"absent", "stale", "other", "file"}:
        why, hint = _elsewhere(facts) or ("", hint)
    yield fail(code, absence.message, why, hint)


def _elsewhere(facts: Facts) -> tuple[str, str] | None:
    """That a daemon of this user runs, on this state or not, and answers on another socket."""
    holder = None if facts.own_directory is None else facts.own_directory.holder
    if holder is not None:
        where = f", its socket is {holder.socket}" if holder.socket else ""
        why = f"process {holder.pid} runs a daemon on this state directory{where}"
        return why, ask_it(holder.socket) if holder.socket else f"kill {holder.pid}"
    there = None if facts.absence is None else facts.absence.elsewhere
    return None if there is None else (f"a daemon of yours listens at {there}", ask_it(there))


def namespace(facts: Facts) -> Iterator[Result]:
    """Whether the daemon sees the files that this command sees."""
    if not isinstance(foreign := facts.answer.get("foreign"), bool):
        return
    if foreign and facts.daemon_user is not None and facts.daemon_user != facts.user:
        whose = permissions.user(facts.daemon_user)
        there = output.quoted(f"#{whose}" if whose.isdigit() else whose)
        yield fail(
            "namespace",
            f"the daemon is that of {whose}: what rests on paths is unknown to you",
            f"it may not see which files the processes of {permissions.user(facts.user)} see",
            f"sudo -u {there} provd doctor --socket {output.quoted(facts.socket)}  # asks as that user",
        )
    elif foreign and facts.answer.get("proc_missing") is True:
        yield fail(
            "namespace",
            "the daemon cannot tell which files you see: what rests on paths is unknown to all",
            "nothing is mounted at /proc where it runs, which would tell it the namespace and root of who asks",
            "ls /proc/self/ns/mnt  # let the daemon read it (mount /proc where it runs): it looks at each question",
        )
    elif foreign:
        yield fail(
            "namespace",
            "the daemon sees other files than you do: what rests on paths is unknown to you",
            "it runs in another mount namespace or root directory (a container, a sandbox, PrivateTmp in a unit)",
            "provd start --state DIR  # runs one in here as well, on a socket and a state of its own",
        )
    else:
        yield ok("the daemon sees the same files as you")


def version(facts: Facts) -> Iterator[Result]:
    """Whether the daemon is of the version of this command."""
    told = facts.answer.get("version")
    if not isinstance(told, str):
        return
    if told == facts.version:
        started = facts.answer.get("started_at")
        if facts.code_at is None:
            package, here = output.name(facts.answer["package"]), output.printable(facts.package)
            why = f"nothing is left in {package}: it was removed, or installed again in another way or place"
            what = f"the files that the daemon ({told}) was started from are gone"
            yield warn("version", what, why, f"provd restart  # takes what this command runs from, {here}")
        elif isinstance(started, str) and started.isdigit() and facts.code_at > int(started):
            why = "it was installed again meanwhile; the daemon goes on with what it was started with"
            yield warn("version", f"the code of the daemon is newer than itself ({told})", why, "provd restart")
        else:
            yield ok(f"daemon and command are both {told}")
        return
    shown = output.printable(told)
    there = facts.answer.get("package")
    where = "" if there is None else os.fsdecode(local_path(there))
    if where and where != facts.package:
        why = f"the daemon runs from {where}, this command from {facts.package}"
    else:
        why = "it was upgraded while the daemon ran" if where else "another one was installed, or it was upgraded"
    yield warn(
        "version",
        f"the daemon is {shown}, this command is {facts.version}",
        why,
        "provd restart  # by the command that you want",
    )


def others(facts: Facts) -> Iterator[Result]:
    """Whether two daemons are at work where one is meant."""
    pid = facts.answer.get("pid")
    own, seen = facts.own_directory, facts.directory
    if not facts.answered or not isinstance(pid, int) or own is None or seen is None or facts.answer.get("foreign"):
        return
    looked_at = tuple(dict.fromkeys((seen, own)))
    for directory in looked_at:
        holder = directory.holder
        if holder is None or holder.pid == pid:
            continue
        stop = f"provd stop --socket {output.quoted(holder.socket)}" if holder.socket else f"kill {holder.pid}"
        yield warn(
            "daemons",
            f"two daemons run: process {pid} answers here, process {holder.pid} holds {directory.path}",
            "what one is told, the other does not know",
            f"{stop}  # or end the other one, whichever you do not want",
        )
        return
    held = " or ".join(dict.fromkeys(output.printable(directory.path) for directory in looked_at))
    yield ok(f"process {pid} answers, and no other daemon holds {held}")


def unit(facts: Facts) -> Iterator[Result]:
    """How the installed service is, where there is one."""
    if facts.units_hang:
        return
    if facts.unit is None:
        yield ok("none is installed: provd service install makes one that starts by itself")
        return
    found = list(_unit(facts, facts.unit))
    yield from found or [ok(_well(facts.unit))]


def _well(it: Service) -> str:
    if it.active == "unknown":
        return f"{it.name} is installed; its manager cannot be asked from here"
    return f"{it.name} is {it.active}" + (", and starts by itself" if it.enabled else "")


def _unit(facts: Facts, it: Service) -> Iterator[Result]:
    program = it.command[0] if it.command else ""
    pid = facts.answer.get("pid")
    log = f"journalctl {'--user ' if it.manager == 'systemd-user' else ''}-u {output.quoted(it.name)} -n 50"
    logs = "provd service print  # names its log" if it.manager == "launchd" else log
    if program.startswith("/") and not os.path.exists(program):
        yield fail("unit.program", f"{it.name} runs {program}, which is not there", "", "provd service install")
    if it.active == "failed":
        yield fail(
            "unit.failed", f"{it.name} has failed", "", steps.ways(steps.because(logs, "tells why"), "provd start")
        )
    elif it.active == "inactive":
        beside = f"process {pid} runs beside it" if facts.answered else "so no daemon runs"
        next_step = "provd stop; provd start" if facts.answered else "provd start"
        yield warn("unit.inactive", f"{it.name} is installed and does not run", beside, next_step)
    elif it.active == "activating" and not facts.answered:
        why = "it starts just now, or ends each time and is tried again"
        yield warn("unit.starting", f"{it.name} is starting, and nobody answers", why, steps.because(logs, "tells why"))
    elif it.pid is not None and isinstance(pid, int) and pid != it.pid and not facts.answer.get("foreign"):
        yield warn(
            "unit.other",
            f"{it.name} runs process {it.pid}, and process {pid} answers here",
            "the unit runs another daemon than the one that this command asks",
            "provd stop  # ends the one that answers",
        )
    if it.enabled is False:
        yield warn("unit.disabled", f"{it.name} is installed and does not start by itself", "", "provd service install")
    if it.linger is False and it.manager != "launchd":  # there an agent of a user can do no better
        yield warn(
            "unit.linger",
            f"{it.name} ends with your last session",
            "lingering is off, so what happens between two sessions goes unseen, and is a gap",
            "loginctl enable-linger",
        )
