"""Since when an entry is dirty: the record that made it so, where the log tells which one that is.

Rule: no record is taken for the one that may not be it.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from provd.cli.given import names
from provd.cli.screens import birth
from provd.cli.screens.birth import ABSENT
from provd.cli.screens.concern import Dependency, Differing, Ground, path_of, root_of
from provd.cli.screens.past import Event, Past, made, note, state
from provd.cli.screens.returns import Returns
from provd.cli.words import causes, records, verdicts
from provd.client import wire_path

Json = dict[str, Any]

_NEWEST: Final = 16
"""Changes of one path, the newest, among which that is looked for which left what is there now."""
_COUNTED: Final = 64
"""Changes after a put among which the first one is known to be that."""
_REPLACED: Final = frozenset({"entry-replaced", "entry-revoked", "entry-missing"})


class Turn:
    """Since when what an entry rests on is another than it was: the first record that changed what is at fault.

    Where it is known to have been fresh at its put, it was then as it is kept, and only what came later counts. Else a
    digest that the client read may be of any content that was there before the put: where it is of another algorithm
    than the log's, and there were several, no record is known to be the one.
    """

    def __init__(self, answer: Json, whole: Ground, past: Past) -> None:
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
        unread = [path_of(item, root_of(answer)) for item in answer.get("evidence") or [] if item["why"] == "touched"]
        self._unread = [Dependency(*there) for there in unread if there is not None]
        self._whole = whole
        self._faults = birth.faults(answer, whole)
        self._verdict = answer.get("born")
        self._links = {place: path for fault in self._faults for place, path in fault.links.items()}
        self._alone = len(answer.get("deps") or []) == 1
        self.now = birth.now_told(answer)
        """What is there now of what is at fault, by path, in the log's algorithm, as far as it is known."""
        self._shown = {d["digest"] for d in deps if d.get("kept") == "shown" and d.get("digest")}
        # Of a set whose members are named it is known what it held as it is kept: it was in order then.
        read = [d for d in deps if d.get("kept") == "read" and names.named(d) not in self._differing.told]
        self._read = Ground(answer | {"deps": read})
        self._versions = {
            causes.key_of(d): str(d["version"])
            for d in deps
            if d.get("version") is not None and verdicts.dependency(d).startswith("entry:")
        }
        told = [item for item in answer.get("evidence") or [] if item.get("why") in _REPLACED]
        self.replaced = [verdicts.dependency(item) for item in told]
        """The entries below that are others now: whether they had been dirty before nothing tells here."""
        self._elsewhere = bool(answer.get("imported")) and not answer.get("made_here")
        self.proven = False
        """Whether it was proven after it was put: what was read was still there then."""
        self._past = past
        self._position = 0
        self._since: dict[bytes, Event] = {}
        self._late: dict[bytes, deque[Event]] = {}  # all that changed it after the put, the newest of them
        self._early: dict[bytes, deque[Event]] = {}  # what changed it between the clock and the put
        self._newest: dict[bytes, Event] = {}
        self._at_clock: dict[bytes, str | None] = {}  # the log's digests of then, of what changed since
        self._at_put: dict[bytes, str | None] = {}
        self._found: dict[str, Event] | None = None  # the causes, once they were asked for
        self._restored: set[bytes] = set()
        self._vague: set[bytes] = set()  # what came back with a directory, as it was or not
        self._carried: dict[tuple[int, bytes], str | None] = {}  # what a move of a directory brought back
        self._place_of: dict[int, bytes] = {}  # of each cause that was found
        self._changes: list[Event] = []  # the first after the put of all that it rests on
        self._last = 0  # the number of the newest of them
        self._unclear: dict[bytes, set[int]] = {}  # changes of a place after the put that left nobody knows what
        self.members = frozenset({*self.ground.digests, *self._differing.members})
        """The files at fault, as far as they are known one by one."""
        self.returns = Returns((), 0)
        """What is known of how they came back after directories were moved."""

    def take(self, event: Event, position: int) -> None:
        """Takes a record that concerns the entry, in the log's order; `position` is that of its put."""
        record = event.record
        self._position = position
        self._found = None
        if record.get("type") == "mutation":
            self._count(event)
            for place in self._places(record) if self._concerned(record) else ():
                known = event.known
                if record.get("kind") == "moved" or place not in records.places(record):  # that is of another place
                    known = self._past.before(place, event.seq)
                (self._at_clock if event.seq < position else self._at_put).setdefault(place, known)
                self._newest[place] = event
                self._judge(event, place)
        elif record.get("type") != "gap" and self.ground.told(record) and not self._kept(record):
            self._count(event)
            self._since.setdefault(b"", event)

    def _count(self, event: Event) -> None:
        if event.seq > self._position and event.record.get("kind") != "attrib":
            self._last = event.seq
            if len(self._changes) < _COUNTED:
                self._changes.append(event)

    def _kept(self, record: Json) -> bool:
        """Whether it is the record of an entry below that is still the version that was rested on."""
        versions = self._versions.get(str(record.get("key")))
        return record.get("type") == "entry" and versions is not None and str(record.get("version")) == versions

    def hashed(self, event: Event) -> None:
        """Takes what was learnt of a mutation's digest later."""
        self._found = None
        for place in self._places(event.record):
            if self._newest.get(place) is event:
                self._judge(event, place)

    def moment(self) -> Event | None:
        """The record since which it is dirty; None where no record tells, or where it was dirty when it was put."""
        if self.fresh_once:
            told = self._since.get(b"")
            found = [told] if told is not None and told.seq > self._position else []
            return min([*found, *self._causes().values()], key=lambda event: event.seq, default=None)
        if any(self._born(place) for place in self._since):
            return None
        since = [event for place, event in self._since.items() if not self._only_leads(place)]
        blamed = (place for place, events in self._early.items() if events and self._blames_early(place))
        early = [self._early[place][0] for place in blamed if not self._only_leads(place)]
        return min([*since, *early], key=lambda event: event.seq, default=None)

    def doubted(self) -> list[bytes]:
        """The places that changed since the put, of which nobody knows whether they had changed before."""
        if self.fresh_once:
            return []
        return [place for place in self._since if self._doubts(place)]

    @property
    def fresh_once(self) -> bool:
        """Whether it is known to have been fresh when it was put, or when it was proven since."""
        return self._verdict == "fresh" or self.proven

    @property
    def dirty_once(self) -> bool:
        """Whether the one thing that it rests on is known to have been another when it was put."""
        return self._verdict == "dirty" and self._alone

    def unseen(self) -> list[str]:
        """What is another than when it was fresh, though no record since explains what is there."""
        return [fault.name for fault in self._unexplained() if not self._is_open(fault)]

    def untold(self) -> list[str]:
        """What is another than when it was fresh, and which of the records since made it so is not known."""
        return [fault.name for fault in self._unexplained() if self._is_open(fault)]

    def left(self, event: Event) -> bool:
        """Whether that is known of the record only: that it came last, and not that it was the first change."""
        place = self._place_of.get(event.seq, b"")
        return self.fresh_once and event in self._late.get(place, ()) and event is not self._since.get(place)

    def newest(self, event: Event) -> bool:
        """Whether nothing that the entry rests on is known to have changed after that record."""
        return event.seq == self._last

    def sure(self, event: Event) -> bool:
        """Whether what it rests on was shown to be in order just before that record."""
        return any(self._sure(place) for place in self._places(event.record))

    def first(self, event: Event) -> bool:
        """Whether nothing of all that the entry rests on is known to have changed between its put and that record."""
        earlier = [other for other in self._changes if other.seq < event.seq and not self._only_way(other)]
        moved = any(other.record.get("kind") == "moved" for other in earlier)
        return len(earlier) < _COUNTED and not moved and all(other.same for other in earlier)

    def _sure(self, place: bytes) -> bool:
        return place in self._restored or self.ground.digests.get(place) in self._shown

    def _was_at_put(self, place: bytes) -> str | None:
        """The log's digest of when it was put, where that can be compared with what is kept."""
        kept = self._read.digests.get(place, "")
        return self._past.before(place, self._position) if birth.comparable(kept) else None

    def _born(self, place: bytes) -> bool:
        """Whether it was another already when it was put, and never came back."""
        if self.dirty_once:
            return not (self._sure(place) or self.proven)
        was = self._was_at_put(place)
        return was is not None and was != self._read.digests.get(place) and not (self._sure(place) or self.proven)

    def _blames_early(self, place: bytes) -> bool:
        """Whether the first change between clock and put is known to be the one."""
        if place in self._since:
            return False
        was, kept = self._at_clock.get(place), self._read.digests.get(place)
        if was is not None and birth.comparable(kept) and was != kept and place not in self._restored:
            return False  # it was another before that change too
        return len(self._early[place]) == 1 or not self._is_read(place) or self._was_at_put(place) is not None

    def _concerned(self, record: Json) -> bool:
        """Whether a mutation changed what is at fault, as far as its path tells."""
        if not self.ground.bases or record.get("kind") == "attrib":
            return False
        if self._differing.passes_by(record) and not self._others.names(record):
            return False
        return self.ground.names(record) or all(map(self._whole.strange, records.places(record)))

    def _causes(self) -> dict[str, Event]:
        """The record that made it so, of each dependency at fault of which one is known."""
        if self._found is not None:
            return self._found
        places = [place for place in {*self._late, *self._early} if not self._only_leads(place)]
        causes = {place: self._cause(place) for place in places}
        events = sorted((event for event in causes.values() if event is not None), key=lambda event: event.seq)
        self._place_of = {event.seq: place for place, event in causes.items() if event is not None}
        found = {
            fault.name: next((event for event in events if fault.concerned(event.record)), None)
            for fault in self._faults
        }
        self._found = {name: event for name, event in found.items() if event is not None}
        return self._found

    def _cause(self, place: bytes) -> Event | None:
        """Of what changed a place that was as it is kept: the record that made it another, where that is known.

        What was there then the log may not know by its own algorithm; then it is the one that left what is there now.
        """
        now = self.now.get(place)
        late = self._late.get(place)
        if late and self._came_and_went(place, late):
            return None  # it may not have been there before either
        if not late:  # recorded before the put, it may have happened after what it rests on was read
            early = self._early.get(place, ())
            return next((event for event in reversed(early) if now and state(event.record, place) == now), None)
        if place in self._vague:
            return next((event for event in reversed(late) if now and self._state(event, place) == now), None)
        known = birth.comparable(self.ground.digests.get(place)) or birth.comparable(self._at_put.get(place))
        if known and not self._may_have_come_back(place, late):
            return self._since.get(place)
        if now is None:
            return late[-1]
        left = next((event for event in reversed(late) if self._state(event, place) == now), None)
        return late[-1] if left is None and self._opaque(late[-1], place) else left

    def _may_have_come_back(self, place: bytes, late: deque[Event]) -> bool:
        """Whether some change between the first one and the last may have undone what was before it."""
        since = self._since.get(place)
        return since is not None and any(since.seq < seq < late[-1].seq for seq in self._unclear.get(place, ()))

    def _opaque(self, event: Event, place: bytes) -> bool:
        """Whether it put something there of which no record tells the content: a directory, a link, what lies in one.

        Nothing was there before, and it came last: whatever is there now came with it, or changed after it.
        """
        came_with = event.record.get("kind") == "moved" and event.record.get("size") is None
        return (came_with or made(event.record)) and self._state(event, place) is None

    def _only_way(self, event: Event) -> bool:
        """Whether a mutation made only directories on the way to what is at fault."""
        return made(event.record) and all(map(self._only_leads, self._named(event.record)))

    def _only_leads(self, place: bytes) -> bool:
        """Whether it is a directory that was made above what is at fault, of which a record of its own tells.

        Of what has none, the directory may be the cause: it may be a link, or have been filled before it was watched.
        """
        events = (*self._early.get(place, ()), *self._late.get(place, ()))
        if place in self.members or not events or not all(made(event.record) for event in events):
            return False
        unread = self._unread and all(dep.led_by(place) for dep in self._unread)
        known = {*self.members, *self._early, *self._late} - {place} if unread else self.members
        below = (member for member in known if records.is_below(member, place))
        return any(self._early.get(member) or self._late.get(member) for member in below)

    def _came_and_went(self, place: bytes, late: deque[Event]) -> bool:
        """Whether what is not named as differing is not there, as perhaps it was not when it was put."""
        known = place in self.members or self._at_put.get(place) is not None
        return not known and self._state(late[0], place) != ABSENT and self._state(late[-1], place) == ABSENT

    def _unexplained(self) -> list[birth.Fault]:
        if not self.fresh_once:
            return []
        causes = self._causes()
        return [fault for fault in self._faults if fault.name not in causes]

    def _is_open(self, fault: birth.Fault) -> bool:
        """Whether a record may be the one that made it so, though it does not tell what it left."""
        if fault.strays:
            return True
        newest = next((event for event in self._newest.values() if event.seq == fault.newest), None)
        if fault.newest > self._position and not (newest is not None and fault.concerned(newest.record)):
            return True  # the daemon knows of more than was understood here
        late = {place: events for place, events in self._late.items() if events}
        return any(
            (self._state(event, place) is None or place not in self.now) and fault.concerned(event.record)
            for place, events in {**self._early, **late}.items()
            for event in events
        )

    def _doubts(self, place: bytes) -> bool:
        event = self._since[place]
        if event.seq < self._position or not self._is_read(place) or self._sure(place) or self.proven:
            return False
        if self._was_at_put(place) is not None:
            return False  # it was as it is kept, else it was born dirty
        if self._elsewhere or self._early.get(place):
            return True
        held = self._past.several if place in self._read.digests else self._past.knows
        return held(place, self._position)

    def _is_read(self, place: bytes) -> bool:
        return self._is_of(self._read, place)

    def _is_of(self, ground: Ground, place: bytes) -> bool:
        return ground.names({"type": "mutation", "kind": "created", "path": wire_path(place)})

    def _judge(self, event: Event, place: bytes) -> None:
        held = self.returns.back(place, event.seq)
        if held is not None and held.touched:
            self._carried[event.seq, place] = held.digest
        now, kept = self._state(event, place), self.ground.digests.get(place)
        early = event.seq < self._position
        was = (self._at_clock if early else self._at_put).get(place)
        same = event.same and place == next(iter(self._named(event.record)), b"")
        if now == ABSENT and (late := self._late.get(place)) and self._state(late[-1], place) == ABSENT:
            same = True  # the directory above went after it
        if now is not None and now in {kept, was}:
            self._restore(place, early=early, exact=now == kept)
        elif held is not None and not held.touched:
            self._restore(place, early=False, exact=self.fresh_once)
        elif early:
            note(self._early.setdefault(place, deque()), event, same=same)
        else:
            unclear = self._unclear.setdefault(place, set())
            (unclear.add if now is None else unclear.discard)(event.seq)
            if self._came_back(event, place, known=now is not None and birth.comparable(kept)):
                self._vague.add(place)
            note(self._late.setdefault(place, deque(maxlen=_NEWEST)), event, same=same)
            if not same:
                self._since.setdefault(place, event)
            elif self._since.get(place) is event:
                del self._since[place]

    def _came_back(self, event: Event, place: bytes, *, known: bool) -> bool:
        """Whether with that record it may be again what it was, which is not `known`."""
        carried = event.record.get("kind") == "moved" and place not in self._named(event.record)
        told = (event.seq, place) in self._carried or not self.returns.whole
        return place in self._since and carried and told and not known

    def _state(self, event: Event, place: bytes) -> str | None:
        """What a mutation left at a place, also where it came back with a directory."""
        return self._carried.get((event.seq, place), state(event.record, place))

    def _restore(self, place: bytes, *, early: bool, exact: bool) -> None:
        """What changed it is undone; what is not `exact`ly as it is kept is as it was on this side of the put."""
        if early or exact:
            self._early.pop(place, None)
        if not early and place in self._since:
            del self._since[place]
            self._late.pop(place, None)
            self._vague.discard(place)
        if exact:
            self._restored.add(place)

    def _named(self, record: Json) -> list[bytes]:
        named = records.places(record)
        return [self._links.get(path, path) for path in named] if self.fresh_once else named

    def _places(self, record: Json) -> list[bytes]:
        """What a mutation changes of what is at fault: the members that it names or takes with it; else its path."""
        named = self._named(record)
        found = [path for path in named if path in self.members]
        if record.get("kind") in {"moved", "deleted"}:  # a directory that is made has nothing in it yet
            found += [
                member
                for member in self.members
                if member not in named and any(records.is_below(member, path) for path in named)
            ]
        return found or [path for path in named if self._is_of(self.ground, path)] or named[:1]
