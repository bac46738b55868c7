"""The Unix socket: bytes to requests, requests to the handler it is given, answers to bytes.

Rule: a client can be wrong, slow or gone, and nobody else notices. Each request is a task of its own, made when it is
its turn; answers go out as they come.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, cast

import msgspec
import structlog

from provd import crowd, farend, faults, garbage
from provd.accepting import Listener
from provd.core import errors, wire
from provd.core.wire import Bad, Framer, Request
from provd.descriptors import descriptors
from provd.peers import Peer, peer_of
from provd.turns import Turns

MAX_CONNECTIONS: Final = 1024
MAX_UNDRAINED: Final = 64 * 1024 * 1024
"""Bytes that a client may leave unread: then its requests wait, and if it reads nothing for a while it is cut off."""
_KEPT: Final = 24
"""Descriptors that are kept for the daemon's own work: files and directories that are read."""
_LEAST: Final = 4
"""Connections that are taken however few descriptors there are."""
_STALLED: Final = 1.0
"""Seconds for which a client may read nothing while so much waits for it."""
_MANY: Final = 256 * 1024
"""Bytes of a request that names very many things."""
_MAX_IN_FLIGHT: Final = 1000
_MAX_IN_FLIGHT_BYTES: Final = 64 * 1024 * 1024
"""Requests of one connection that are begun at once, however slow they are; more wait as they came."""
_MAX_UNREAD: Final = 256 * 1024
"""Bytes of one connection that wait so; more wait in the socket."""
_PACE: Final = 0.01
"""Seconds after which one more is begun all the same, of one connection after the other: what is slow holds up none,
of the same client neither."""
_GRACE: Final = 5.0
"""Seconds for which a connection that ends may still read its last answer."""

log = structlog.get_logger("server")
_numbers = itertools.count(1)
"""Each connection of this process has its own number, never used twice."""


Handler = Callable[["Connection", Request], Awaitable[Any]]
AtOnce = Callable[["Connection", Request], bytes | None]
Refused = Callable[[Bad], Awaitable[None]]


async def _nothing(_: Bad) -> None:
    """Refused lines concern nobody."""


