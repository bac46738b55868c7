"""What the daemon says of itself: its status, its roots, and the audit of what it believes.

Rule: nothing here decides a verdict; it is for people, and for finding provd's own mistakes.
"""

from __future__ import annotations

import os
import time
from typing import Any, Final

from provd import __version__
from provd.clocks import Clocks
from provd.core import params
from provd.core.dependency import Kind
from provd.core.entry import Kept, lies_in
from provd.core.reading import Reading
from provd.core.records import wire_name
from provd.core.verdict import reading_of
from provd.disk import Workers
from provd.inquiry import Inquiry
from provd.recorder.actions import action_wire
from provd.recorder.roots import NO_WATCHER, Roots
from provd.resolver import Resolver
from provd.statistics import Durations
from provd.store import Store
from provd.store.keys import Root

_PATIENCE: Final = 2.0
_AUDIT_SLICE: Final = 256
_AUDIT_PATIENCE: Final = 600.0


class Status:
    """Tells `daemon.status`, `root.list` and `daemon.audit`."""

    def __init__(
        self,
        store: Store,
        clocks: Clocks,
        roots: Roots,
        workers: Workers,
        inquiry: Inquiry,
        durations: Durations,
        places: dict[str, str],
    ) -> None:
        self._store = store
        self._clocks = clocks
        self._roots = roots
        self._workers = workers
        self._inquiry = inquiry
        self._durations = durations
        self._places = places
        self._started = time.monotonic()

    async def status(self) -> dict[str, Any]:
        """`daemon.status`."""
        with self._store.view() as view:
            oldest, head = view.oldest(), view.head()
            actions = [action_wire(action) for action in view.actions()]
            entries = {"active": view.count("entries"), "archived": view.count("archive")}
            records = view.count("log")
        told = {
            "version": __version__,
            "pid": os.getpid(),
            "uptime_s": round(time.monotonic() - self._started, 3),
            "log": self._store.log_id,
            "run": self._clocks.run,
            "clock": self._clocks.token(head),
            "oldest": self._clocks.token(oldest),
            **self._places,
            "roots": await self.roots(),
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

    async def roots(self) -> list[dict[str, Any]]:
        """The roots as the wire has them."""
        kept = list(self._roots.kept)
        try:
            there = await self._workers.call(_present, kept, timeout=_PATIENCE)
        except TimeoutError:
            there = {}
        return [
            {
                "path": wire_name(root.path),
                "state": "degraded" if there.get(root.path) else "gone",
                "backend": "none",
                "coverage": "none",
                "uncovered": [wire_name(root.path)],
                "why": NO_WATCHER
                if there.get(root.path)
                else "the directory is gone, was replaced, or does not answer",
                "ignore": None if root.ignore is None else list(root.ignore),
            }
            for root in kept
        ]

    async def audit(self, asked: params.Audit, resolver: Resolver) -> dict[str, Any]:
        """`daemon.audit`: re-reads the files that entries rest on, up to `sample` of them.

        A mismatch is a file whose `stat` is what it was when its digest was taken, and whose content is not: a
        change that left no trace.
        """
        directory = None if asked.root is None else (await resolver.place(asked.root)).need_scope()
        with self._store.view() as view:
            kept = {
                reading_of(k): k
                for entry in view.all_entries()
                if directory is None or lies_in(entry.id, directory)
                for k in entry.deps or ()
                if k.dep.kind is Kind.FILE and k.digest is not None and k.signature is not None
            }
        wanted = sorted(kept, key=lambda reading: reading.path)[: asked.sample]
        mismatches: list[dict[str, Any]] = []
        for at in range(0, len(wanted), _AUDIT_SLICE):
            mismatches += await self._compare({r: kept[r] for r in wanted[at : at + _AUDIT_SLICE]})
        return {"files": len(wanted), "mismatches": mismatches}

    async def _compare(self, kept: dict[Reading, Kept]) -> list[dict[str, Any]]:
        found = await self._inquiry.read(frozenset(kept), _AUDIT_PATIENCE)
        out = []
        for reading, believed in kept.items():
            there = found[reading]
            if there.digest not in {None, believed.digest} and there.signature == believed.signature:
                told = {"path": wire_name(reading.path), "was": believed.digest, "is": there.digest}
                out.append(told | {"why": "content changed and stat did not"})
        return out


def _present(roots: list[Root]) -> dict[bytes, bool]:
    """Which roots are still the directories that they were."""
    out = {}
    for root in roots:
        try:
            st = os.stat(root.path)
        except OSError:
            out[root.path] = False
        else:
            out[root.path] = (st.st_dev, st.st_ino) == (root.dev, root.ino)
    return out
