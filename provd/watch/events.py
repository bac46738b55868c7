"""What inotify told and nobody looked at yet.

Rule: reading copies bytes and nothing else, so that it is quick enough for every question. Events are made of
them later, in order; only the second half of a move is looked for ahead.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Final

from provd import faults
from provd.watch.syscalls import CREATE, ISDIR, MOVED_TO, Q_OVERFLOW, Kernel

Event = tuple[int, int, int, bytes]
"""Watch, mask, cookie, name."""

_HEAD: Final = struct.Struct("iIII")
_HEAD_SIZE: Final = _HEAD.size
_EACH: Final = 32
"""Bytes of an event, about: the head, and a name of up to 15 bytes."""
_PRESSING: Final = CREATE | MOVED_TO | Q_OVERFLOW


def parse(data: bytes) -> list[Event]:
    """The events that `data` holds (inotify(7): names are filled up with zeros)."""
    events: list[Event] = []
    unpack = _HEAD.unpack_from
    at, end = 0, len(data)
    while at < end:
        watch, mask, cookie, length = unpack(data, at)
        at += _HEAD_SIZE
        if length:
            events.append((watch, mask, cookie, data[at : at + length].rstrip(b"\0")))
            at += length
        else:
            events.append((watch, mask, cookie, b""))
    return events


class Memory:
    """The events between the descriptor and who takes them."""

    def __init__(self, kernel: Kernel, fd: int) -> None:
        self._kernel = kernel
        self._fd = fd
        self._raw: deque[bytes] = deque()
        self._events: deque[Event] = deque()
        self._arrivals: dict[int, Event] = {}
        self._bytes = 0
        self.heard = 0
        """How many bytes were read in all."""
        self._pressing = False

    def read(self) -> int:
        """Takes as many bytes as wait at this moment into memory; returns about how many events lie there."""
        faults.point("drain.read")
        waiting = self._kernel.waiting(self._fd)
        while waiting > 0:
            try:
                data = self._kernel.read(self._fd, waiting)
            except BlockingIOError:
                break
            if not data:
                break
            self._raw.append(data)
            self._bytes += len(data)
            self.heard += len(data)
            waiting -= len(data)
        return len(self._events) - -self._bytes // _EACH  # rounded up: what waits is never told as nothing

    def left(self) -> bool:
        """Whether anything lies in memory."""
        return bool(self._raw or self._events)

    def pressing(self) -> bool:
        """Whether a directory was made or came, among what was read since this was asked last, or events were lost."""
        while self._parse():
            pass
        pressing, self._pressing = self._pressing, False
        return pressing

    def put(self, data: bytes) -> None:
        """Puts raw events behind those that were read, as if they had been."""
        self._raw.append(data)
        self._bytes += len(data)

    def next(self) -> Event | None:
        """The next event, None where none is left; the second half of a move that was asked for does not come again."""
        while True:
            if not self._events and not self._parse():
                return None
            event = self._events.popleft()
            if event[1] & MOVED_TO and self._arrivals.pop(event[2], None) is None:
                continue
            return event

    def arrival(self, cookie: int) -> Event | None:
        """The second half of the move `cookie`, taken out of its place; None where it is not among what is near.

        Both halves are queued by one call, so the other is next nearly always. Where memory ends it is read once more.
        """
        event = self._arrivals.pop(cookie, None)
        if event is None:
            if not self._raw:
                self.read()
            if self._parse():
                event = self._arrivals.pop(cookie, None)
        return event

    def _parse(self) -> bool:
        if not self._raw:
            return False
        data = self._raw.popleft()
        self._bytes -= len(data)
        events = parse(data)
        self._events.extend(events)
        for event in events:
            mask = event[1]
            if mask & MOVED_TO:
                self._arrivals[event[2]] = event
            if mask & _PRESSING and (mask & ISDIR or mask & Q_OVERFLOW):
                self._pressing = True
        return True
