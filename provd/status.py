"""What the daemon says of itself: its status, its roots, and the audit of what it believes.

Rule: nothing here decides a verdict; it is for people, and for finding provd's own mistakes.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any, Final, Protocol

from provd import __version__
from provd.audit import Audit
from provd.clocks import Clocks
from provd.core import params
from provd.core.dependency import is_under
from provd.core.records import to_wire, wire_name
from provd.recorder import Roots
from provd.recorder.actions import action_wire
from provd.resolver import Resolver
from provd.statistics import Durations
from provd.store import Store, View
from provd.store.keys import Root

_FIRST: Final = 100
"""Places that are not watched and are named, of one root."""
_LIMITS: Final = "/proc/sys/fs/inotify"


class Counters(Protocol):
    """What the pump has counted since the start."""

    @property
    def lost(self) -> int:
        """Times that events were lost."""

    @property
    def scans(self) -> int:
        """Scans that were begun."""


class Pumping(Protocol):
    """What the status tells of the pump."""

    @property
    def behind(self) -> int:
        """Notices that are not recorded and files that are not hashed yet."""

    @property
    def counters(self) -> Counters:
        """What it has counted."""


class Status:
    """Tells `daemon.status`, `root.list` and `daemon.audit`."""

    def __init__(
        self,
        store: Store,
        clocks: Clocks,
        roots: Roots,
        pump: Pumping,
        audit: Audit,
        durations: Durations,
        places: dict[str, str],
    ) -> None:
        self._store = store
        self._clocks = clocks
        self._roots = roots
        self._pump = pump
        self._audit = audit
        self._durations = durations
        self._places = places
        self._started = time.monotonic()
        self._counted: tuple[tuple[int, tuple[bytes, ...]], dict[bytes, int] | None] | None = None

    async def status(self) -> dict[str, Any]:
        """`daemon.status`."""
        counts = await self._counts()
        with self._store.view() as view:
            oldest, head = view.oldest(), view.head()
            actions = [action_wire(action) for action in view.actions()]
            entries = {"active": view.count("entries"), "revoked": view.count("archive")}
            records, files = view.count("log"), view.count("files")
        roots = self.roots()
        for root, path in zip(roots, self._roots.paths, strict=True):
            root["files"] = None if counts is None else counts.get(path)
        told = {
            "version": __version__,
            "pid": os.getpid(),
            "uptime_s": round(time.monotonic() - self._started, 3),
            "log": self._store.log_id,
            "run": self._clocks.run,
            "clock": self._clocks.token(head),
            "oldest": self._clocks.token(oldest),
            **self._places,
            "roots": roots,
            "files": files,
            "queue": self._pump.behind,
            "drops": self._pump.counters.lost,
            "rescans": self._pump.counters.scans,
            "watches": sum(root["directories"] for root in roots if root["backend"] == "inotify"),
            "limits": inotify_limits(),
            "entries": entries,
            "actions": actions,
            "records": records,
            "bytes": self._store.environment.size(),
            "verdicts": {
                "count": self._durations.count,
                "p50_us": self._durations.percentile_us(0.5),
                "p99_us": self._durations.percentile_us(0.99),
            },
            "store": {"reopened": self._store.reopened},
        }
        if self._store.environment.set_aside is not None:
            told["set_aside"] = self._store.environment.set_aside
        return told

    def roots(self) -> list[dict[str, Any]]:
        """The roots as the wire has them."""
        with self._store.view() as view:
            all_gap = view.gap_all()
            gaps = {root.path: _gap(view, max(root.gap, all_gap)) for root in self._roots.kept}
        return [self._root(root, gaps[root.path]) for root in self._roots.kept]

    async def _counts(self) -> dict[bytes, int] | None:
        """How many files each root has; not counted again while the log stands still."""
        now = (self._store.head, tuple(self._roots.paths))
        if self._counted is None or self._counted[0] != now:
            self._counted = (now, await asyncio.to_thread(self._audit.counts, now[1]))
        return self._counted[1]

    def _root(self, root: Root, gap: dict[str, Any]) -> dict[str, Any]:
        state = self._roots.state(root.path)
        uncovered = state.uncovered[:_FIRST]
        told: dict[str, Any] = {
            "path": wire_name(root.path),
            "state": state.state,
            "backend": state.backend,
            "coverage": state.coverage,
            "uncovered": [{"path": wire_name(place.path), "why": place.why} for place in uncovered],
            "uncovered_more": state.more + len(state.uncovered) - len(uncovered),
            "why": uncovered[0].why if uncovered else "",
            "directories": state.directories,
            "ignore": None if root.ignore is None else list(root.ignore),
            "last_gap": gap,
        }
        return told

    async def audit(self, asked: params.Audit, resolver: Resolver) -> dict[str, Any]:
        """`daemon.audit`: of the roots at, in and around the directory that was named, else of all of them."""
        directory = None if asked.root is None else (await resolver.place(asked.root)).need_scope()
        watched = [path for path in self._roots.paths if self._roots.state(path).state != "gone"]
        if directory is not None:
            watched = [path for path in watched if is_under(path, directory)]
        return await self._audit.run(watched, directory, asked.sample)


def _gap(view: View, position: int) -> dict[str, Any]:
    """The newest gap of a root, as far as its record is still held."""
    record = view.record(position)
    return {"seq": position} if record is None else to_wire(position, record)


def inotify_limits() -> dict[str, int]:
    """The system's limits of inotify, by their names under fs.inotify, as far as they are known."""
    limits = {}
    for name in ("max_user_watches", "max_user_instances", "max_queued_events"):
        try:
            with open(f"{_LIMITS}/{name}", encoding="ascii") as f:
                limits[name] = int(f.read())
        except (OSError, ValueError):
            continue
    return limits
