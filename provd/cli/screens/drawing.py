"""Lines that fit a terminal: pieces of text put side by side, folded where they do not fit, paths shortened.

Rule: only what may be shortened is shortened, in the middle, and only on a terminal. Elsewhere a line is as long as
what it says, so that a script finds whole names.
"""

from __future__ import annotations

import re
import shutil
import sys
import unicodedata
from typing import TYPE_CHECKING, Final, NamedTuple

from provd.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WIDTH: Final = 80
"""Columns of a terminal that does not tell how many it has."""
_WIDEST: Final = 120
"""Columns that are used at most: what stands far apart is hard to read together."""
_NARROW: Final = 60
"""Below this there is no room for columns that can be done without."""
_LEAST: Final = 12
"""Columns that something is shortened to at least."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_AGES: Final = ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h"))
_JUST_NOW: Final = 2
"""Seconds that are not worth telling."""


class Piece(NamedTuple):
    """Some text of a line. `glue` stands before it where it is not the first; `elastic`: it may be shortened."""

    text: str
    colour: str = ""
    elastic: bool = False
    glue: str = " "


def width() -> int | None:
    """The columns of the terminal that stdout is; None where it is none."""
    if not sys.stdout.isatty():
        return None
    return min(shutil.get_terminal_size((_WIDTH, 24)).columns, _WIDEST)


def narrow() -> bool:
    """Whether stdout is a terminal with room for the least only."""
    return (width() or _WIDTH) < _NARROW


def columns(text: str) -> int:
    """How many columns a text takes; colours take none."""
    text = _COLOUR.sub("", text)
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def middle(text: str, room: int) -> str:
    """The text in at most `room` columns, and no fewer than a few: its end tells more than its start."""
    room = max(room, _LEAST)
    if columns(text) <= room:
        return text
    dots = output.ellipsis()
    left = (room - len(dots)) // 3
    return _first(text, left) + dots + _first(text[::-1], room - len(dots) - left)[::-1]


def _first(text: str, room: int) -> str:
    """As much of the start of a text as fits."""
    used = 0
    for at, character in enumerate(text):
        used += _columns_of(character)
        if used > room:
            return text[:at]
    return text


def fold(head: str, pieces: Iterable[Piece], hang: str = "") -> Iterator[str]:
    """The pieces side by side after `head`; on a terminal what does not fit goes to further lines, after `hang`."""
    limit = width()
    line, used, first = head, columns(head), True
    below = (limit or 0) - columns(hang)
    for piece in pieces:
        glue = "" if first else piece.glue
        needs = columns(piece.text)
        room = needs if limit is None else limit - used - len(glue)
        if not first and needs > room and not (piece.elastic and _better_here(needs, room, below)):
            yield line.rstrip()
            line, used, glue = hang, columns(hang), ""
            room = below
        text = middle(piece.text, room) if piece.elastic else piece.text
        line = output.joined(line, glue, text, piece.colour)
        used += len(glue) + columns(text)
        first = False
    yield line.rstrip()


def _better_here(needs: int, room: int, below: int) -> bool:
    """Whether what may be shortened is better shortened here than put on a line of its own."""
    return needs > below and room >= max(_LEAST, below // 2)


def ago(nanoseconds: object, now: int) -> str:
    """How long ago a moment was; empty where that is no number or to come. Both are nanoseconds since the epoch.

    `now` is the same for a whole screen: two lines of one moment say the same.
    """
    try:
        at = int(str(nanoseconds))
    except ValueError:
        return ""
    seconds = (now - at) // 1_000_000_000
    if seconds < 0:
        return ""
    if seconds < _JUST_NOW:
        return "just now"
    for below, unit, name in _AGES:
        if seconds < below:
            return f"{seconds // unit} {name} ago"
    return output.count(seconds // 86400, "day", "days") + " ago"


def words(text: str, colour: str = "") -> list[Piece]:
    """A sentence that may be folded between its words."""
    return [Piece(word, colour) for word in text.split(" ")]
