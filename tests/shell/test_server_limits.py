"""Who the server serves, how many, and how much of each, over a real Unix socket."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import pytest
from scripted import Service, check
from support import HANG

from provd import server as serving
from provd import turns
from provd.core import wire
from provd.peers import Peer, peer_of


async def still_begun(service: Service, count: int) -> None:
    """While the loop goes round and round, and others are answered, no more of what waits is begun."""
    other = await service.client()
    for _ in range(20):
        assert (await other.ask("m"))["result"] == "m"
    assert service.started.count("wait") == count


async def two_of_fifty(service: Service) -> None:
    """A client has sent fifty requests of which two are begun, and hold up the others."""
    client = await service.client()
    for n in range(50):
        client.send("wait", id=n)
    await service.until(lambda: len(service.started) == 2)


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


def test_with_few_descriptors_fewer_connections_are_taken_and_each_further_one_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "descriptors", lambda: {"limit": 40, "used": 11})

    async def body(service: Service) -> None:
        taken = [await service.client() for _ in range(5)]
        for client in taken:
            assert (await client.ask("a"))["result"] == "a"
        for _ in range(3):
            further = await service.client()
            told = (await further.line())["error"]["data"]
            assert told["code"] == "limit"
            assert f"(pid {os.getpid()})" in told["message"]
            assert "limit of 40 open files" in told["message"]
            assert await further.line() is None
        await service.until(lambda: len(service.server.connections) == len(taken))  # none of them is kept open

    check(body)


def test_a_client_of_whom_too_much_waits_is_not_read_until_half_of_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_BEGUN", 2)
    monkeypatch.setattr(serving, "_PACE", HANG)
    monkeypatch.setattr(serving, "_MAX_UNREAD", 200)

    async def body(service: Service) -> None:
        client = await service.client()
        for n in range(10):
            client.send("wait", id=n)
        await client.writer.drain()
        await service.until(lambda: len(service.started) == 2)
        transport = service.only._transport
        other = await service.client()
        while transport.is_reading():
            assert (await other.ask("m"))["result"] == "m"
        client.send("later", id=10)
        await client.writer.drain()
        for _ in range(20):  # the loop goes round and round, and takes nothing from the first
            assert (await other.ask("m"))["result"] == "m"
        assert (service.started.count("wait"), service.started.count("later")) == (2, 0)
        service.gate.set()
        assert sorted([(await client.line())["id"] for _ in range(11)]) == list(range(11))
        assert transport.is_reading()

    check(body)


def test_of_a_client_whose_requests_are_large_few_are_begun_however_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: each of the lines of one client may be 16 MiB, and all are held at once."""
    monkeypatch.setattr(serving, "_MAX_IN_FLIGHT_BYTES", 1000)
    monkeypatch.setattr(serving, "_PACE", 0)

    async def body(service: Service) -> None:
        client = await service.client()
        for n in range(9):
            client.send("wait", id=n, params={"a": "x" * 600})
        await service.until(lambda: len(service.started) == 2)
        await still_begun(service, 2)
        service.gate.set()
        assert sorted([(await client.line())["id"] for _ in range(9)]) == list(range(9))

    check(body)


def test_of_one_clients_requests_few_are_begun_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: who asks for much has all of it take turns with what others ask."""
    monkeypatch.setattr(turns, "_BEGUN", 3)
    monkeypatch.setattr(serving, "_PACE", HANG)

    async def body(service: Service) -> None:
        client = await service.client()
        for n in range(8):
            client.send("wait", id=n)
        await service.until(lambda: len(service.started) == 3)
        await still_begun(service, 3)
        service.gate.set()
        assert [(await client.line())["id"] for _ in range(8)] == list(range(8))

    check(body)


def test_what_is_slow_holds_up_no_other_request_of_the_same_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_BEGUN", 3)

    async def body(service: Service) -> None:
        client = await service.client()
        for n in range(8):
            client.send("wait", id=n)
        assert (await client.ask("m"))["result"] == "m"
        assert service.started == ["wait"] * 8 + ["m"]
        service.gate.set()
        assert len([await client.line() for _ in range(8)]) == 8

    check(body)


@pytest.mark.parametrize("more", [0, 5])
def test_a_client_that_has_said_all_gets_all_its_answers(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    monkeypatch.setattr(turns, "_BEGUN", 2)

    async def body(service: Service) -> None:
        client = await service.client()
        for n in range(2 + more):
            client.send("wait", id=n)
        client.writer.write_eof()
        await service.until(lambda: len(service.started) >= 2)
        service.gate.set()
        assert [(await client.line())["id"] for _ in range(2 + more)] == list(range(2 + more))
        assert await client.line() is None

    check(body)


def test_a_client_whose_lines_cannot_be_taken_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: the rest of what it sent is never taken, and nobody tells it."""
    parse, left = wire.parse, iter([False] * 99 + [True])

    def failing(line: bytes) -> Any:
        if next(left, False):
            raise MemoryError
        return parse(line)

    async def body(service: Service) -> None:
        service.server.at_once = lambda _, request: b'"%b"' % request.method.encode()
        monkeypatch.setattr(wire, "parse", failing)
        client = await service.client()
        for n in range(200):
            client.send("m", id=n)
        assert [(await client.line())["id"] for _ in range(99)] == list(range(99))
        assert await client.line() is None
        assert (await (await service.client()).ask("m"))["result"] == "m"

    check(body)


