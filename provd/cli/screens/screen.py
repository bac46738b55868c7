"""Records on a terminal: one under another in columns, under a line that says the day and the roots.

Rule: a row is one line where it can be; what gives way is the middle of a path. Who made it and the digest stand at the
right.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from provd.cli import output
from provd.cli.screens import drawing
from provd.cli.screens.drawing import Piece
from provd.cli.words import records
from provd.client import local_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provd.client import WirePath

Json = dict[str, Any]

_WIDEST: Final = 100
"""Columns of a row at most."""
_WORD: Final = 9
_GAP: Final = 2
"""Columns between what stands left and what stands right."""
_LEAST: Final = 16
"""Columns that a path keeps before who made it gives way to a line of its own."""
_ROOTS: Final = 2
_DIGEST: Final = 8
_SIGNS: Final = {
    "entry": ("●", "*", "bold"),
    "action": ("◆", "%", "cyan"),
    "hashed": ("#", "#", "dim"),
    "coverage": ("=", "=", "dim"),
    "root": ("=", "=", "dim"),
}
_STATES: Final = {"pending": "not hashed", "superseded": "changed again", "unreadable": "unreadable"}


class Row(NamedTuple):
    """What a record tells, for its columns."""

    sign: str
    word: str
    colour: str
    pieces: Sequence[Piece]
    """What goes to further lines where it does not fit."""
    path: str = ""
    """In place of the pieces: what gives way where it does not fit."""
    source: str = ""
    """Where it was moved from."""
    digest: str = ""


class Screen:
    """Makes the lines of records for a terminal. `roots` are the watched directories."""

    def __init__(self, roots: Sequence[bytes]) -> None:
        self._roots = [root.rstrip(b"/") + b"/" for root in roots]
        tails = Counter(os.path.basename(root[:-1]) for root in self._roots)
        self._tails = {root: os.path.basename(root[:-1]) + b"/" for root in self._roots if len(tails) == len(roots)}
        self._day = ""

    def lines(self, record: Json) -> Iterator[str]:
        """The record as lines, under a ruled one where its day is another than that of the last."""
        day, clock = output.day_and_time(record.get("at"))
        if day != self._day:
            self._day = day
            yield from _ruled("", [Piece(day, "bold"), *self._where()])
        narrow = drawing.narrow()
        head = f"{clock.partition('.')[0]}  " if narrow else f"{record.get('seq', '?'):>6} {clock}  "
        if record.get("type") == "gap":
            why = output.printable(str(record.get("reason", "?")))
            where = Piece(f"{self.near(record.get('scope', '?'))}:", "yellow", elastic=True)
            told = [Piece("gap:", "yellow"), where, *drawing.words(why, "yellow")]
            yield from _ruled(output.paint(head, "dim"), told, "yellow")
            return
        row = self._row(record)
        pad = " " * (_WORD - drawing.columns(row.word))
        head = f"{output.paint(head, 'dim')}{output.paint(f'{row.sign} {row.word}', row.colour)}{pad}  "
        yield from _columns(head, row, "" if narrow else records.who(record), "" if narrow else row.digest)

    def more(self, directory: bytes, kinds: Counter[str]) -> str:
        """What stands for records of one directory that are not shown."""
        told = ", ".join(f"{number} {output.printable(kind)}" for kind, number in kinds.most_common())
        where = self._relative(directory.rstrip(b"/") + b"/") or "./"
        margin = " " * (10 if drawing.narrow() else 21)
        return margin + output.paint(f"{output.ellipsis()} {kinds.total()} more in {where} ({told})", "dim")

    def near(self, path: WirePath | Any) -> str:
        """A path relative to its root; whole where it lies below none."""
        if path == "all" or not isinstance(path, str | dict):
            return records.display(path)
        return self._relative(local_path(path)) or records.display(path)

    def _relative(self, raw: bytes) -> str:
        """The name below the root, with the root's own where there are several; empty for a root alone."""
        for root in sorted(self._roots, key=len, reverse=True):
            if raw.startswith(root):
                if len(self._roots) > 1:
                    return output.name_of(self._tails.get(root, root) + raw[len(root) :])
                return output.name_of(raw[len(root) :])
        return output.name_of(raw)

    def _where(self) -> list[Piece]:
        told = [output.name_of(root[:-1] or b"/") for root in self._roots]
        return [Piece(output.some(told, _ROOTS), elastic=True, glue="  ")] if told else []

    def _row(self, record: Json) -> Row:
        kind = str(record.get("type", "?"))
        if kind == "mutation":
            return self._mutation(record)
        drawn, plain, colour = _SIGNS.get(kind, ("?", "?", "bold"))
        sign, word = output.glyph(drawn, plain), kind
        match kind:
            case "entry" | "action" | "root":
                word = str(record.get("event", "?"))
                pieces = {"entry": self._entry, "action": self._action, "root": self._root}[kind](record)
            case "hashed":
                path = f"of {record.get('of', '?')} {self.near(record['path']) if 'path' in record else ''}".rstrip()
                return Row(sign, word, colour, (), path, digest=_digest(record))
            case "coverage":
                why = f"{record.get('coverage')}" + (f": {record['why']}" if record.get("why") else "")
                path = self.near(record.get("path", "?"))
                pieces = [Piece(path, elastic=True), *drawing.words(output.printable(why))]
            case _:
                pieces = drawing.words(records.what(record))
        return Row(sign, output.printable(word), colour, pieces)

    def _mutation(self, record: Json) -> Row:
        word = str(record.get("kind", "?"))
        sign, colour = records.MUTATIONS.get(word, ("?", "bold"))
        source = self.near(record["from"]) if record.get("from") is not None else ""
        path = self.near(record.get("path", "?"))
        return Row(sign, output.printable(word), colour, (), path, source, _digest(record))

    def _entry(self, record: Json) -> list[Piece]:
        place = record.get("scope") if "root" not in record else None
        here = f" in {output.printable(str(place))}" if place is not None else ""
        if place is None and len(self._roots) != 1:
            here = f" in {records.display(record.get('root', '?'))}"
        gone = record.get("event") == "forgotten"
        was = f" superseding {record['superseded']}" if record.get("superseded") is not None and not gone else ""
        version = f"{records.version_of(record)}{was}{here}".strip()
        return [Piece(output.printable(str(record.get("key")))), *([Piece(version, glue="  ")] if version else [])]

    def _action(self, record: Json) -> list[Piece]:
        outcome = f" {output.printable(str(record['outcome']))}" if record.get("outcome") else ""
        writes = [Piece(records.write(write, self.near), elastic=True) for write in record.get("writes") or []]
        return [Piece(f"{record.get('id', '?')}{outcome}"), *writes]

    def _root(self, record: Json) -> list[Piece]:
        told = [Piece("root"), Piece(records.display(record.get("path", "?")), elastic=True)]
        return [*told, *(drawing.words(f"({records.RENEWED})") if record.get("event") == "renewed" else [])]