class Server:
    """Serves connections with `handler`. `closed` is called with each connection that ended.

    `at_once` gives the JSON of a result that needs no waiting, and so no task. `refused` is waited for before a line
    that is no request, and may declare writes, gets its error.
    """

    def __init__(
        self,
        handler: Handler,
        closed: Callable[[Connection], None],
        at_once: AtOnce = lambda *_: None,
        refused: Refused = _nothing,
    ) -> None:
        self.handler = handler
        self.closed = closed
        self.at_once = at_once
        self.refused = refused
        self.connections: set[Connection] = set()
        self.turns = Turns()
        self.crowd = crowd.Crowd()
        self.most = MAX_CONNECTIONS
        """Connections that are answered: as many as the contract has, or fewer where descriptors are few."""
        self.stopping = False

    def start(self, listening: socket.socket) -> Listener:
        """Serves a bound socket."""
        open_now = descriptors()
        room = open_now["limit"] - open_now.get("used", 0) - _KEPT
        self.most = min(MAX_CONNECTIONS, max(_LEAST, room))
        return Listener(listening, lambda: Connection(self), MAX_CONNECTIONS)

    async def stop(self) -> None:
        """Lets what is in work be answered, for a moment, and closes all connections."""
        self.stopping = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                while any(connection.waits for connection in self.connections):
                    tasks = {task for connection in self.connections for task in connection.tasks}
                    await (asyncio.wait(tasks) if tasks else asyncio.sleep(0))  # what waits is begun when they are done
        for connection in list(self.connections):
            connection.close()


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._turns = server.turns
        self._framer = Framer()
        self._transport: asyncio.Transport
        self._drained: asyncio.Event = asyncio.Event()
        self._drained.set()
        self._paused = False
        self._ending = False
        self._heard_all = False
        self._in_work = 0
        self._is_in_line = False
        self._pace: asyncio.TimerHandle | None = None
        self._written = 0
        self._watch: asyncio.TimerHandle | None = None
        self._turn = asyncio.Lock()
        self.streaming = False
        self._said_all = False
        self.number = next(_numbers)
        self.peer = Peer(0, -1)
        self.tasks: set[asyncio.Task[None]] = set()
        self.gone = False

    # the protocol's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast("asyncio.Transport", transport)  # uvloop's are none by class
        transport.set_write_buffer_limits(high=1024 * 1024)
        self._server.connections.add(self)
        self._server.crowd.are(len(self._server.connections))
        try:
            self.peer = peer_of(transport.get_extra_info("socket"))
        except Exception as e:  # else nothing would ever be heard on it
            log.exception("who connected cannot be told")
            self._refuse(wire.failed(e))
            return
        if len(self._server.connections) > self._server.most:
            self._turn_away()
        elif farend.is_another(self.peer.uid):
            self._refuse(errors.InvalidRequest("only the daemon's own user may connect", "run a daemon of your own"))

    def data_received(self, data: bytes) -> None:
        if self._ending:
            return
        self._framer.feed(data)
        self._go_on()
        if self._framer.unread > _MAX_UNREAD and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    @property
    def waits(self) -> bool:
        """Whether something that the client has sent is not answered."""
        return bool(self.tasks or self._framer.unread)

    def _go_on(self, *, one_more: bool = False) -> None:
        """Takes what waits, as far as it may be begun, and `one_more`; who cannot be heard any more is cut off."""
        if self.gone and self._server.stopping:
            self._framer.drop()  # the loop ends before what would be begun now
        try:
            if one_more and len(self.tasks) < _MAX_IN_FLIGHT and self._in_work <= _MAX_IN_FLIGHT_BYTES:
                self._take_one()
            if not self._is_in_line:
                self._take_share()
        except Exception:
            self._ending = True
            self.close()
            with contextlib.suppress(Exception):
                log.exception("what a client sent cannot be taken: it is cut off")

    def _its_turn(self) -> None:
        self._is_in_line = False
        self._go_on()

    def _take_share(self) -> None:
        """Takes lines, in order: as many as may be begun now, and its share of this turn of the loop."""
        framer, share = self._framer, self._turns.share()
        while framer.unread and self._may_begin():
            if not share or not self._turns.take():
                self._is_in_line = True
                self._turns.wait(self._its_turn)
                break
            share -= 1
            self._take_one()
        if framer.unread and not self._is_in_line and self._pace is None:
            pace = _PACE * max(1, self._turns.busy)
            self._pace = asyncio.get_running_loop().call_later(pace, self._begin_another)
        if self._paused and framer.unread <= _MAX_UNREAD // 2 and not self.gone:
            self._paused = False
            self._transport.resume_reading()
        if self._ending and not self.waits:
            if not self._heard_all:
                self._say_eof()
            elif not self.streaming:
                self.close()

    def _may_begin(self) -> bool:
        if not self.tasks:
            return True
        return len(self.tasks) < self._turns.begun_of_each() and self._in_work <= _MAX_IN_FLIGHT_BYTES

    def _begin_another(self) -> None:
        """Takes one more, though those that were begun are slow."""
        self._pace = None
        self._go_on(one_more=True)

    def _take_one(self) -> None:
        request = self._framer.take()
        if request is not None:
            self._take(request)

    def _take(self, request: Request | Bad) -> None:
        if isinstance(request, Bad):
            if request.line:
                self._work(self._refuse_line(request), len(request.line))
            else:
                self._write(wire.failure(request.id, request.error))
            if request.fatal:
                self._end()
            return
        if not self.tasks and request.id is not msgspec.UNSET and self._answered_at_once(request):
            return
        size = 0 if request.params is msgspec.UNSET else len(bytes(request.params))
        self._work(self._serve(request, size), size)

    def _work(self, work: Coroutine[Any, Any, None], size: int) -> None:
        """Goes on with a line of so many bytes beside the others."""
        self._in_work += size
        task = asyncio.ensure_future(work)
        self._turns.busy += not self.tasks
        self.tasks.add(task)
        task.add_done_callback(lambda done: self._served(done, size))

    def _answered_at_once(self, request: Request) -> bool:
        """Answers what needs no waiting, where the client reads what it is told."""
        if self._transport.get_write_buffer_size():
            return False
        try:
            result = self._server.at_once(self, request)
        except errors.ProvdError:  # it is told by the task that comes to it
            return False
        except Exception:
            log.exception("shortcut failed", method=request.method)
            return False
        if result is None:
            return False
        faults.point("answer.before")
        self._write(wire.answer_raw(request.id, result))
        return True

    def eof_received(self) -> bool:
        """A client that has said all may still wait for its answers, and its last line may lack an end."""
        if not self._ending:
            self.data_received(b"\n")
        if not self.waits and (self.gone or not self.streaming):
            return False
        self._ending = self._heard_all = True
        return True

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # a client that vanishes is no fault
        self.gone = True
        self._drained.set()
        self._server.connections.discard(self)
        self._server.crowd.are(len(self._server.connections))
        self._server.closed(self)

    # serving

    async def _serve(self, request: Request, size: int) -> None:
        if self._transport.get_write_buffer_size() <= MAX_UNDRAINED:
            await self._answer(request, size)
            return
        async with self._turn:  # the client has enough to read: one at a time, as it reads
            await self._drained.wait()
            await self._answer(request, size)

    async def _answer(self, request: Request, size: int) -> None:
        with garbage.resting(when=size > _MANY):
            line = await self._line(request)
        if line:
            faults.point("answer.before")
            self._write(line)

    async def _line(self, request: Request) -> bytes:
        """The answer as it goes over the wire; nothing where none is wanted."""
        wanted = request.id is not msgspec.UNSET
        try:
            result = await self._server.handler(self, request)
            line = wire.answer(request.id, result) if wanted else b""
            if len(line) > wire.MAX_LINE + 1:
                line = wire.failure(request.id, wire.too_long())
        except errors.ProvdError as e:
            line = wire.failure(request.id, e) if wanted else b""
        except Exception as e:
            with contextlib.suppress(Exception):  # who asks is answered, whatever can be said of it here
                log.exception("request failed", method=request.method)
            line = wire.failure(request.id, wire.failed(e)) if wanted else b""
        return line

    async def _refuse_line(self, bad: Bad) -> None:
        try:
            await self._server.refused(bad)
        except Exception:
            log.exception("what a refused line may declare was not recorded")
        self._write(wire.failure(bad.id, bad.error))

    def _served(self, task: asyncio.Task[None], size: int) -> None:
        self.tasks.discard(task)
        self._turns.busy -= not self.tasks
        self._in_work -= size
        if not task.cancelled() and (fault := task.exception()) is not None:  # who waits for that answer must not wait
            log.error("a request was not answered: its client is cut off", pid=self.peer.pid, error=repr(fault))
            self.close()
        self._go_on()

    def _write(self, line: bytes) -> None:
        if self.gone or self._said_all:
            return
        self._transport.write(line)
        self._written += len(line)
        if self._transport.get_write_buffer_size() > MAX_UNDRAINED and self._watch is None:
            self._watch_reader()

    def _watch_reader(self) -> None:
        """Looks again in a while whether a client that has much to read reads at all."""
        read = self._written - self._transport.get_write_buffer_size()
        self._watch = asyncio.get_running_loop().call_later(_STALLED, self._look_at_reader, read)

    def _look_at_reader(self, had_read: int) -> None:
        self._watch = None
        waiting = self._transport.get_write_buffer_size()
        if self.gone or waiting <= MAX_UNDRAINED:
            return
        if self._written - waiting > had_read:
            self._watch_reader()
            return
        log.warning("client cut off: it does not read", pid=self.peer.pid)
        self._transport.abort()
        crowd.soon()

    async def notify(self, line: bytes) -> bool:
        """Writes a notification when the client has read most of what came before; False where it is gone."""
        await self._drained.wait()
        self._write(line)
        return not (self.gone or self._said_all)

    def _turn_away(self) -> None:
        """Says that there are too many, and lets go of the descriptor at once, so that the next one is told too."""
        most = self._server.most
        told, hint = "as many as it takes", "provd stop  # that works all the same; or close some, and use one for many"
        if most < MAX_CONNECTIONS:
            told = f"as many as its limit of {descriptors()['limit']} open files allows"
            hint = "ulimit -n 4096 && provd restart  # one that takes more; or close some, and use one for many"
        error = errors.LimitExceeded(f"{most} connections to the daemon (pid {os.getpid()}) are open, {told}", hint)
        self._write(wire.failure(None, error))
        self._ending = self._said_all = True
        self.close()

    def _refuse(self, error: errors.ProvdError) -> None:
        self._write(wire.failure(None, error))
        self._end()

    def _end(self) -> None:
        """Takes no more requests; when what is in work is answered, nothing more is said."""
        self._ending = True
        self._framer.drop()
        if not self.tasks:
            self._say_eof()

    def _say_eof(self) -> None:
        """Says no more, but lets the client read what was said before it is cut off."""
        if self._said_all or self.gone:
            return
        self._said_all = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
        asyncio.get_running_loop().call_later(_GRACE, self._transport.abort)

    def close(self) -> None:
        """Closes the connection when all is written; takes nothing more."""
        self._framer.drop()
        if not self.gone:
            self._transport.close()
