"""Who connects, where the system does not say who that is or what it sees."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import pytest
from scripted import Service, check

from provd import peers
from provd import server as serving

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
