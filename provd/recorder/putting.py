"""One put, inside its transaction.

Rule: what a value was made from is what the client read, never what is there when it is put. An older truth
never displaces one that is fresh.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from provd.clocks import Clocks
from provd.core import errors, evidence, records
from provd.core.clock import Since
from provd.core.cycles import reaches
from provd.core.dependency import ABSENT, PATH_KINDS, Dependency, Kind, algorithm_of, base
from provd.core.entry import Entry, EntryId, Kept, Standing
from provd.core.facts import Question
from provd.core.reading import Reading
from provd.core.verdict import Fault, Judgement, Verdict
from provd.inquiry import Findings, Unread, settle_again
from provd.quoting import quoted
from provd.recorder import retries
from provd.showing import Shown
from provd.store import Writer
from provd.store.keys import Answered, Stored
from provd.witness import newest_record

MAX_ENTRIES: Final = 10_000_000
MAX_TOLD: Final = 1000
"""Dependencies named in an answer as absent or unproven; more are counted."""


class Put(msgspec.Struct, frozen=True):
    """A put as it was asked for. `clock` is the position that `fetched_at` says, else that at which it came.

    `asked` is what a retry with its `op` must say again (`retries.digest`).
    """

    id: EntryId
    deps: tuple[tuple[Dependency, str | None], ...] | None
    clock: int
    since: Since | None
    as_of_put: bool
    stored: Stored
    identity: bytes
    based_on: int | None
    based_on_record: int | None
    session: str | None
    turn: int | str | None
    op: str | None
    asked: bytes
    foreign: bool
    method: str

    @property
    def about(self) -> bytes:
        """What an `op` is unique within: an `op` that is used again for another key is another one."""
        return b"\0".join((self.method.encode(), self.id.scope, self.id.key.encode()))


class Ground(msgspec.Struct, frozen=True):
    """What the new entry rests on must be read first."""

    unread: Unread


class InTheWay(msgspec.Struct, frozen=True):
    """What the active entry rests on, which stands in the way, must be read first."""

    unread: Unread


class Apply:
    """One put, inside its transaction."""

    def __init__(
        self,
        put: Put,
        first: Findings,
        own: Findings,
        standing: Findings,
        reals: Mapping[bytes, bytes],
        shown: Shown,
        began: int,
        clocks: Clocks,
    ) -> None:
        self._put = put
        self._shown = shown
        self._began = began  # a position before anything was read
        self._own = own  # of one moment, with all that the entry rests on: only by this it is judged
        self._found = {**first.found, **own.found}  # what the put's own dependencies are made of
        self._standing = standing
        self._reals = reals
        self._clocks = clocks

    def __call__(self, writer: Writer) -> Any:
        put = self._put
        again = f"provd get {quoted(put.id.key)}  # what it put; for anything else another op"
        first = retries.first(writer, put, "nothing was put", again)
        active = writer.entry(put.id)
        if first:
            return _as_it_stands(msgspec.json.decode(first.answer), active)
        self._check(writer, active)
        position = writer.head() + 1
        entry = self._entry(writer, position)
        question = Question(foreign=put.foreign)
        judged = settle_again(writer, {put.id: entry}, question, self._own, new=put.id)
        if isinstance(judged, Unread):
            return Ground(judged)
        born = judged[put.id]
        entry = msgspec.structs.replace(entry, born=str(born.verdict))
        late = False
        if active is not None and (born.verdict is not Verdict.FRESH or put.clock < active.clock):
            judged = settle_again(writer, {active.id: active}, Question(), self._standing)
            if isinstance(judged, Unread):
                return InTheWay(judged)
            late = judged[active.id].verdict is Verdict.FRESH
        if late and active is not None:
            answer = self._late(writer, active, entry, born)
        else:
            answer = self._activate(writer, active, entry, born)
        if put.op is not None:
            writer.put_answer(put.about, put.op, Answered(position, msgspec.json.encode(answer), put.asked))
        return answer

    def _check(self, writer: Writer, active: Entry | None) -> None:
        put = self._put
        stands = active.version if active else 0
        if active is None and (put.based_on or put.based_on_record):
            said = f"version {put.based_on}" if put.based_on else f"record {put.based_on_record}"
            raise errors.EntryConflict(
                f"there is no entry {put.id.key[:80]!r} to put on top of, at {said} or any other",
                "put it without based_on; based_on: 0 says that there is nothing yet",
                version=0,
                **({"record": 0} if put.based_on_record else {}),
            )
        if put.based_on is not None and put.based_on != stands:
            raise errors.EntryConflict(
                f"{put.id.key[:80]!r} stands at version {stands}, not {put.based_on}",
                "get it again, then put on top of what stands",
                version=stands,
            )
        newest = active.renewed if active else 0
        if put.based_on_record is not None and put.based_on_record != newest:
            raise errors.EntryConflict(
                f"{put.id.key[:80]!r} was changed by record {newest}, after {put.based_on_record}",
                "get it again, then put on top of what stands",
                version=stands,
                record=newest,
            )
        if active is None and writer.count("entries") >= MAX_ENTRIES:
            raise errors.LimitExceeded(f"{MAX_ENTRIES} entries are kept", "forget some")
        need_no_cycle(writer, put.id, [dep for dep, _ in put.deps or ()])

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
        reading = reading_for(dep, digest)
        found = self._found.get(reading)
        real = self._reals.get(base(dep))
        if found is None:
            return Kept(dep, digest, real=real)
        proven = None if found.linked else self._began
        if digest is None and self._put.as_of_put:
            digest = found.digest
        elif digest is None and (shown := self._shown.kept(writer, dep, reading, found)) is not None:
            return msgspec.structs.replace(shown, proven=proven)
        if digest is None or found.digest != digest:
            return Kept(dep, digest, real=real)
        return Kept(dep, digest, real=real, signature=found.signature, proven=proven)

    def _version(self, writer: Writer, dep: Dependency, digest: str | None) -> int | None:
        """The version that stood at the put's clock: 0 where it was another than now, None where nobody knows."""
        if digest is not None:
            return told_version(digest, writer.head())
        since = self._put.since
        if since is None or not since.exact:
            return None
        there = writer.entry(EntryId(self._put.id.scope, dep.name.decode()))
        return there.version if there is not None and there.version <= since.position else 0

    def _record(
        self,
        writer: Writer,
        event: records.EntryEvent,
        version: int,
        superseded: int | None = None,
        *,
        confirmed: bool = False,
    ) -> None:
        put = self._put
        writer.append(
            records.EntryChange(
                writer.now,
                event,
                put.id.scope,
                put.id.key,
                version,
                superseded,
                put.session,
                put.turn,
                b"" if put.op is None else writer.op_key(put.about, put.op),
                confirmed=confirmed,
            )
        )

    def _late(self, writer: Writer, active: Entry, entry: Entry, born: Judgement) -> dict[str, Any]:
        self._record(writer, records.EntryEvent.LATE, active.version)
        archived = msgspec.structs.replace(entry, standing=Standing.REVOKED)
        writer.archive(archived, "late", self._put.stored)
        answer = self._answer(writer, active.version, archived, born)
        return answer | {"late": True, "stands": {"version": active.version, "verdict": str(Verdict.FRESH)}}

    def _activate(self, writer: Writer, active: Entry | None, entry: Entry, born: Judgement) -> dict[str, Any]:
        put = self._put
        members = {
            index: found.members
            for index, kept in enumerate(entry.deps or ())
            if kept.digest is not None
            and (found := self._found.get(reading_for(kept.dep, kept.digest)))
            and found.digest == kept.digest
            and found.members is not None
        }
        if active is not None and put.identity and active.identity == put.identity:
            confirmed = self._confirms(active)
            self._record(writer, records.EntryEvent.SUPPORTED, active.version, confirmed=confirmed)
            entry = msgspec.structs.replace(
                entry,
                version=active.version,
                supports=active.supports + 1,
                conflicts=active.conflicts,
                confirms=active.confirms + confirmed,
            )
            meta = put.stored.meta if put.stored.meta is not None else writer.stored(put.id).meta
            writer.put_entry(entry, Stored(put.stored.value, meta), members)
            return self._answer(writer, entry.version, entry, born)
        superseded = active.version if active else None
        self._record(writer, records.EntryEvent.PUT, entry.version, superseded)
        if active is not None:
            old = msgspec.structs.replace(active, standing=Standing.REVOKED)
            writer.archive(old, "superseded", writer.stored(active.id))
        writer.put_entry(entry, put.stored, members)
        answer = self._answer(writer, entry.version, entry, born)
        return answer if superseded is None else answer | {"superseded": superseded}

    def _confirms(self, active: Entry) -> bool:
        """Whether it says of the active version, by its number, that it still holds, and rests on the same."""
        put = self._put
        if put.based_on is None or (put.deps is None) is not (active.deps is None):
            return False
        return {_what(dep) for dep, _ in put.deps or ()} == {_what(kept.dep) for kept in active.deps or ()}

    def _answer(self, writer: Writer, version: int, entry: Entry, born: Judgement) -> dict[str, Any]:
        judged = msgspec.structs.replace(born, entry=entry, faults=tuple(map(self._explained, born.faults)))
        deps = entry.deps or ()
        absent = [k for k in deps if k.dep.kind in PATH_KINDS and self._is_absent(k)]
        unproven = [
            k
            for k in deps
            if (k.dep.kind in PATH_KINDS and k.digest is None) or (k.dep.kind is Kind.ENTRY and k.version is None)
        ]
        token = self._clocks.token(entry.renewed)
        answer: dict[str, Any] = {
            "key": entry.id.key,
            "version": version,
            "absent": [records.wire_name(k.dep.text) for k in absent[:MAX_TOLD]],
            "unproven": [records.wire_name(k.dep.text) for k in unproven[:MAX_TOLD]],
            "verdict": evidence.to_wire(judged, clock=token, mutation=newest_record(writer, entry), key=entry.id.key),
        }
        for name, listed in (("absent_more", absent), ("unproven_more", unproven)):
            if len(listed) > MAX_TOLD:
                answer[name] = len(listed) - MAX_TOLD
        return answer

    def _explained(self, fault: Fault) -> Fault:
        """What was not proven since it could not be read says so."""
        if fault.why not in {"unproven", "touched"} or fault.dep is None or fault.dep.kind not in PATH_KINDS:
            return fault
        found = self._found.get(reading_for(fault.dep, None))
        if found is None or found.trouble is None:
            spent = self._shown.spent if fault.why == "unproven" else ""
            return msgspec.structs.replace(fault, detail=spent) if spent else fault
        return msgspec.structs.replace(fault, detail=f"{found.trouble}: {found.detail}", paths=found.paths)

    def _is_absent(self, kept: Kept) -> bool:
        found = self._found.get(reading_for(kept.dep, kept.digest))
        return kept.digest == ABSENT or (found is not None and found.digest == ABSENT)


