"""start, stop and restart: the installed service where there is one, else a daemon in the background.

Rule: a service that its manager runs is told to start and stop by that manager alone, so that the two never disagree.
It is the service only where it answers at the socket that this command means.
"""

from __future__ import annotations

import contextlib
import functools
import time
from typing import TYPE_CHECKING, Any, Final

import click

from provd import configuration, places, reach, services
from provd.cli import output
from provd.cli.command import Command, Failure, Usage, connected
from provd.cli.processes import background, holding, namespaces, serving
from provd.cli.processes.process import NAP, THERE
from provd.client import ProvdUnreachable, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable

    from provd.cli.command import Function, Place
    from provd.client import Client
    from provd.services import Service

_CHOSEN: Final = ("--socket", "$PROVD_SOCKET")
"""Where a socket comes from that is meant whatever the state directory is."""
_PATIENCE: Final = 60.0
"""Seconds until a daemon should answer: it may have a big store to open."""
_SOON: Final = 5.0
"""Seconds until one that works answers what it has at hand."""


def _starts(function: Function) -> Function:
    """Adds the options of a start."""

    @click.option("--root", "roots", metavar="DIR", multiple=True, help="Watch DIR too, from now on.")
    @click.option("--backend", type=click.Choice(configuration.BACKENDS), help="How to watch.")
    @click.option(
        "--timeout",
        metavar="SECONDS",
        type=click.FloatRange(min=0.1),
        default=_PATIENCE,
        help="How long to wait until it answers (default 60).",
    )
    @connected
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> int:
        return function(*args, **kwargs)

    return wrapper


@click.command(cls=Command, examples=("provd start --root ~/repo", "provd start --state /data/provd --backend poll"))
@_starts
def start(roots: tuple[str, ...], backend: str | None, timeout: float, at: Place) -> int:
    """Start the daemon: the installed service, else in the background. One that runs already is as good.

    In the background it logs to provd.log in its state directory.
    """
    directories = serving.directories(roots)
    socket = places.socket_path(at.socket, at.state)
    state = places.state_dir(at.state)
    try:
        client = background.reached(socket, timeout) or _rebound(at, socket, timeout)
        if client is not None:
            with client:
                serving.already(client, at, directories, backend)
            return 0
    except (ProvdUnreachable, RpcError) as error:
        if not serving.is_restarted(error, state) and not serving.goes(error, state, socket, timeout):
            raise
    service = serving.meant(socket)
    if service is None:
        serving.alone(socket, at)
        with background.turn(state, timeout):
            wanted = background.Wanted(state, socket, directories, backend)
            _in_the_background(wanted, at, timeout, "started", was_outside=False)
    else:
        _no_backend(backend, service)
        _as_a_service(service, services.manager(service).start, socket, timeout, directories, "started")
    return 0


@click.command(cls=Command, examples=("provd stop", "provd stop || [ $? = 3 ]     # 3: there was none"))
@click.option(
    "--timeout", metavar="SECONDS", type=click.FloatRange(min=0.1), default=30.0, help="How long to wait (default 30)."
)
@connected
def stop(timeout: float, at: Place) -> int:
    """Stop the daemon and wait until its process has ended. Exit: 0 stopped, 3 there was none, 5 it does not end.

    A service stays installed: it starts again with the next login or boot, or by provd start. Where a
    file system that does not answer holds the process, it is stopped once its state is free, and that is said.
    """
    try:
        output.note(_stop(timeout, at))
    except ProvdUnreachable as error:
        if error.kind in THERE:  # 3 is for those who want none, and here is one
            raise Failure(error.message, error.hint) from None
        raise
    return 0


