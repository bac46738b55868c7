"""What every watcher offers.

Rule: reading what the system has to tell comes first and is quick; making notices of it comes later. Whatever goes
wrong is a notice, or an uncovered place with its reason, never an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, runtime_checkable

import msgspec

from provd.core.notice import Notice

Ignored = Callable[[bytes, bool], bool]
"""Whether an absolute path below a root is ignored; the second argument says that it is a directory."""
Rules = Callable[[bytes], Ignored]
"""What tells that of the names directly in a directory."""


class Uncovered(msgspec.Struct, frozen=True, array_like=True):
    """A place of which silence proves nothing, with all below it, and why."""

    path: bytes
    why: str


class RootState(msgspec.Struct, frozen=True):
    """How a root is watched now.

    `state` is `watching`, `scanning` (not all of it yet), `degraded` (some of it is not watched) or `gone`;
    `coverage` is `whole`, `partial` or `none`; `uncovered` has the first places that are not watched, `more` counts
    the others.
    """

    backend: str
    state: str
    coverage: str
    uncovered: tuple[Uncovered, ...] = ()
    more: int = 0
    directories: int = 0


class Watcher(Protocol):
    """One way of watching. All methods are for the event loop's thread, and none of them raises, but `add`."""

    backend: str
    """`inotify`, `poll` or `watchdog`."""

    def fileno(self) -> int:
        """A descriptor that is readable when there is something to `read`; -1 where there is none."""
        ...

    def add(self, root: bytes, ignored: Ignored) -> Iterator[None]:
        """Begins to watch the directory `root` (a real path), some directories a step; after the last it is covered.

        It makes no notices: what is there is found by scanning afterwards. What happens from the first step on, in
        what is watched already, is told by notices. A root that is added again is watched by the new rules.
        Raises OSError where it cannot be looked at; then all is as before.
        """
        ...

    def remove(self, root: bytes) -> None:
        """Ends watching `root`."""
        ...

    def read(self) -> int:
        """Takes what the system has to tell at this moment into memory; returns about how many notices wait there.

        It is 0 only where nothing waits. What was read is told by `fileno` no more.
        """
        ...

    def take(self, limit: int) -> list[Notice]:
        """Notices of what was read, in order, about `limit` of them; an empty list when there is nothing left."""
        ...

    def pressing(self) -> bool:
        """Does what of what was read cannot wait, and tells nothing yet; whether the rest should be taken at once."""
        ...

    def waiting(self) -> bool:
        """Whether something that was read, or what follows from it, is not taken yet."""
        ...

    def check(self, *, mounts: bool = True) -> None:
        """Looks whether the roots are the same directories still, and what is mounted there; the next `take` tells."""
        ...

    def uncovered(self, path: bytes) -> list[Uncovered]:
        """The places at, above or below the absolute, real `path` that are not watched now; [] where all of it is.

        A path outside every root is uncovered itself.
        """
        ...

    def state(self, root: bytes) -> RootState:
        """How `root` is watched."""
        ...

    def close(self) -> None:
        """Lets go of everything."""
        ...


@runtime_checkable
class Telling(Protocol):
    """A watcher whose silence proves something."""

    def glance(self) -> tuple[int, int] | None:
        """How things stand by what was read, at the price of no system call; None while something of it is not taken.

        The first number differs from an earlier one if since then a covered path may have come to lead elsewhere, or to
        be covered no more; the second if anything at all was read. That nothing waits to be read says `fileno`.
        """
