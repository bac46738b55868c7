"""The inbox between the threads of watchdog and the loop."""

from __future__ import annotations

import os
import select
import threading

import pytest
from support import HANG

from provd.watch.inbox import Inbox


def test_the_descriptor_is_readable_as_long_as_something_waits() -> None:
    inbox: Inbox[int] = Inbox()
    poll = select.poll()
    poll.register(inbox.fileno(), select.POLLIN)
    assert not poll.poll(0)
    inbox.put(1)
    inbox.put(2)
    assert poll.poll(0)
    assert inbox.take() == ([1, 2], False)
    assert not poll.poll(0)
    assert inbox.take() == ([], False)
    inbox.put(3)
    assert poll.poll(0)
    inbox.close()
    inbox.put(4)
    assert inbox.take() == ([], False)


def test_a_system_without_event_descriptors_has_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "eventfd")
    test_the_descriptor_is_readable_as_long_as_something_waits()


def test_what_many_threads_put_arrives_once_each_in_the_order_of_each() -> None:
    inbox: Inbox[tuple[int, int]] = Inbox()

    def put(number: int) -> None:
        for i in range(500):
            inbox.put((number, i))

    threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    got: list[tuple[int, int]] = []
    poll = select.poll()
    poll.register(inbox.fileno(), select.POLLIN)
    while len(got) < 2000:
        assert poll.poll(1000 * HANG)
        got += inbox.take()[0]
    for thread in threads:
        thread.join()
    assert [i for n, i in got if n == 2] == list(range(500))
    assert not poll.poll(0)
    inbox.close()
