"""Records as lines: number, time, type, and what that type tells.

Rule: what happened stands there as a word beside its symbol and its colour. A digest that was found later is shown
with its mutation where both are at hand, else as a line of its own; it is never left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from provd.cli import output
from provd.cli.given import names
from provd.cli.screens import drawing
from provd.cli.screens.drawing import Piece
from provd.client import local_path, wire_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from provd.client import WirePath

Json = dict[str, Any]

FOREIGN: Final = (
    "you may see other files than the daemon (another mount namespace or root directory, or no /proc where it runs)"
)
"""What an answer means that says `foreign`."""

MUTATIONS: Final = {
    "created": ("+", "green"),
    "modified": ("~", "yellow"),
    "deleted": ("-", "red"),
    "moved": (">", "yellow"),
    "attrib": ("@", "dim"),
}
RENEWED: Final = "clocks count from here, since something was mounted elsewhere or the wall clock was set"
"""What the record of a root says that is there for the clocks alone."""
_SEEN: Final = "changed while action {} ran"
_SEEN_AT_THE_END: Final = re.compile(re.escape(_SEEN).replace(r"\{\}", r"([0-9]{1,19})") + r"\)?\Z")
_NO_DIGEST: Final = {
    "pending": "(not hashed yet)",
    "superseded": "(changed again before it was hashed)",
    "unreadable": "(could not be read)",
}


def record_line(record: Json, known: str | None = None) -> str:
    """One record as a line. `known` is the digest that was known of a mutated path before."""
    kind = str(record.get("type", "?"))
    head = f"{record.get('seq', '?'):>8}  {output.moment(record.get('at'))}  {kind:<8}  "
    told = who(record)
    return head + what(record, known) + (f"  ({told})" if told else "")


def who(record: Json) -> str:
    """Who made or declared it, and how it was noticed, as far as the record says."""
    told = [f"{word} {output.printable(str(record[word]))}" for word in ("session", "turn", "note") if record.get(word)]
    actor = record.get("actor") or {}
    words = ("session", "turn", "action", "pid")
    told += [f"{word} {output.printable(str(actor[word]))}" for word in words if actor.get(word) is not None]
    if record.get("origin") == "scan":
        told.append("found by a scan")
    return ", ".join(told)


def declared(record: Json) -> str:
    """Who said afterwards, by such a record of an action, that a mutation was its doing; as `who` tells it."""
    return ", ".join([f"declared afterwards by action {record.get('id')}", *([told] if (told := who(record)) else [])])


def seen(action: int, note: str | None) -> str:
    """The note of what is declared since it was seen to change while that action ran: nobody said it is its doing."""
    told = _SEEN.format(action)
    return told if note is None else f"{note} ({told})"


def seen_since(record: Json) -> int | None:
    """The record with which the action began that such a note names; None where a record has none."""
    found = _SEEN_AT_THE_END.search(str(record.get("note") or ""))
    return None if found is None else int(found[1])


def what(record: Json, known: str | None = None) -> str:
    """What a record tells, in the words of its type."""
    shown = {word: display(record[word]) for word in record}
    match record.get("type"):
        case "mutation":
            told = pieces(record, known)
            return " ".join(output.paint(piece.text, piece.colour) if piece.colour else piece.text for piece in told)
        case "hashed":
            state = output.digest(record["digest"]) if record.get("digest") else digest_state(record)
            path = f" {shown['path']}" if "path" in shown else ""
            return f"of {shown.get('of', '?')}{path} {state}".rstrip()
        case "gap":
            return f"{shown.get('scope', '?')}: {shown.get('reason', '?')}"
        case "action":
            outcome = f" {shown['outcome']}" if record.get("outcome") else ""
            return f"{shown.get('event', '?')} {shown.get('id', '')}{outcome} {shown.get('writes', '')}".rstrip()
        case "entry":
            place = shown.get("root") or shown.get("scope", "")
            version = version_of(record)
            if record.get("event") == "late" or record.get("archived"):  # the number is not that of what came
                version = f"into the archive, {version} stands" if record.get("version") else "into the archive"
            event = "confirmed" if record.get("confirmed") else shown.get("event", "?")
            return " ".join(filter(None, (event, shown.get("key", "?"), version, "in", place)))
        case "coverage":
            why = f": {shown['why']}" if record.get("why") else ""
            return f"{shown.get('path', '?')} {shown.get('coverage', '?')}{why}"
        case "root":
            why = f": {RENEWED}" if record.get("event") == "renewed" else ""
            return f"{shown.get('event', '?')} {shown.get('path', '?')}{why}"
        case _:
            return " ".join(f"{word}={shown[word]}" for word in shown if word not in {"seq", "at", "type"})


def version_of(record: Json) -> str:
    """The version that a record of an entry is about; what was forgotten had one, and has none. May be empty."""
    if record.get("event") == "forgotten":
        had = record.get("superseded")
        return f"(it had version {display(had)})" if had else ""
    return f"version {display(record.get('version', '?'))}"


def pieces(record: Json, known: str | None = None, near: Callable[[Any], str] | None = None) -> list[Piece]:
    """What a mutation tells, in pieces: what it is, the path by `near`, from where it was moved, its digests."""
    near = near or display
    kind = str(record.get("kind", "?"))
    symbol, colour = MUTATIONS.get(kind, ("?", "bold"))
    told = [
        Piece(f"{symbol} {output.printable(kind)}", colour),
        Piece(near(record.get("path", "?")), elastic=True),
    ]
    if record.get("from") is not None:
        told.append(Piece(f"from {near(record['from'])}", elastic=True))
    if digests := _digests(record, known):
        parts = digests.split(f" {output.arrow()} ") if drawing.narrow() else [digests]
        told += [Piece(f"{output.arrow()} {part}" if at else part) for at, part in enumerate(parts)]
    return told


def write(declared: WirePath, near: Callable[[Any], str]) -> str:
    """What an action declared; a file by its name, as `near` tells it."""
    kind, rest = names.parts(local_path(declared))
    if kind != b"file":
        return display(declared)
    return near(wire_path(rest)) if rest.startswith(b"/") else output.name_of(rest)


def _digests(record: Json, known: str | None) -> str:
    digest = record.get("digest")
    if not digest:
        return digest_state(record)
    if known == digest:
        return f"{output.digest(digest)} (the same content)"
    if known and known.partition(":")[0] == str(digest).partition(":")[0]:
        return f"{output.digest(known)} {output.arrow()} {output.digest(digest)}"
    return output.digest(digest)


def digest_state(record: Json) -> str:
    """Why a record has no digest, in words; empty where there is nothing to have one."""
    state = record.get("digest_state")
    return "" if state is None else _NO_DIGEST.get(str(state), output.printable(str(state)))


def merged(records: Iterable[Json]) -> list[Json]:
    """The records, each `hashed` one put into its mutation where that stands before it among them."""
    told: list[Json] = []
    mutations: dict[Any, Json] = {}
    for record in records:
        if record.get("type") == "hashed" and (mutation := mutations.get(record.get("of"))) is not None:
            fill(mutation, record)
            continue
        if record.get("type") == "mutation":
            mutations[record.get("seq")] = record = dict(record)  # noqa: PLW2901  (not to change the caller's)
        told.append(record)
    return told


def fill(mutation: Json, hashed: Json) -> None:
    """Puts into a mutation the digest that was found later."""
    mutation |= {"digest": hashed.get("digest"), "digest_state": hashed.get("digest_state")}


def about(record: Json, paths: Sequence[bytes]) -> bool:
    """Whether a record says something about one of the absolute `paths`, about what lies below it or above it."""
    if record.get("type") == "gap" and record.get("scope") == "all":
        return True
    return any(overlap(named, path) for named in places(record) for path in paths)


def places(record: Json) -> list[bytes]:
    """The paths that a record names."""
    match record.get("type"):
        case "mutation":
            named = [record.get("path"), record.get("from")]
        case "gap":
            named = [record.get("scope")]
        case "action":
            named = list(record.get("paths") or [])
        case "entry":
            named = []
        case _:
            named = [record.get("path")]
    return [local_path(name) for name in named if name is not None]


def overlap(one: bytes, other: bytes) -> bool:
    """Whether two absolute paths are the same, or one lies below the other."""
    return is_below(one, other) or is_below(other, one)


def is_below(path: bytes, directory: bytes) -> bool:
    """Whether `path` is `directory` or lies below it."""
    return path == directory or path.startswith(directory.rstrip(b"/") + b"/")


def uncovered(place: Any) -> str:
    """A place that is not watched, and why where it is told."""
    why = place.get("why") if isinstance(place, dict) else None
    return display(place) + (f" ({output.printable(str(why))})" if why else "")


def number(answer: Json, field: str) -> int:
    """A count of an answer; 0 where it is not told."""
    value = answer.get(field)
    return value if isinstance(value, int) else 0


def display(value: Any) -> str:
    """A value of a record for people."""
    if isinstance(value, list):
        return " ".join(display(item) for item in value)
    if isinstance(value, dict) and "path" in value:
        return display(value["path"])
    if isinstance(value, str) or (isinstance(value, dict) and "b64" in value):
        return output.name(value)
    return output.printable(str(value))
