"""Who connects is let in, whoever else waits and whatever is short."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import socket
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from scripted import Service, check

from provd import accepting
from provd import server as serving
from provd.accepting import Listener
from provd.core.wire import Request

uvloop: ModuleType | None
try:
    import uvloop
except ImportError:  # it is not there on every platform
    uvloop = None

LOOPS = [None, uvloop.new_event_loop] if uvloop else [None]
HANG = 60.0


class Greeting(asyncio.Protocol):
    """Says hello and hangs up."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport) or hasattr(transport, "write")
        transport.write(b"hello")
        transport.close()


@pytest.fixture
def path() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="provd-", dir="/tmp") as directory:
        yield os.path.join(directory, "s")


def run(work: Callable[[], Awaitable[None]], new_loop: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(HANG):
            await work()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def bound(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(path)
    return made


async def heard(path: str) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    with contextlib.closing(writer):
        return await reader.read()


@pytest.mark.parametrize("new_loop", LOOPS)
def test_all_who_wait_are_let_in_in_one_go(path: str, new_loop: Any) -> None:
    """Broken: one a turn, so that who comes last waits for the work of all who came before."""
    made = []

    def making() -> asyncio.Protocol:
        made.append(1)
        return Greeting()

    async def work() -> None:
        listener = Listener(bound(path), making, 100)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(50)]
        for one in waiting:
            one.connect(path)
        listener._accept()
        tasks = set(listener._coming)
        assert len(tasks) == 50
        await asyncio.wait(tasks)
        assert len(made) == 50
        for one in waiting:
            one.close()
        listener.close()

    run(work, new_loop)


@pytest.mark.parametrize("new_loop", LOOPS)
@pytest.mark.parametrize("spare", [True, False])
def test_without_a_descriptor_who_comes_is_hung_up_on_or_waits_and_later_he_is_let_in(
    monkeypatch: pytest.MonkeyPatch, path: str, new_loop: Any, spare: bool
) -> None:
    monkeypatch.setattr(accepting, "_PAUSE", 0.001)

    async def work() -> None:
        listening = bound(path)
        listener = Listener(listening, Greeting, 100)
        if not spare:
            listener._let_go()

        class Short:
            """A socket for which there is no descriptor, once."""

            left = 1

            def accept(self) -> Any:
                if self.left:
                    self.left = 0
                    raise OSError(errno.EMFILE, "too many")
                return listening.accept()

            def fileno(self) -> int:
                return listening.fileno()

            def close(self) -> None:
                listening.close()

        monkeypatch.setattr(listener, "_socket", Short())
        first = await heard(path)
        assert first == (b"" if spare else b"hello")
        assert await heard(path) == b"hello"
        listener.close()
        assert listening.fileno() == -1

    run(work, new_loop)


@pytest.mark.parametrize("new_loop", LOOPS)
def test_one_who_cannot_be_served_keeps_nobody_out(path: str, new_loop: Any) -> None:
    left = [MemoryError("a fault")]

    def making() -> asyncio.Protocol:
        if left:
            raise left.pop()
        return Greeting()

    async def work() -> None:
        listener = Listener(bound(path), making, 100)
        assert await heard(path) == b""
        assert await heard(path) == b"hello"
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            await heard(path)

    run(work, new_loop)


def test_no_descriptor_is_left(path: str) -> None:
    async def work() -> None:
        before = len(os.listdir("/proc/self/fd"))
        Listener(bound(path), Greeting, 1).close()
        assert len(os.listdir("/proc/self/fd")) == before

    run(work, None)


def test_what_is_begun_is_shared_by_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: a hundred clients with a hundred requests each have thousands begun before anybody else is heard."""
    monkeypatch.setattr(serving, "_PACE", 1000.0)

    async def body(service: Service) -> None:
        clients = [await service.client() for _ in range(70)]
        for client in clients:
            for number in range(30):
                client.send("wait", id=number)
        await service.until(lambda: service.server.turns.busy == 70)
        last = await service.client()
        assert (await last.ask("m"))["result"] == "m"
        begun = sum(len(connection.tasks) for connection in service.server.connections)
        assert begun < 70 * 30 / 4
        service.gate.set()
        for client in clients:
            assert sorted([(await client.line())["id"] for _ in range(30)]) == list(range(30))
        await service.until(lambda: service.server.turns.busy == 0)

    check(body)


def test_answers_that_are_given_at_once_are_shared_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: whoever comes waits for all that a crowd has sent."""
    given = 0

    def at_once(_: serving.Connection, request: Request) -> bytes:
        nonlocal given
        given += 1
        return json.dumps([request.method, given]).encode()

    async def body(service: Service) -> None:
        nonlocal given
        service.server.at_once = at_once
        clients = [await service.client() for _ in range(20)]
        for client in clients:
            for number in range(100):
                client.send("crowd", id=number)
        last = await service.client()
        method, number = (await last.ask("last"))["result"]
        assert method == "last"
        assert number < 20 * 100 / 2
        for client in clients:
            assert [(await client.line())["id"] for _ in range(100)] == list(range(100))
        assert given == 20 * 100 + 1
        given = 0
        for number in range(1000):  # one alone needs no second turn, and is answered in order
            clients[0].send("alone", id=number)
        assert [(await clients[0].line())["result"][1] for _ in range(1000)] == list(range(1, 1001))

    check(body)


def test_who_goes_while_his_lines_wait_holds_up_nobody_and_his_lines_are_taken() -> None:
    async def body(service: Service) -> None:
        client = await service.client()
        for number in range(300):
            client.send("m", id=number)
        await client.writer.drain()
        client.writer.transport.abort()
        other = await service.client()
        assert (await other.ask("other"))["result"] == "other"
        await service.until(lambda: len(service.gone) == 1)
        while service.gone[0].waits:
            assert (await other.ask("other"))["result"] == "other"
        assert service.server.turns.busy == 0

    check(body)
