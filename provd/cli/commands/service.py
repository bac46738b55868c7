"""service: provd as a unit of systemd or an agent of launchd, installed, removed, printed.

Rule: `print` touches nothing. What is done is said; what is not done unasked (lingering, a foreign file) is said too.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
from typing import TYPE_CHECKING, Any, Final

import click

from provd import __version__, places, services, unitfiles
from provd.cli import output, steps
from provd.cli.command import Failure, Group, Usage, connected
from provd.cli.processes import background, holding, serving
from provd.services import itself

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.cli.command import Function, Place
    from provd.services import Launchd, Plan, Service, Systemd

_PATIENCE: Final = 60.0
_SHOWN: Final = 5
"""Roots that are named."""


def _placed(function: Function) -> Function:
    """Adds `--system` and `--user`; the command gets the manager that is meant as `where`."""

    @click.option("--system", is_flag=True, help="A unit of the system, for a user who does not log in; needs root.")
    @click.option("--user", metavar="NAME", help="With --system: whose daemon (default: who called sudo).")
    @functools.wraps(function)
    def wrapper(*args: Any, system: bool, user: str | None, **kwargs: Any) -> int:
        return function(*args, where=_manager(user, system=system), **kwargs)

    return wrapper


_roots = click.option(
    "--root", "roots", metavar="DIR", multiple=True, help="Watch DIR, besides those kept from before."
)


@click.group(cls=Group, examples=("provd service install --root ~/repo", "provd service print"))
def service() -> None:
    """Install provd as a service of systemd, or of launchd on macOS."""


@service.command(
    examples=("provd service install --root ~/repo --linger", "sudo provd service install --system --user ci")
)
@_placed
@_roots
@click.option("--linger", is_flag=True, help="Let it go on after logout and start at boot (loginctl enable-linger).")
@connected
def install(roots: tuple[str, ...], where: Systemd | Launchd, *, linger: bool, at: Place) -> int:
    """Write the unit, start it now and with each login, and wait until it answers. Again: brings it up to date."""
    before = _installed(where)
    plan = _plan(roots, where, at, before)
    socket = _socket(where, plan)
    if not roots and (kept := _roots_of(before)):
        output.note(
            f"it goes on watching {output.some(list(map(output.printable, kept)), _SHOWN)}: --root names others"
        )
    with serving.told():
        _prepare(where, plan)  # whatever is refused is refused before a daemon that works is stopped
        _end_others(before, plan, socket)
        for line in _install(where, plan, anew=_is_old(socket)):
            output.note(line)
        if linger and isinstance(where, services.Systemd):
            for line in where.linger():
                output.note(line)
    with serving.answer(socket, _PATIENCE) as client:
        output.note(f"provd answers at {output.printable(socket)} (pid {client.hello()['pid']})")
    _afterwards(where, socket)
    return 0


@service.command(examples=("provd service uninstall",))
@_placed
def uninstall(where: Systemd | Launchd) -> int:
    """Stop the service and remove its file. What provd remembers stays."""
    with _nothing_to_start(), serving.told():
        before = where.service()
        anything = False
        for line in where.uninstall():
            anything = True
            output.note(line)
    if not anything:
        output.note("no service of provd is installed here")
    elif before is not None:
        state = services.option(before.command, "--state") or (places.state_dir() if where.user is None else None)
        kept = state or f"/var/lib/provd/{where.user}"
        output.note(f"what it remembers stays in {output.printable(kept)}")
    return 0


@contextlib.contextmanager
def _nothing_to_start() -> Iterator[None]:
    """Where no manager answers nothing is left to uninstall but a daemon: to start one is no answer to that."""
    try:
        yield
    except Failure as error:
        told = error.hint.split("\n")
        ways = [way for way in told if not way.startswith("provd start")]
        if ways == told:
            raise
        raise Failure(error.message, steps.ways(*ways, "provd stop  # ends one that runs in the background")) from None


@service.command(name="print", examples=("provd service print", "provd service print --system --user ci"))
@_placed
@_roots
@connected
def print_(roots: tuple[str, ...], where: Systemd | Launchd, at: Place) -> int:
    """Print what install would write, and touch nothing."""
    plan = _plan(roots, where, at, _installed(where))
    with serving.told():
        texts = where.texts(plan, _template(where)) if isinstance(where, services.Systemd) else {"": where.text(plan)}
    for path, text in texts.items():
        if len(texts) > 1:
            output.line(f"# {output.printable(path)}")
        output.line(text.rstrip("\n"))
    return 0


def _manager(user: str | None, *, system: bool) -> Systemd | Launchd:
    """The manager that is meant; raises Usage."""
    if not system:
        if user is not None:
            raise Usage("--user says whose unit of the system is meant", "add --system, or leave --user out")
        return services.manager()
    if services.PLATFORM == "darwin":
        raise Usage("there is no system service on macOS, only one of each user", "leave --system out")
    name = user or os.environ.get("SUDO_USER")
    if not name:
        raise Usage("--system needs to know whose daemon it is", "add --user NAME")
    try:
        pwd.getpwnam(name)
    except KeyError:
        raise Usage(f"there is no user {name!r}", "give an existing one with --user") from None
    if not services.is_instance(name):
        message = f"systemd takes the name {name!r} for something else as part of a unit's"
        raise Usage(message, "install it as that user without --system, or for a user of letters, digits, . _ and -")
    return services.Systemd(user=name)


def _template(where: Systemd) -> str:
    try:
        return unitfiles.read(where.template)
    except OSError as error:
        raise Failure(f"this provd came without its unit: {error}", "install it from its wheel") from None


def _installed(where: Systemd | Launchd) -> Service | None:
    with serving.told():
        return where.service()


def _roots_of(before: Service | None) -> list[str]:
    """The directories that an installed service was told to watch, as its command has them."""
    return [] if before is None else services.options(before.command, "--root")


def _plan(roots: tuple[str, ...], where: Systemd | Launchd, at: Place, before: Service | None) -> Plan:
    """What is to run; where no roots are named with those that it has: to install again must not take them away."""
    make = itself.user_plan if where.user is None else itself.system_plan
    kept = () if roots else _roots_of(before)
    if resolved := [root for root in kept if not os.path.isabs(root)]:  # %h, ${WORK}: only the manager knows where
        shown = output.some(list(map(output.printable, resolved)), _SHOWN)
        message = f"the unit that is installed watches {shown}, which only its manager can resolve"
        raise Usage(message, "name them with --root")
    watched = serving.directories(roots) if roots else tuple(map(os.fsencode, kept))
    with serving.told():
        return make(watched, at.state, at.socket)


def _prepare(where: Systemd | Launchd, plan: Plan) -> None:
    """Raises ServiceError or Failure where the install would come to nothing."""
    if isinstance(where, services.Systemd):
        where.prepare(plan, _template(where))
    else:
        where.prepare(plan)
    if where.user is None:
        serving.configured(places.config_place())


def _install(where: Systemd | Launchd, plan: Plan, *, anew: bool) -> Iterator[str]:
    if isinstance(where, services.Systemd):
        return where.install(plan, _template(where), anew=anew)
    return where.install(plan, anew=anew)


def _socket(where: Systemd | Launchd, plan: Plan) -> str:
    """Where the service will answer."""
    named = services.option(list(plan.command), "--socket")
    if named is None and where.socket is not None:
        return where.socket
    return named or places.socket_path()


def _end_others(before: Service | None, plan: Plan, socket: str) -> None:
    """Stops a daemon that is in the service's place: at its socket, or on its state."""
    state = services.option(list(plan.command), "--state")
    held = None if state is None else holding.holder(state)
    for path in dict.fromkeys([socket, *([held.socket] if held is not None and held.socket else [])]):
        client = background.reached(path, _PATIENCE)
        if client is None:
            continue
        with client:
            pid = client.hello()["pid"]
            if path != socket and not serving.keeps(client, state):
                continue  # the socket is another daemon's by now
            if before is None or pid != before.pid:
                serving.end(client, _PATIENCE, places.state_dir(state))
                output.note(f"stopped the daemon that ran outside the service (pid {pid})")


def _is_old(socket: str) -> bool:
    """Whether the daemon that answers is of another version than this command."""
    client = background.reached(socket, _PATIENCE)
    if client is None:
        return False
    with client:
        return bool(client.hello()["version"] != __version__)


def _afterwards(where: Systemd | Launchd, socket: str) -> None:
    """What the user has to know of how long it lives, and how it is reached."""
    if where.user is not None:
        output.note(f"clients of {where.user} need: export PROVD_SOCKET={output.printable(socket)}")
    elif isinstance(where, services.Systemd):
        if where.lingers():
            output.note("it goes on after logout, and starts at boot (lingering is on)")
        else:
            output.note("it ends with your last logout; to keep it, and start it at boot: loginctl enable-linger")
    else:
        output.note("it ends with your logout, and starts with the next login")
