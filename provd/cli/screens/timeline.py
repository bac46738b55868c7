"""One entry's life drawn as a line through time: its puts, what touched what it rests on, and where it became dirty.

Rule: the same words on a terminal and through a pipe; a terminal has colours, and lines that fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from provd.cli import output
from provd.cli.screens import drawing
from provd.cli.screens.drawing import Piece
from provd.cli.words import account, gaps, records
from provd.client import local_path, wire_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provd.cli.screens.past import Event
    from provd.cli.screens.story import Story
    from provd.client import WirePath

Json = dict[str, Any]

_REASONS: Final = 3
_AGO: Final = 10
"""Columns for how long ago it was."""
_CLOCK: Final = 12
"""Columns for the time of day."""
_BORN: Final = 3
"""Dependencies that are named as dirty at birth."""
_NOBODY: Final = "when {} was changed nobody knows: the log has nothing of what is not watched"
_ONE: Final = "one of the changes that made it dirty"
_SAID: Final = {
    "put": "put",
    "supported": "put again with the same value",
    "late": "a late put was archived",
    "revalidated": "proven again, its clock renewed",
    "forgotten": "forgotten",
}


class Timeline:
    """Draws a story, a line behind a spine for each thing that happened, as of `now` (ns since the epoch)."""

    def __init__(self, answer: Json, story: Story, now: int) -> None:
        self._answer = answer
        self._now = now
        self._story = story
        self._day = ""
        self._moment = story.turn.moment()
        self._stale = False  # it was dirty when it was put, and no change before that is known to have made it so
        self._doubted = story.turn.doubted() if self._moment is not None else []
        root = answer.get("root")
        self._root = None if root is None else local_path(root).rstrip(b"/") + b"/"

    def lines(self) -> Iterator[str]:
        """From the first put that is told to now; the verdict itself is not drawn."""
        story, position = self._story, self._story.position
        born = story.born()
        touched = story.newest()
        own = [event for event in story.own if event.seq != position]
        # What was imported was read elsewhere, or before: which of the changes until then counts nobody knows; nor
        # where it may have been changed since, without a record.
        told_of = born and story.whole and not story.imported
        before = [story.before] if story.before is not None and told_of else []
        before = [event for event in before if event.seq not in {other.seq for other in touched}]
        self._stale = bool(told_of) and not (before and story.undone)
        told = sorted([*own, *before, *touched], key=lambda event: event.seq)
        yield from self._left_out(story.own_count - len(story.own), "earlier puts")
        for event in told:
            if event.seq < position:
                yield from self._event(event, mine=event in own)
        yield from self._put(born)
        yield from self._left_out(story.earlier(), "earlier")
        for event in told:
            if event.seq >= position:
                yield from self._event(event, mine=event in own)
        silent = not (born or story.turn.unseen() or story.turn.untold() or story.unsure_below())
        yield from self._remarks([*before, *touched], quiet=silent and not touched)

    def _put(self, born: list[str]) -> Iterator[str]:
        """Its put as it is, with what it rests on."""
        answer = self._answer
        now = next((event.record for event in self._story.own if event.seq == self._story.position), {})
        at = answer.get("at")
        said = " ".join([self._word(now), *([by] if (by := account.by(answer)) else [])]) + _superseding(now)
        if self._story.imported:
            at = now.get("at")  # it was put earlier: the line stands where it came
        symbol = output.symbol("dirty") if self._stale else output.paint(output.glyph("●", "*"), "bold")
        yield from self._node(symbol, at, [Piece(said, "bold")])
        yield from account.ground(answer, f"{_spine()}   ")
        for word, texts in (("dirty", self._birth(born)), ("unknown", self._unsure())):
            for text in texts:
                head = f"{_spine()}   {output.symbol(word)} "
                yield from drawing.fold(head, drawing.words(text), f"{_spine()}     ")

    def _word(self, record: Json) -> str:
        """What was done to it last. What this log exported may have been put at another place than it has now."""
        if not self._story.imported:
            if not record and records.number(self._answer, "confirms"):
                return "last put or confirmed"  # which of both it was, its record tells, that is not read any more
            return "confirmed" if record.get("confirmed") else "put"
        where = "into this log" if self._answer.get("made_here") else "elsewhere"
        return f"imported: put {where} at {output.moment(self._answer.get('at'))}"

    def _birth(self, born: list[str]) -> Iterator[str]:
        """Whether it was dirty before it was put, as far as that can be told."""
        known = "" if self._story.turn.dirty_once else ", as far as the log knows"
        sure = f"it was dirty {'when' if self._stale else 'before'} it was put{known}"
        yield from self._unseen()
        unseen = "no record since it was put tells of a change"
        if born and self._story.imported:
            yield f"{_some(born)} is not what was read where it was put"
        elif born and not self._story.whole and not self._story.turn.dirty_once:
            unwatched, missed = self._parted(born)
            if unwatched:
                yield _NOBODY.format(_some(unwatched))
            if missed:
                yield f"{unseen}: {_some(missed)} was changed before that, or while nobody looked"
        elif born:
            what = "differs" if len(born) == 1 else "differ"
            yield f"{sure}: {_some(born)} {what} from the digest that was given"
        if below := self._story.born_below():
            yield f"{sure}: so was {_some(below)}"

    def _unseen(self) -> Iterator[str]:
        """What was changed since it was put without a record that tells of it."""
        unwatched, missed = self._parted(self._story.turn.unseen())
        if unwatched:
            yield _NOBODY.format(_some(unwatched))
        if missed:
            what = "differs" if len(missed) == 1 else "differ"
            yield f"something that the log did not see changed it: {_some(missed)} {what} from what was put"

    def _parted(self, deps: list[str]) -> tuple[list[str], list[str]]:
        """Those of which the log has nothing since they are not watched, and the others."""
        unwatched = self._story.unwatched
        return [name for name in deps if name in unwatched], [name for name in deps if name not in unwatched]

    def _unsure(self) -> Iterator[str]:
        """What the log cannot tell of when it became dirty."""
        if self._doubted:
            places = _some([self._near(wire_path(place)) for place in self._doubted])
            yield f"which change made it dirty the log cannot tell: what {places} was when it was read is not known"
        moment = self._moment
        if moment is not None and moment.seq > self._story.position:
            if self._remark(moment) == _ONE and self._story.turn.left(moment):
                yield "which change made it dirty first the log cannot tell: what was there in between is not known"
            if replaced := self._story.turn.replaced:
                yield f"whether {_some(replaced)} was dirty before it was replaced the log does not tell"
        if untold := self._story.turn.untold():
            yield f"which change made it dirty the log cannot tell: {_some(untold)} differs from what was put"
        if below := self._story.unsure_below():
            yield f"when {_some(below)} became dirty the log cannot tell"

    def _event(self, event: Event, *, mine: bool) -> Iterator[str]:
        record = event.record
        symbol = output.glyph("├", "+")
        if record.get("type") == "gap":
            symbol = output.symbol("unknown")
        elif mine:
            symbol = output.glyph("○", "o")
        elif self._blamed(event):
            symbol = output.symbol("dirty")
        yield from self._node(symbol, record.get("at"), self._pieces(event, mine=mine))

    def _blamed(self, event: Event) -> bool:
        """Whether that record is known to have made it dirty."""
        if event is self._moment:
            return not self._doubted
        return (bool(event.via) and event.blamed) or (event is self._story.before and not self._stale)

    def _pieces(self, event: Event, *, mine: bool) -> list[Piece]:
        """What happened, who did it, and what it means for the entry."""
        record = event.record
        if mine:
            pieces = [Piece(self._said(record))]
        elif record.get("type") == "mutation":
            pieces = records.pieces(record, event.known, self._near)
        else:
            colour = "yellow" if record.get("type") == "gap" else ""
            kind = output.printable(str(record.get("type")))
            writes = [records.write(write, self._near) for write in record.get("writes") or []]
            pieces = drawing.words(f"{kind} {records.what(record | {'writes': writes})}", colour)
        told = records.who(record) if event.declared is None else records.declared(event.declared)
        if told:
            pieces.append(Piece(f"({told})", glue="  "))
        if event.via:
            pieces.append(Piece(f"through {event.via}", "dim", glue="  "))
        if remark := self._remark(event):
            pieces.append(Piece(remark, "red" if self._blamed(event) else "", glue="  "))
        return pieces

    def _said(self, record: Json) -> str:
        """What happened to the entry itself."""
        event = str(record.get("event"))
        told = _SAID.get(event, output.printable(event))
        if event == "put":
            told = f"version {record.get('version')} put"
        elif record.get("confirmed"):
            told = "confirmed: its sources were read again, and the value holds"
        elif record.get("archived"):
            told = "another value was imported into the archive"
        return told + _superseding(record)

    def _remark(self, event: Event) -> str:
        if event is self._story.before:
            return "the last change before it was put"
        if event is not self._moment:
            return ""
        if event.seq < self._story.position and self._story.imported:
            return "the first change that this log has, from before it was imported"
        if event.seq < self._story.position:
            return "changed between reading and remembering"
        turn = self._story.turn
        if turn.left(event):
            return "the newest change since it was put" if turn.newest(event) and not self._story.missing() else _ONE
        if turn.sure(event) and not turn.replaced:
            return "here it became dirty"
        if turn.unseen() or turn.untold():
            return _ONE
        first = "the first change since it was put" if turn.first(event) else "the first change that was not undone"
        return f"{first}, of those told here" if turn.replaced or self._story.missing() else first

    def _remarks(self, touched: list[Event], *, quiet: bool) -> Iterator[str]:
        """What has to be known to read the rest rightly."""
        reasons = list(self._story.reasons)  # what gaps are for stands below, with what they mean
        told = []
        if quiet and self._story.followed:
            told.append("nothing that it rests on was touched since, as far as the log knows")
            below = sorted(self._story.ground.entries)
            told += [
                f"what entry:{output.printable(key)} rests on is not told here, but by: {_why(key)}"
                for key in below[:_BORN]
            ]
        if any(event.nobodys for event in touched):
            told.append("where nobody is named, no action declared it")
        if self._story.missing():
            named = output.printable(output.some(reasons, _REASONS)) if reasons else ""
            told.append(f"the log is not whole since then: {named}".rstrip())
        for text in told:
            yield from drawing.fold(f"{_spine()} ", drawing.words(text), f"{_spine()}   ")
        scopes: dict[str, list[str]] = {}
        for scope, of_scope in self._story.gaps.items():
            for reason in of_scope:
                scopes.setdefault(reason, []).append(scope)
        for reason, places in list(scopes.items())[:_REASONS]:
            text = f"{output.printable(reason)} ({output.printable(_some(places))}): {gaps.meaning(reason).words}"
            yield from drawing.fold(f"{_spine()}   ", drawing.words(text), f"{_spine()}     ")
        if len(scopes) > _REASONS:
            yield f"{_spine()}   and {len(scopes) - _REASONS} more"

    def _left_out(self, number: int, what: str) -> Iterator[str]:
        if number > 0:
            yield f"{_spine()} {output.ellipsis()} {number} {what}"

    def _node(self, symbol: str, at: Any, pieces: list[Piece]) -> Iterator[str]:
        """One thing that happened, behind the day where it is another."""
        day, clock = output.day_and_time(at) if at is not None else ("", f"{'?':<{_CLOCK}}")
        if day and day != self._day:
            self._day = day
            yield f"{_spine()} {output.paint(day, 'dim')}"
        age = "" if drawing.narrow() else f"{drawing.ago(at, self._now):<{_AGO}}  "
        margin = " " * (len(clock) + 2 + len(age)) if not drawing.narrow() else "    "
        yield from drawing.fold(f"{symbol} {clock}  {output.paint(age, 'dim')}", pieces, f"{_spine()} {margin}")

    def _near(self, path: WirePath) -> str:
        """A path relative to the entry's root where it lies below that."""
        raw = local_path(path)
        if self._root is None or not raw.startswith(self._root) or raw == self._root:
            return records.display(path)
        return output.name_of(raw[len(self._root) :])


def _some(names: list[str]) -> str:
    return output.some(names, _BORN)


def _spine() -> str:
    return output.glyph("│", "|")


def _why(key: str) -> str:
    return f"provd why {output.quoted(key)}"


def _superseding(record: Json) -> str:
    """The version that a put displaced."""
    return "" if record.get("superseded") is None else f", superseding version {record['superseded']}"
