"""The server in this process, with a handler of the test's own, over a real Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import socket
import tempfile
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from provd import server as serving
from provd.core import errors, wire
from provd.server import Connection, Peer, Server, peer_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from provd.core.wire import Request

KIB: Final = 1024


class Service:
    """A server with a scripted handler, and what became of its connections."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.server = Server(self._handle, self._closed)
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


def check(body: Callable[[Service], Awaitable[None]]) -> None:
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
            listener = await one.server.start(listening)
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

    asyncio.run(main())
    gc.collect()  # a task whose failure nobody took complains when it goes
    assert complaints == []


# answers


def test_answers_come_as_they_are_ready() -> None:
    async def body(service: Service) -> None:
        client = await service.client()
        client.send("wait", id="slow")
        client.send("fast", id="fast")
        assert (await client.line())["id"] == "fast"
        service.gate.set()
        assert await client.line() == {"jsonrpc": "2.0", "id": "slow", "result": "wait"}

    check(body)


def test_many_requests_in_one_piece_are_all_answered_once() -> None:
    async def body(service: Service) -> None:
        client = await service.client()
        for n in range(500):
            client.send(f"m{n}", id=n)
        answers = [await client.line() for _ in range(500)]
        assert sorted((a["id"], a["result"]) for a in answers) == [(n, f"m{n}") for n in range(500)]

    check(body)


def test_one_slow_client_is_nobody_elses_matter() -> None:
    async def body(service: Service) -> None:
        slow, fast = await service.client(), await service.client()
        slow.send("wait", id=1)
        await service.until(lambda: service.started == ["wait"])
        assert (await fast.ask("m"))["result"] == "m"

    check(body)


def test_a_bad_line_gets_its_error_and_the_connection_goes_on() -> None:
    async def body(service: Service) -> None:
        client = await service.client()
        client.raw(b'{"jsonrpc":"1.0","id":7,"method":"m"}\n\n  \n{\n\xff\n[]\n')
        errors_ = [await client.line() for _ in range(4)]
        assert [(e["id"], e["error"]["code"]) for e in errors_] == [
            (7, -32600),
            (None, -32700),
            (None, -32700),
            (None, -32600),
        ]
        assert (await client.ask("m"))["result"] == "m"
        assert service.started == ["m"]

    check(body)


def test_a_refusal_has_its_code_hint_and_detail() -> None:
    async def body(service: Service) -> None:
        client = await service.client()
        error = (await client.ask("refuse"))["error"]
        assert error["code"] == -32000
        assert error["data"] == {"code": "entry.conflict", "message": "no", "hint": "ask again", "version": 3}

    check(body)


def test_a_handler_that_crashes_is_an_internal_error_and_the_connection_goes_on() -> None:
    async def body(service: Service) -> None:
        client = await service.client()
        error = (await client.ask("crash"))["error"]
        assert (error["code"], error["data"]["code"]) == (-32603, "internal")
        assert error["data"]["hint"]
        assert "ZeroDivisionError" in error["message"]
        assert (await client.ask("m"))["result"] == "m"

    check(body)


def test_a_notification_is_carried_out_and_never_answered() -> None:
    async def body(service: Service) -> None:
        client = await service.client()
        for method in ("m", "crash", "refuse", "big 100"):
            client.send(method)
        await service.until(lambda: len(service.finished) == 4)
        assert await client.ask("last", None) == {"jsonrpc": "2.0", "id": None, "result": "last"}
        client.writer.write_eof()
        assert await client.line() is None

    check(body)


def test_an_answer_over_the_limit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_LINE", 10 * KIB)

    async def body(service: Service) -> None:
        client = await service.client()
        assert (await client.ask("big 20000"))["error"]["data"]["code"] == "limit"
        assert (await client.ask("big 9000"))["result"] == "x" * 9000

    check(body)


# the end of a connection


