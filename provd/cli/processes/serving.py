"""What start, stop, restart and service share: the daemon that answers, its end, and the service that is meant.

Rule: nothing is started here; a daemon is ended only by its own word or by its manager.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import time
from typing import TYPE_CHECKING, Final

import click

from provd import __version__, elsewhere, places, services
from provd.cli import output, steps
from provd.cli.command import GREETING, Failure, Usage
from provd.cli.given import names
from provd.cli.given.looking import look, real_path
from provd.cli.processes import background, holding, namespaces
from provd.cli.processes.process import NAP, Process, next_step
from provd.cli.words import roots as rooted
from provd.client import Client, ProvdUnreachable, RpcError, local_path, wire_path
from provd.services import ServiceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provd.cli.command import Place
    from provd.services import Service

_LOOK: Final = 0.1
"""Seconds between two looks at a lock, while a process ends."""
_LAST: Final = 1.0
"""Seconds for which the process of a daemon that gave its state back is waited for."""
_GONE_ON: Final = (
    "its state is free, but its process {pid} is still there: a file system that does not answer may hold it"
)
IN_THE_FILE: Final = "provd restart  # when watch.backend is set in the configuration (provd config path)"
"""How an installed service gets another way of watching."""
_NAMED: Final = ("PROVD_SOCKET", "PROVD_STATE_DIR")


@contextlib.contextmanager
def told() -> Iterator[None]:
    """What a service manager refuses is the command's failure."""
    try:
        yield
    except ServiceError as error:
        raise Failure(error.message, error.hint) from None


def directories(roots: Sequence[str]) -> tuple[bytes, ...]:
    """The roots of a command line, absolute; raises Usage for what is no directory."""
    context = click.get_current_context(silent=True)
    asked = "provd start" if context is None else context.command_path
    found = tuple(map(names.absolute, roots))
    seen = look(found)  # what cannot be seen is the daemon's to judge
    for given, path in zip(roots, found, strict=True):
        mode = seen[path].end if path in seen else stat.S_IFDIR
        if mode is not None and not stat.S_ISDIR(mode):
            above = output.quoted(os.path.dirname(given.rstrip("/")) or ".")
            raise Usage(f"--root {given} is no directory", f"{asked} --root {above}  # watches the one that holds it")
        if mode is None:
            raise Usage(f"--root {given}: there is no such directory", "make it first, or correct the name")
    return found


def meant(socket: str) -> Service | None:
    """The installed service, where it answers at this socket and its manager can be told anything."""
    service = services.found()
    if service is None:
        return None
    own = service.socket or services.manager(service).socket
    if own is None and not any(os.environ.get(name) for name in _NAMED):
        own = places.socket_path()  # its manager has no such variable
    if own != socket:
        return None
    if service.active == "unknown":
        output.warn(f"the manager of {service.name} does not answer: going on without it")
        return None
    return service


def is_ours(service: Service) -> bool:
    """Whether this user may tell its manager what to do. Whose daemon it is may still tell the daemon to stop."""
    return service.manager != "systemd-system" or os.geteuid() == 0


def runs_it(service: Service, socket: str, timeout: float) -> bool:
    """Whether what listens at the socket is the service's, or nothing does; asks a daemon only where it must."""
    try:
        client = Client(socket, timeout)
    except ProvdUnreachable:
        return True
    with client:
        pid = client.peer_pid()
        return service.pid == (client.hello()["pid"] if pid is None else pid)


def configured(place: places.Place) -> None:
    """Raises Failure where a daemon would not start with the configuration at `place`. To be asked before one ends."""
    from provd import configuration  # noqa: PLC0415  (few commands need it)

    read = configuration.with_roots(configuration.read(place.path, needed=place.named))
    if read.mistakes:
        raise Failure(f"a daemon would not start, so nothing was stopped: {read.mistaken}", configuration.CORRECT)


def configuration_of(client: Client) -> places.Place:
    """Where the daemon that answers found its configuration, so that the next one is asked for the same."""
    own = places.config_place()
    try:
        told = os.fsdecode(local_path(client.call("daemon.config")["path"]))
    except RpcError:  # an older daemon does not tell
        return own
    return own if told == own.path else places.Place(told, "the daemon")


def answer(socket: str, timeout: float) -> Client:
    """A connection to the daemon as soon as it answers; raises Failure where it does not in time."""
    deadline = time.monotonic() + timeout
    while True:
        client = background.reached(socket, max(NAP, deadline - time.monotonic()))
        if client is not None:
            return client
        if time.monotonic() >= deadline:
            raise Failure(f"the service runs and does not answer at {socket}", "provd doctor  # tells where it answers")
        time.sleep(NAP)


