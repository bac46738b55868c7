"""A daemon that ends already: who stops it says stopped, who starts one waits for its end."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from starting import Home, home
from support import HANG

from provd import services
from provd.cli.command import Place
from provd.cli.commands import starting
from provd.cli.processes import background, holding, serving
from provd.client import ProvdUnreachable, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["home"]

SOCKET = "/s/provd.sock"
_ENDS = RpcError("shutdown", "the daemon is stopping")
_CLOSED = ProvdUnreachable("it closed the connection", "", "closed")


def _begun(home: Home, word: str) -> subprocess.Popen[str]:
    return subprocess.Popen(home.command(word), env=home.environment(), stderr=subprocess.PIPE, text=True)


def test_all_who_stop_it_at_once_say_what_they_found(home: Home) -> None:
    for _ in range(3):
        home.provd("start")
        begun = [_begun(home, "stop") for _ in range(3)]
        told = [(one.communicate(timeout=HANG)[1], one.returncode) for one in begun]

        assert ("stopped\n", 0) in told
        for err, code in told:  # who came when all was over found none
            assert (err, code) == ("stopped\n", 0) or (code == 3 and "no daemon: " in err), told


def test_a_start_while_it_ends_starts_the_next_one(home: Home) -> None:
    for _ in range(3):
        home.provd("start")
        stopping = _begun(home, "stop")
        starting = _begun(home, "start")
        told = starting.communicate(timeout=HANG)[1]

        assert starting.returncode == 0, told
        assert stopping.communicate(timeout=HANG)[1] == "stopped\n"
        home.provd("start")
        home.provd("stop")


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Says whether somebody listens at the socket still; nobody holds the lock."""
    monkeypatch.setattr(holding, "holder", lambda _: None)

    def is_gone(yes: bool) -> None:
        monkeypatch.setattr(background, "nobody", lambda _: yes)

    return is_gone


@pytest.mark.parametrize(
    ("error", "listens", "ends"),
    [(_ENDS, False, True), (_CLOSED, False, True), (_CLOSED, True, False), (RpcError("limit", ""), False, False)],
)
def test_what_an_end_looks_like(gone: Any, error: Any, listens: bool, ends: bool) -> None:
    gone(not listens)

    assert serving.goes(error, "/s", SOCKET, 1.0) is ends


def test_who_ends_is_as_good_as_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ending:
        def __init__(self, *_: Any) -> None: ...

        def hello(self) -> None:
            raise _ENDS

        def close(self) -> None: ...

    monkeypatch.setattr(background, "Client", Ending)

    assert background.reached(SOCKET, 1.0) is None


def test_whose_socket_was_gone_and_who_holds_no_lock_any_more_has_ended(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was there when its socket was looked for, and had ended when its lock was looked at again."""
    seen = iter([holding.Holder(4242, home.socket, sure=True)])
    monkeypatch.setenv("PROVD_SOCKET", home.socket)
    monkeypatch.setenv("PROVD_STATE_DIR", home.state)
    monkeypatch.setattr(holding, "holder", lambda _: next(seen, None))
    monkeypatch.setattr(services, "found", lambda: None)

    assert starting._stop(1.0, Place(None, None)) == "stopped"
