"""What is printed, and how: data on stdout, messages on stderr.

Rule: meaning never hangs on colour; it stands beside a symbol and a word. What comes from outside is made harmless
before a terminal sees it; to a pipe or a file JSON and values go as they are.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any, Final, TextIO

from provd.cli import steps
from provd.client import WirePath, local_path
from provd.quoting import quoted, typed

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["quoted", "typed"]  # said here too, since names are printed in many ways
_COLOURS: Final = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}
_LOOKS: Final = {
    "fresh": ("✓", "+", "green"),
    "dirty": ("✗", "!", "red"),
    "unknown": ("?", "?", "yellow"),
    "ok": ("✓", "+", "green"),
    "note": ("·", "*", "dim"),
    "warn": ("!", "!", "yellow"),
    "fail": ("✗", "x", "red"),
    "skipped": ("-", "-", "dim"),
}
_STEP: Final = re.compile(r"(?<=: )provd \S.*\Z")
_STEERING: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What a terminal obeys or shows in another order: controls but newline and tab, and the marks of direction."""
_COLOURED: Final = re.compile(r"(\x1b\[[0-9;]*m)")
_NO_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
_WIDTH: Final = 80
_DIGEST_SHOWN: Final = 12
_PLAIN: Final = "\x1b[0m"


class _Closed(io.TextIOWrapper):
    """Stands for a stdout that the caller closed. What cannot be delivered must not look delivered."""

    def write(self, text: str) -> int:  # noqa: ARG002
        """Raises OSError."""
        raise OSError(errno.EBADF, "stdout is closed, so the answer is lost")


