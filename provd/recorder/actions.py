"""Actions: what agents declare before and after they change something.

Rule: a begin is durable before it is answered (write-ahead), and covers all it names until it ends. A refused
begin makes its objects a gap, since the agent may go on all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import msgspec

from provd.clocks import Clocks
from provd.core import errors, evidence, params, records
from provd.core.dependency import PATH_KINDS, Kind, base
from provd.core.entry import EntryId
from provd.core.facts import Question
from provd.core.records import ActionEvent, Outcome
from provd.core.verdict import Fault, Judgement, Judgements, Proof, Verdict
from provd.inquiry import Findings, Inquiry, Unread, settle_again
from provd.recorder import retries
from provd.recorder.held import BARRIER, Held
from provd.recorder.unwritten import Unwritten
from provd.resolver import Resolver
from provd.store import Store, Writer
from provd.store.keys import Answered, OpenAction
from provd.watching import Watching

MAX_AFFECTED: Final = 10_000
"""Entries counted as affected; more are told as `more`."""
_KEYS_TOLD: Final = 100
_PATIENCE: Final = 2.0
_ATTEMPTS: Final = 16
GRACE: Final = 10.0
"""Seconds from the start on in which an action that was held before can be taken over."""
NOBODY: Final = 0
"""The holder of what nobody holds: connections are numbered from 1 on."""


class Begin(msgspec.Struct, frozen=True):
    """A begin (or a record of what is done) as it was asked for.

    `paths` are literal and real, `leaves` those of them at which no directory is, `asked` what a retry says again.
    """

    method: str
    writes: tuple[bytes, ...]
    objects: tuple[bytes, ...]
    paths: tuple[bytes, ...]
    guards: tuple[EntryId, ...]
    hold: bool
    outcome: Outcome | None
    session: str | None
    turn: int | str | None
    note: str | None
    op: str | None
    holder: int
    foreign: bool
    asked: bytes = b""
    leaves: frozenset[bytes] = frozenset()

    @property
    def about(self) -> bytes:
        """What an `op` is unique within: with other writes or guards, or in another session, it is another one."""
        guards = [part for guard in self.guards for part in (guard.scope, guard.key.encode())]
        session = (self.session or "").encode()
        return b"\0".join((self.method.encode(), session, *self.objects, b"", *self.paths, b"", *guards))


class _Refused(msgspec.Struct, frozen=True):
    verdicts: dict[str, Any]
    seq: int


class _Begun(msgspec.Struct, frozen=True):
    id: int
    answer: Any


class Actions:
    """Begins, records and ends actions. `holder` is the number of a connection.

    Who holds an action is decided inside the transaction, where begins, retries and ends have one order.
    """

    def __init__(self, store: Store, inquiry: Inquiry, resolver: Resolver, clocks: Clocks, watch: Watching) -> None:
        self._store = store
        self._watch = watch
        self._inquiry = inquiry
        self._resolver = resolver
        self._clocks = clocks
        self.unwritten = Unwritten(store)
        self._held = Held(store, watch)
        self.stopping = False
        """Whether connections close because the daemon ends: then what may be taken over waits for the next run."""

    async def begin(self, asked: params.ActionBegin | params.ActionRecord, *, holder: int, foreign: bool) -> Any:
        """`action.begin`, `action.record`; raises ActionStale, DependencyMalformed and what does not parse."""
        try:
            result = await self._begun(asked, holder=holder, foreign=foreign)
        except Exception as e:
            await self.unwritten.refused(asked.writes, method_of(asked), e)
            raise
        if isinstance(result, _Refused):
            raise errors.ActionStale(
                "not every entry of if_usable is usable: nothing was begun, and its objects are unknown since",
                "look again, put the entries anew, then begin",
                verdicts=result.verdicts,
                seq=result.seq,
            )
        assert isinstance(result, _Begun)
        return result.answer

    async def _begun(
        self, asked: params.ActionBegin | params.ActionRecord, *, holder: int, foreign: bool
    ) -> _Begun | _Refused:
        begin = await self._request(asked, holder=holder, foreign=foreign)
        findings = Findings()
        if begin.paths:  # what happened before it began is not its doing
            await self._watch.recorded(BARRIER)
        left = _ATTEMPTS
        while True:
            command = _Begin(begin, findings, self._clocks, last=left == 0)
            result: _Begun | _Refused | Unread = await self._store.submit(command)
            if not isinstance(result, Unread):
                return result
            left -= 1
            findings = await self._inquiry.reread(result, Question(foreign=foreign), _PATIENCE)

    async def _request(self, asked: params.ActionBegin | params.ActionRecord, *, holder: int, foreign: bool) -> Begin:
        place = await self._resolver.place(asked.root, asked.scope, foreign=foreign)
        deps = [dep for dep, _ in await self._resolver.dependencies(asked.writes, place.root)]
        if sum(len(dep.name) for dep in deps) > params.MAX_WRITES:
            raise errors.LimitExceeded("the writes are over 1 MiB", "name the directory above them")
        if any(dep.kind is Kind.ENTRY for dep in deps):
            raise errors.DependencyMalformed("an action writes objects and paths, not entries", "put the entry instead")
        if len((asked.note or "").encode()) > params.MAX_NOTE:
            raise errors.LimitExceeded("the note is over 64 KiB", "keep a path to it instead")
        keys = [params.key(key) for key in asked.if_usable or ()]
        reals = {} if foreign else await self._resolver.real_bases(deps)
        bases = {base(dep) for dep in deps if dep.kind in PATH_KINDS}
        paths = bases | {reals[b] for b in bases if b in reals}
        leaves = await self._resolver.leaves({*reals, *reals.values()})  # what did not answer is not asked again
        outcome = Outcome(asked.outcome) if isinstance(asked, params.ActionRecord) else None
        return Begin(
            method=method_of(asked),
            writes=tuple(dep.text for dep in deps),
            objects=tuple(sorted({dep.name for dep in deps if dep.kind is Kind.OBJECT})),
            paths=tuple(sorted(paths)),
            guards=tuple(EntryId(place.need_scope(), key) for key in keys),
            hold=not isinstance(asked, params.ActionRecord) and asked.hold,
            outcome=outcome,
            session=asked.session,
            turn=asked.turn,
            note=asked.note,
            op=asked.op,
            holder=holder,
            foreign=foreign,
            asked=retries.digest(sorted((dep.kind, dep.name) for dep in deps), outcome),
            leaves=leaves,
        )

    async def end(self, asked: params.ActionEnd) -> Any:
        """`action.end`; raises ActionUnknown."""
        outcome = Outcome(asked.outcome)
        await self._watch.recorded(BARRIER)  # what happened until now may be its doing
        seq = await self._store.submit(lambda writer: end(writer, asked.id, outcome))
        return {"id": asked.id, "clock": self._clocks.token(seq)}

    def listed(self) -> dict[str, Any]:
        """`action.list`: the open actions, oldest first."""
        with self._store.view() as view:
            return {"actions": [action_wire(action) for action in view.actions()]}

    def close(self) -> None:
        """Ends what is done beside the requests; what is not recorded by then is told by the gap of the next run."""
        self.unwritten.close()

    def closed(self, holder: int) -> None:
        """A connection closed: what it holds has failed."""
        command = partial(part_held if self.stopping else end_held, holder=holder)
        self._held.let_go(holder, command)

    async def wait_for_holders(self) -> None:
        """What was held when the daemon ended has failed, if nobody takes it over soon."""
        if self._held.holds(NOBODY):
            await asyncio.sleep(GRACE)
            await self._held.let_go(NOBODY, partial(end_held, holder=NOBODY))


def method_of(asked: params.ActionBegin | params.ActionRecord) -> str:
    """The method that was called."""
    return "action.record" if isinstance(asked, params.ActionRecord) else "action.begin"


def action_wire(action: OpenAction) -> dict[str, Any]:
    """An open action as the wire has it; `at` in nanoseconds."""
    told = {"id": action.id, "at": str(action.at), "writes": [records.wire_name(w) for w in action.writes]}
    told["paths"] = [records.wire_name(p) for p in action.paths]
    told["hold"] = action.hold
    if action.hold and action.holder == NOBODY:  # of an earlier run of the daemon
        told["waiting"] = True
    extra = {"session": action.session, "turn": action.turn, "note": action.note}
    return told | {name: value for name, value in extra.items() if value is not None}


def _restless() -> Judgement:
    fault = Fault(Verdict.UNKNOWN, "moving", Proof.CONTENT, detail="it was put again each time it was judged")
    return Judgement(Verdict.UNKNOWN, "moving", Proof.CONTENT, None, (fault,))


class _Begin:
    """One begin, inside its transaction."""

    def __init__(self, begin: Begin, findings: Findings, clocks: Clocks, *, last: bool) -> None:
        self._begin = begin
        self._last = last
        self._findings = findings
        self._clocks = clocks

    def __call__(self, writer: Writer) -> Any:
        begin = self._begin
        if answered := retries.first(writer, begin, "nothing was declared", retries.ANOTHER):
            there = writer.action(answered.position)
            if begin.hold and there is not None:  # a retry over another connection takes it over
                writer.put_action(msgspec.structs.replace(there, hold=True, holder=begin.holder))
            if begin.outcome is None and there is None:  # who goes on to write is to know that nothing covers it
                return _Begun(answered.position, msgspec.json.decode(answered.answer) | {"ended": True})
            return _Begun(answered.position, msgspec.Raw(answered.answer))
        if begin.guards:
            targets = {i: writer.entry_or_ruin(i) for i in begin.guards}
            judged = settle_again(writer, targets, Question(foreign=begin.foreign), self._findings)
            if isinstance(judged, Unread):
                if not self._last:
                    return judged
                judged = dict.fromkeys(targets, _restless())
            if not all(judgement.usable for judgement in judged.values()):
                return self._refuse(writer, judged)
        seq = writer.head() + 1
        event = ActionEvent.BEGIN if begin.outcome is None else ActionEvent.RECORD
        writer.append(self._record(writer, event, seq))
        if begin.outcome is None:
            _open(writer, begin, seq)
        else:
            _written(writer, begin.objects, begin.paths, action=seq, at=seq)
        answer = {"id": seq, "seq": seq, "clock": self._clocks.token(seq), "affects": affects(writer, begin)}
        if begin.op is not None:
            writer.put_answer(begin.about, begin.op, Answered(seq, msgspec.json.encode(answer), begin.asked))
        return _Begun(seq, answer)

    def _record(self, writer: Writer, event: ActionEvent, seq: int) -> records.Action:
        begin = self._begin
        op = b"" if begin.op is None else writer.op_key(begin.about, begin.op)
        return records.Action(
            writer.now,
            event,
            seq,
            begin.writes,
            begin.outcome,
            *(begin.session, begin.turn, begin.note),
            op,
            begin.objects,
            begin.paths,
        )

    def _refuse(self, writer: Writer, judged: Judgements) -> _Refused:
        seq = writer.append(self._record(writer, ActionEvent.REFUSED, writer.head() + 1))
        for name in self._begin.objects:
            writer.put_object(msgspec.structs.replace(writer.object_state(name), refused=seq))
        token = self._clocks.token(seq)
        return _Refused(
            {
                entry_id.key: evidence.to_wire(judgement, clock=token, mutation=lambda _: None, key=entry_id.key)
                for entry_id, judgement in judged.items()
            },
            seq,
        )


def _open(writer: Writer, begin: Begin, seq: int) -> None:
    for name in begin.objects:
        state = writer.object_state(name)
        writer.put_object(msgspec.structs.replace(state, open=(*state.open, seq)))
    for path in begin.paths:
        there = writer.path_state(path)
        writer.put_path(msgspec.structs.replace(there, open=(*there.open, seq)))
    action = OpenAction(
        seq,
        writer.now,
        begin.writes,
        begin.objects,
        begin.paths,
        begin.hold,
        begin.session,
        begin.turn,
        begin.note,
        begin.holder if begin.hold else NOBODY,
        b"" if begin.op is None else writer.op_key(begin.about, begin.op),
    )
    writer.put_action(action)


def _written(writer: Writer, objects: Iterable[bytes], paths: Iterable[bytes], *, action: int, at: int) -> None:
    """The interval of a write ended at position `at`."""
    for name in objects:
        writer.put_object(msgspec.structs.replace(writer.object_state(name), last_end=at, last_action=action))
    for path in paths:
        writer.put_path(msgspec.structs.replace(writer.path_state(path), last_end=at, last_action=action))


def end(writer: Writer, action_id: int, outcome: Outcome) -> int:
    """Ends an open action and returns the position of its end; raises ActionUnknown."""
    action = writer.action(action_id)
    if action is None:
        raise errors.ActionUnknown(f"no open action has the id {action_id}", "provd action ls  # the open ones")
    seq = writer.append(
        records.Action(
            writer.now,
            ActionEvent.END,
            action_id,
            (),
            outcome,
            action.session,
            action.turn,
            objects=action.objects,
            paths=action.paths,
        )
    )
    for name in action.objects:
        state = writer.object_state(name)
        writer.put_object(msgspec.structs.replace(state, open=tuple(i for i in state.open if i != action_id)))
    for path in action.paths:
        there = writer.path_state(path)
        writer.put_path(msgspec.structs.replace(there, open=tuple(i for i in there.open if i != action_id)))
    if outcome is not Outcome.ABORTED:
        _written(writer, action.objects, action.paths, action=action_id, at=seq)
    writer.delete_action(action_id)
    return seq


def end_held(writer: Writer, holder: int) -> None:
    """Ends as failed what the connection `holder` holds.

    A begin that ended so is forgotten: who tries it again begins anew.
    """
    for action in writer.actions():
        if action.hold and action.holder == holder:
            end(writer, action.id, Outcome.FAILED)
            if action.op:
                writer.drop_answer(action.op)


def part_held(writer: Writer, holder: int | None = None) -> None:
    """Parts the daemon from the connection `holder`, or with None from all: it ends, or began anew.

    Who holds an action may still be at it. One that began with an `op` can be taken over, and stays open for that: a
    write that comes after somebody looked at the object again would else be nobody's. Any other has failed.
    """
    for action in writer.actions():
        if not action.hold or holder not in {None, action.holder}:
            continue
        if action.op:
            writer.put_action(msgspec.structs.replace(action, holder=NOBODY))
        else:
            end(writer, action.id, Outcome.FAILED)


def affects(writer: Writer, begin: Begin) -> dict[str, Any]:
    """The entries that the writes could invalidate, with all that rests on them."""
    touched = writer.touched(begin.objects, begin.paths, MAX_AFFECTED, leaves=begin.leaves)
    told: dict[str, Any] = {"count": len(touched), "keys": [i.key for i in touched[:_KEYS_TOLD]]}
    if len(touched) == MAX_AFFECTED:
        told["more"] = True
    return told
