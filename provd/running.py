"""The rooms of a running daemon put together, and taken apart again at its end.

Rule: this is the one place where they meet. What ends, ends in the reverse of the order of what it needs: first nobody
is let in, then nothing is watched, then what connections left behind is durable.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
from typing import Final

import structlog

from provd import __version__
from provd.accepting import Listener
from provd.audit import Audit
from provd.bulletin import Bulletin
from provd.clocks import Clocks
from provd.core import errors
from provd.core.records import wire_name
from provd.disk import Workers
from provd.exporting import Exporting
from provd.ground import Ground
from provd.handlers import Handlers
from provd.hangup import Hangup
from provd.inquiry import Inquiry
from provd.lasting import lasting
from provd.live import Live
from provd.lockfile import BoundSocket
from provd.logs import set_level
from provd.notify import Notifier
from provd.reader import Reader
from provd.recorder import Actions, Entries
from provd.recorder.importing import Importing
from provd.recorder.owing import Owing
from provd.reloading import Reloading
from provd.resolver import Resolver
from provd.responder import Responder
from provd.selfcheck import SelfCheck
from provd.server import Connection, Server
from provd.settings import Settings
from provd.shortcut import Shortcut
from provd.showing import Showing
from provd.status import Status
from provd.store import Store
from provd.store.files import Files
from provd.store.migrate import prove, prove_in_time, settle
from provd.subscriptions import Subscriptions
from provd.tenure import Tenure
from provd.trimming import Trimming

_YOUNG: Final = 10_000
"""Objects made and not let go of before garbage is looked for. A look holds all threads, the longer the more there is,
and a question about many files makes many.
"""

log = structlog.get_logger("daemon")


class Running:
    """One run of the daemon: `run` is its id, whose opening gap is durable. Made and used in the loop.

    `bound`: the end of the terminal ends it.
    """

    def __init__(
        self, settings: Settings, store: Store, run: str, notifier: Notifier, tenure: Tenure, *, bound: bool
    ) -> None:
        self._settings = settings
        self._store = store
        self._run = run
        self._tenure = tenure
        self._stop = asyncio.Event()
        self._grown = asyncio.Event()
        loop = asyncio.get_running_loop()
        store.start(loop)
        self._workers = Workers()
        self._live = live = Live(settings, store, self._workers)
        clocks = Clocks(store, run)
        ground = Ground(self._workers, live)
        self._gaps = Owing(store, lambda _: None)
        self._self_check = self_check = SelfCheck(
            store, self._workers, live, lambda: live.kept.rules, settings.self_check, self._gaps.owe
        )
        reader = Reader(self._workers, lambda: live.kept.rules, ground)
        inquiry = Inquiry(store, reader, lambda: live.kept.rules, live, self_check)
        resolver = Resolver(store, self._workers, lambda: live.kept.paths)
        shortcut = Shortcut(store, self._workers.seals, ground)
        showing = Showing(self._workers, clocks, live, lambda: live.kept.rules)
        responder = Responder(store, inquiry, resolver, clocks, live, shortcut, showing, self_check)
        self._actions = Actions(store, inquiry, resolver, clocks, live)
        self._subscriptions = Subscriptions(store, clocks, live)
        self._trimming = Trimming(store, settings.max_records, settings.max_age)
        self._bulletin = Bulletin(notifier, store, live)
        self._audit = audit = Audit(
            store,
            self._workers,
            reader.read,
            table=Files,
            settled=live.settled,
            ignored=live.ignored,
            uncovered=live.uncovered,
            renew=live.renew,
        )
        reloading = Reloading(
            settings, live.kept, resolver, self._apply, self._bulletin.reloading, self._bulletin.ready
        )
        places = {"socket": _shown(settings.socket), "state": _shown(settings.state)}
        self._handlers = Handlers(
            store,
            clocks,
            resolver,
            responder,
            Entries(store, inquiry, resolver, clocks, live, showing),
            self._actions,
            live.kept,
            self._subscriptions,
            Status(store, clocks, live.kept, live.pump, audit, responder.verdicts, self_check, places, live.look),
            reloading,
            Exporting(store, resolver, clocks),
            Importing(store, inquiry, resolver, clocks),
            self._stop.set,
            tenure.over,
        )
        self._server = Server(self._handlers.handle, self._closed, self._handlers.at_once, self._handlers.refused)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        self._listening: BoundSocket | None = None
        self._servings: list[Listener] = []
        self._reload = reloading.hang_up
        Hangup(self._hung_up, self._stop.set, bound=bound).listen(loop)
        store.on_lost = self._stop.set
        store.on_commit = self._committed
        tenure.listen(loop)

    async def serve(self, listening: BoundSocket) -> None:
        """Answers until it is told to stop."""
        self._listening = listening
        async with contextlib.AsyncExitStack() as ending:  # a step that fails is raised, and all others are done
            tasks: list[asyncio.Future[None]] = []
            ending.push_async_callback(self._over, tasks)
            ending.callback(self._tenure.close)
            ending.callback(self._workers.close)
            ending.push_async_callback(self._durable)
            self._servings.append(self._server.start(listening.socket))
            ending.callback(self._actions.close)
            ending.callback(self._gaps.close)
            ending.push_async_callback(self._live.close)
            ending.push_async_callback(self._server.stop)
            ending.callback(self._stopping, tasks)
            self._live.start(self._grown)
            works = {
                "trimming": self._trimming.run,
                "self-check": self._self_check.run,
                "settling": self._settle,
                "holders": self._actions.wait_for_holders,
            }
            tasks += [asyncio.ensure_future(lasting(name, work)) for name, work in works.items()]
            self._say_ready()
            await self._stop.wait()

    async def _hung_up(self) -> None:
        if self._tenure.over() is not None:
            return
        try:
            await self._listen_again()
        finally:  # whatever became of the socket
            await self._reload()

    async def _listen_again(self) -> None:
        """Makes the socket anew where its name is gone, as a cleaner of old files may take it."""
        if self._listening is None:  # it is still to be served for the first time
            return
        try:
            anew = await asyncio.to_thread(self._listening.again)
            if anew is None:
                return
            if self._handlers.stopping:
                anew.close()
                return
            try:
                self._servings.append(self._server.start(anew))
            except BaseException:  # else whoever connects waits for ever, and the next SIGHUP finds a socket there
                anew.close()
                self._listening.remove()
                raise
        except Exception as e:  # noqa: BLE001  whatever it was, the daemon goes on as it is
            log.error("the socket is gone and was not made anew", path=self._settings.socket, reason=str(e))  # noqa: TRY400
        else:
            log.warning("the socket was gone and was made anew", path=self._settings.socket)

    def _stopping(self, tasks: list[asyncio.Future[None]]) -> None:
        """From here on nobody is let in, and nothing new is begun."""
        self._handlers.stopping = self._actions.stopping = True
        self._audit.end()
        for serving in self._servings:
            serving.close()
        for task in tasks:
            task.cancel()
        self._bulletin.stopping()
        log.info("stopping", store=self._store.lost or "whole")

    async def _durable(self) -> None:
        """What connections left behind is durable before the store closes."""
        orderly = self._stop.is_set() and self._store.lost is None
        with contextlib.suppress(errors.ProvdError):
            await self._store.submit(lambda writer: prove(writer, self._run) if orderly else None)

    async def _over(self, tasks: list[asyncio.Future[None]]) -> None:
        await asyncio.gather(*tasks, return_exceptions=True)

    def _say_ready(self) -> None:
        """All is there, and the socket answers."""
        gc.freeze()  # what lives as long as the daemon need not be looked at again
        gc.set_threshold(_YOUNG)
        places = {"socket": self._settings.socket, "state": self._settings.state}
        if (aside := self._store.environment.set_aside) is not None:
            reason = self._store.environment.trouble
            log.warning("the store could not be used: it was set aside, and a new log begun", kept=aside, reason=reason)
        log.info("ready", version=__version__, pid=os.getpid(), run=self._run, **places)
        self._bulletin.ready()

    def _committed(self, _head: int) -> None:
        self._grown.set()
        self._trimming.committed()
        self._subscriptions.committed()
        self._bulletin.changed()

    def _closed(self, connection: Connection) -> None:
        self._subscriptions.closed(connection)
        self._actions.closed(connection.number)

    def _apply(self, settings: Settings) -> None:
        """Takes of other settings what a running daemon can take."""
        set_level(settings.log_level)
        self._live.pace(settings.poll_seconds)
        self._trimming.limits(settings.max_records, settings.max_age)
        self._self_check.take_share(settings.self_check)

    async def _settle(self) -> None:
        """Removes the copy of a store that was migrated, once this run shows that it is not needed any more."""
        try:
            migrated = self._store.migrated()
            gone = await settle(self._store, self._run)
        except Exception as e:  # noqa: BLE001  it is kept, whatever happened to what was read
            log.warning("the old store is kept", reason=str(e))
        else:
            if gone is not None:
                log.info("the store of the older format was removed", kept=gone)
            elif migrated is not None:
                log.info("the store was migrated, and the old one is kept for now", **migrated)
                await prove_in_time(self._store, self._run)


def _shown(path: str) -> str | dict[str, str]:
    """A path as the wire has it."""
    return wire_name(os.fsencode(path))
