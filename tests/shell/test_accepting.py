"""Who connects is let in, whoever else waits and whatever is short."""

from __future__ import annotations

import asyncio
import contextlib
import errno
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
        await service.until(lambda: service.server.busy == 70)
        last = await service.client()
        assert (await last.ask("m"))["result"] == "m"
        begun = sum(len(connection.tasks) for connection in service.server.connections)
        assert begun < 70 * 30 / 4
        service.gate.set()
        for client in clients:
            assert sorted([(await client.line())["id"] for _ in range(30)]) == list(range(30))
        await service.until(lambda: service.server.busy == 0)

    check(body)
