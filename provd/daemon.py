"""The daemon: settings to a running service, and back to nothing.

Rule: this is the one place where the rooms are put together. The run's id and its opening gap are durable before
the socket answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import secrets
import signal
import sys
import time
from functools import partial

import structlog

from provd import __version__
from provd.audit import Audit
from provd.clocks import Clocks
from provd.core import errors, records
from provd.disk import Workers, ignore_lease_breaks, real_directory
from provd.exporting import Exporting
from provd.handlers import Handlers
from provd.inquiry import Inquiry
from provd.live import Live
from provd.lockfile import BoundSocket, StateDirectory
from provd.logs import configure
from provd.recorder import Actions, Entries
from provd.recorder.actions import end_held
from provd.recorder.importing import Importing
from provd.recorder.rootrecords import adding
from provd.recorder.showing import Showing
from provd.resolver import Resolver
from provd.responder import Responder
from provd.server import Connection, Server
from provd.settings import Settings
from provd.status import Status
from provd.store import Store, Writer
from provd.store.files import Files
from provd.store.migrate import settle
from provd.subscriptions import Subscriptions

_TRIM_EVERY = 60.0
_DESCRIPTORS = 65536
_NICE = -5
log = structlog.get_logger("daemon")


def main(settings: Settings) -> None:
    """Runs the daemon until it is told to stop.

    Raises StoreUnusable, StoreFull, VersionMismatch, RootMissing, InvalidParams where it cannot start.
    """
    configure(settings.log_format)
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
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    store.start(loop)
    workers = Workers()
    live = Live(settings, store, workers)
    clocks = Clocks(store, run)
    inquiry = Inquiry(store, workers, lambda: live.kept.rules, live)
    resolver = Resolver(store, workers, lambda: live.kept.paths)
    responder = Responder(store, inquiry, resolver, clocks, live)
    showing = Showing(workers, clocks, live, lambda: live.kept.rules)
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
    places = {"socket": settings.socket, "state": settings.state}
    handlers = Handlers(
        store,
        clocks,
        resolver,
        responder,
        Entries(store, inquiry, resolver, clocks, live, showing),
        actions,
        live.kept,
        subscriptions,
        Status(store, clocks, live.kept, live.pump, audit, responder.durations, places, live.look),
        Exporting(store, resolver, clocks),
        Importing(store, inquiry, resolver, clocks),
        stop.set,
    )
    grown, aged = asyncio.Event(), asyncio.Event()

    def committed(_head: int) -> None:
        grown.set()
        aged.set()
        subscriptions.committed()

    def closed(connection: Connection) -> None:
        subscriptions.closed(connection)
        actions.closed(connection.number)

    store.on_lost = stop.set
    store.on_commit = committed
    server = Server(handlers.handle, closed)
    serving = await server.start(listening.socket)
    live.start(grown)
    trimming = asyncio.ensure_future(_trim(store, settings, aged))
    settling = asyncio.ensure_future(_settle(store, run))
    gc.freeze()  # what lives as long as the daemon need not be looked at again
    log.info("ready", version=__version__, pid=os.getpid(), run=run, socket=settings.socket, state=settings.state)
    try:
        await stop.wait()
    finally:
        log.info("stopping", store=store.lost or "whole")
        handlers.stopping = True
        serving.close()
        trimming.cancel()
        settling.cancel()
        await server.stop()
        await live.close()
        with contextlib.suppress(errors.ProvdError):
            await store.submit(lambda _: None)  # what connections left behind is durable before the store closes
        workers.close()
        with contextlib.suppress(asyncio.CancelledError):
            await trimming


async def _settle(store: Store, run: str) -> None:
    """Removes the copy of a store that was migrated, once this run shows that it is not needed any more."""
    if (migrated := store.migrated()) is not None:
        log.info("the store was migrated, and the old one is kept for now", **migrated)
    try:
        gone = await settle(store, run)
    except Exception as e:  # noqa: BLE001  it is kept, whatever happened to what was read
        log.warning("the old store is kept", reason=str(e))
    else:
        if gone is not None:
            log.info("the store of the older format was removed", kept=gone)


async def _trim(store: Store, settings: Settings, grown: asyncio.Event) -> None:
    """Trims the log, a slice at a time, for ever; `grown` is set when there may be something to trim."""
    while True:
        try:
            oldest = time.time_ns() - settings.max_age * 10**9
            gone = await store.submit(partial(Writer.trim, keep_records=settings.max_records, oldest_at=oldest))
        except Exception as e:  # noqa: BLE001  trimming goes on, whatever happened to one slice
            log.warning("the log was not trimmed", reason=str(e))
            gone = 0
        if not gone:
            grown.clear()
            await grown.wait()
            await asyncio.sleep(_TRIM_EVERY)
