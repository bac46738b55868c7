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
from collections.abc import Sequence
from functools import partial

import structlog

from provd import __version__
from provd.audit import Audit
from provd.clocks import Clocks
from provd.core import errors, records
from provd.disk import Workers, real_directory
from provd.handlers import Handlers
from provd.inquiry import Inquiry
from provd.lockfile import BoundSocket, StateDirectory
from provd.logs import configure
from provd.recorder import Actions, Entries, Roots
from provd.recorder.actions import end_held
from provd.recorder.rootrecords import adding
from provd.resolver import Resolver
from provd.responder import Responder
from provd.server import Connection, Server
from provd.settings import Settings
from provd.status import Status
from provd.store import Store, Writer
from provd.subscriptions import Subscriptions
from provd.watch.base import Watcher
from provd.watch.fleet import Fleet
from provd.watch.polling import Polling

_TRIM_EVERY = 60.0
_LOOK_EVERY = 10.0
_DESCRIPTORS = 65536
log = structlog.get_logger("daemon")


def main(settings: Settings) -> None:
    """Runs the daemon until it is told to stop.

    Raises StoreUnusable, StoreFull, VersionMismatch, RootMissing, InvalidParams where it cannot start.
    """
    configure(settings.log_format)
    _raise_limits()
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
    fleet = Fleet(settings.backend, _backend_of, {"watchdog": _watchdog}, seconds=settings.poll_seconds)
    pump = _NoPump()
    roots = Roots(store, os.fsencode(settings.state), fleet, pump, workers)
    polling = Polling(fleet, workers, pump.scan, pump.wake, seconds=settings.poll_seconds)
    roots.changed = polling.changed
    clocks = Clocks(store, run)

    inquiry = Inquiry(store, workers, lambda: roots.rules)
    resolver = Resolver(store, workers, lambda: roots.paths)
    responder = Responder(store, inquiry, resolver, clocks, lambda: roots.paths)
    actions = Actions(store, inquiry, resolver, clocks)
    subscriptions = Subscriptions(store, clocks)
    store.on_lost = stop.set
    store.on_commit = lambda _: subscriptions.committed()

    async def caught_up() -> None:
        await polling.scan_now()
        await pump.settled()

    audit = Audit(store, workers, inquiry.read, table=None, settled=caught_up, ignored=roots.ignored)
    places = {"socket": settings.socket, "state": settings.state}
    handlers = Handlers(
        store,
        clocks,
        resolver,
        responder,
        Entries(store, inquiry, resolver, clocks),
        actions,
        roots,
        subscriptions,
        Status(store, clocks, roots, pump, audit, responder.durations, places),
        stop.set,
    )

    def closed(connection: Connection) -> None:
        subscriptions.closed(connection)
        actions.closed(connection.number)

    server = Server(handlers.handle, closed)
    serving = await server.start(listening.socket)
    roots.start()
    tasks = [asyncio.ensure_future(work) for work in (_trim(store, settings), polling.run(), _look(fleet, roots))]
    gc.freeze()  # what lives as long as the daemon need not be looked at again
    log.info("ready", version=__version__, pid=os.getpid(), run=run, socket=settings.socket, state=settings.state)
    try:
        await stop.wait()
    finally:
        log.info("stopping", store=store.lost or "whole")
        handlers.stopping = True
        serving.close()
        for task in tasks:
            task.cancel()
        await server.stop()
        await polling.close()
        await roots.close()
        with contextlib.suppress(errors.ProvdError):
            await store.submit(lambda _: None)  # what connections left behind is durable before the store closes
        workers.close()
        fleet.close()
        await asyncio.wait(tasks)


async def _look(fleet: Fleet, roots: Roots) -> None:
    """Looks at slow intervals whether roots went or came back, for ever."""
    while True:
        await asyncio.sleep(_LOOK_EVERY)
        fleet.check()
        await roots.check()


def _watchdog() -> Watcher:
    from provd.watch.observer import ObserverWatcher  # noqa: PLC0415  few need it, and it takes long to load

    return ObserverWatcher()


def _backend_of(_path: bytes) -> tuple[str, str]:
    return "poll", "this version has no other watcher"


class _NoPump:
    """Stands where the pump will: there is no table of files yet."""

    behind = 0
    lost = scans = 0

    @property
    def counters(self) -> _NoPump:
        return self

    def wake(self) -> None:
        pass

    async def scan(self, path: bytes, *, first: bool = False) -> None:
        pass

    async def forget(self, root: bytes, keep: Sequence[bytes] = ()) -> None:
        pass

    async def settled(self) -> None:
        pass


async def _trim(store: Store, settings: Settings) -> None:
    """Trims the log, a slice at a time, for ever."""
    while True:
        try:
            oldest = time.time_ns() - settings.max_age * 10**9
            gone = await store.submit(partial(Writer.trim, keep_records=settings.max_records, oldest_at=oldest))
        except Exception as e:  # noqa: BLE001  trimming goes on, whatever happened to one slice
            log.warning("the log was not trimmed", reason=str(e))
            gone = 0
        if not gone:
            await asyncio.sleep(_TRIM_EVERY)