def test_a_line_over_the_limit_gets_its_error_and_then_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_LINE", 10 * KIB)

    async def body(service: Service) -> None:
        client = await service.client()
        assert (await client.ask("before"))["result"] == "before"
        client.raw(b"x" * (10 * KIB + 1))
        error = await client.line()
        assert (error["id"], error["error"]["data"]["code"]) == (None, "limit")
        assert await client.line() is None
        client.raw(b'\n{"jsonrpc":"2.0","id":1,"method":"after"}\n')
        await client.close()
        await service.until(lambda: len(service.gone) == 1)
        assert service.started == ["before"]
        other = await service.client()
        assert (await other.ask("m"))["result"] == "m"

    check(body)


def test_a_client_that_has_said_all_still_gets_its_answers() -> None:
    async def body(service: Service) -> None:
        client = await service.client()
        client.send("wait", id=1)
        client.send("fast", id=2)
        client.writer.write_eof()
        assert (await client.line())["id"] == 2
        service.gate.set()
        assert (await client.line())["id"] == 1
        assert await client.line() is None

    check(body)


def test_a_last_line_without_an_end_is_answered() -> None:
    async def body(service: Service) -> None:
        client = await service.client()
        client.raw(b'{"jsonrpc":"2.0","id":1,"method":"half"}')
        client.writer.write_eof()
        assert await client.line() == {"jsonrpc": "2.0", "id": 1, "result": "half"}
        assert await client.line() is None
        half = await service.client()
        half.raw(b'{"jsonrpc":"2.0","id":1,"meth')
        half.writer.write_eof()
        assert (await half.line() or {})["error"]["code"] == -32700
        assert await half.line() is None

    check(body)


def test_a_client_that_vanishes_before_its_answer_disturbs_nobody() -> None:
    async def body(service: Service) -> None:
        client, other = await service.client(), await service.client()
        client.send("wait", id=1)
        client.send("big 1000000", id=2)
        await service.until(lambda: len(service.started) == 2)
        client.writer.transport.abort()
        await service.until(lambda: len(service.gone) == 1)
        assert service.gone[0].gone
        service.gate.set()
        await service.until(lambda: "wait" in service.finished)
        assert (await other.ask("m"))["result"] == "m"
        assert len(service.server.connections) == 1
        await other.close()
        await service.until(lambda: len(service.gone) == 2)
        assert len(set(service.gone)) == 2, "each is told once"

    check(body)


def test_a_client_that_vanishes_in_the_middle_of_an_answer_disturbs_nobody() -> None:
    async def body(service: Service) -> None:
        client, other = await service.client(), await service.client()
        client.send(f"big {8 * KIB * KIB}", id=1)
        assert len(await client.reader.read(10)) > 0
        client.writer.transport.abort()
        await service.until(lambda: len(service.gone) == 1)
        assert (await other.ask("m"))["result"] == "m"

    check(body)


def test_a_client_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_UNDRAINED", 256 * KIB)

    async def body(service: Service) -> None:
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.connect(service.path)
            request = b'{"jsonrpc":"2.0","id":1,"method":"big 65536"}\n'
            await asyncio.to_thread(deaf.sendall, request * 100)
            await service.until(lambda: len(service.gone) == 1)
            got = 0
            deaf.settimeout(60)
            with contextlib.suppress(ConnectionResetError):
                while part := deaf.recv(1 << 20):
                    got += part.count(b"\n")
            assert got < 100
        other = await service.client()
        assert (await other.ask("m"))["result"] == "m"

    check(body)


def test_a_client_that_reads_late_and_within_the_limit_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_UNDRAINED", 8 * KIB * KIB)

    async def body(service: Service) -> None:
        client = await service.client()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for n in range(60):
            client.send("big 65536", id=n)
        await service.until(lambda: len(service.finished) == 60)
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert sorted([(await client.line())["id"] for _ in range(60)]) == list(range(60))

    check(body)


# limits


def test_connections_over_the_limit_are_told_so_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 2)

    async def body(service: Service) -> None:
        first, second = await service.client(), await service.client()
        assert (await first.ask("a"))["result"] == "a"
        assert (await second.ask("b"))["result"] == "b"
        third = await service.client()
        error = await third.line()
        assert (error["id"], error["error"]["data"]["code"]) == (None, "limit")
        assert await third.line() is None
        await third.close()
        assert (await first.ask("c"))["result"] == "c"
        await service.until(lambda: len(service.gone) == 1)
        await second.close()
        await service.until(lambda: len(service.gone) == 2)
        fourth = await service.client()
        assert (await fourth.ask("d"))["result"] == "d"

    check(body)


