"""All watchers as one: which of them watches a root, and which answers for a path.

Rule: a path is answered for by the watcher of its longest root. Where the way that was asked for cannot be had, the
root is polled and the reason is told; nothing is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal, Protocol, runtime_checkable

import msgspec

from provd.core.notice import Covered, Notice
from provd.watch.base import Ignored, RootState, Telling, Uncovered, Watcher
from provd.watch.nesting import Nesting
from provd.watch.poll import PollWatcher
from provd.watch.presence import Found

Choice = Literal["auto", "inotify", "watchdog", "poll"]
BackendOf = Callable[[bytes], tuple[str, str]]
"""Which backend suits the file system at a path (`inotify`, `watchdog` or `poll`), and why. Must not hang.

With `inotify`, why says what makes its silence prove nothing there; "" is for nothing.
"""
Factories = Mapping[str, Callable[[], Watcher]]
"""What makes each watcher beside the polling one; raises OSError or ImportError where there is none to be had."""

_NATIVE: Final = "inotify" if sys.platform == "linux" else "watchdog"
_FOREIGN: Final = "it lies outside every root"
_TOO_MANY: Final = "raise fs.inotify.max_user_instances (sysctl), then start provd again"


@runtime_checkable
class _Looked(Protocol):
    """A watcher whose roots are looked at from outside."""

    @property
    def roots(self) -> list[bytes]:
        """Its roots."""

    def looked(self, root: bytes, found: Found) -> bool:
        """Takes what looking gave."""


@runtime_checkable
class _Mounted(Protocol):
    """A watcher that knows of mounts."""

    def mounts_fileno(self) -> int:
        """A descriptor that becomes readable when the mount table changed."""

    def mounts_changed(self) -> bool:
        """Whether the mount table changed."""


class _Given(msgspec.Struct, frozen=True):
    """To which watcher a root was given; `doubt` says why that one's silence proves nothing there ("": it does)."""

    watcher: Watcher
    doubt: str