def _stop(timeout: float, at: Place) -> str:
    """Stops it, and says what was stopped."""
    socket = places.socket_path(at.socket, at.state)
    service = serving.meant(socket)
    if service is not None and service.runs and serving.is_ours(service) and serving.runs_it(service, socket, timeout):
        with serving.told():
            services.manager(service).stop()
        return f"stopped {service.name}"
    state = places.state_dir(at.state)
    try:
        with _there(at, socket, timeout) as client:
            serving.end(client, timeout, state)
    except _Ended:
        pass
    except _Displaced:
        if not serving.end_unheard(state, socket, timeout):
            raise
        there = output.quoted(socket)
        output.warn(f"{reach.lies_at(socket)} lies in place of its socket", f"mv {there} {there}.other  # then start")
    except (ProvdUnreachable, RpcError) as error:
        if not serving.goes(error, state, socket, timeout) and not (
            serving.has_no_room(error) and serving.end_unheard(state, socket, timeout)
        ):
            raise
    return "stopped"


class _Ended(Exception):
    """The daemon that was meant was ending, and has ended."""


class _Displaced(Failure):
    """The daemon that is meant runs, and something that is no socket lies in place of its own."""


def _end(client: Client, timeout: float, state: str) -> None:
    """Ends the daemon that answers, or waits for the end that another told it; raises what `serving.end` does."""
    try:
        serving.end(client, timeout, state)
    except (ProvdUnreachable, RpcError) as error:
        if not serving.goes(error, state, client.path, timeout):
            raise


@click.command(cls=Command, examples=("provd restart                  # after an upgrade",))
@_starts
def restart(roots: tuple[str, ...], backend: str | None, timeout: float, at: Place) -> int:
    """Stop the daemon, if one runs, and start it: the installed service, else in the background.

    Roots are kept. --backend is not: it is given anew, or stands in the configuration.
    """
    directories = serving.directories(roots)
    socket = places.socket_path(at.socket, at.state)
    service = serving.meant(socket)
    if service is not None:
        _no_backend(backend, service)
        _restart_service(service, at, socket, directories, timeout)
    else:
        _restart(at, socket, directories, backend, timeout)
    return 0


def _restart_service(service: Service, at: Place, socket: str, directories: tuple[bytes, ...], timeout: float) -> None:
    done = "restarted" if service.runs else "started"
    _would_start(service, socket, timeout)
    client = None if serving.runs_it(service, socket, timeout) else background.reached(socket, timeout)
    if client is not None:
        with client:
            _end(client, timeout, serving.same_state(client, at))
        done = "restarted"
    _as_a_service(service, services.manager(service).restart, socket, timeout, directories, done)


def _restart(at: Place, socket: str, directories: tuple[bytes, ...], backend: str | None, timeout: float) -> None:
    """Ends the daemon that runs and starts one in the background; of several restarts at once each has its turn."""
    state = places.state_dir(at.state)
    holding.must_be_own(state)
    _would_start(None, socket, timeout)
    with contextlib.ExitStack() as turns:
        turns.enter_context(background.turn(there := _state_at(socket, state, timeout), timeout))
        done, was_outside = "started", False
        client = background.reached(socket, timeout)
        if client is not None:
            state = serving.same_state(client, at)
            if state != there:
                turns.enter_context(background.turn(state, timeout))
        else:
            try:
                client = _elsewhere(at, socket, timeout)
            except _Ended:
                done = "restarted"
        if client is not None:
            with client:
                was_outside = namespaces.is_outside(client)
                _end(client, timeout, state)
            done = "restarted"
        else:
            serving.alone(socket, at)
        wanted = background.Wanted(state, socket, directories, backend)
        _in_the_background(wanted, at, timeout, done, was_outside=was_outside)


def _state_at(socket: str, otherwise: str, timeout: float) -> str:
    """The state directory of the daemon at a socket, if one tells it."""
    with contextlib.suppress(ProvdUnreachable, RpcError):
        client = background.reached(socket, min(timeout, _SOON))
        if client is not None:
            with client:
                return serving.state_of(client) or otherwise
    return otherwise


def _would_start(service: Service | None, socket: str, timeout: float) -> None:
    """Raises Failure where a daemon runs and the next one would not start, so that the one that works stays.

    In the background the next one reads what this command names; a service reads what it read before.
    """
    try:
        client = background.reached(socket, min(timeout, _SOON))
        if client is None:
            return
        with client:
            place = places.config_place() if service is None else serving.configuration_of(client)
    except ProvdUnreachable as error:
        if service is None and error.kind in THERE:  # it could not be told to stop either
            raise
        return  # one that hangs is nothing to keep
    serving.configured(place)


