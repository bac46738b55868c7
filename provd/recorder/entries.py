"""Putting, revalidating and forgetting entries.

Rule: what a value was made from is what the client read, never what is there when it is put. An older truth
never displaces one that is fresh.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from provd.clocks import Clocks
from provd.core import entry as entries
from provd.core import errors, evidence, params, records
from provd.core.clock import Since
from provd.core.cycles import reaches
from provd.core.dependency import ABSENT, PATH_KINDS, Dependency, Kind, algorithm_of, base
from provd.core.entry import Entry, EntryId, Kept, Standing
from provd.core.reading import Reading
from provd.core.verdict import Judgement, Question, Verdict
from provd.inquiry import Answer, Findings, Inquiry, Unread, settle_again
from provd.resolver import Place, Resolver
from provd.store import Store, Writer
from provd.store.keys import Answered, Stored

MAX_ENTRIES: Final = 10_000_000
_PATIENCE: Final = 30.0
"""Seconds that a put reads for: it keeps a digest of all that it names, and is no question."""
_ATTEMPTS: Final = 16


class Put(msgspec.Struct, frozen=True):
    """A put as it was asked for. `clock` is the position that `fetched_at` says, else that at which it came."""

    id: EntryId
    deps: tuple[tuple[Dependency, str | None], ...] | None
    clock: int
    since: Since | None
    as_of_put: bool
    stored: Stored
    identity: bytes
    based_on: int | None
    session: str | None
    turn: int | str | None
    op: str | None
    foreign: bool
    method: str


class _Ground(msgspec.Struct, frozen=True):
    """What the new entry rests on must be read first."""

    unread: Unread


class _Standing(msgspec.Struct, frozen=True):
    """What the active entry rests on, which stands in the way, must be read first."""

    unread: Unread


class Entries:
    """Puts, revalidates and forgets entries."""

    def __init__(self, store: Store, inquiry: Inquiry, resolver: Resolver, clocks: Clocks) -> None:
        self._store = store
        self._inquiry = inquiry
        self._resolver = resolver
        self._clocks = clocks

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
        if len(stored.value or b"") > params.MAX_VALUE or len(stored.meta or b"") > params.MAX_VALUE:
            raise errors.EntryTooBig(
                f"the value or meta of {asked.key[:80]!r} is over 8 MiB", "keep a path to it instead"
            )
        if stored.meta is not None and not stored.meta.lstrip().startswith(b"{"):
            raise errors.InvalidParams("meta is no object", 'send meta: {"name": ...}')
        return Put(
            id=EntryId(place.need_scope(), params.key(asked.key)),
            deps=deps,
            clock=self._store.head if since is None else since.position,
            since=since,
            as_of_put=as_of_put,
            stored=stored,
            identity=b"" if stored.value is None else entries.identity(stored.value),
            based_on=asked.based_on,
            session=asked.session,
            turn=asked.turn,
            op=asked.op,
            foreign=foreign,
            method=method,
        )

    async def _put(self, put: Put) -> Any:
        paths = [(dep, digest) for dep, digest in put.deps or () if dep.kind in PATH_KINDS]
        question = Question(foreign=put.foreign)
        own, standing = Findings(), Findings()
        reals: dict[bytes, bytes] = {}
        if not put.foreign:
            readings = frozenset(_reading(dep, digest) for dep, digest in paths)
            own = Findings(await self._inquiry.read(readings, _PATIENCE))
            reals = await self._resolver.real_bases(dep for dep, _ in paths)
        for _ in range(_ATTEMPTS):
            result = await self._store.submit(_Apply(put, own, standing, reals, self._clocks))
            if isinstance(result, _Ground):
                own = own.merged(await self._inquiry.reread(result.unread, question, _PATIENCE))
            elif isinstance(result, _Standing):
                standing = standing.merged(await self._inquiry.reread(result.unread, question, _PATIENCE))
            else:
                return result
        raise errors.EntryConflict(
            f"{put.id.key[:80]!r} was put again and again while this put was judged", "ask again; nothing was changed"
        )

    async def revalidate(self, asked: params.EntryRevalidate, *, foreign: bool) -> Any:
        """`entry.revalidate`: proves what stands, or with a value puts it on top of what stands."""
        place = await self._resolver.place(asked.root, asked.scope, foreign=foreign)
        entry_id = EntryId(place.need_scope(), params.key(asked.key))
        if asked.value is not msgspec.UNSET:
            return await self._put(await self._replacement(asked, entry_id, place, foreign=foreign))
        answer: Answer | None = None
        for _ in range(_ATTEMPTS):
            question = Question(foreign=foreign)
            answer = await self._inquiry.judge(
                lambda view: {entry_id: view.entry(entry_id)}, question, asked.timeout_ms / 1000
            )
            judged = answer.judgements[entry_id]
            if judged.verdict is not Verdict.FRESH or judged.entry is None:
                break
            renewed = await self._store.submit(_Renew(judged.entry, answer, question))
            if renewed is not None:
                break
        assert answer is not None
        judged = answer.judgements[entry_id]
        verdict = evidence.to_wire(judged, clock=self._clocks.token(answer.position), mutation=lambda _: None)
        return {"key": asked.key, "version": verdict["version"], "verdict": {"key": asked.key} | verdict}

    async def _replacement(
        self, asked: params.EntryRevalidate, entry_id: EntryId, place: Place, *, foreign: bool
    ) -> Put:
        """A put on top of the version that stands; without `deps` it rests on what that one rested on."""
        with self._store.view() as view:
            there = view.entry(entry_id)
        put = params.EntryPut(
            key=asked.key,
            value=asked.value,
            deps=asked.deps,
            fetched_at=asked.fetched_at,
            as_of=asked.as_of,
            based_on=0 if there is None else there.version,
            session=asked.session,
            turn=asked.turn,
            meta=asked.meta,
            op=asked.op,
        )
        request = await self._request("entry.revalidate", put, place, foreign=foreign)
        if asked.deps is not None or there is None or there.deps is None:
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
            there = writer.entry(entry_id)
            if there is None and not writer.archived(entry_id):
                return False
            version = there.version if there else 0
            event = records.EntryEvent.FORGOTTEN
            writer.append(records.EntryChange(writer.now, event, entry_id.scope, entry_id.key, 0, version))
            writer.forget(entry_id)
            return True

        return {"gone": await self._store.submit(command)}


class _Apply:
    """One put, inside its transaction."""

    def __init__(
        self,
        put: Put,
        own: Findings,
        standing: Findings,
        reals: Mapping[bytes, bytes],
        clocks: Clocks,
    ) -> None:
        self._put = put
        self._own = own
        self._found = own.found
        self._standing = standing
        self._reals = reals
        self._clocks = clocks

    def __call__(self, writer: Writer) -> Any:
        put = self._put
        if put.op is not None and (answered := writer.answered(put.method, put.op)):
            return msgspec.Raw(answered.answer)
        active = writer.entry(put.id)
        self._check(writer, active)
        position = writer.head() + 1
        entry = self._entry(writer, position)
        question = Question(foreign=put.foreign)
        judged = settle_again(writer, {put.id: entry}, question, self._own)
        if isinstance(judged, Unread):
            return _Ground(judged)
        born = judged[put.id]
        late = False
        if active is not None and (born.verdict is not Verdict.FRESH or put.clock < active.clock):
            judged = settle_again(writer, {active.id: active}, question, self._standing)
            if isinstance(judged, Unread):
                return _Standing(judged)
            late = judged[active.id].verdict is Verdict.FRESH
        if late and active is not None:
            answer = self._late(writer, active, entry, born)
        else:
            answer = self._activate(writer, active, entry, born)
        if put.op is not None:
            writer.put_answer(put.method, put.op, Answered(position, msgspec.json.encode(answer)))
        return answer

    def _check(self, writer: Writer, active: Entry | None) -> None:
        put = self._put
        stands = active.version if active else 0
        if put.based_on is not None and put.based_on != stands:
            raise errors.EntryConflict(
                f"{put.id.key[:80]!r} stands at version {stands}, not {put.based_on}",
                "get it again, then put on top of what stands",
                version=stands,
            )
        if active is None and writer.count("entries") >= MAX_ENTRIES:
            raise errors.LimitExceeded(f"{MAX_ENTRIES} entries are kept", "forget some")
        below = [EntryId(put.id.scope, dep.name.decode()) for dep, _ in put.deps or () if dep.kind is Kind.ENTRY]
        if not below or (put.id not in below and not writer.on_entry(put.id)):
            return  # who is nobody's ground closes no cycle

        def deeper(entry_id: EntryId) -> list[EntryId]:
            there = writer.entry(entry_id)
            return there.entry_ids() if there else []

        if reaches(below, put.id, deeper):
            raise errors.DependencyCycle(
                f"{put.id.key[:80]!r} would rest on itself", "leave out the entry: that leads back"
            )

    def _entry(self, writer: Writer, position: int) -> Entry:
        put = self._put
        deps = None if put.deps is None else tuple(self._kept(writer, dep, digest) for dep, digest in put.deps)
        return Entry(
            id=put.id,
            version=position,
            renewed=position,
            clock=put.clock,
            deps=deps,
            at=writer.now,
            identity=put.identity,
            session=put.session,
            turn=put.turn,
        )

    def _kept(self, writer: Writer, dep: Dependency, digest: str | None) -> Kept:
        if dep.kind is Kind.OBJECT:
            return Kept(dep)
        if dep.kind is Kind.ENTRY:
            return Kept(dep, version=self._version(writer, dep, digest))
        found = self._found.get(_reading(dep, digest))
        if digest is None and self._put.as_of_put and found is not None:
            digest = found.digest
        signature = found.signature if found is not None and digest is not None and found.digest == digest else None
        return Kept(dep, digest, real=self._reals.get(base(dep)), signature=signature)

    def _version(self, writer: Writer, dep: Dependency, digest: str | None) -> int | None:
        """The version that stood at the put's clock: 0 where it was another than now, None where nobody knows."""
        if digest is not None:
            return int(digest.removeprefix("version:"))
        since = self._put.since
        if since is None or not since.exact:
            return None
        there = writer.entry(EntryId(self._put.id.scope, dep.name.decode()))
        return there.version if there is not None and there.version <= since.position else 0

    def _record(self, writer: Writer, event: records.EntryEvent, version: int, superseded: int | None) -> None:
        put = self._put
        op = b"" if put.op is None else writer.op_key(put.method, put.op)
        writer.append(
            records.EntryChange(
                writer.now, event, put.id.scope, put.id.key, version, superseded, put.session, put.turn, op
            )
        )

    def _late(self, writer: Writer, active: Entry, entry: Entry, born: Judgement) -> dict[str, Any]:
        self._record(writer, records.EntryEvent.LATE, active.version, None)
        archived = msgspec.structs.replace(entry, standing=Standing.REVOKED)
        writer.archive(archived, "late", self._put.stored)
        answer = self._answer(active.version, archived, born)
        return answer | {"late": True, "stands": {"version": active.version, "verdict": str(Verdict.FRESH)}}

    def _activate(self, writer: Writer, active: Entry | None, entry: Entry, born: Judgement) -> dict[str, Any]:
        put = self._put
        members = {
            index: found.members
            for index, kept in enumerate(entry.deps or ())
            if kept.digest is not None
            and (found := self._found.get(_reading(kept.dep, kept.digest)))
            and found.digest == kept.digest
            and found.members is not None
        }
        if active is not None and put.identity and active.identity == put.identity:
            self._record(writer, records.EntryEvent.SUPPORTED, active.version, None)
            entry = msgspec.structs.replace(
                entry, version=active.version, supports=active.supports + 1, conflicts=active.conflicts
            )
            writer.put_entry(entry, put.stored, members)
            return self._answer(entry.version, entry, born)
        superseded = active.version if active else None
        self._record(writer, records.EntryEvent.PUT, entry.version, superseded)
        if active is not None:
            old = msgspec.structs.replace(active, standing=Standing.REVOKED)
            writer.archive(old, "superseded", writer.stored(active.id))
        writer.put_entry(entry, put.stored, members)
        answer = self._answer(entry.version, entry, born)
        return answer if superseded is None else answer | {"superseded": superseded}

    def _answer(self, version: int, entry: Entry, born: Judgement) -> dict[str, Any]:
        judged = msgspec.structs.replace(born, entry=entry)
        deps = entry.deps or ()
        absent = [k for k in deps if k.dep.kind in PATH_KINDS and self._is_absent(k)]
        unproven = [
            k
            for k in deps
            if (k.dep.kind in PATH_KINDS and k.digest is None) or (k.dep.kind is Kind.ENTRY and k.version is None)
        ]
        token = self._clocks.token(entry.renewed)
        return {
            "key": entry.id.key,
            "version": version,
            "absent": [records.wire_name(k.dep.text) for k in absent],
            "unproven": [records.wire_name(k.dep.text) for k in unproven],
            "verdict": evidence.to_wire(judged, clock=token, mutation=lambda _: None, key=entry.id.key),
        }

    def _is_absent(self, kept: Kept) -> bool:
        found = self._found.get(_reading(kept.dep, kept.digest))
        return kept.digest == ABSENT or (found is not None and found.digest == ABSENT)


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
        found = self._answer.findings.found.get(_reading(kept.dep, kept.digest))
        signature = found.signature if found is not None else kept.signature
        return msgspec.structs.replace(kept, signature=signature)


def _reading(dep: Dependency, digest: str | None) -> Reading:
    return Reading(dep.kind, dep.name, algorithm_of(digest))


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
