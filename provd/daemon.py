"""The daemon: settings to a running service, and back to nothing.

Rule: this is the one place where the rooms are put together. The run's id and its opening gap are durable before
the socket answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import os
import resource
import secrets
import signal
import sys
from functools import partial
from typing import Any

import structlog

from provd import __version__
from provd.audit import Audit
from provd.bulletin import Bulletin
from provd.clocks import Clocks
from provd.core import errors, records
from provd.core.records import wire_name
from provd.disk import Workers, ignore_lease_breaks, real_directory
from provd.handlers import Handlers
from provd.hangup import Hangup
from provd.inquiry import Inquiry
from provd.live import Live
from provd.lockfile import BoundSocket, StateDirectory
from provd.logs import configure, set_level
from provd.notify import Notifier
from provd.recorder import Actions, Entries
from provd.recorder.actions import end_held
from provd.recorder.rootrecords import adding
from provd.recorder.showing import Showing
from provd.reloading import Reloading
from provd.resolver import Resolver
from provd.responder import Responder
from provd.server import Connection, Server
from provd.settings import Settings
from provd.status import Status
from provd.store import Store, Writer
from provd.store.files import Files
from provd.subscriptions import Subscriptions
from provd.trimming import Trimming

_DESCRIPTORS = 65536
_NICE = -5
log = structlog.get_logger("daemon")


def main(settings: Settings) -> None:
    """Runs the daemon until it is told to stop.

    Raises StoreUnusable, StoreFull, VersionMismatch, RootMissing, InvalidParams where it cannot start.
    """
    os.umask(0o077)  # whatever it was: nothing that is made here is for others, and all of it for ourselves
    configure(settings.log_format, log_file=settings.log_file, level=settings.log_level)
    if sys.stderr is not None:
        faulthandler.enable(sys.stderr)  # the watchdog's SIGABRT, and a crash in C, leave all stacks in the log
    _raise_limits()
    _come_first()
    ignore_lease_breaks()
    directory = StateDirectory(settings.state)
    try:
        # The writer's Python is short; without this it would hold the interpreter for 5 ms against every question.
        sys.setswitchinterval(0.0005)
        store = Store(os.path.join(settings.state, "store"), settings.map_size)
        try:
            run = begin_run(store, settings)
            listening = BoundSocket(settings.socket)
            directory.note_socket(settings.socket)
            try:
                _event_loop(_serve(settings, store, run, listening))
            finally:
                listening.remove()
        finally:
            store.stop()
    finally:
        directory.release()


def begin_run(store: Store, settings: Settings) -> str:
    """Makes a new run durable: its id with a gap for all, the end of what was held, the roots of the settings."""
    run = secrets.token_hex(8)
    directories = []
    for path in settings.roots:
        try:
            real = real_directory(path)[1]
        except (OSError, ValueError):
            real = None
        if real is None:
            shown = path.decode("utf-8", "backslashreplace")
            raise errors.RootMissing(
                f"the root {shown} is no directory that can be seen",
                "give existing directories as --root and as roots in the configuration",
            )
        directories.append(real)

    def begin(writer: Writer) -> None:
        writer.append(records.Gap(writer.now, records.ALL, "started", run))
        end_held(writer)
        for real in directories:
            adding(real, None)(writer)

    store.run(begin)
    return run


def _raise_limits() -> None:
    """As many descriptors as the system allows: each client is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard if hard != resource.RLIM_INFINITY else _DESCRIPTORS
    if soft < min(most, _DESCRIPTORS):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, _DESCRIPTORS), hard))


def _come_first() -> None:
    """Where that is allowed, goes before what makes the events: the queue of the kernel is full in some 10 ms."""
    with contextlib.suppress(OSError):
        if os.getpriority(os.PRIO_PROCESS, 0) == 0:  # else somebody has chosen
            os.setpriority(os.PRIO_PROCESS, 0, _NICE)


def _event_loop(main_coroutine: object) -> None:
    try:
        import uvloop  # noqa: PLC0415  it is not there on every platform
    except ImportError:
        asyncio.run(main_coroutine)  # type: ignore[arg-type]
    else:
        uvloop.run(main_coroutine)  # type: ignore[arg-type]


async def _serve(settings: Settings, store: Store, run: str, listening: BoundSocket) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    _stop_by_signal(loop, stop)
    store.start(loop)
    workers = Workers()
    live = Live(settings, store, workers)
    clocks = Clocks(store, run)
    inquiry = Inquiry(store, workers, lambda: live.kept.rules, live)
    resolver = Resolver(store, workers, lambda: live.kept.paths)
    responder = Responder(store, inquiry, resolver, clocks, live)
    actions = Actions(store, inquiry, resolver, clocks, live)
    subscriptions = Subscriptions(store, clocks, live)
    audit = Audit(
        store,
        workers,
        inquiry.read,
        table=Files,
        settled=live.settled,
        ignored=live.ignored,
        uncovered=live.uncovered,
    )
    trimming = Trimming(store, settings.max_records, settings.max_age)
    bulletin = Bulletin(Notifier.take(), store, live)
    reloading = Reloading(
        settings, live.kept, resolver, partial(_apply, live, trimming), bulletin.reloading, bulletin.ready
    )
    Hangup(reloading.hang_up, stop.set).listen(loop)
    handlers = Handlers(
        store,
        clocks,
        resolver,
        responder,
        Entries(store, inquiry, resolver, clocks, live, Showing(workers, clocks, live, lambda: live.kept.rules)),
        actions,
        live.kept,
        subscriptions,
        Status(store, clocks, live.kept, live.pump, audit, responder.verdicts, _places(settings), live.look),
        reloading,
        stop.set,
    )
    grown = asyncio.Event()

    def committed(_head: int) -> None:
        grown.set()
        trimming.committed()
        subscriptions.committed()
        bulletin.changed()

    def closed(connection: Connection) -> None:
        subscriptions.closed(connection)
        actions.closed(connection.number)

    store.on_lost = stop.set
    store.on_commit = committed
    server = Server(handlers.handle, closed)
    serving = await server.start(listening.socket)
    live.start(grown)
    trims = asyncio.ensure_future(trimming.run())
    _say_ready(settings, run, bulletin)
    try:
        await stop.wait()
    finally:
        bulletin.stopping()
        log.info("stopping", store=store.lost or "whole")
        handlers.stopping = True
        serving.close()
        trims.cancel()
        await server.stop()
        await live.close()
        with contextlib.suppress(errors.ProvdError):
            await store.submit(lambda _: None)  # what connections left behind is durable before the store closes
        workers.close()
        with contextlib.suppress(asyncio.CancelledError):
            await trims


def _stop_by_signal(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


def _apply(live: Live, trimming: Trimming, settings: Settings) -> None:
    """Takes of other settings what a running daemon can take."""
    set_level(settings.log_level)
    live.pace(settings.poll_seconds)
    trimming.limits(settings.max_records, settings.max_age)


def _places(settings: Settings) -> dict[str, Any]:
    """The daemon's places as the wire has them."""
    return {"socket": wire_name(os.fsencode(settings.socket)), "state": wire_name(os.fsencode(settings.state))}


def _say_ready(settings: Settings, run: str, bulletin: Bulletin) -> None:
    """All is there, and the socket answers."""
    gc.freeze()  # what lives as long as the daemon need not be looked at again
    log.info("ready", version=__version__, pid=os.getpid(), run=run, socket=settings.socket, state=settings.state)
    bulletin.ready()