def test_a_client_with_too_much_in_work_is_not_read_until_half_of_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_MAX_IN_FLIGHT", 4)

    async def body(service: Service) -> None:
        client = await service.client()
        for n in range(5):
            client.send("wait", id=n)
        await service.until(lambda: len(service.started) == 5)
        transport = service.only._transport
        assert not transport.is_reading()
        client.send("later", id=5)
        await client.writer.drain()
        other = await service.client()
        for _ in range(20):  # the loop goes round and round, and takes nothing from the first
            assert (await other.ask("m"))["result"] == "m"
        assert "later" not in service.started
        service.gate.set()
        assert sorted([(await client.line())["id"] for _ in range(6)]) == list(range(6))
        assert transport.is_reading()

    check(body)


# peers


def test_the_peer_is_who_the_kernel_says() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert peer_of(ours) == Peer(os.getpid(), os.geteuid(), foreign=False)

    async def body(service: Service) -> None:
        client = await service.client()
        assert (await client.ask("peer"))["result"] == os.getpid()

    check(body)


def test_a_peer_that_cannot_be_looked_at_may_see_other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any, **__: Any) -> Any:
        raise ProcessLookupError

    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs, monkeypatch.context() as patch:
        patch.setattr(os, "stat", gone)
        assert peer_of(ours).foreign


@pytest.mark.parametrize(("uid", "welcome"), [(0, True), (4242, True), (4243, False), (-1, False)])
def test_only_the_daemons_user_and_root_may_ask(monkeypatch: pytest.MonkeyPatch, uid: int, welcome: bool) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    monkeypatch.setattr(serving, "peer_of", lambda _: Peer(1, uid, foreign=False))

    async def body(service: Service) -> None:
        client = await service.client()
        client.send("m", id=1)
        answer = await client.line()
        if welcome:
            assert answer["result"] == "m"
        else:
            assert (answer["id"], bool(answer["error"]["data"]["hint"])) == (None, True)
            assert await client.line() is None
            assert service.started == []

    check(body)


# notifications and stopping


def test_a_notification_waits_until_the_client_has_read_what_came_before() -> None:
    async def body(service: Service) -> None:
        client = await service.client()
        await client.ask("m")
        transport = client.writer.transport
        transport.pause_reading()  # type: ignore[attr-defined]
        big = wire.notification("n", "x" * (8 * KIB * KIB))
        assert await service.only.notify(big)
        second = asyncio.ensure_future(service.only.notify(wire.notification("n", "second")))
        other = await service.client()
        for _ in range(20):
            await other.ask("m")
        assert not second.done()
        transport.resume_reading()  # type: ignore[attr-defined]
        assert len((await client.line())["params"]) == 8 * KIB * KIB
        assert await client.line() == {"jsonrpc": "2.0", "method": "n", "params": "second"}
        assert await second

    check(body)


def test_a_notification_to_a_client_that_is_gone_says_so() -> None:
    async def body(service: Service) -> None:
        client = await service.client()
        await client.ask("m")
        connection = service.only
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        assert await connection.notify(wire.notification("n", "x" * (8 * KIB * KIB)))
        waiting = asyncio.ensure_future(connection.notify(b"never\n"))
        client.writer.transport.abort()
        assert await waiting is False
        assert await connection.notify(b"never\n") is False

    check(body)


def test_stopping_answers_what_is_in_work_and_ends_every_connection() -> None:
    async def body(service: Service) -> None:
        client, idle = await service.client(), await service.client()
        assert (await idle.ask("m"))["result"] == "m"
        client.send("wait", id=1)
        await service.until(lambda: "wait" in service.started)
        stopping = asyncio.ensure_future(service.server.stop())
        await idle.ask("m")
        assert not stopping.done()
        service.gate.set()
        assert (await client.line())["result"] == "wait"
        assert await client.line() is None
        assert await idle.line() is None
        await stopping

    check(body)