def rebound(state: str, timeout: float) -> Client | None:
    """A connection to the daemon that holds a state and has lost its socket: it is told to make it anew.

    None where it did not lose it, where it ends, or where it does not answer in time. Only who the kernel says
    holds the lock is told.
    """
    held = holding.holder(state)
    if held is None or not held.sure or not held.socket or os.path.lexists(held.socket):
        return None
    try:
        os.kill(held.pid, signal.SIGHUP)
    except OSError:  # another user's, or it has ended
        return None
    deadline = time.monotonic() + min(timeout, GREETING)
    while time.monotonic() < deadline and holding.holder(state) == held:
        client = background.reached(held.socket, max(NAP, deadline - time.monotonic()))
        if client is not None:
            client.timeout = timeout
            output.note(f"the socket of process {held.pid} was gone, and it has made it anew: {held.socket}")
            return client
        time.sleep(NAP)
    return None


def alone(socket: str, at: Place) -> None:
    """Raises Failure where another daemon of this user runs, and nobody said that a second one is meant."""
    if at.socket is None and at.state is None and (there := elsewhere.listening(socket)) is not None:
        message = f"another daemon of yours listens at {there}: a second one would not know what that one knows"
        quoted = output.quoted(there)
        hint = steps.ways(
            f"export PROVD_SOCKET={quoted}  # use that one",
            f"provd stop --socket {quoted}",
            "provd start --state DIR  # a second one",
        )
        raise Failure(message, hint)


def add(client: Client, roots: Sequence[bytes]) -> None:
    """Watches roots beside what is watched; raises RpcError."""
    for root in roots:
        client.call("root.add", path=wire_path(root), wait=False)


def already(client: Client, at: Place, roots: Sequence[bytes], backend: str | None) -> None:
    """Takes the daemon that runs for the one that was to be started; raises Failure where it is another.

    What was asked for and is otherwise there is said: it takes another start.
    """
    same_state(client, at)
    before = client.hello()["roots"]
    add(client, roots)
    hello = client.hello()
    output.note(f"already running (pid {hello['pid']})")
    for root in client.call("daemon.status")["roots"] if hello["roots"] != before else ():
        if root["path"] in before:
            continue
        if rooted.is_unwatched(root):
            output.warn(f"{output.name(root['path'])}: {rooted.meaning(root)}", "provd watch ls  # what to do about it")
        else:
            output.note(f"now watching {output.name(root['path'])}")
    has_all(client)
    namespaces.sees(client)
    if hello["version"] != __version__:
        output.warn(f"it is version {hello['version']}, this is {__version__}", "provd restart  # takes the new one")
    _differs(client, backend)


def _differs(client: Client, backend: str | None) -> None:
    """Says which choices of this command the daemon that runs does not have, and what would change that."""
    place = places.config_place()
    if backend is None and not place.named:
        return
    try:
        told = client.call("daemon.config")
        uses, read = told["settings"]["watch.backend"]["value"], os.fsdecode(local_path(told["path"]))
    except (RpcError, KeyError):  # an older daemon does not tell
        return
    if backend is not None and uses != backend:
        hint = f"provd restart --backend {backend}"
        if meant(client.path) is not None:
            hint = IN_THE_FILE
        output.warn(f"--backend {backend} was not taken: it runs with watch.backend {uses}; to change that: {hint}")
    if place.named and read != place.path:
        message = f"{place.source} names {place.path}, and it runs with the configuration {read}"
        output.warn(f"{message}; to change that: provd restart")


def has_all(client: Client) -> None:
    """Says so where it began with a new store since the old one could not be opened, and where nothing is watched."""
    if isinstance(aside := client.call("daemon.status").get("set_aside"), str):
        output.warn(
            f"its store could not be opened and lies at {output.name(aside)}: a new one was begun", "provd doctor"
        )
    if not client.hello()["roots"]:
        output.note("nothing is watched yet: provd watch add .  # or another directory")


def same_state(client: Client, at: Place) -> str:
    """The state directory of the daemon that answers; raises Failure where the command line names another."""
    state = state_of(client)
    if at.state is not None and not _are_one(state, at.state):
        message = f"the daemon at {client.path} keeps its state in {state}, not in {at.state}"
        raise Failure(message, "give another --socket, or leave --state out")
    return state


def keeps(client: Client, state: str | None) -> bool:
    """Whether the daemon that answers keeps its state there."""
    return state is not None and _are_one(state_of(client), state)


def _are_one(state: str, other: str) -> bool:
    one, two = (real_path(os.fsencode(os.path.abspath(each))) for each in (state, other))
    return one == two


def state_of(client: Client) -> str:
    """The state directory of the daemon that answers, as it tells it; empty where it does not."""
    return os.fsdecode(local_path(client.call("daemon.status").get("state", "")))


