"""What the log has of one entry: its puts, the records that concern what it rests on, and since when it is dirty.

Rule: a story that the log does not hold whole has reasons, which are told. What the records do not show is not said:
"the first change", not "the cause".
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from provd.cli.given import names
from provd.cli.screens.concern import Dependency, Differing, Ground, path_of, root_of
from provd.cli.words import causes, records, verdicts
from provd.client import local_path

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

SHOWN: Final = 50
"""Records that the story names, the newest."""
_LOGGED: Final = "xxh3:"
"""The algorithm of the log's own digests."""
_PUTS: Final = 5
"""Earlier records of the entry itself that are named."""
_NOBODY: Final = {"unknown": True}
_CONTENT: Final = frozenset({"changed", "created", "deleted", "type-changed", "listing-changed"})


@dataclass
class Event:
    """One record of the story, and the digest that was known of its path before; `via`: what led to it.

    `declared` is the action that named the path afterwards, of a mutation that is nobody's by its own record.
    """

    record: Json
    known: str | None = None
    via: str = ""
    declared: Json | None = None

    @property
    def seq(self) -> int:
        """The number of its record; 0 where it has none."""
        return int(self.record.get("seq") or 0)

    @property
    def same(self) -> bool:
        """Whether it left the content as it was known before."""
        return self.known is not None and self.record.get("digest") == self.known

    @property
    def anonymous(self) -> bool:
        """Whether it is a mutation of which the record does not say who made it."""
        return self.record.get("type") == "mutation" and (self.record.get("actor") or _NOBODY) == _NOBODY


class Turn:
    """Since when what an entry rests on is another than it was: the first record that changed what is at fault."""

    def __init__(self, answer: Json) -> None:
        faults = {
            verdicts.dependency(item)
            for item in answer.get("evidence") or []
            if str(item.get("why")) in causes.DIRTYING
        }
        deps = [item for item in answer.get("deps") or [] if verdicts.dependency(item) in faults]
        self._differing = Differing(answer.get("evidence") or [], root_of(answer))
        others = [item for item in deps if names.named(item) not in self._differing.told]
        self._others = Ground(answer | {"deps": others})
        self.ground = Ground(answer | {"deps": deps})
        self._shown = {d["digest"] for d in deps if d.get("kept") == "shown" and d.get("digest")}
        self._since: dict[bytes, Event] = {}
        self._newest: dict[bytes, Event] = {}
        self._at_put: dict[bytes, str | None] = {}  # the log's digests of when it was put, of what changed since
        self._restored: set[bytes] = set()
        self._undone: set[bytes] = set()

    def take(self, event: Event, position: int) -> None:
        """Takes a record that concerns the entry, in the log's order; `position` is that of its put."""
        record = event.record
        if record.get("type") == "mutation":
            passing = self._differing.passes_by(record) and not self._others.names(record)
            if self.ground.bases and record.get("kind") != "attrib" and self.ground.touched(record) and not passing:
                place = self._place(record)
                told = event.seq >= position and record.get("kind") != "moved"  # of what moved the source is known
                self._at_put.setdefault(place, event.known if told else None)
                self._newest[place] = event
                self._judge(event)
        elif record.get("type") != "gap" and self.ground.told(record):
            self._since.setdefault(b"", event)

    def hashed(self, event: Event) -> None:
        """Takes what was learnt of a mutation's digest later."""
        if self._newest.get(self._place(event.record)) is event:
            self._judge(event)

    def moment(self) -> Event | None:
        """The record since which it is dirty; None where no record tells."""
        return min(self._since.values(), key=lambda event: event.seq, default=None)

    def sure(self, event: Event) -> bool:
        """Whether what it rests on was shown to be in order just before that record."""
        place = self._place(event.record)
        return place in self._restored or self.ground.digests.get(place) in self._shown

    def undone(self, event: Event) -> bool:
        """Whether what it changes had changed before that since the put, and was put back."""
        return self._place(event.record) in self._undone

    def _judge(self, event: Event) -> None:
        place, digest = self._place(event.record), event.record.get("digest")
        kept = self.ground.digests.get(place)
        if digest is not None and digest in {kept, self._at_put.get(place)}:
            if self._since.pop(place, event) is not event:
                self._undone.add(place)
            if digest == kept:
                self._restored.add(place)
        elif event.same:
            if self._since.get(place) is event:
                del self._since[place]
        else:
            self._since.setdefault(place, event)

    def _place(self, record: Json) -> bytes:
        named = records.places(record)
        return next((path for path in named if path in self.ground.digests), named[0] if named else b"")


