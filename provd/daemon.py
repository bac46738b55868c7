"""The daemon as a process: settings to a running service, and back to nothing.

Rule: the lock is taken first and given back last. The run's id and its opening gap are durable before the socket
answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import resource
import secrets
import signal
import sys
import threading
from collections.abc import Callable

from provd import faults, places
from provd.core import errors, records
from provd.disk import Directory, ignore_lease_breaks, real_directory
from provd.lockfile import BoundSocket, StateDirectory
from provd.logs import configure
from provd.notify import Notifier
from provd.recorder.actions import part_held
from provd.recorder.rootrecords import adding
from provd.running import Running
from provd.settings import Settings
from provd.store import Store, Writer
from provd.tenure import Tenure

_DESCRIPTORS = 65536
_LEAST = 64
_NICE = -5
_PATIENCE = 5.0
"""Seconds for looking at one root of the settings."""


def main(settings: Settings, *, bound: bool) -> None:
    """Runs the daemon until it is told to stop, or where it is `bound` to a terminal, until that is gone.

    Raises StoreUnusable, StoreFull, VersionMismatch, RootMissing, InvalidParams, LimitExceeded where it cannot start;
    StoreUnusable too where it ended since its store was lost.
    """
    os.umask(0o077)  # whatever it was: nothing that is made here is for others, and all of it for ourselves
    configure(settings.log_format, log_file=settings.log_file, level=settings.log_level)
    if sys.stderr is not None:
        faulthandler.enable(sys.stderr)  # the watchdog's SIGABRT, and a crash in C, leave all stacks in the log
    _raise_limits()
    _come_first()
    ignore_lease_breaks()
    directory = StateDirectory(settings.state)
    faults.point("start.locked")
    try:
        # Else each of the threads would hold the interpreter for 5 ms against every question; one asks for it some
        # times a question.
        sys.setswitchinterval(0.0001)
        notifier = Notifier.take()
        store = Store(os.path.join(settings.state, places.STORE_NAME), settings.map_size, going_on=notifier.going_on)
        try:
            try:
                run = begin_run(store, settings)
            except errors.StoreDamaged as e:  # else no start would ever come further
                store.begin_anew(e.message)
                run = begin_run(store, settings)
            faults.point("start.begun")
            tenure = Tenure(directory, store)
            listening = BoundSocket(settings.socket, directory)
            directory.note_socket(settings.socket)
            faults.point("start.bound")
            try:
                _event_loop(_serve(lambda: Running(settings, store, run, notifier, tenure, bound=bound), listening))
            finally:
                # Whoever finds the lock held and the socket gone sends SIGHUP (provd start does): it is late for that.
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                listening.remove()
        finally:
            store.stop()
        if store.lost is not None:  # it ended of itself, and whoever looks after it is to see that
            raise errors.StoreUnusable(
                f"the store was lost while the daemon ran: {store.lost}",
                f"look at the disk of {settings.state}, then start it again",
            )
    finally:
        directory.release()


def begin_run(store: Store, settings: Settings) -> str:
    """Makes a new run durable: its id with a gap for all, what was held, the roots of the settings."""
    run = secrets.token_hex(8)
    directories = [_seen(path) for path in settings.roots]

    def begin(writer: Writer) -> None:
        writer.append(records.Gap(writer.now, records.ALL, "started", run))
        part_held(writer)
        for real in directories:
            adding(real, None)(writer)

    store.run(begin)
    store.run_id = run
    return run


def _seen(path: bytes) -> Directory:
    """The directory that a root of the settings names, looked at in a thread; raises RootMissing."""
    found: list[Directory | None] = []

    def see() -> None:
        try:
            found.append(real_directory(path)[1])
        except (OSError, ValueError):
            found.append(None)

    looking = threading.Thread(target=see, name="provd-root", daemon=True)
    looking.start()
    looking.join(_PATIENCE)
    shown = path.decode("utf-8", "backslashreplace")
    if not found:
        raise errors.RootMissing(
            f"the root {shown} does not answer within {_PATIENCE:g} s: its file system may hang",
            "see what is mounted there, or leave it out of --root and of roots in the configuration",
        )
    if found[0] is None:
        raise errors.RootMissing(
            f"the root {shown} is no directory that can be seen",
            "give existing directories as --root and as roots in the configuration",
        )
    return found[0]


def _raise_limits() -> None:
    """As many descriptors as the system allows: each client is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard if hard != resource.RLIM_INFINITY else _DESCRIPTORS
    if most < _LEAST:
        raise errors.LimitExceeded(
            f"this process may open {most} files, and needs {_LEAST}: each client and each directory in use is one",
            f"ulimit -n {_DESCRIPTORS}  # then start it again",
        )
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


async def _serve(running: Callable[[], Running], listening: BoundSocket) -> None:
    await running().serve(listening)  # it is made in the loop
