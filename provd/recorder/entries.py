"""Putting, revalidating and forgetting entries: from the request to the command, and back.

Rule: what a decision inside the transaction stumbles over is read outside of it, and then it is made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from provd.clocks import Clocks
from provd.core import entry as entries
from provd.core import errors, evidence, params, records
from provd.core.clock import Since
from provd.core.dependency import PATH_KINDS, Dependency
from provd.core.entry import Entry, EntryId, Kept
from provd.core.facts import Question
from provd.core.reading import Reading, Trouble
from provd.core.verdict import Verdict
from provd.inquiry import Answer, Findings, Inquiry, Unread, settle_again
from provd.recorder import retries
from provd.recorder.putting import Apply, Ground, InTheWay, Put, reading_for
from provd.recorder.together import PATIENCE, Together
from provd.resolver import Place, Resolver
from provd.showing import BARRIER, Showing, Shown
from provd.store import Store, Writer
from provd.store.keys import Stored
from provd.watching import Watching
from provd.witness import newest_record

_ATTEMPTS: Final = 16
_BIG_VALUE: Final = 64 * 1024
_MANY: Final = 2000
_MOMENT: Final = 0.25
"""Seconds for which a put without a clock waits until what happened before it is recorded."""
_AGAIN: Final = 2.0
"""Seconds to wait for what did not answer in time."""
_REVALIDATE: Final = "entry.revalidate"


class Entries:
    """Puts, revalidates and forgets entries."""

    def __init__(
        self, store: Store, inquiry: Inquiry, resolver: Resolver, clocks: Clocks, watch: Watching, showing: Showing
    ) -> None:
        self._store = store
        self._watch = watch
        self._showing = showing
        self._inquiry = inquiry
        self._resolver = resolver
        self._clocks = clocks
        self._together = Together(inquiry.reader, resolver)

    async def put(self, asked: params.EntryPut, *, foreign: bool) -> Any:
        """`entry.put`; raises ClockMissing, EntryConflict, EntryTooBig, DependencyCycle and what does not parse."""
        place = await self._resolver.place(asked.root, asked.scope, foreign=foreign)
        return await self._put(await self._request("entry.put", asked, place, foreign=foreign))

    async def _request(self, method: str, asked: params.EntryPut, place: Place, *, foreign: bool) -> Put:
        deps = None if asked.deps is None else tuple(await self._resolver.dependencies(asked.deps, place.root))
        since = None if asked.fetched_at is None else self._clocks.since(asked.fetched_at)
        as_of_put = asked.as_of is not None
        for dep, digest in deps or ():
            _need_clock(dep, digest, since, as_of_put=as_of_put)
        stored = Stored(_raw(asked.value), _raw(asked.meta))
        params.check_stored(asked.key, stored.value, stored.meta)
        identity = await _identity(stored.value)
        again = b""
        if asked.op is not None:
            on = (asked.based_on, asked.based_on_record)
            based_on = None if method == _REVALIDATE else on  # there it is what stood, and nobody said it
            said = None if deps is None else sorted((dep.kind, dep.name, digest or "") for dep, digest in deps)
            again = retries.digest(identity, await _identity(stored.meta), said, as_of_put, based_on)
        return Put(
            id=EntryId(place.need_scope(), params.key(asked.key)),
            deps=deps,
            clock=self._store.head if since is None else since.position,
            since=since,
            as_of_put=as_of_put,
            stored=stored,
            identity=identity,
            based_on=asked.based_on,
            based_on_record=asked.based_on_record,
            session=asked.session,
            turn=asked.turn,
            op=asked.op,
            asked=again,
            foreign=foreign,
            method=method,
        )

    async def _put(self, put: Put) -> Any:
        paths = [(dep, digest) for dep, digest in put.deps or () if dep.kind in PATH_KINDS]
        question = Question(foreign=put.foreign)
        first, standing, shown = Findings(), Findings(), Shown()
        reals: Mapping[bytes, bytes] = {}
        began = self._store.head
        if not put.foreign:
            if put.since is None and paths:
                put = await self._after_what_happened(put)
            unsaid = {dep for dep, digest in paths if digest is None} if not put.as_of_put else set()
            recorded = not unsaid or await self._watch.recorded(BARRIER)
            began = self._store.head
            readings = await _readings(paths)
            read = await self._together.read(readings)
            first, reals = Findings(read.found), read.reals
            if unsaid and recorded:
                wanted = {r: first.found[r] for r in (reading_for(dep, None) for dep in unsaid)}
                rests = await self._showing.at_rest(put.since, wanted, _patience(first))
                shown = Shown(put.clock, rests, self._showing.spent(put.since))
        own = first
        for _ in range(_ATTEMPTS):
            result = await self._store.submit(Apply(put, first, own, standing, reals, shown, began, self._clocks))
            if isinstance(result, Ground):
                own = await self._inquiry.reread(result.unread, question, _patience(own))
            elif isinstance(result, InTheWay):
                patience = _AGAIN if _rests_on_late(result.unread, own) else _patience(standing)
                standing = await self._inquiry.reread(result.unread, Question(), patience)
            else:
                return result
        raise errors.EntryConflict(
            f"{put.id.key[:80]!r} was put again and again while this put was judged", "ask again; nothing was changed"
        )

    async def _after_what_happened(self, put: Put) -> Put:
        """The same put, which gives no clock: what was written before it is no touch after it.

        In a burst that is not waited for: then the strict rule may say `touched` of it.
        """
        self._watch.read()
        if not self._watch.is_behind():
            await self._watch.recorded(_MOMENT)
        return msgspec.structs.replace(put, clock=self._store.head)

    async def revalidate(self, asked: params.EntryRevalidate, *, foreign: bool) -> Any:
        """`entry.revalidate`: proves what stands, or with a value puts it on top of what stands."""
        place = await self._resolver.place(asked.root, asked.scope, foreign=foreign)
        entry_id = EntryId(place.need_scope(), params.key(asked.key))
        if asked.value is not msgspec.UNSET:
            return await self._put(await self._replacement(asked, entry_id, place, foreign=foreign))
        if asked.deps is not None or asked.fetched_at is not None or asked.as_of is not None or asked.op is not None:
            raise errors.InvalidParams(
                "entry.revalidate without a value takes no deps, fetched_at, as_of or op",
                "leave them out, or send the value with them",
            )
        answer: Answer | None = None
        for _ in range(_ATTEMPTS):
            question = Question(foreign=foreign)
            answer = await self._inquiry.judge(
                lambda view: {entry_id: view.entry_or_ruin(entry_id)}, question, asked.timeout_ms / 1000, evidence=True
            )
            judged = answer.judgements[entry_id]
            if judged.verdict is not Verdict.FRESH or judged.entry is None:
                break
            renewed = await self._store.submit(_Renew(judged.entry, answer, question))
            if renewed is not None:
                break
        assert answer is not None
        judged = answer.judgements[entry_id]
        token = self._clocks.token(answer.position)
        with self._store.view() as view:
            verdict = evidence.to_wire(judged, clock=token, mutation=newest_record(view, judged.entry))
        return {"key": asked.key, "version": verdict["version"], "verdict": {"key": asked.key} | verdict}

    async def _replacement(
        self, asked: params.EntryRevalidate, entry_id: EntryId, place: Place, *, foreign: bool
    ) -> Put:
        """A put on top of the version that stands; without `deps` it rests on what that one rested on."""
        with self._store.view() as view:
            there = view.entry(entry_id)
        if there is None:
            raise errors.EntryMissing(f"there is no entry {asked.key[:80]!r} to revalidate", "put it")
        put = params.EntryPut(
            key=asked.key,
            value=asked.value,
            deps=asked.deps,
            fetched_at=asked.fetched_at,
            as_of=asked.as_of,
            based_on=there.version,
            based_on_record=None if asked.deps is not None else there.renewed,
            session=asked.session,
            turn=asked.turn,
            meta=asked.meta,
            op=asked.op,
        )
        request = await self._request(_REVALIDATE, put, place, foreign=foreign)
        if asked.deps is not None or there.deps is None:
            return request
        deps: tuple[tuple[Dependency, str | None], ...] = tuple((kept.dep, None) for kept in there.deps)
        for dep, digest in deps:
            _need_clock(dep, digest, request.since, as_of_put=request.as_of_put)
        return msgspec.structs.replace(request, deps=deps)

    async def forget(self, asked: params.EntryForget, *, foreign: bool) -> Any:
        """`entry.forget`: takes an entry and its archive away; its records stay in the log."""
        place = await self._resolver.place(asked.root, asked.scope, foreign=foreign)
        entry_id = EntryId(place.need_scope(), params.key(asked.key))

        def command(writer: Writer) -> bool:
            there = writer.entry_or_ruin(entry_id)
            if there is None and next(writer.archived(entry_id), None) is None:
                return False
            version = there.version if there else 0
            event = records.EntryEvent.FORGOTTEN
            writer.append(records.EntryChange(writer.now, event, entry_id.scope, entry_id.key, 0, version))
            writer.forget(entry_id)
            return True

        return {"gone": await self._store.submit(command)}


class _Renew:
    """Renews the clock of an entry that was just proven; None where it is not the same any more."""

    def __init__(self, entry: Entry, answer: Answer, question: Question) -> None:
        self._entry = entry
        self._answer = answer
        self._question = question

    def __call__(self, writer: Writer) -> bool | None:
        entry = self._entry
        if writer.entry(entry.id) != entry:
            return None
        judged = settle_again(writer, {entry.id: entry}, self._question, self._answer.findings)
        if isinstance(judged, Unread) or judged[entry.id].verdict is not Verdict.FRESH:
            return None
        event = records.EntryEvent.REVALIDATED
        position = writer.append(records.EntryChange(writer.now, event, entry.id.scope, entry.id.key, entry.version))
        clock = max(entry.clock, self._answer.began)
        deps = tuple(self._proven(kept) for kept in entry.deps or ())
        writer.renew_entry(msgspec.structs.replace(entry, clock=clock, renewed=position, deps=deps))
        return True

    def _proven(self, kept: Kept) -> Kept:
        if kept.dep.kind not in PATH_KINDS:
            return kept
        found = self._answer.findings.found.get(reading_for(kept.dep, kept.digest))
        if found is None:
            return kept
        proven = None if found.linked or found.digest != kept.digest else self._answer.began
        return msgspec.structs.replace(kept, signature=found.signature, proven=proven)


async def _identity(value: bytes | None) -> bytes:
    """The identity of a value; in a thread where it takes long."""
    if value is None:
        return b""
    if len(value) <= _BIG_VALUE:
        return entries.identity(value)
    return await asyncio.to_thread(entries.identity, value)


def _patience(before: Findings) -> float:
    """Seconds to read on for: what did not answer in time before is not waited for as long again."""
    return _AGAIN if _late(before) else PATIENCE


def _late(before: Findings) -> frozenset[Reading]:
    """What did not answer in time."""
    return frozenset(reading for reading, found in before.found.items() if found.trouble is Trouble.TIMEOUT)


def _rests_on_late(unread: Unread, before: Findings) -> bool:
    """Whether one of the entries rests itself on what did not answer in time, so that it is unknown in any case."""
    late = {(reading.kind, reading.path) for reading in _late(before)}
    entries = [entry for entry in unread.targets.values() if entry is not None]
    return any((kept.dep.kind, kept.dep.name) in late for entry in entries for kept in entry.deps or ())


def _raw(given: msgspec.Raw | msgspec.UnsetType) -> bytes | None:
    return None if given is msgspec.UNSET else bytes(given)


def _need_clock(dep: Dependency, digest: str | None, since: Since | None, *, as_of_put: bool) -> None:
    """Raises ClockMissing where nothing says when a dependency was read."""
    if since is not None or digest is not None or (as_of_put and dep.kind in PATH_KINDS):
        return
    shown = dep.text[:80].decode("utf-8", "backslashreplace")
    raise errors.ClockMissing(
        f"nothing says when {shown!r} was read",
        "take log.clock before reading and send it as fetched_at, or send the digest of what you read"
        + (', or as_of: "put"' if dep.kind in PATH_KINDS else ""),
    )


async def _readings(paths: Sequence[tuple[Dependency, str | None]]) -> frozenset[Reading]:
    """What to read for dependencies that are put; in a thread where they are so many that others would wait."""

    def all_of_them() -> frozenset[Reading]:
        return frozenset(reading_for(dep, digest) for dep, digest in paths)

    return all_of_them() if len(paths) <= _MANY else await asyncio.to_thread(all_of_them)
