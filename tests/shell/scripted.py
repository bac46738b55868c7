"""A server with a scripted handler and a client of it, over a real Unix socket, in one process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import socket
import tempfile
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from provd.core import errors
from provd.server import Connection, Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from provd.core.wire import Bad, Request


class Service:
    """A server with a scripted handler, and what became of its connections."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.server = Server(self._handle, self._closed, refused=self._refused)
        self.started: list[str] = []
        self.finished: list[str] = []
        self.gone: list[Connection] = []
        self.clients: list[Client] = []
        self.gate = asyncio.Event()
        self._changed = asyncio.Condition()

    async def _handle(self, connection: Connection, request: Request) -> Any:
        self.started.append(request.method)
        await self._tell()
        try:
            return await self._answer(connection, request.method)
        finally:
            self.finished.append(request.method)
            await self._tell()

    async def _refused(self, bad: Bad) -> None:
        await self._answer(self.only, bad.line.split(b" ")[0].decode())

    async def _answer(self, connection: Connection, method: str) -> Any:
        word, _, rest = method.partition(" ")
        match word:
            case "wait":
                await self.gate.wait()
            case "big":
                return "x" * int(rest)
            case "crash":
                raise ZeroDivisionError("oh")
            case "refuse":
                raise errors.EntryConflict("no", "ask again", version=3)
            case "stream":
                connection.streaming = True
            case "peer":
                return connection.peer.pid
            case _:
                pass
        return method

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _closed(self, connection: Connection) -> None:
        self.gone.append(connection)
        asyncio.ensure_future(self._tell())  # noqa: RUF006 - it ends at once

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until something that happens here makes it true."""
        async with self._changed:
            await self._changed.wait_for(condition)

    async def client(self) -> Client:
        client = Client(*await asyncio.open_unix_connection(self.path, limit=1 << 26))
        self.clients.append(client)
        return client

    @property
    def only(self) -> Connection:
        (connection,) = self.server.connections
        return connection


class Client:
    """One connection, by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, method: str, **fields: Any) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", "method": method, **fields}).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    async def line(self) -> Any:
        line = await self.reader.readline()
        return json.loads(line) if line else None

    async def ask(self, method: str, number: Any = 1) -> Any:
        self.send(method, id=number)
        answer = await self.line()
        assert answer["id"] == number
        return answer

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


def check(
    body: Callable[[Service], Awaitable[None]], new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> None:
    """Runs `body` against a new service; nothing may be left to the loop's own complaints."""
    complaints: list[dict[str, Any]] = []

    @asynccontextmanager
    async def service() -> AsyncIterator[Service]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        with tempfile.TemporaryDirectory(prefix="provd-", dir="/tmp") as directory:
            path = os.path.join(directory, "s")
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(path)
            one = Service(path)
            listener = one.server.start(listening)
            try:
                yield one
            finally:
                one.gate.set()
                listener.close()
                for client in one.clients:
                    await client.close()
                await one.server.stop()
                await one.until(lambda: not one.server.connections)

    async def main() -> None:
        async with service() as one:
            await body(one)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
    gc.collect()  # a task whose failure nobody took complains when it goes
    assert complaints == []