def prepare() -> None:
    """Make it impossible that a print fails for a strange name, or a message because the caller closed stderr.

    A lone surrogate becomes its JSON escape. Every standard descriptor is open afterwards, so that no socket becomes
    one.
    """
    if sys.stdin is None:  # open, and an error to read from: what nobody gave is no empty value
        sys.stdin = open(os.open(os.devnull, os.O_WRONLY), encoding="utf-8")  # noqa: SIM115  (until the end, like the next)
    if sys.stdout is None:
        sys.stdout = _Closed(open(os.devnull, "wb"), encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def always_utf8() -> None:
    """What follows on stdout is UTF-8, whatever the locale: a format of its own says so."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")


def line(text: str = "") -> None:
    """One line of data. A terminal obeys nothing in it but colours."""
    if _STEERING.search(text) and sys.stdout.isatty():
        pieces = _COLOURED.split(text)
        text = "".join(piece if at % 2 else _STEERING.sub(_escape, piece) for at, piece in enumerate(pieces))
    sys.stdout.write(text + "\n")


def value(text: str) -> bool:
    """A value as it is, to a terminal harmless and as whole lines; returns whether its last line has ended."""
    if not sys.stdout.isatty():
        sys.stdout.write(text)
        return text.endswith("\n") or not text
    shown = _STEERING.sub(_escape, text)
    sys.stdout.write(shown if shown.endswith("\n") or not shown else shown + "\n")  # for the prompt that follows
    if shown != text:
        sys.stdout.flush()
        note("provd: control characters are shown escaped on a terminal; to a pipe or a file the value goes raw")
    return True


def line_json(value: Any) -> None:
    """A wire result as one line of JSON."""
    line_written(json.dumps(value, ensure_ascii=not _unicode(sys.stdout)))


def line_written(text: str) -> None:
    """JSON as it is written, as one line.

    Signs that stdout may not have, or that a terminal would obey, are escaped, which JSON takes for the same.
    """
    if sys.stdout.isatty():
        text = _STEERING.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)
    line(text if _unicode(sys.stdout) else _NO_ASCII.sub(lambda signs: json.dumps(signs[0])[1:-1], text))


def note(text: str) -> None:
    """One message. Where it cannot be written it is dropped: what was found counts, not what was said of it.

    A command that it ends with, behind a colon, is a next step as any other.
    """
    if (ends := _STEP.search(text)) is not None:
        text = text[: ends.start()] + steps.filled(ends[0])
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        discard(sys.stderr)


def discard(*streams: TextIO) -> None:
    """Points streams at nothing, so that the interpreter's last flush has nobody to offend."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(nothing, stream.fileno())
    os.close(nothing)


def warn(text: str, hint: str = "") -> None:
    """A message about something that the caller may not want, and what to do about it."""
    note(paint("provd: ", "yellow", sys.stderr) + printable(text))
    advise(hint)


def complain(message: str, hint: str = "", otherwise: str = steps.MORE) -> None:
    """An error: what and why, then what to do next; `otherwise` is the command that tells more than a hint of prose."""
    note(paint("provd: ", "red", sys.stderr) + printable(message))
    advise(hint, otherwise)


def advise(hint: str, otherwise: str = steps.MORE) -> None:
    """What to do next, as messages."""
    for text in steps.lines(hint, otherwise):
        note("  " + printable(text))


def interrupt_value() -> None:
    """Send off a value that has no newline, and begin a new line where messages go to the same place."""
    sys.stdout.flush()
    try:
        out, err = os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return
    if (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino):
        note("")


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """`text` in a colour, where `stream` (stdout) is a terminal that wants one."""
    stream = stream or sys.stdout
    wanted = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{_COLOURS[colour]}m{text}{_PLAIN}" if wanted else text


def joined(line: str, glue: str, text: str, colour: str) -> str:
    """`line` with some text behind it, in a colour where one is named; what ends in the same colour goes on in it."""
    painted = paint(text, colour) if colour else text
    start = painted.removesuffix(f"{text}{_PLAIN}")
    if painted == text or not line.endswith(_PLAIN) or line.rfind("\x1b", 0, -len(_PLAIN)) != line.rfind(start):
        return line + glue + painted
    return line.removesuffix(_PLAIN) + glue + text + _PLAIN


def symbol(verdict: str, word: str = "") -> str:
    """The symbol of a verdict or of a check's result, and a word in its colour."""
    drawn, plain, colour = _LOOKS.get(verdict, _LOOKS["unknown"])
    return paint(glyph(drawn, plain) + word, colour)


def verdict_word(verdict: str) -> str:
    """Symbol and word of a verdict, padded to a column."""
    return symbol(verdict, f" {verdict:<7}")


def arrow() -> str:
    """What stands between old and new."""
    return glyph("→", "->")


def ellipsis() -> str:
    """What stands for what is left out."""
    return glyph("…", "...")


def glyph(drawn: str, plain: str) -> str:
    """A sign, or what stands for it where the terminal may not have it."""
    return drawn if _unicode(sys.stdout) and not _plain_locale() else plain


def wrapped(head: str, indent: int, text: str) -> Iterator[str]:
    """`head` and `text` in lines of 80 columns, the further ones indented; words (and paths) are never cut.

    `head` takes `indent` columns, whatever its colours add.
    """
    pieces = textwrap.wrap(text, _WIDTH - indent, break_long_words=False, break_on_hyphens=False) or [""]
    yield head + pieces[0]
    for piece in pieces[1:]:
        yield " " * indent + piece


def count(number: int, one: str, many: str) -> str:
    """A number with its noun: 1 entry, 2 entries."""
    return f"{number} {noun(number, one, many)}"


def noun(number: int, one: str, many: str) -> str:
    """The noun of a number alone."""
    return one if number == 1 else many


def some(words: list[str], most: int, more: int = 0) -> str:
    """The first of some words, and how many more there are; `more` of them are not among the words."""
    rest = max(0, len(words) - most) + more
    return ", ".join(words[:most]) + (f" and {rest} more" if rest > 0 else "")


def printable(text: str) -> str:
    """`text` without anything that could steer a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _escape(sign: re.Match[str]) -> str:
    return sign[0].encode("unicode_escape").decode("ascii")


def name(path: WirePath) -> str:
    """A name of the wire for people; bytes that are not UTF-8 are escaped."""
    return name_of(local_path(path))


def name_of(raw: bytes) -> str:
    """The same of the bytes of a name."""
    return printable(raw.decode("utf-8", "backslashreplace"))


def digest(text: object) -> str:
    """A digest, shortened to what tells two apart."""
    algorithm, colon, rest = str(text).partition(":")
    return (
        f"{algorithm}:{rest[:_DIGEST_SHOWN]}{ellipsis()}"
        if colon and len(rest) > 2 * _DIGEST_SHOWN
        else printable(str(text))
    )


def moment(nanoseconds: object) -> str:
    """Local date and time of nanoseconds since the epoch, given as a decimal string."""
    day, clock = day_and_time(nanoseconds)
    return f"{day} {clock}" if day else clock


def day_and_time(nanoseconds: object) -> tuple[str, str]:
    """The same in two: `("2026-11-30", "10:12:04.311")`; the day is empty where it is no such number."""
    try:
        whole = int(str(nanoseconds))
    except ValueError:
        return "", printable(str(nanoseconds))
    seconds, rest = divmod(whole, 1_000_000_000)
    day, clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)).split(" ")
    return day, f"{clock}.{rest // 1_000_000:03}"


def _unicode(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().replace("-", "").startswith("utf")


def _plain_locale() -> bool:
    """Whether the C locale was asked for: Python writes UTF-8 there all the same, a terminal may not show it."""
    if not sys.flags.utf8_mode or os.environ.get("PYTHONIOENCODING") or os.environ.get("PYTHONUTF8") == "1":
        return False
    # Python itself sets LC_CTYPE where it finds the C locale, so that one tells nothing.
    return (os.environ.get("LC_ALL") or os.environ.get("LANG")) in {"C", "POSIX"}
