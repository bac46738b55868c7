"""What the daemon says of itself: its status, its roots, and the audit of what it believes.

Rule: nothing here decides a verdict; it is for people, and for finding provd's own mistakes.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from typing import Any, Final

from provd import __version__
from provd.clocks import Clocks
from provd.core import params
from provd.core.dependency import Kind
from provd.core.entry import lies_in
from provd.core.reading import Reading, Signature
from provd.core.records import to_wire, wire_name
from provd.core.verdict import reading_of
from provd.disk import Workers, signature_of
from provd.inquiry import Inquiry
from provd.recorder.actions import action_wire
from provd.recorder.roots import NO_WATCHER, Roots
from provd.resolver import Resolver
from provd.statistics import Durations
from provd.store import Store, View

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
            entries = {"active": view.count("entries"), "revoked": view.count("archive")}
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
        found = await self._workers.each(signature_of, [root.path for root in kept], _PATIENCE, apart=True)
        there = {(path, now.dev, now.ino) for path, now in found.items() if now is not None}
        with self._store.view() as view:
            gaps = {root.path: _gap(view, max(root.gap, view.gap_all())) for root in kept}
        return [
            {
                "path": wire_name(root.path),
                "state": "degraded" if (root.path, root.dev, root.ino) in there else "gone",
                "backend": "none",
                "coverage": "none",
                "uncovered": [wire_name(root.path)],
                "why": NO_WATCHER
                if (root.path, root.dev, root.ino) in there
                else "the directory is gone, was replaced, or does not answer",
                "ignore": None if root.ignore is None else list(root.ignore),
                "last_gap": gaps.get(root.path),
            }
            for root in kept
        ]

    async def audit(self, asked: params.Audit, resolver: Resolver) -> dict[str, Any]:
        """`daemon.audit`: re-reads the files that entries rest on, up to `sample` of them.

        A mismatch is a file whose `stat` is what it was when its digest was taken, and whose content is not: a
        change that left no trace.
        """
        directory = None if asked.root is None else (await resolver.place(asked.root)).need_scope()
        believed = await asyncio.to_thread(self._believed, directory)
        wanted = sorted(believed, key=lambda reading: reading.path)
        if asked.sample is not None and asked.sample < len(wanted):
            wanted = random.sample(wanted, asked.sample)
        mismatches: list[dict[str, Any]] = []
        for at in range(0, len(wanted), _AUDIT_SLICE):
            mismatches += await self._compare({r: believed[r] for r in wanted[at : at + _AUDIT_SLICE]})
        return {"files": len(wanted), "mismatches": mismatches}

    def _believed(self, directory: bytes | None) -> dict[Reading, dict[Signature, str]]:
        """What entries keep of files: for each reading the digest by the signature that it was seen with."""
        believed: dict[Reading, dict[Signature, str]] = {}
        with self._store.thread_view() as view:
            for entry in view.all_entries():
                if directory is not None and not lies_in(entry.id, directory):
                    continue
                for kept in entry.deps or ():
                    if kept.dep.kind is Kind.FILE and kept.digest is not None and kept.signature is not None:
                        believed.setdefault(reading_of(kept), {})[kept.signature] = kept.digest
        return believed

    async def _compare(self, believed: dict[Reading, dict[Signature, str]]) -> list[dict[str, Any]]:
        found = await self._inquiry.read(frozenset(believed), _AUDIT_PATIENCE)
        out = []
        for reading, digests in believed.items():
            there = found[reading]
            was = None if there.signature is None else digests.get(there.signature)
            if was is not None and there.digest not in {None, was}:
                told = {"path": wire_name(reading.path), "was": was, "is": there.digest}
                out.append(told | {"why": "content changed and stat did not"})
        return out


def _gap(view: View, position: int) -> dict[str, Any]:
    """The newest gap of a root, as far as its record is still held."""
    record = view.record(position)
    return {"seq": position} if record is None else to_wire(position, record)
