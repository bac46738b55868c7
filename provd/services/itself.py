"""How this very provd is started by somebody else: a service manager, or a background of its own.

Rule: absolute words and every variable that decides a place or finds the code, so that what is started later, from
another directory and another environment, is the same program with the same places.
"""

from __future__ import annotations

import os
import pwd
import site
import sys
import sysconfig
from typing import TYPE_CHECKING, Final

import provd
from provd import places
from provd.services.base import Plan, ServiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

_SCRIPT: Final = "provd"


def words() -> tuple[str, ...]:
    """The command `provd` without arguments; raises ServiceError where the interpreter has no name."""
    script = os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    if os.path.basename(script) == _SCRIPT and os.path.isfile(script) and os.access(script, os.X_OK):
        return (script,)
    if not sys.executable:
        raise ServiceError("the Python interpreter does not know its own path", "start provd by its absolute path")
    # -P: a directory named provd in the current one, which may be $HOME, must not be taken for the package.
    return (os.path.abspath(sys.executable), "-P", "-m", "provd")


def search_path() -> dict[str, str]:
    """`PYTHONPATH`, absolute, where the package is not installed where the interpreter itself looks; else nothing."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(provd.__file__)))
    known = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), site.getusersitepackages()}
    if os.path.realpath(package) in {os.path.realpath(path) for path in known}:
        return {}
    given = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys([package, *given]))}


def run_words(roots: Sequence[bytes], state: str | None, socket: str | None, backend: str | None = None) -> list[str]:
    """The arguments of `provd run`; `roots` are absolute."""
    named = {"--state": state, "--socket": socket, "--backend": backend}
    chosen = [word for option, value in named.items() if value is not None for word in (option, value)]
    return ["run", *chosen, *(word for root in roots for word in ("--root", os.fsdecode(root)))]


def user_plan(roots: Sequence[bytes], state: str | None, socket: str | None) -> Plan:
    """What the user's own service runs: its places are those of this command, named one by one."""
    run = run_words(roots, places.state_dir(state), places.socket_path(socket, state))
    return Plan((*words(), *run), {**_carried(), **search_path()})


def system_plan(roots: Sequence[bytes], state: str | None, socket: str | None) -> Plan:
    """What an instance of the system's unit runs: its places are the unit's, unless they were given."""
    run = run_words(
        roots,
        None if state is None else places.state_dir(state),
        None if socket is None else places.socket_path(socket),
    )
    return Plan((*words(), *run), search_path())


def _carried() -> dict[str, str]:
    """The variables that lead to the configuration, where they say something else than the manager would."""
    carried = {}
    home = os.environ.get("HOME")
    if home and home != home_of_the_system():
        carried["HOME"] = home
    config = os.environ.get("XDG_CONFIG_HOME")
    if config and os.path.isabs(config):
        carried["XDG_CONFIG_HOME"] = config
    named = places.config_place()
    if named.source == "$PROVD_CONFIG":
        carried["PROVD_CONFIG"] = named.path
    return carried


def home_of_the_system() -> str | None:
    """This user's home as the system has it, which is what a manager takes, whatever `$HOME` says here."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None