class Fleet:
    """Watches each root the way that suits it, or the one that was chosen.

    `seconds` is the polling interval, `native` the way that this system offers.
    """

    def __init__(
        self, choice: Choice, backend_of: BackendOf, make: Factories, *, seconds: float = 10.0, native: str = _NATIVE
    ) -> None:
        self.backend: str = choice
        self._backend_of = backend_of
        self._native = native if choice == "auto" else choice
        self._poll = PollWatcher(seconds, chosen=choice == PollWatcher.backend)
        self._watchers: dict[str, Watcher] = {self._poll.backend: self._poll}
        self._missing: dict[str, str] = {}
        if self._native != self._poll.backend:
            self._get_watcher(self._native, make)
        self._lookers = [watcher for watcher in self._watchers.values() if isinstance(watcher, _Looked)]
        self._mounted = [watcher for watcher in self._watchers.values() if isinstance(watcher, _Mounted)]
        self._telling = next((watcher for watcher in self._watchers.values() if isinstance(watcher, Telling)), None)
        self._given: dict[bytes, _Given] = {}
        self._nesting = Nesting()

    def _get_watcher(self, backend: str, make: Factories) -> None:
        factory = make.get(backend)
        try:
            if factory is None:
                self._missing[backend] = f"{backend} does not exist on this system"
            else:
                self._watchers[backend] = factory()
        except OSError as e:
            fix = f": {_TOO_MANY}" if backend == "inotify" else ""
            self._missing[backend] = f"{backend} cannot be used ({e.strerror or e}){fix}"
        except ImportError as e:
            self._missing[backend] = f"{backend} cannot be used ({e})"

    def pace(self, seconds: float) -> None:
        """From now on polled roots are scanned so often."""
        self._poll.pace(seconds)

    # which watcher

    def _choose(self, root: bytes) -> _Given:
        """The watcher for a root, and why it may be in doubt."""
        if self._native == self._poll.backend:
            return _Given(self._poll, "")
        suits, why = self._backend_of(root)
        unfit = suits == self._poll.backend and self._native == "inotify"
        if unfit and self.backend == "auto":
            return _Given(self._poll, why)
        watcher = self._watchers.get(self._native)
        if watcher is None:
            return _Given(self._poll, self._missing[self._native])
        return _Given(watcher, why if unfit or suits == "inotify" else "")

    def _watcher_of(self, path: bytes) -> Watcher | None:
        root = self._nesting.longest(path)
        return None if root is None else self._given[root].watcher

    # what every watcher offers

    def fileno(self) -> int:
        """The one descriptor that tells of events; -1 where all roots are polled."""
        return next((fd for watcher in self._watchers.values() if (fd := watcher.fileno()) >= 0), -1)

    def add(self, root: bytes, ignored: Ignored) -> Iterator[None]:
        """Begins to watch `root`; one that is added again may change to another watcher."""
        given = self._choose(root)
        before = self._given.get(root)
        if before is not None and before.watcher is not given.watcher:
            before.watcher.remove(root)
        self._given[root] = given
        self._nesting.add(root)
        return given.watcher.add(root, ignored)

    def remove(self, root: bytes) -> None:
        """Ends watching `root`."""
        given = self._given.pop(root, None)
        if given is not None:
            self._nesting.discard(root)
            given.watcher.remove(root)

    def read(self) -> int:
        """Takes what the system has to tell into memory; about how many notices wait there."""
        return sum(watcher.read() for watcher in self._watchers.values())

    def take(self, limit: int) -> list[Notice]:
        """Notices of what was read, about `limit`; those of each watcher in order."""
        notices: list[Notice] = []
        for watcher in self._watchers.values():
            if len(notices) < limit:
                notices += watcher.take(limit - len(notices))
        return [self._doubted(notice) if isinstance(notice, Covered) else notice for notice in notices]

    def pressing(self) -> bool:
        """Has each do what cannot wait; whether what was read should be taken at once."""
        return sum(watcher.pressing() for watcher in self._watchers.values()) > 0

    def waiting(self) -> bool:
        """Whether something that was read, or what follows from it, is not taken yet."""
        return any(watcher.waiting() for watcher in self._watchers.values())

    def glance(self) -> tuple[int, int] | None:
        """See `base.Telling`; of the one watcher whose silence proves something."""
        return None if self._telling is None else self._telling.glance()

    def mounts_fileno(self) -> int:
        """A descriptor that becomes readable when the mount table changed: time for `check`; -1 without one."""
        return next((watcher.mounts_fileno() for watcher in self._mounted), -1)

    def mounts_changed(self) -> bool:
        """Whether the mount table changed since `check` last looked; quick."""
        return any(watcher.mounts_changed() for watcher in self._mounted)

    def check(self, *, mounts: bool = True) -> None:
        """Looks whether the roots are the same still, where looking cannot hang; `looked` is for the others."""
        for watcher in self._watchers.values():
            watcher.check(mounts=mounts)

    def uncovered(self, path: bytes) -> list[Uncovered]:
        """The places at, above or below `path` that are not watched; roots below are asked on their own."""
        watcher = self._watcher_of(path)
        if watcher is None:
            return [Uncovered(path, _FOREIGN)]
        roots = [self._nesting.longest(path), *self._nesting.below(path)]
        asked = {path: watcher}
        for root in roots[1:]:
            if root is not None and self._given[root].watcher is not watcher:
                asked[root] = self._given[root].watcher
        places = [place for at, one in asked.items() for place in one.uncovered(at)]
        return list(dict.fromkeys([*self._doubts(roots), *places]))

    def state(self, root: bytes) -> RootState:
        """How `root` is watched."""
        given = self._given.get(root)
        if given is None:
            return RootState("none", "gone", "none", (Uncovered(root, "it is not watched"),))
        state = given.watcher.state(root)
        if not given.doubt or state.state == "gone":  # of what is not there nothing else matters
            return state
        coverage = "partial" if state.coverage == "whole" else state.coverage
        name = "degraded" if state.state == "watching" and given.watcher is not self._poll else state.state
        uncovered = (*self._doubts([root]), *state.uncovered)
        return msgspec.structs.replace(state, coverage=coverage, state=name, uncovered=uncovered)

    def close(self) -> None:
        """Lets go of everything."""
        for watcher in self._watchers.values():
            watcher.close()

    def _doubts(self, roots: Iterable[bytes | None]) -> list[Uncovered]:
        """Why the watchers' word of these roots is not enough."""
        return [Uncovered(root, self._given[root].doubt) for root in roots if root and self._given[root].doubt]

    def _doubted(self, notice: Covered) -> Covered:
        """What a watcher says of its coverage, with what it does not know."""
        root = self._nesting.longest(notice.path)
        doubt = "" if root is None else self._given[root].doubt
        if not doubt or notice.coverage == "none":
            return notice
        why = f"{doubt}; {notice.why}" if notice.why else doubt
        return Covered(notice.path, "partial", why)

    # who is looked at from outside

    def looked_at(self) -> list[bytes]:
        """The roots of whose presence only looking tells: those that are polled and those of watchdog."""
        return [root for watcher in self._lookers for root in watcher.roots]

    def is_polled(self, root: bytes) -> bool:
        """Whether a root is polled."""
        given = self._given.get(root)
        return given is not None and given.watcher is self._poll

    def polled(self) -> list[bytes]:
        """The roots that are polled."""
        return self._poll.roots

    def looked(self, root: bytes, found: Found) -> bool:
        """Takes what looking at a root gave; returns whether it is there."""
        given = self._given.get(root)
        return given is not None and isinstance(given.watcher, _Looked) and given.watcher.looked(root, found)