def _there(at: Place, socket: str, timeout: float) -> Client:
    try:
        return at.connect(timeout)
    except ProvdUnreachable as error:
        # one that is there and does not answer is the one that is meant
        client = _elsewhere(at, socket, timeout) if error.kind in {*holding.NOBODY, "gone"} else None
        if client is not None:
            return client
        if error.kind == "gone":  # whose socket was gone ran a moment ago, and nobody has its lock any more
            raise _Ended from None
        if error.kind in holding.NOBODY and error.elsewhere is None:
            raise ProvdUnreachable(
                error.message,
                "provd doctor  # nothing has to be stopped here; of one elsewhere --socket names the place",
                error.kind,
            ) from None
        raise


def _rebound(at: Place, socket: str, timeout: float) -> Client | None:
    """The daemon that had this socket and lost it, if it is so; it has made it anew."""
    state = places.state_dir(at.state)
    held = holding.holder(state)
    return serving.rebound(state, timeout) if held is not None and held.socket == socket else None


def _elsewhere(at: Place, socket: str, timeout: float) -> Client | None:
    """Where nobody answers at the socket: the daemon that holds the lock of the state directory, None for none.

    One that starts just now is waited for. Raises _Ended where it ended meanwhile, _Displaced where its socket has no
    place, Failure where it does not answer either, or where it is not sure that it is meant.
    """
    state = places.state_dir(at.state)
    chosen = places.socket_place(at.socket, at.state).source in _CHOSEN
    held = holding.holder(state)
    if not chosen or at.state is not None:
        deadline = time.monotonic() + timeout
        while (not held.socket if held is not None else holding.starts(state)) and time.monotonic() < deadline:
            time.sleep(NAP)
            held = holding.holder(state)
    if held is None or (held.socket != socket and chosen):
        return None
    client = background.reached(held.socket, timeout) if held.socket else None
    if client is None and (client := serving.rebound(state, timeout)) is not None and held.socket == socket:
        return client
    if client is None:
        if held.socket == socket and reach.lies_at(socket):
            raise _Displaced(holding.lost(held), holding.anew(held))
        if held.socket == socket and serving.ends(held, state, timeout):
            raise _Ended
        raise background.silent(held, state)
    if at.state is None and held.socket != socket:
        client.close()
        message = f"no daemon is at {socket}, but one (pid {held.pid}) uses {state} and answers at {held.socket}"
        raise Failure(message, f"export PROVD_SOCKET={output.quoted(held.socket)}  # then ask again")
    return client


def _in_the_background(wanted: background.Wanted, at: Place, timeout: float, done: str, *, was_outside: bool) -> None:
    pid, here = background.start(wanted, timeout)
    if here:
        output.note(f"{done} in the background (pid {pid}); it logs to {output.printable(wanted.log)}")
        with at.connect(timeout) as client:
            serving.has_all(client)
            namespaces.sees(client)
        namespaces.began_in_here(was_outside=was_outside)
        return
    with at.connect(timeout) as client:  # somebody else was quicker
        serving.already(client, at, wanted.roots, wanted.backend)


def _as_a_service(
    service: Service,
    begin: Callable[[float], None],
    socket: str,
    timeout: float,
    directories: tuple[bytes, ...],
    done: str,
) -> None:
    with serving.told():
        begin(timeout)
    with serving.answer(socket, timeout) as client:
        serving.add(client, directories)
        output.note(f"{done} {service.name} (pid {client.hello()['pid']})")
        serving.has_all(client)
        namespaces.sees(client)


def _no_backend(backend: str | None, service: Service) -> None:
    if backend is not None:
        message = f"--backend is for a daemon in the background, and {service.name} is installed"
        raise Usage(message, serving.IN_THE_FILE)
