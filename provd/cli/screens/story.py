"""What the log has of one entry: its puts, the records that concern what it rests on, and since when it is dirty.

Rule: a story that the log does not hold whole has reasons, which are told. What the records do not show is not said:
"the first change", not "the cause".
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from provd.cli.screens.birth import CONTENT, comparable
from provd.cli.screens.concern import Dependency, Ground, path_of, root_of
from provd.cli.screens.past import Event, Past
from provd.cli.screens.returns import Returns
from provd.cli.screens.turn import Turn
from provd.cli.words import records, verdicts
from provd.client import local_path

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

SHOWN: Final = 50
"""Records that the story names, the newest."""
_PUTS: Final = 5
"""Earlier records of the entry itself that are named."""


class Story:
    """What the log has of an entry since its clock: the newest records, and why it may not be all."""

    def __init__(self, answer: Json) -> None:
        self.ground = Ground(answer)
        self._past = Past()
        self.turn = Turn(answer, self.ground, self._past)
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
        self._below: dict[str, int] = {}  # since which record an entry below is dirty
        self._unsure: list[str] = []  # the entries below of which that is not known
        self._digests = self.ground.digests
        self._all: list[Json] = []  # the newest of the log, until it is known what they say of moves
        self._mutations: dict[Any, Event] = {}
        self._found: dict[Any, Json] = {}  # digests that the newest of the log has, by the number of the mutation
        self._unclaimed: dict[bytes, deque[Event]] = {}  # the newest of each path since an action named it afterwards
        self.declared: dict[Any, Json] = {}
        """The actions that were declared afterwards, by the number of the mutation that each explains."""

    def take(self, record: Json) -> None:
        """Takes a record that the daemon found to be about the paths rested on."""
        if record.get("type") == "hashed":
            self._hashed(record)
        elif self.ground.touched(record):
            event = Event(record)
            if record.get("digest_state") == "pending" and record.get("seq") in self._found:
                # found by the name that it had, which may not be one of those asked about
                records.fill(record, self._found[record["seq"]])
            if record.get("type") == "mutation":
                self._mutation(event)
            self._gap(record)
            self._attribute(event)
            self._follow()
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
        self._all.append(record)
        if record.get("type") == "entry":
            place = {word: record[word] for word in ("root", "scope") if word in record}
            mine = {word: self._answer[word] for word in place if self._answer.get(word) is not None}
            if record.get("key") == self._answer.get("key") and place == mine:
                self._mine(Event(record))
        elif record.get("type") == "mutation" and record.get("kind") != "attrib":
            if self.turn.ground.names(record):
                self._newest = Event(record)
            if self.ground.names(record):
                self._past.take(record)
        elif record.get("type") == "hashed":
            self._past.hashed(record)
            self._found[record.get("of")] = record
            for event in (self._newest, self.before, *self._led):
                if event is not None and event.seq == record.get("of"):
                    records.fill(event.record, record)

    def _follow(self) -> None:
        """Where what is at fault went with the directories above it: known once all of the newest were taken."""
        if self._all:
            self.turn.returns = Returns(self.turn.members, self.position)
            for record in self._all:
                self.turn.returns.take(record)
            self._all.clear()

    def _mine(self, event: Event) -> None:
        self.own.append(event)
        self.own_count += 1
        if event.record.get("at") == self._answer.get("at"):
            self._position, self.before, self.proven_later = event.seq, self._newest, False
            self.turn.proven = False
        elif event.record.get("event") == "revalidated":
            self.proven_later = self.turn.proven = True

    def lead(self, touched: list[Json], dep: str, via: str, below: Story | None) -> None:
        """Takes what made the entry `via` dirty, and so the dependency `dep`.

        `touched`: the newest records that touched what `via` rests on; `below`: its own story, where that is known.
        """
        told = None if below is None else below.became()
        if told is None:
            declared = {} if below is None else below.declared
            self._led += [
                Event(record, via=via, blamed=False, declared=declared.get(record["seq"]), asked=below is not None)
                for record in touched
            ]
            self._unsure.append(dep)
            return
        seq, event = told
        if event is not None:
            self._led.append(Event(event.record, known=event.known, via=via, declared=event.declared))
        self._below[dep] = min(seq, self._below.get(dep, seq))

    def became(self) -> tuple[int, Event | None] | None:
        """The record since which it is dirty, with the event where that is told; None where the log cannot tell."""
        moment = self.turn.moment()
        if moment is not None:
            return None if self.turn.doubted() or self.turn.unseen() or self.turn.untold() else (moment.seq, moment)
        if not (self._born() and self.whole and not self.imported):
            return None
        return self.position, self.before if self.undone else None

    @property
    def undone(self) -> bool:
        """Whether the change before the put is known to be what made it dirty: what was given was there before it."""
        if self.before is None:
            return False
        place = records.places(self.before.record)[0]
        kept = self.turn.ground.digests.get(place)
        return comparable(kept) and self._past.before(place, self.before.seq) == kept

    @property
    def position(self) -> int:
        """Where between the records it was put as it is: at the newest support of its version, else at that.

        What was imported has its place where it came. Where the log's newest have no such record, it is at the newest
        of the entry's own.
        """
        if self.imported and isinstance(record := self._answer.get("record"), int):
            return record
        told = (self._position, self._answer.get("record"), self._answer.get("version"))
        return next((position for position in told if isinstance(position, int) and position > 0), 0)

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
        if self.turn.fresh_once or self.turn.moment() is not None:
            return []
        return [item for item in self._answer.get("evidence") or [] if item.get("why") in CONTENT]

    def bases_untouched(self) -> Iterator[tuple[str, bytes]]:
        """The paths, where they are known, of what no record since its put explains, by their names."""
        unseen = set(self.turn.unseen()) if self.turn.fresh_once else set(self.born())
        for item in self._answer.get("evidence") or []:
            if verdicts.dependency(item) not in unseen:
                continue
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
        """The entries that were dirty before this one was put."""
        return [dep for dep, seq in self._below.items() if seq < self.position and not self.turn.fresh_once]

    def unsure_below(self) -> list[str]:
        """The entries of which nobody knows whether they were dirty before this one was put."""
        return [dep for dep in dict.fromkeys(self._unsure) if dep not in self.born_below()]

    def _mutation(self, event: Event) -> None:
        record = event.record
        paths = records.places(record)
        event.known = self._digests.pop(paths[-1], None) if len(paths) > 1 else self._before(paths[0], event.seq)
        if known := record.get("digest") or event.known:
            self._digests[paths[0]] = known
        if record.get("digest_state") == "pending":
            self._mutations[record.get("seq")] = event

    def _attribute(self, event: Event) -> None:
        """An action that was declared afterwards takes the newest mutation of each path that it names.

        One that says while what its paths were seen to change takes all of them since that began, but for those that
        another one may have meant: whatever was there when that named the path.
        """
        record = event.record
        if record.get("type") == "mutation":
            for path in records.places(record):
                self._unclaimed.setdefault(path, deque(maxlen=SHOWN)).append(event)
        elif record.get("type") == "action" and record.get("event") == "record":
            begun = records.seen_since(record)
            for path in records.places(record):
                mutations = self._unclaimed.pop(path, deque())
                for mutation in mutations:
                    meant = mutation is mutations[-1] or (begun is not None and mutation.seq > begun)
                    if meant and mutation.anonymous and mutation.declared is None:
                        mutation.declared = self.declared[mutation.seq] = record

    def _before(self, path: bytes, seq: int) -> str | None:
        """The digest of a file before a record: as that record would tell it, where the log has one."""
        return self._past.before(path, seq) or self._digests.get(path)

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
