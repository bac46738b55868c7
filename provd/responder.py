"""Answers questions, and writes nothing but what a clock may need (`showing`): entries, dependencies, the log.

Rule: what it says was durable, and every file that it speaks of was read for this question.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from provd.atonce import AtOnce
from provd.clocks import Clocks
from provd.core import errors, evidence, params, records
from provd.core.clock import Since
from provd.core.dependency import PATH_KINDS, Kind, algorithm_of, base
from provd.core.entry import Entry, EntryId, Kept
from provd.core.facts import Question, Verify
from provd.core.reading import Reading
from provd.core.verdict import MAX_PATHS, Judgement, reading_of
from provd.disk import Route
from provd.inquiry import Answer, Inquiry
from provd.pages import Named, concerns, page
from provd.resolver import Resolver, joined
from provd.selfcheck import SelfCheck
from provd.shortcut import Shortcut
from provd.showing import BARRIER, Showing, Shown, is_unsaid
from provd.statistics import Verdicts
from provd.store import Store
from provd.store.declared import is_json
from provd.store.precedents import Precedents
from provd.watch.base import Uncovered
from provd.watching import PATIENCE, Coverage, Watching, scanned_and_recorded
from provd.witness import newest_record

_SLICE: Final = 64
"""Entries judged at once for a list, so that others are answered in between."""
_LIST_PATIENCE: Final = 2.0
MAX_UNCOVERED: Final = 100
"""Places that are not watched, named in one answer; more are counted."""


class Responder:
    """Answers."""

    def __init__(
        self,
        store: Store,
        inquiry: Inquiry,
        resolver: Resolver,
        clocks: Clocks,
        watch: Watching,
        shortcut: Shortcut,
        showing: Showing,
        self_check: SelfCheck,
    ) -> None:
        self._showing = showing
        self._store = store
        self._inquiry = inquiry
        self._resolver = resolver
        self._clocks = clocks
        self._watch = watch
        self.verdicts = Verdicts()
        self.at_once = AtOnce(store, resolver, clocks, shortcut, self.verdicts, self_check)

    # entries

    async def check(self, asked: params.EntryCheck, *, foreign: bool) -> Any:
        """`entry.check`: a verdict for a key, or one for each of several keys."""
        if (asked.key is None) == (asked.keys is None):
            raise errors.InvalidParams("neither or both of key and keys", "send one of them")
        keys = asked.keys if asked.keys is not None else [asked.key or ""]
        if len(keys) > params.MAX_KEYS:
            raise errors.LimitExceeded(f"{len(keys)} keys", f"at most {params.MAX_KEYS} at once")
        if not foreign:
            fresh = await self.at_once.all(asked) if asked.keys else self.at_once.one(asked)
            if fresh is not None:
                return msgspec.Raw(fresh)
        told, answer = await self._verdicts(keys, asked, foreign=foreign)
        self.at_once.learn(asked, answer)
        return {"verdicts": told} if asked.keys is not None else told[keys[0]]

    async def get(self, asked: params.EntryGet, *, foreign: bool) -> Any:
        """`entry.get`: the verdict, with value and meta where it is usable or the caller wants it all the same."""
        place = await self._resolver.place(asked.root, asked.scope, foreign=foreign)
        entry_id = EntryId(place.need_scope(), params.key(asked.key))
        while True:  # the value must be that of the version that was judged
            told, answer = await self._verdicts([asked.key], asked, foreign=foreign)
            verdict = told[asked.key]
            judged = answer.judgements[entry_id]
            if judged.entry is None or not (judged.usable or verdict["verdict"] in asked.even_if):
                return verdict | self._about(judged.entry, asked)
            with self._store.view() as view:
                there = view.entry(entry_id)
                stored = view.stored(entry_id)
            if there is not None and there.version == judged.entry.version:
                if not (is_json(stored.value) and is_json(stored.meta)):
                    what = f"the value of {asked.key!r} is damaged in the store: it is no JSON"
                    self._store.note_damage(what)
                    raise errors.StoreDamaged(what, "provd forget KEY  # then put it anew")
                value = {} if stored.value is None else {"value": msgspec.Raw(stored.value)}
                meta = {} if stored.meta is None else {"meta": msgspec.Raw(stored.meta)}
                return verdict | value | meta | self._about(judged.entry, asked)

    def _about(self, entry: Entry | None, asked: params.EntryGet) -> dict[str, Any]:
        """What is kept of an entry beside its value, where the caller wants it."""
        if entry is None or not asked.deps:
            return {}
        deps = None if entry.deps is None else [_kept_wire(kept) for kept in entry.deps]
        row = self._row(entry)
        row["clock_of_entry"] = row.pop("clock")
        row["record"] = entry.renewed
        row |= {} if entry.born is None else {"born": entry.born}
        row |= {"confirms": entry.confirms} if entry.confirms else {}
        with self._store.view() as view:
            if getattr(view.record(entry.renewed), "event", None) is records.EntryEvent.IMPORTED:
                row["imported"] = True
                origin = Precedents(view).origin(entry.id, entry.version)
                if origin is None or self._clocks.since(origin.made).exact:
                    row["made_here"] = True
        return row | records.wire_scope(entry.id.scope) | {"deps": deps}

    async def _verdicts(self, keys: list[str], asked: params.Asked, *, foreign: bool) -> tuple[dict[str, Any], Answer]:
        began = time.perf_counter()
        place = await self._resolver.place(asked.root, asked.scope, foreign=foreign)
        scope = place.need_scope()
        ids = [EntryId(scope, params.key(key)) for key in keys]
        with self._store.view() as view:
            many = len(ids) > _SLICE or view.are_long(ids)
        answer = await self._inquiry.judge(
            lambda view: {entry_id: view.entry_or_ruin(entry_id) for entry_id in ids},
            Question(revalidate=asked.revalidate, foreign=foreign, verify=Verify(asked.verify)),
            asked.timeout_ms / 1000,
            many=many,
            evidence=True,
        )
        told: dict[str, dict[str, Any]] = {}
        for number, i in enumerate(ids, 1):
            told[i.key] = self._told(i.key, answer.judgements[i], answer.position)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        for missing in (told[i.key] for i in ids if answer.judgements[i].why == "no-entry"):
            missing["evidence"][0]["detail"] = f"looked in {records.shown_scope(scope)}"
        self.verdicts.add(time.perf_counter() - began, (verdict["verdict"] for verdict in told.values()))
        return told, answer

    def _told(self, key: str | None, judgement: Judgement, position: int) -> dict[str, Any]:
        token = self._clocks.token(position)
        if not judgement.faults:
            return evidence.to_wire(judgement, clock=token, mutation=lambda _: None, key=key)
        with self._store.view() as view:
            return evidence.to_wire(judgement, clock=token, mutation=newest_record(view, judgement.entry), key=key)

    async def deps_check(self, asked: params.DepsCheck, *, foreign: bool) -> Any:
        """`deps.check`: a verdict on dependencies without an entry."""
        began = time.perf_counter()
        deadline = began + asked.timeout_ms / 1000
        place = await self._resolver.place(asked.root, asked.scope, foreign=foreign)
        since = None if asked.fetched_at is None else self._clocks.since(asked.fetched_at)
        wanted = await self._resolver.dependencies(asked.deps, place.root)
        unread = [dep for dep, digest in wanted if digest is None or not asked.revalidate]
        reals = {} if foreign else await self._resolver.real_bases(unread)
        kept = []
        for dep, digest in wanted:
            if since is None and digest is None:
                raise errors.ClockMissing(
                    f"nothing says when {records.wire_name(dep.text)!r} was read", "send fetched_at, or its digest"
                )
            version = None
            if dep.kind is Kind.ENTRY:
                place.need_scope()
                version = self._version_at(EntryId(place.need_scope(), dep.name.decode()), digest, since)
            real = reals.get(base(dep)) if dep.kind in PATH_KINDS else None
            kept.append(Kept(dep, digest if dep.kind in PATH_KINDS else None, version, real))
        if not foreign and asked.revalidate and since is not None and since.exact:
            kept = await self._shown(kept, since, deadline)
        position = self._store.head if since is None else since.position
        entry_id = EntryId(place.scope or b"", "")
        entry = Entry(entry_id, 0, 0, position, tuple(kept), 0)
        question = Question(revalidate=asked.revalidate, foreign=foreign, verify=Verify(asked.verify))
        left = max(0.0, deadline - time.perf_counter())
        answer = await self._inquiry.judge(lambda _: {entry_id: entry}, question, left, evidence=True)
        told = self._told(None, answer.judgements[entry_id], answer.position)
        if asked.revalidate:
            evidence.without_an_entry(told, self._showing.spent(since))
        self.verdicts.add(time.perf_counter() - began, [told["verdict"]])
        return told | {"standing": None, "version": None}

    async def _shown(self, kept: list[Kept], since: Since, deadline: float) -> list[Kept]:
        """The dependencies as a put at this moment would keep them: with a digest where the clock shows it."""
        unsaid = frozenset(reading_of(one) for one in kept if is_unsaid(one))
        if not unsaid or not await self._watch.recorded(min(BARRIER, max(0.0, deadline - time.perf_counter()))):
            return kept
        proven = self._store.head
        found = await self._inquiry.reader.read(unsaid, max(0.0, deadline - time.perf_counter()))
        rests = await self._showing.at_rest(since, found, max(0.0, deadline - time.perf_counter()))
        shown = Shown(since.position, rests)
        if not rests:
            return kept

        def by_the_log() -> list[Kept]:
            with self._store.thread_view() as view:
                return [shown.instead(view, one, found, proven) for one in kept]

        return await asyncio.to_thread(by_the_log)

    def _version_at(self, entry_id: EntryId, digest: str | None, since: Since | None) -> int | None:
        if digest is not None:
            return int(digest.removeprefix("version:"))  # one that there never was is another than what stands
        if since is None or not since.exact:
            return None
        with self._store.view() as view:
            there = view.entry(entry_id)
        return there.version if there is not None and there.version <= since.position else 0

    async def snapshot(self, asked: params.DepsSnapshot, *, foreign: bool) -> Any:
        """`deps.snapshot`: the digests of what is there, to compare and show."""
        place = await self._resolver.place(asked.root, foreign=foreign)
        clock = (await self.clock())["clock"]
        wanted = await self._resolver.dependencies(asked.deps, place.root)
        readings = {
            dep: Reading(dep.kind, dep.name, algorithm_of(digest)) for dep, digest in wanted if dep.kind in PATH_KINDS
        }
        found = {} if foreign else await self._inquiry.reader.read(frozenset(readings.values()), 30.0)
        digests: list[dict[str, Any]] = []
        for dep, _ in wanted:
            item: dict[str, Any] = {"dep": records.wire_name(dep.text), "digest": None}
            if dep.kind in PATH_KINDS:
                there = found.get(readings[dep])
                item["digest"] = there and there.digest
                if there is None:
                    item["why"] = "namespace"
                elif there.digest is None:
                    paths = [records.wire_name(path) for path in there.paths[:MAX_PATHS]]
                    item |= {"why": str(there.trouble), "detail": there.detail} | ({"paths": paths} if paths else {})
                if there is not None and there.ignored:
                    item["ignored"] = there.ignored
            elif dep.kind is Kind.ENTRY:
                with self._store.view() as view:
                    entry = view.entry(EntryId(place.need_scope(), dep.name.decode()))
                item["digest"] = None if entry is None else f"version:{entry.version}"
            digests.append(item)
        return {"clock": clock, "digests": digests}

    async def listed(self, asked: params.EntryList, *, foreign: bool) -> Any:
        """`entry.list`: the entries of a scope in order of key, by prefix, path and verdict; `after` goes on."""
        place = await self._resolver.place(asked.root, asked.scope, foreign=foreign)
        scope = place.need_scope()
        touching = None
        if asked.touching is not None:
            path = joined(params.name_bytes(asked.touching), place, "touching")
            reals = {} if foreign else await self._resolver.real_paths([path])
            paths = {path, reals.get(path, path)}
            leaves = await self._resolver.leaves({*reals, *reals.values()})
            touching = await asyncio.to_thread(self._touching, paths, leaves)
        out: list[dict[str, Any]] = []
        damaged: list[str] = []
        after = asked.after
        while len(out) < asked.limit:
            with self._store.view() as view:
                entries = view.entries(scope, asked.prefix, after, _SLICE, damaged)
            if not entries:
                return {"entries": out} | _damaged(damaged)
            after = entries[-1].id.key
            await asyncio.sleep(0)  # others are answered between two slices
            kept = [e for e in entries if touching is None or e.id in touching]
            kept = [e for e in kept if asked.standing is None or e.standing == asked.standing]
            out += await self._rows(kept, asked.verdict, foreign=foreign)
        if len(out) > asked.limit:
            out = out[: asked.limit]
            after = out[-1]["key"]
        return {"entries": out, "after": after} | _damaged(damaged)

    async def places(self, asked: params.EntryPlaces) -> Any:
        """`entry.places`: where a key has an active entry, in the order in which these were first put to."""

        def found() -> list[bytes]:
            with self._store.thread_view() as view:
                return list(islice(view.scopes_of(params.key(asked.key)), asked.limit + 1))

        there = await asyncio.to_thread(found)
        told = {"places": [records.wire_scope(scope) for scope in there[: asked.limit]]}
        return told | ({"more": True} if len(there) > asked.limit else {})

    def _touching(self, paths: set[bytes], leaves: frozenset[bytes]) -> set[EntryId]:
        with self._store.thread_view() as view:
            return {entry_id for path in paths for entry_id in view.on_path(path, leaf=path in leaves)}

    async def _rows(self, entries: list[Entry], verdict: str | None, *, foreign: bool) -> list[dict[str, Any]]:
        if verdict is None or not entries:
            return [self._row(entry) for entry in entries]
        ids = [entry.id for entry in entries]
        answer = await self._inquiry.judge(
            lambda view: {i: view.entry_or_ruin(i) for i in ids}, Question(foreign=foreign), _LIST_PATIENCE
        )
        judged = ((entry, answer.judgements[entry.id]) for entry in entries)
        return [self._row(e) | {"verdict": verdict, "why": j.why} for e, j in judged if j.verdict == verdict]

    def _row(self, entry: Entry) -> dict[str, Any]:
        row: dict[str, Any] = {
            "key": entry.id.key,
            "version": entry.version,
            "standing": str(entry.standing),
            "clock": self._clocks.token(entry.clock),
            "dependencies": None if entry.deps is None else len(entry.deps),
            "supports": entry.supports,
            "at": str(entry.at),
        }
        extra = {"session": entry.session, "turn": entry.turn}
        return row | {name: value for name, value in extra.items() if value is not None}

    # the log

    async def clock(self) -> dict[str, Any]:
        """`log.clock`: take it before reading the sources."""
        await scanned_and_recorded(self._watch)
        return {"clock": await self._showing.clock(self._store)}

    async def since(self, asked: params.LogSince) -> Any:
        """`log.since`: the records after a clock (or the last ones), and whether they are all that happened."""
        if (asked.clock is None) == (asked.last is None):
            raise errors.InvalidParams("neither or both of clock and last", "send the clock to go on from, or last: N")
        if asked.clock is None:
            since = Since(max(0, self._store.head - (asked.last or 0)), exact=True)
        else:
            since = self._clocks.since(asked.clock)
        paths = await self._paths(asked)
        before = self._uncovered(paths)  # what is covered again only now has its gap still to be recorded
        recorded = await self._watch.recorded(PATIENCE)
        if before and recorded and not self._uncovered(paths):  # directories that had only to be looked at
            before = []
            recorded = await self._watch.recorded(PATIENCE)
        start = since.position if since.exact else self._clocks.started - 1
        with self._store.view() as view:
            oldest, head = view.oldest(), view.head()
            batch = view.records(start, asked.limit)
            complete = recorded and since.exact and (start + 1 >= oldest or start == head)
            more = bool(batch) and batch[-1][0] < head
        named = None if paths is None else Named(paths)
        if any(isinstance(r, records.Gap) and concerns(r, named) for _, r in batch):
            complete = False
        uncovered = self._uncovered(paths) or before
        last = batch[-1][0] if batch else max(start, 0)
        told: dict[str, Any] = {
            "records": await page(batch, named),
            "clock": self._clocks.token(last),
            "complete": complete and not uncovered,
        }
        if more:
            told["more"] = True
        if uncovered:
            told["uncovered"] = [{"path": records.wire_name(u.path), "why": u.why} for u in uncovered[:MAX_UNCOVERED]]
        if len(uncovered) > MAX_UNCOVERED:
            told["uncovered_more"] = len(uncovered) - MAX_UNCOVERED
        return told

    async def _paths(self, asked: params.LogSince) -> dict[bytes, Route | None] | None:
        """The paths that are asked about, with the way to each where it can be seen; None for everything."""
        if asked.paths is None:
            return None
        place = await self._resolver.place(asked.root)
        named = [joined(params.name_bytes(name), place, "path") for name in asked.paths]
        routes = await self._inquiry.reader.routes(set(named), _LIST_PATIENCE)
        return {path: routes.get(path) for path in named}

    def _uncovered(self, paths: Mapping[bytes, Route | None] | None) -> list[Uncovered]:
        """The places of which silence proves nothing: below the roots, or on the ways to `paths` and below them."""
        places: dict[bytes, Uncovered] = {}
        if paths is None:
            for root in self._watch.roots:
                places.update({place.path: place for place in self._watch.uncovered(root)})
            return list(places.values())
        coverage = Coverage(self._watch)
        for path, route in paths.items():
            lost = Uncovered(path, "the way to it cannot be seen") if route is None else coverage.lost_on(route)
            below = [lost] if lost is not None or route is None else self._watch.uncovered(route.at)
            places.update({place.path: place for place in below if place is not None})
        return list(places.values())


def _damaged(keys: list[str]) -> dict[str, Any]:
    return {"damaged": keys} if keys else {}


def _kept_wire(kept: Kept) -> dict[str, Any]:
    """A dependency as an entry keeps it."""
    told = evidence.named(kept.dep)
    if kept.dep.kind is Kind.OBJECT:
        return told | {"kept": "declared"}
    if kept.dep.kind is Kind.ENTRY:
        return told | ({"kept": "unproven"} if kept.version is None else {"kept": "version", "version": kept.version})
    if kept.digest is None:
        return told | {"kept": "unproven"}
    return told | {"kept": "shown" if kept.shown else "read", "digest": kept.digest}
