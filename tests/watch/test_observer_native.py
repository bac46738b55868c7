"""Watchdog on FSEvents, which exists on another system: what its native events mean."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from watchdog.observers.api import EventEmitter, ObservedWatch

from provd.core.notice import Lost
from provd.watch.inbox import Inbox
from provd.watch.observing import Item, losses, telling

# FSEvents, which exists on another system


def native(path: str, flags: int) -> Any:
    return SimpleNamespace(path=path, flags=flags)


@pytest.mark.parametrize("flags", [0x02, 0x04, 0x08, 0x20, 0x40, 0x80])
def test_a_native_event_that_means_a_loss_is_a_loss_of_the_root(flags: int) -> None:
    (lost,) = losses(native("/r/dir", flags | 0x0100_0000), b"/r")
    assert lost.path == b"/r"
    assert lost.reason


def test_a_tree_that_must_be_scanned_is_a_loss_of_that_tree() -> None:
    assert [lost.path for lost in losses(native("/r/dir", 0x01), b"/r")] == [b"/r/dir"]
    assert [lost.path for lost in losses(native("/", 0x01), b"/r")] == [b"/r"]
    assert [lost.path for lost in losses(native("/r/dir", 0x01 | 0x04), b"/r")] == [b"/r/dir", b"/r"]


def test_an_ordinary_native_event_is_no_loss() -> None:
    assert losses(native("/r/file", 0x0100 | 0x1000 | 0x0001_0000), b"/r") == []


class _Emitter(EventEmitter):
    """Like that of FSEvents: it is given native events, and fails as it is told."""

    failing = False
    seen: list[Any]

    def queue_events(self, timeout: float, events: list[Any]) -> None:  # type: ignore[override]
        self.seen = list(events)
        if self.failing:
            raise ValueError("odd")

    def run(self) -> None:
        if self.failing:
            raise ValueError("odd")


def emitter(inbox: Inbox[Item], path: str) -> Any:
    return telling(_Emitter, inbox)(None, ObservedWatch(path, recursive=True))  # type: ignore[arg-type]


def test_losses_are_told_before_the_events_that_came_with_them() -> None:
    inbox: Inbox[Item] = Inbox()
    made = emitter(inbox, "/r")
    events = [native("/r/a", 0x04), native("/r/b", 0x1000)]
    made.queue_events(1.0, events)
    assert [type(item) for item in inbox.take()[0]] == [Lost]
    assert made.seen == events
    inbox.close()


def test_a_failure_among_native_events_is_a_loss() -> None:
    inbox: Inbox[Item] = Inbox()
    made = emitter(inbox, "/r")
    made.failing = True
    with pytest.raises(ValueError, match="odd"):
        made.queue_events(1.0, [native("/r/a", 0x1000)])
    (lost,) = inbox.take()[0]
    assert isinstance(lost, Lost)
    assert lost.path == b"/r"
    made.run()  # a thread that dies says so, and does not print
    assert "odd" in str(inbox.take()[0])
    inbox.close()
