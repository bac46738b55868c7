"""Who connects, where the system does not say who that is or what it sees."""

from __future__ import annotations

import asyncio
import os
from types import ModuleType
from typing import Any
from unittest import mock

import msgspec
import pytest
from scripted import Service, check

from provd import peers
from provd import server as serving
from provd.core.wire import Request
from provd.handlers import Handlers

uvloop: ModuleType | None
try:
    import uvloop
except ImportError:  # it is not there on every platform
    uvloop = None


@pytest.mark.parametrize("error", [OSError("no"), MemoryError("no")])
def test_a_client_of_whom_nothing_can_be_told_is_told_so_and_let_go(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Broken: `connection_made` that lets it pass: then nothing is ever heard on that connection."""

    def failing(_: object) -> peers.Peer:
        raise error

    async def body(service: Service) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(serving, "peer_of", failing)
            client = await service.client()
            client.send("m", id=1)
            assert (await client.line())["error"]["data"]["code"] == "internal"
            assert await client.line() is None
        assert (await (await service.client()).ask("m"))["result"] == "m"

    check(body)


def test_who_cannot_be_compared_with_the_daemon_may_see_other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where /proc is not mounted. Broken: `_look` that takes it for a process that has ended, or raises."""

    def failing() -> peers._Own:
        raise FileNotFoundError("/proc/self/root")

    peer = peers.Peer(os.getpid(), os.getuid())
    before = peer.foreign
    monkeypatch.setattr(peers, "_own", failing)
    assert (before, peer.foreign) == (False, True)
    assert peers.Peer(os.getpid(), os.getuid()).foreign


@pytest.mark.parametrize("new_loop", [None, uvloop.new_event_loop] if uvloop else [None])
def test_a_connection_that_cannot_be_made_is_closed_and_the_next_one_is_served(
    monkeypatch: pytest.MonkeyPatch, new_loop: Any
) -> None:
    """Broken: uvloop listens no more, and whoever connects from then on waits for ever."""
    made, broken = serving.Connection.__init__, iter([True])

    def making(self: serving.Connection, server: serving.Server) -> None:
        if next(broken, False):
            raise MemoryError
        made(self, server)

    monkeypatch.setattr(serving.Connection, "__init__", making)

    async def body(service: Service) -> None:
        assert await (await service.client()).line() is None
        assert (await (await service.client()).ask("m"))["result"] == "m"

    check(body, new_loop)


def test_who_has_ended_before_he_was_looked_at_may_have_seen_other_files() -> None:
    """Broken: one that is taken for the daemon's like until something else is seen."""
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    assert peers.Peer(child, os.getuid()).foreign


def test_questions_of_who_is_gone_are_not_gone_into() -> None:
    """Broken: hundreds that somebody sent and did not wait for hold up whoever comes."""
    handlers = Handlers.__new__(Handlers)
    responder, actions = mock.AsyncMock(), mock.AsyncMock()
    handlers._over = lambda: None
    handlers._responder, handlers._actions = responder, actions
    handlers.stopping = False

    async def ask(method: str, given: bytes, *, gone: bool) -> None:
        request = Request("2.0", method, 1, msgspec.Raw(given))
        await handlers.handle(mock.Mock(gone=gone, peer=mock.Mock(foreign=False)), request)

    for gone in (True, False):
        asyncio.run(ask("entry.get", b'{"key":"k"}', gone=gone))
        asyncio.run(ask("action.end", b'{"id":1,"outcome":"done"}', gone=gone))
        assert (responder.get.await_count, actions.end.await_count) == ((0, 1) if gone else (1, 2))