def end(client: Client, timeout: float, state: str) -> None:
    """Tells the daemon to stop and waits until its process has ended; raises Failure, ProvdUnreachable, RpcError.

    A thread in a hung file system may keep the process for ever: where it holds the lock of its state directory no
    more, it is a daemon no more, so it is only waited for a little, and the rest is said. `state` is that directory as
    far as the caller knows.
    """
    with Process.of(client) as process:
        held = _lock_of(process, state)
        if held is None and process.pid is not None:
            state = state_of(client)
            held = _lock_of(process, state)
        client.call("daemon.shutdown")
        deadline = time.monotonic() + timeout
        client.timeout = timeout
        said = f"the daemon at {client.path} was told to stop"
        try:
            client.wait_closed()
        except ProvdUnreachable:
            message = f"{said} and is still there after {timeout:g} s"
            hint = f"kill {process.pid or 'PID'}  # or see what it logs"
            raise Failure(message, next_step(process.pid, hint)) from None
        if held is None:  # nothing but its process tells, if that is seen from here
            if not process.ended(deadline):
                raise _stays(said, process.pid, timeout)
            return
        _wait_for_end(process, held, state, deadline, _stays(said, process.pid, timeout))


def has_no_room(error: ProvdUnreachable | RpcError) -> bool:
    """Whether a daemon is there and could not be told anything, since it takes no more connections."""
    return error.kind == "closed" if isinstance(error, ProvdUnreachable) else error.code == "limit"


def is_restarted(error: ProvdUnreachable | RpcError, state: str) -> bool:
    """Whether a daemon that answers so ends, and the turn of who starts the next one is to be waited for."""
    return _leaves(error) and holding.starts(state)


def goes(error: ProvdUnreachable | RpcError, state: str, socket: str, timeout: float) -> bool:
    """Whether a daemon that answers so ends of itself or by another's word, or has ended; it is waited for.

    Raises Failure where it does not end in time.
    """
    left = _leaves(error) and (isinstance(error, RpcError) or background.nobody(socket))
    return left and _gone(state, socket, time.monotonic() + timeout)


def _leaves(error: ProvdUnreachable | RpcError) -> bool:
    return error.code == background.SHUTDOWN if isinstance(error, RpcError) else error.kind == "closed"


def ends(held: holding.Holder, state: str, timeout: float) -> bool:
    """Whether the process that holds a lock, and listens nowhere any more, ends within `timeout` seconds."""
    return held.sure and bool(held.socket) and _gone(state, held.socket, time.monotonic() + timeout)


def _gone(state: str, socket: str, deadline: float) -> bool:
    held = holding.holder(state)
    if held is None or held.socket != socket:
        while not background.nobody(socket) and time.monotonic() < deadline:
            time.sleep(NAP)
        return background.nobody(socket)
    with Process(held.pid) as process:
        if holding.holder(state) == held:  # from here on that number means this very process
            late = _stays(f"the daemon of {state} ends", held.pid, max(0.0, deadline - time.monotonic()))
            _wait_for_end(process, held, state, deadline, late)
    return True


def end_unheard(state: str, socket: str, timeout: float) -> bool:
    """Ends the daemon that holds the lock of a state directory and has this socket, by a signal; false where none does.

    Raises Failure where its process does not end in time.
    """
    held = holding.holder(state)
    if held is None or not held.sure or held.socket != socket:
        return False
    with Process(held.pid) as process:
        if holding.holder(state) != held:  # from here on that number means this very process
            return False
        try:
            os.kill(held.pid, signal.SIGTERM)
        except (ProcessLookupError, PermissionError):
            return False
        said = f"the daemon of {state} was told to stop by a signal"
        _wait_for_end(process, held, state, time.monotonic() + timeout, _stays(said, held.pid, timeout))
    return True


def _wait_for_end(process: Process, held: holding.Holder, state: str, deadline: float, late: Failure) -> None:
    """Waits until the process of a daemon ended, or holds its lock no more; raises `late` at the deadline."""
    while not process.ended(min(deadline, time.monotonic() + _LOOK)):
        if holding.holder(state) != held:
            if not process.ended(min(deadline, time.monotonic() + _LAST)):
                output.warn(_GONE_ON.format(pid=process.pid))
            return
        if time.monotonic() >= deadline:
            raise late


def _lock_of(process: Process, state: str) -> holding.Holder | None:
    """What the lock of a state directory says, where it is that of the process."""
    held = holding.holder(state)
    return held if held is not None and held.pid == process.pid else None


def _stays(said: str, pid: int | None, timeout: float) -> Failure:
    message = f"{said} and its process {pid} still runs after {timeout:g} s"
    return Failure(message, next_step(pid, f"kill {pid}  # or see what it logs"))
