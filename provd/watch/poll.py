"""Watching by scanning again and again: complete in the end, and never a proof.

Rule: what happened between two scans is found only as far as it still shows, so coverage is always partial.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from provd.core.notice import Covered, Lost, Notice
from provd.watch.base import Ignored, RootState, Uncovered
from provd.watch.nesting import Nesting
from provd.watch.presence import Found, Presence, Standing

_NO_DESCRIPTOR = -1


class PollWatcher:
    """The polled roots. Who polls them (`polling`) tells by `looked` what became of each before it scans it.

    `seconds` is the shortest time between two scans; it is told to people, and so is that polling was `chosen`.
    """

    backend = "poll"

    def __init__(self, seconds: float, *, chosen: bool = False) -> None:
        self._wish = ", as was chosen" if chosen else ""
        self.pace(seconds)
        self._roots: dict[bytes, Presence] = {}
        self._nesting = Nesting()
        self._notices: deque[Notice] = deque()

    def pace(self, seconds: float) -> None:
        """From now on a root is scanned so often."""
        self._why = f"polled every {seconds:g} s{self._wish}: silence proves nothing"

    @property
    def roots(self) -> list[bytes]:
        """The roots that are polled."""
        return list(self._roots)

    def looked(self, root: bytes, found: Found) -> bool:
        """Takes what looking at a root has given; returns whether it is there to be scanned."""
        presence = self._roots.get(root)
        if presence is None:
            return False
        if presence.looked(found):
            if presence.standing is Standing.GONE:
                self._notices.append(Lost(root, presence.why))
            coverage = "partial" if presence.standing is Standing.THERE else "none"
            self._notices.append(Covered(root, coverage, presence.why or self._why))
        return presence.standing is Standing.THERE

    def fileno(self) -> int:
        """There is none: nothing is told by the system."""
        return _NO_DESCRIPTOR

    def add(self, root: bytes, ignored: Ignored) -> Iterator[None]:  # noqa: ARG002  scans ask for the rules themselves
        """Begins to poll `root`: from now on it is among `roots`."""
        self._roots.setdefault(root, Presence())
        self._nesting.add(root)
        yield

    def remove(self, root: bytes) -> None:
        """Ends polling `root`."""
        self._roots.pop(root, None)
        self._nesting.discard(root)

    def read(self) -> int:
        """How many notices wait."""
        return len(self._notices)

    def take(self, limit: int) -> list[Notice]:
        """What looking has shown, in order."""
        return [self._notices.popleft() for _ in range(min(limit, len(self._notices)))]

    def pressing(self) -> bool:
        """Nothing is lost by waiting."""
        return False

    def waiting(self) -> bool:
        """Whether notices wait."""
        return bool(self._notices)

    def check(self, *, mounts: bool = True) -> None:
        """Looking may hang, so it is done elsewhere and told by `looked`."""

    def uncovered(self, path: bytes) -> list[Uncovered]:
        """The polled root that holds `path` and those below it, all of them; `path` itself where none holds it."""
        holder = self._nesting.longest(path)
        roots = self._nesting.below(path)
        if holder is None:
            return [Uncovered(path, "it lies outside the polled roots")]
        return [Uncovered(root, self._roots[root].why or self._why) for root in (holder, *roots)]

    def state(self, root: bytes) -> RootState:
        """How `root` is polled."""
        presence = self._roots.get(root)
        if presence is None:
            return RootState(self.backend, "gone", "none", (Uncovered(root, "it is not polled"),))
        why = (Uncovered(root, presence.why or self._why),)
        match presence.standing:
            case Standing.THERE:
                return RootState(self.backend, "watching", "partial", why)
            case Standing.SILENT:
                return RootState(self.backend, "degraded", "none", why)
            case Standing.GONE:
                return RootState(self.backend, "gone", "none", why)

    def close(self) -> None:
        """Forgets everything."""
        self._roots.clear()
        self._nesting = Nesting()
        self._notices.clear()