def _as_it_stands(answer: dict[str, Any], active: Entry | None) -> dict[str, Any]:
    """A first answer, and that its version has ended where it is not the one that stands."""
    if active is not None and active.version == answer["version"]:
        return answer
    answer.pop("stands", None)  # of then
    return answer | {"ended": True} | ({} if active is None else {"stands": {"version": active.version}})


def need_no_cycle(writer: Writer, entry_id: EntryId, deps: Iterable[Dependency]) -> None:
    """Raises DependencyCycle where an entry with these dependencies would rest on itself."""
    below = [EntryId(entry_id.scope, dep.name.decode()) for dep in deps if dep.kind is Kind.ENTRY]
    if not below or (entry_id not in below and not writer.on_entry(entry_id)):
        return  # who is nobody's ground closes no cycle

    def deeper(there_id: EntryId) -> list[EntryId]:
        there = writer.entry(there_id)
        return there.entry_ids() if there else []

    if reaches(below, entry_id, deeper):
        raise errors.DependencyCycle(
            f"{entry_id.key[:80]!r} would rest on itself", "leave out the entry: that leads back"
        )


def told_version(digest: str, head: int) -> int:
    """The version that a client says it rests on; raises DependencyMalformed for one that there never was."""
    version = int(digest.removeprefix("version:"))
    if version > head:
        raise errors.DependencyMalformed(f"there is no version {version} yet", "send the version that was told")
    return version


def _what(dep: Dependency) -> tuple[Kind, bytes]:
    """What a dependency names, however it was written."""
    return dep.kind, dep.name


def reading_for(dep: Dependency, digest: str | None) -> Reading:
    """What to read for a dependency that is put with `digest`."""
    return Reading(dep.kind, dep.name, algorithm_of(digest))
