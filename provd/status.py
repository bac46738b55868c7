"""What the daemon says of itself: its status, its roots, and the audit of what it believes.

Rule: nothing here decides a verdict; it is for people, and for finding provd's own mistakes.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import provd
from provd import __version__
from provd.audit import ALL_IGNORED, BESIDE, GONE, IGNORED, UNWATCHED, Audit
from provd.clocks import Clocks
from provd.core import params
from provd.core.dependency import is_under
from provd.core.records import ALL, Coverage, Gap, to_wire, wire_name
from provd.descriptors import descriptors
from provd.recorder import Roots
from provd.recorder.actions import action_wire
from provd.resolver import Resolver
from provd.selfcheck import SelfCheck
from provd.statistics import Verdicts
from provd.store import Store, View
from provd.store.keys import Root
from provd.watch.limits import inotify_limits
from provd.watch.mounted import MountPoints

_FIRST: Final = 100
"""Places that are not watched and are named, of one root."""
_YOUNG: Final = 1.0
"""Seconds for which what was told of a root may be told again beside another one."""


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


class Audited:
    """What audits came to since the start, and what of that the newest look at it still found to differ."""

    def __init__(self) -> None:
        self._counts = {"count": 0, "files": 0, "mismatches": 0}
        self._differing: set[bytes] = set()

    def take(self, told: dict[str, Any], directory: bytes | None, *, sampled: bool) -> None:
        """Takes the answer of an audit of `directory` (None: of all).

        What it does not tell of any more is in order again, if it was looked at: a sample leaves out what it likes.
        """
        self._counts["count"] += 1
        self._counts["files"] += told["files"]
        self._counts["mismatches"] += len(told["mismatches"])
        skipped = told["skipped"]["places"]
        if not sampled and told["skipped"]["count"] <= len(skipped):
            unseen = [_bytes(place["path"]) for place in skipped]
            self._differing = {
                path
                for path in self._differing
                if not (directory is None or is_under(path, directory)) or any(is_under(path, at) for at in unseen)
            }
        self._differing |= {_bytes(mismatch["path"]) for mismatch in told["mismatches"]}

    def told(self) -> dict[str, int]:
        """As the status has it."""
        return self._counts | {"differing": len(self._differing)}


class Status:
    """Tells `daemon.status`, `root.list` and `daemon.audit`."""

    def __init__(
        self,
        store: Store,
        clocks: Clocks,
        roots: Roots,
        pump: Pumping,
        audit: Audit,
        verdicts: Verdicts,
        self_check: SelfCheck,
        places: dict[str, Any],
        look: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._clocks = clocks
        self._roots = roots
        self._pump = pump
        self._audit = audit
        self._verdicts = verdicts
        self._self_check = self_check
        self._places = places
        self._look = look
        self._started = time.monotonic()
        self._audited = Audited()
        self._rows: dict[bytes, dict[str, Any]] = {}
        self._rows_at = 0.0
        self._counted: tuple[tuple[int, tuple[bytes, ...]], dict[bytes, int] | None] | None = None

    async def status(self) -> dict[str, Any]:
        """`daemon.status`."""
        roots = await self.listed()
        with self._store.view() as view:
            oldest, head = view.oldest(), view.head()
            first = view.record(oldest)
            newest = [view.record(head), view.record(self._clocks.started - 1)]
            actions = [action_wire(action) for action in view.actions()]
            entries = {"active": view.count("entries"), "revoked": view.count("archive")}
            records, files = view.count("log"), view.count("files")
        inner = [self._roots.lies_in_another(path) for path in self._roots.paths]
        dated = max((record.at for record in newest if record is not None), default=0)
        told: dict[str, Any] = {
            "version": __version__,
            "package": wire_name(os.fsencode(os.path.dirname(provd.__file__))),
            "pid": os.getpid(),
            "started_at": str(self._clocks.begun),
            "uptime_s": round(time.monotonic() - self._started, 3),
            "log": self._store.log_id,
            "run": self._clocks.run,
            "clock": self._clocks.token(head),
            "oldest": self._clocks.token(oldest),
            "oldest_at": None if first is None else str(first.at),
            **self._places,
            "roots": roots,
            "files": files,
            "queue": self._pump.behind,
            "drops": self._pump.counters.lost,
            "rescans": self._pump.counters.scans,
            "watches": sum(r["directories"] for r, shared in zip(roots, inner, strict=True) if not shared),
            "limits": inotify_limits(),
            "entries": entries,
            "actions": actions,
            "records": records,
            "bytes": self._store.environment.size(),
            "verdicts": self._verdicts.told(),
            "gaps": self._store.gaps.told(),
            "audits": self._audited.told(),
            "self_check": self._self_check.told(),
            "store": {"reopened": self._store.reopened, "map_bytes": self._store.environment.room},
            "descriptors": descriptors(),
            "wall_clock": {"stepped_s": self._clocks.stepped / 1e9, "ahead_s": max(0, dated - time.time_ns()) / 1e9},
        }
        if (astray := self._store.environment.astray()) is not None:
            told["store"]["unusable"] = astray.message
        if (refused := self._store.environment.reading_only) is not None:
            told["store"]["reading_only"] = refused.message
        if self._store.damaged is not None:
            told["store"]["damaged"] = self._store.damaged
        if self._store.environment.set_aside is not None:
            told["set_aside"] = self._store.environment.set_aside
            told["set_aside_why"] = self._store.environment.trouble
        if (migrated := self._store.migrated()) is not None:
            told["migrated"] = migrated
        return told

    async def listed(self) -> list[dict[str, Any]]:
        """`root.list`: the roots as they are now, with their file systems and the number of their files.

        That is None where they are too many to be counted.
        """
        await self._look()
        counts = await self._counts()
        roots = self.roots()
        mounts = MountPoints.now()
        return [
            root | {"filesystem": _filesystem(mounts, path), "files": None if counts is None else counts.get(path)}
            for root, path in zip(roots, self._roots.paths, strict=True)
        ]

    def roots(self) -> list[dict[str, Any]]:
        """The roots as the wire has them."""
        with self._store.view() as view:
            self._rows = {root.path: self._row(view, root) for root in self._roots.kept}
        self._rows_at = time.monotonic()
        return list(self._rows.values())

    def roots_after(self, path: bytes) -> list[dict[str, Any]]:
        """The same after `path` was added or removed; of the others it may be a second old.

        W: who adds thousands of roots gets them all with each answer.
        """
        if time.monotonic() - self._rows_at > _YOUNG:
            return self.roots()
        rows, self._rows = self._rows, {}
        with self._store.view() as view:
            for root in self._roots.kept:
                known = None if root.path == path else rows.get(root.path)
                self._rows[root.path] = self._row(view, root) if known is None else known
        return list(self._rows.values())

    async def _counts(self) -> dict[bytes, int] | None:
        """How many files each root has; not counted again while the log stands still."""
        now = (self._store.head, tuple(self._roots.paths))
        if self._counted is None or self._counted[0] != now:
            self._counted = (now, await asyncio.to_thread(self._audit.counts, now[1]))
        return self._counted[1]

    def _row(self, view: View, root: Root) -> dict[str, Any]:
        state = self._roots.state(root.path)
        uncovered = state.uncovered[:_FIRST]
        return {
            "path": wire_name(root.path),
            "state": state.state,
            "backend": state.backend,
            "coverage": state.coverage,
            "uncovered": [{"path": wire_name(place.path), "why": place.why} for place in uncovered],
            "uncovered_more": state.more + len(state.uncovered) - len(uncovered),
            "why": uncovered[0].why if uncovered else "",
            "directories": state.directories,
            "ignore": None if root.ignore is None else list(root.ignore),
            "last_gap": self._gap(view, root),
            **({"all_ignored": True} if self._roots.leaves_all_out(root.path) else {}),
        }

    def _gap(self, view: View, root: Root) -> dict[str, Any]:
        """The newest gap of a root, as far as its record is still held; one of a root in it is told there."""
        position = view.newest_gap(root.path, below=True)
        record = view.record(position)
        if isinstance(record, Gap) and self._is_of_another(record.scope, root.path):
            position = view.newest_gap(root.path)
            record = view.record(position)
        if isinstance(record, Coverage):  # a change of coverage counts as one, and has one before it
            position = max(root.gap, view.gap_all())
            record = view.record(position)
        return {"seq": position} if record is None else to_wire(position, record)

    def _is_of_another(self, scope: bytes, root: bytes) -> bool:
        """Whether what a gap is for lies in another root below `root`."""
        holder = None if scope == ALL else self._roots.holder(scope)
        return holder is not None and holder != root and is_under(holder, root)

    async def audit(self, asked: params.Audit, resolver: Resolver) -> dict[str, Any]:
        """`daemon.audit`: of all roots, or of the directory that was named and the roots in it."""
        directory = None if asked.root is None else (await resolver.place(asked.root)).need_scope()
        roots = self._roots.paths
        gone = [root for root in roots if self._roots.state(root).state == "gone"]
        trees = roots
        if directory is not None:
            trees = [*dict.fromkeys([directory] if self._roots.lies_in_another(directory) else ())]
            trees += [root for root in roots if is_under(root, directory) and root not in trees]
        skipped = {tree: GONE for tree in trees if any(is_under(tree, root) for root in gone)}
        if directory is not None and (holder := self._roots.holder(directory)) is None:
            skipped[directory] = BESIDE if trees else UNWATCHED
        elif directory is not None and holder is not None and self._audit.leaves_out(directory, holder):
            skipped[directory] = IGNORED
        skipped |= {tree: ALL_IGNORED for tree in trees if tree in roots and self._roots.leaves_all_out(tree)}
        there = [tree for tree in trees if tree not in skipped]
        told = await self._audit.run(there, directory, asked.sample, skipped)
        self._audited.take(told, directory, sampled=asked.sample is not None)
        return told


def _filesystem(mounts: MountPoints, path: bytes) -> str | None:
    """The type of the file system that holds `path`, as the system names it; None where nobody knows."""
    mount = mounts.holding(path)
    return None if mount is None else mount.kind


def _bytes(path: str | dict[str, str]) -> bytes:
    """A path as the wire has it, as bytes."""
    return path.encode() if isinstance(path, str) else params.from_b64(path["b64"])
