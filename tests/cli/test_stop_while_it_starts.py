"""stop while a daemon starts: it waits until that one has a socket, as long as it was told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from provd.cli.command import Failure, Place
from provd.cli.commands import starting
from provd.cli.processes import background, holding
from provd.cli.processes.holding import Holder

if TYPE_CHECKING:
    from collections.abc import Iterable

STATE = "/s"
SOCKET = "/s/provd.sock"
STARTS = Holder(7, "")
THERE = Holder(7, SOCKET)


class Looks:
    """What each look at the lock finds, the last one for ever; `slept` counts the time between them, in seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, found: Iterable[Holder | None], *, begun: bool = False) -> None:
        self._found = list(found)
        self.slept = 0.0
        monkeypatch.setattr(holding, "holder", lambda _: self._found.pop(0) if len(self._found) > 1 else self._found[0])
        monkeypatch.setattr(holding, "starts", lambda _: begun)
        monkeypatch.setattr(background, "reached", lambda path, _timeout: f"client of {path}")
        monkeypatch.setattr("provd.cli.commands.starting.time.sleep", self._sleep)
        monkeypatch.setattr("provd.cli.commands.starting.time.monotonic", lambda: self.slept)

    def _sleep(self, seconds: float) -> None:
        self.slept += seconds

    def elsewhere(self, timeout: float = 30.0, **at: Any) -> Any:
        place = Place(**({"socket": None, "state": STATE} | at))
        return starting._elsewhere(place, at.get("socket") or SOCKET, timeout)


def test_one_that_has_no_socket_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Looks(monkeypatch, [STARTS, STARTS, THERE]).elsewhere() == f"client of {SOCKET}"


def test_one_whose_start_is_at_work_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Looks(monkeypatch, [None, None, STARTS, THERE], begun=True).elsewhere() == f"client of {SOCKET}"


def test_it_is_waited_for_no_longer_than_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch, [STARTS])
    with pytest.raises(Failure, match="does not answer at any socket yet"):
        looks.elsewhere(timeout=2.0)
    assert 2.0 <= looks.slept < 2.1


def test_one_that_ends_instead_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Looks(monkeypatch, [STARTS, None]).elsewhere() is None


def test_where_another_socket_is_meant_nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch, [STARTS, THERE])
    assert looks.elsewhere(socket="/other.sock", state=None) is None
    assert not looks.slept