class Story:
    """What the log has of an entry since its clock: the newest records, and why it may not be all."""

    def __init__(self, answer: Json) -> None:
        self.ground = Ground(answer)
        self.turn = Turn(answer)
        self.count = 0
        self.reasons: dict[str, None] = {}
        """Why the log may not have all, beside gaps."""
        self.gaps: dict[str, dict[str, None]] = {}
        """The reasons of gaps, by what each is for."""
        self.own: deque[Event] = deque(maxlen=_PUTS)
        """The newest records of the entry itself."""
        self.own_count = 0
        self.followed = False
        """Whether the log was asked for what concerns it."""
        self.unwatched: set[str] = set()
        """Dependencies of whose place the log has nothing, since it is not watched."""
        self.before: Event | None = None
        """The newest change, before the put, of what is dirty though nothing touched it since."""
        self.proven_later = False
        """Whether it was proven after it was put."""
        self._position = 0
        self._newest: Event | None = None
        self._answer = answer
        self._events: deque[Event] = deque(maxlen=SHOWN)
        self._others: deque[Event] = deque(maxlen=SHOWN)  # the records of objects and entries, read apart
        self._led: list[Event] = []
        self._below: dict[str, int] = {}  # the newest record that touched what an entry below rests on
        self._digests = self.ground.digests
        self._mutations: dict[Any, Event] = {}
        self._newest_of: dict[bytes, Event] = {}
        self.declared: dict[Any, Json] = {}
        """The actions that were declared afterwards, by the number of the mutation that each explains."""
        self._past: dict[bytes, dict[Any, str | None]] = {}  # digests by path and number, of the newest of the log

    def take(self, record: Json) -> None:
        """Takes a record that the daemon found to be about the paths rested on."""
        if record.get("type") == "hashed":
            self._hashed(record)
        elif self.ground.touched(record):
            event = Event(record)
            if record.get("type") == "mutation":
                self._mutation(event)
            self._gap(record)
            self._attribute(event)
            self.turn.take(event, self.position)
            self._events.append(event)
            self.count += 1

    def take_other(self, record: Json) -> None:
        """Takes a record of the whole log: what it says of objects and entries rested on."""
        if not self.ground.told(record) or (record.get("type") == "gap" and self.ground.bases):
            return
        self._gap(record)
        event = Event(record)
        self.turn.take(event, self.position)
        self._others.append(event)
        self.count += 1

    def take_own(self, record: Json) -> None:
        """Takes a record of the newest of the log: what it says of the entry itself, and of what was dirty at birth."""
        if record.get("type") == "entry":
            place = {word: record[word] for word in ("root", "scope") if word in record}
            mine = {word: self._answer[word] for word in place if self._answer.get(word) is not None}
            if record.get("key") == self._answer.get("key") and place == mine:
                self._mine(Event(record))
        elif record.get("type") == "mutation" and record.get("kind") != "attrib":
            if self.turn.ground.names(record):
                self._newest = Event(record)
            if self.ground.names(record):
                self._past.setdefault(records.places(record)[0], {})[record.get("seq")] = record.get("digest")
        elif record.get("type") == "hashed":
            past = self._past.get(local_path(record["path"]), {})
            if record.get("of") in past:
                past[record["of"]] = record.get("digest")
            for event in (self._newest, self.before, *self._led):
                if event is not None and event.seq == record.get("of"):
                    records.fill(event.record, record)

    def _mine(self, event: Event) -> None:
        self.own.append(event)
        self.own_count += 1
        if event.record.get("at") == self._answer.get("at"):
            self._position, self.before, self.proven_later = event.seq, self._newest, False
        elif event.record.get("event") == "revalidated":
            self.proven_later = True

    def lead(self, record: Json, dep: str, via: str) -> None:
        """Takes a record that touched what the entry at `via` rests on, and so made the dependency `dep` dirty."""
        event = Event(record, via=via)
        self._led.append(event)
        self._below[dep] = max(event.seq, self._below.get(dep, 0))

    @property
    def position(self) -> int:
        """Where between the records it was put as it is: at the newest support of its version, else at that.

        What was imported has its place where it came.
        """
        if self.imported and isinstance(record := self._answer.get("record"), int):
            return record
        version = self._answer.get("version")
        return self._position or (version if isinstance(version, int) else 0)

    @property
    def imported(self) -> bool:
        """Whether it came with an import: what it rests on was read where it was put."""
        return bool(self._answer.get("imported"))

    def newest(self) -> list[Event]:
        """The newest records of all, in order, each once."""
        found = {event.seq: event for event in (*self._led, *self._events, *self._others)}
        return sorted(found.values(), key=lambda event: event.seq)[-SHOWN:]

    def earlier(self) -> int:
        """How many records since its clock are not among the newest."""
        seqs = {event.seq for event in (*self._events, *self._others)}
        twice = len(self._events) + len(self._others) - len(seqs)
        led = {event.seq for event in self._led} - seqs
        return max(0, self.count - twice + len(led) - len(self.newest()))

    def born(self) -> list[str]:
        """What was dirty before the entry was put: it differs, and no record since its clock touched it."""
        return [verdicts.dependency(item) for item in self._born()]

    def _born(self) -> list[Json]:
        if self.turn.moment() is not None:
            return []
        return [item for item in self._answer.get("evidence") or [] if item.get("why") in _CONTENT]

    def bases_born(self) -> Iterator[tuple[str, bytes]]:
        """The paths of those, where they are known, by their names."""
        for item in self._born():
            if (there := path_of(item, root_of(self._answer))) is not None:
                yield verdicts.dependency(item), Dependency(*there).base

    def missing(self) -> list[str]:
        """Why the log may not have all that happened."""
        return [*self.reasons, *(f"{scope}: {', '.join(reasons)}" for scope, reasons in self.gaps.items())]

    @property
    def whole(self) -> bool:
        """Whether the log has all that happened to what it rests on since it was put."""
        return self.followed and bool(self._position) and not self.missing() and not self.proven_later

    def born_below(self) -> list[str]:
        """The entries that were dirty before this one was put: nothing below them was touched since."""
        return [dep for dep, seq in self._below.items() if seq < self.position]

    def _mutation(self, event: Event) -> None:
        record = event.record
        paths = records.places(record)
        event.known = self._digests.pop(paths[-1], None) if len(paths) > 1 else self._before(paths[0], event.seq)
        if known := record.get("digest") or event.known:
            self._digests[paths[0]] = known
        if record.get("digest_state") == "pending":
            self._mutations[record.get("seq")] = event

    def _attribute(self, event: Event) -> None:
        """An action that was declared afterwards takes the newest mutation of each path that it names."""
        record = event.record
        if record.get("type") == "mutation":
            for path in records.places(record):
                self._newest_of[path] = event
        elif record.get("type") == "action" and record.get("event") == "record":
            for path in records.places(record):
                mutation = self._newest_of.get(path)
                if mutation is not None and mutation.anonymous and mutation.declared is None:
                    mutation.declared = self.declared[mutation.seq] = record

    def _before(self, path: bytes, seq: int) -> str | None:
        """The digest of a file before a record: as that record would tell it, where the log has one."""
        known = self._digests.get(path)
        if known is not None and known.startswith(_LOGGED):
            return known
        past = [digest for number, digest in self._past.get(path, {}).items() if number < seq]
        return (past[-1] if past else None) or known

    def _hashed(self, record: Json) -> None:
        """The digest of a mutation, found later: shown with it, and known from then on."""
        event = self._mutations.pop(record.get("of"), None)
        if event is not None:
            records.fill(event.record, record)
            if record.get("digest"):
                self._digests[local_path(record["path"])] = record["digest"]
            self.turn.hashed(event)

    def _gap(self, record: Json) -> None:
        if record.get("type") == "gap":
            reasons = self.gaps.setdefault(records.display(record.get("scope")), {})
            reasons[str(record.get("reason"))] = None