def _ruled(head: str, told: list[Piece], colour: str = "") -> Iterator[str]:
    """Some text in a line across the screen, from `head` on."""
    rule = output.glyph("─", "-")
    start = output.paint(rule * 2, colour) if colour else rule * 2
    *lines, last = drawing.fold(f"{head}{start} ", told, " " * (drawing.columns(head) + 3))
    yield from lines
    rest = rule * max(0, _room() - drawing.columns(last) - 1)
    yield output.joined(last, " ", rest, colour) if rest else last


def _columns(head: str, row: Row, who: str, digest: str) -> Iterator[str]:
    """One row: the text at the left, who made it and the digest at the right; who made it below where it must be."""
    room = _room() - drawing.columns(head)
    hang = " " * drawing.columns(head)
    right = "  ".join(part for part in (who, digest) if part)
    left = room - (drawing.columns(right) + _GAP if right else 0)
    whole = "".join(f"{piece.glue if at else ''}{piece.text}" for at, piece in enumerate(row.pieces)) or _whole(row)
    needs = drawing.columns(whole)
    if who and left < (needs if row.pieces else min(_LEAST, needs)):
        yield from _columns(head, row, "", digest)
        yield from drawing.fold(hang, drawing.words(who, "dim"), hang)
    elif row.pieces and needs > left:
        yield from drawing.fold(head, row.pieces, hang)
    else:
        text = whole if needs <= left else _fitted(row, left)
        between = " " * (room - drawing.columns(text) - drawing.columns(right))
        yield f"{head}{text}" + (f"{between}{output.paint(right, 'dim')}" if right else "")


def _whole(row: Row) -> str:
    return row.path + (f" {_arrow()} {row.source}" if row.source else "")


def _fitted(row: Row, room: int) -> str:
    """The path in so much room; of a move both ends give way."""
    if not row.source:
        return drawing.middle(row.path, room)
    arrow = f" {_arrow()} "
    text = drawing.middle(row.path, room - len(arrow) - min(drawing.columns(row.source), (room - len(arrow)) // 2))
    return text + arrow + drawing.middle(row.source, room - len(arrow) - drawing.columns(text))


def _arrow() -> str:
    return output.glyph("←", "<")


def _room() -> int:
    return min(drawing.width() or _WIDEST, _WIDEST)


def _digest(record: Json) -> str:
    """What tells two contents apart at a glance, or why there is nothing."""
    if record.get("digest"):
        return output.printable(str(record["digest"]).rpartition(":")[2][:_DIGEST])
    state = record.get("digest_state")
    return "" if state is None else _STATES.get(str(state), output.printable(str(state)))
