"""The server in this process, with a handler of the test's own, over a real Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final

import pytest
from scripted import Service, check

from provd import server as serving
from provd.core import wire

KIB: Final = 1024


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


def test_a_bad_line_that_may_declare_writes_gets_its_error_when_that_is_recorded() -> None:
    async def body(service: Service) -> None:
        client = await service.client()
        client.raw(b"wait action.begin\ncrash action.begin\n{\n")
        assert [(await client.line())["error"]["code"] for _ in range(2)] == [-32700] * 2
        client.send("m", id=1)
        assert (await client.line())["id"] == 1
        assert len(service.only.tasks) == 1
        client.writer.write_eof()
        service.gate.set()
        assert (await client.line())["error"]["code"] == -32700
        assert await client.line() is None

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


def test_a_client_that_cannot_even_be_told_of_a_fault_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: the task ends with its error, and nobody ever answers."""

    def failure(*_: object) -> bytes:
        raise MemoryError

    async def body(service: Service) -> None:
        client = await service.client()
        monkeypatch.setattr(wire, "failure", failure)
        client.send("crash", id=1)
        assert await client.line() is None
        assert (await (await service.client()).ask("m"))["result"] == "m"

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
