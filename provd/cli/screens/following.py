"""The log as it comes: a save and its digest as one record, a burst as one line.

Rule: the order is the log's. A mutation waits for its digest for a moment and no longer, and what came after it waits
with it; what is not shown is counted.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from provd.cli import steps
from provd.cli.words import records
from provd.client import ProvdUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from provd.client import Client

Json = dict[str, Any]

MOMENT: Final = 0.3
"""Seconds that a mutation waits for its digest."""
_WINDOW: Final = 1.0
_END: Final = float("inf")
_QUOTA: Final = 50
"""Mutations of one directory within a window that are shown one by one."""


class Subscription:
    """What the log sends from a clock on, and where to go on after the last of it."""

    def __init__(self, client: Client, clock: str) -> None:
        """Raises RpcError, ProvdUnreachable."""
        self._client = client
        self._clock = clock
        answer = client.call("log.subscribe", clock=clock)
        self._run = str(answer.get("clock", clock)).rpartition(":")[0]
        self.complete = bool(answer.get("complete", True))
        self.foreign = bool(answer.get("foreign"))

    def next(self, wait: float | None = None) -> Json | None:
        """The next notification; None where none comes within `wait` seconds. Raises ProvdUnreachable."""
        try:
            told = self._client.notification(wait)
        except ProvdUnreachable as error:
            hint = steps.ways(error.hint, f"provd log -f --since {self._clock}  # then goes on from here")
            raise ProvdUnreachable(error.message, hint, error.kind) from None
        record = (told or {}).get("params") or {}
        if (told or {}).get("method") == "log.record" and isinstance(record.get("seq"), int):
            self._clock = f"{self._run}:{record['seq']}"  # a clock ends with the number of its newest record
        return told


class Held:
    """Records on their way to the screen, in order. Times are seconds of one clock that only goes forward."""

    def __init__(self) -> None:
        self._queue: deque[tuple[Json, float]] = deque()
        self._waiting: dict[Any, Json] = {}

    def take(self, record: Json, now: float) -> None:
        """Takes the next record; a digest goes into its mutation where that is still here."""
        if record.get("type") == "hashed" and (mutation := self._waiting.pop(record.get("of"), None)) is not None:
            records.fill(mutation, record)
            return
        if record.get("type") == "mutation" and record.get("digest_state") == "pending":
            record = dict(record)
            self._waiting[record.get("seq")] = record
        self._queue.append((record, now + MOMENT))

    def ready(self, now: float) -> list[Json]:
        """The records that need not wait any more."""
        found = []
        while self._queue:
            record, due = self._queue[0]
            if due > now and record.get("seq") in self._waiting:
                break
            self._queue.popleft()
            self._waiting.pop(record.get("seq"), None)
            found.append(record)
        return found

    def wait(self, now: float) -> float | None:
        """The seconds until something is ready though nothing comes; None where nothing is held."""
        return max(0.0, self._queue[0][1] - now) if self._queue else None


@dataclass
class _Window:
    ends: float
    quota: int = _QUOTA
    shown: int = 0
    hidden: Counter[str] = field(default_factory=Counter)


class Bursts:
    """Counts what happens in each directory, and says what is too much to be shown one by one."""

    def __init__(self) -> None:
        self._windows: dict[bytes, _Window] = {}  # in the order in which they end
        self._hiding = 0
        self._hashing: set[Any] = set()  # what is hidden, and will be hashed

    def takes(self, record: Json, now: float) -> bool:
        """Whether the record is one of too many, and counted instead of shown."""
        if record.get("type") == "hashed" and record.get("of") in self._hashing:
            self._hashing.discard(record["of"])
            return True  # counted with its mutation
        if record.get("type") != "mutation":
            return False
        directory = os.path.dirname(records.places(record)[0])
        window = self._windows.setdefault(directory, _Window(now + _WINDOW))
        if window.shown < window.quota:
            window.shown += 1
            return False
        self._hiding += not window.hidden
        window.hidden[str(record.get("kind"))] += 1
        if record.get("digest_state") == "pending":
            self._hashing.add(record.get("seq"))
        return True

    def ended(self, now: float) -> list[tuple[bytes, Counter[str]]]:
        """The directories whose window is over with something hidden, and how much of what kind."""
        found = []
        while self._windows:
            directory, window = next(iter(self._windows.items()))
            if window.ends > now:
                break
            del self._windows[directory]
            if window.hidden:
                self._hiding -= 1
                found.append((directory, window.hidden))
                self._windows[directory] = _Window(now + _WINDOW, quota=0)  # it goes on, likely
        return found

    def wait(self, now: float) -> float | None:
        """The seconds until a window ends that hides something; None where there is none."""
        if not self._hiding:
            return None
        return max(0.0, next(iter(self._windows.values())).ends - now)  # or a window that ends before


class Follower:
    """Shows records as they come. Where `more` is given it tells how many of a burst after number `asked` are not."""

    def __init__(
        self, show: Callable[[Json], None], more: Callable[[bytes, Counter[str]], None] | None = None, asked: int = 0
    ) -> None:
        self._asked = asked
        self._show = show
        self._more = more
        self._held = Held()
        self._bursts = Bursts()

    def take(self, record: Json) -> None:
        """Takes the next record."""
        self._held.take(record, time.monotonic())

    def show(self, *, all_of_it: bool = False) -> None:
        """Shows what need not wait any more; at the end all of it."""
        now = time.monotonic()
        self._tell(now)
        for record in self._held.ready(_END if all_of_it else now):
            told = self._more is None or int(record.get("seq") or 0) <= self._asked
            if told or not self._bursts.takes(record, now):
                self._show(record)
        if all_of_it:
            self._tell(_END)

    def _tell(self, now: float) -> None:
        """Tells of the bursts whose window is over."""
        for directory, kinds in self._bursts.ended(now):
            if self._more is not None:
                self._more(directory, kinds)

    def wait(self) -> float | None:
        """How long nothing needs to be shown, in seconds; None: until something comes."""
        now = time.monotonic()
        waits = [wait for wait in (self._held.wait(now), self._bursts.wait(now)) if wait is not None]
        return min(waits, default=None)