def test_it_is_told_how_many_are_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: what a crowd took is never given back."""
    told: list[int] = []

    async def body(service: Service) -> None:
        monkeypatch.setattr(service.server.crowd, "are", told.append)
        for _ in range(3):
            assert (await (await service.client()).ask("m"))["result"] == "m"
        await service.clients[0].close()
        await service.until(lambda: len(service.gone) == 1)
        assert told == [1, 2, 3, 2]

    check(body)


def test_a_stream_that_was_asked_for_last_goes_on_though_the_client_has_said_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Broken: it ends where what was asked for before still waits."""
    monkeypatch.setattr(turns, "_BEGUN", 2)

    async def body(service: Service) -> None:
        client = await service.client()
        for n in range(200):
            client.send("m", id=n)
        client.send("stream", id=200)
        client.writer.write_eof()
        assert sorted([(await client.line())["id"] for _ in range(201)]) == list(range(201))
        assert await service.only.notify(b'{"told": 1}\n')
        assert await client.line() == {"told": 1}

    check(body)


def test_who_has_said_all_and_streams_no_more_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: the connection stays for as long as the client waits for its end."""
    monkeypatch.setattr(turns, "_BEGUN", 2)

    async def body(service: Service) -> None:
        client = await service.client()
        client.send("stream", id=0)
        client.send("wait", id=1)
        client.writer.write_eof()
        await service.until(lambda: service.started == ["stream", "wait"])
        service.only.streaming = False
        service.gate.set()
        assert sorted([(await client.line())["id"] for _ in range(2)]) == [0, 1]
        assert await client.line() is None

    check(body)


def test_what_waits_of_a_client_that_has_gone_is_not_begun_when_all_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: the log of an orderly stop is full of tasks that were destroyed."""
    monkeypatch.setattr(turns, "_BEGUN", 2)
    monkeypatch.setattr(serving, "_PACE", HANG)

    async def body(service: Service) -> None:
        await two_of_fifty(service)
        service.only._transport.abort()  # as it is when an answer cannot be written
        await service.until(lambda: len(service.gone) == 1)
        service.server.stopping = True
        service.gate.set()
        await asyncio.wait(set(service.gone[0].tasks))
        await asyncio.sleep(0)  # they are counted out in the turn after they are done
        assert not service.gone[0].waits
        assert service.started == ["wait", "wait"]

    check(body)


def test_what_waits_of_a_client_that_is_cut_off_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: work is begun that nobody ends, when the daemon stops."""
    monkeypatch.setattr(turns, "_BEGUN", 2)
    monkeypatch.setattr(serving, "_PACE", HANG)

    async def body(service: Service) -> None:
        await two_of_fifty(service)
        service.only.close()
        service.gate.set()
        await service.until(lambda: len(service.finished) == 2 and not service.server.connections)
        assert await service.clients[0].line() is None
        assert (await (await service.client()).ask("m"))["result"] == "m"
        assert service.started == ["wait", "wait", "m"]

    check(body)


# peers


def test_the_peer_is_who_the_kernel_says() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        peer = peer_of(ours)
        assert (peer.pid, peer.uid, peer.foreign) == (os.getpid(), os.geteuid(), False)

    async def body(service: Service) -> None:
        client = await service.client()
        assert (await client.ask("peer"))["result"] == os.getpid()

    check(body)


def test_a_peer_that_cannot_be_looked_at_may_see_other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(*_: Any, **__: Any) -> Any:
        raise PermissionError

    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        peer = peer_of(ours)
        seen = [peer.foreign]
        for look in ("stat", "readlink"):
            with monkeypatch.context() as patch:
                patch.setattr(os, look, hidden)
                seen.append(peer.foreign)
            seen.append(peer.foreign)
    assert seen == [False, True, False, True, False]


@pytest.mark.parametrize("foreign", [False, True])
def test_of_a_peer_that_has_ended_what_it_was_last_holds(monkeypatch: pytest.MonkeyPatch, foreign: bool) -> None:
    """Broken: what it said and did not wait for is kept as unknown."""

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        peer = peer_of(ours)
        monkeypatch.setattr(os, "stat", fail)
        error: OSError = PermissionError()
        if foreign:
            assert peer.foreign
        for gone in (FileNotFoundError(), ProcessLookupError()):
            error = gone
            assert [peer.foreign for _ in range(3)] == [foreign] * 3


@pytest.mark.parametrize(("uid", "welcome"), [(0, True), (4242, True), (4243, False), (-1, False)])
def test_only_the_daemons_user_and_root_may_ask(monkeypatch: pytest.MonkeyPatch, uid: int, welcome: bool) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    monkeypatch.setattr(serving, "peer_of", lambda _: Peer(1, uid))

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


def test_another_root_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: a client whose root hangs stops the daemon when it connects."""
    looked: list[str] = []
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        peer = peer_of(ours)
        real = os.readlink
        monkeypatch.setattr(os, "readlink", lambda path: "/elsewhere" if path.endswith("/root") else real(path))
        monkeypatch.setattr(os, "stat", looked.append)
        assert peer.foreign
    assert looked == []
