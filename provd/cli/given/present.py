"""What is there, by the names of dependencies: whether they can mean what was meant, and what `absent` is in words.

Rule: looked at here and only for words, since what a dependency is worth is the daemon's to judge. What cannot be seen
from here, or not in a moment, is left to it.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Final

from provd.cli import output
from provd.cli.command import Usage
from provd.cli.given import names
from provd.cli.given.looking import Seen, look
from provd.client import ProvdUnreachable, RpcError, WirePath, local_path

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from provd.client import Client

_DIRECTORY_KINDS: Final = frozenset({b"dir", b"tree"})
_BRACES: Final = re.compile(rb"\{.*,.*\}")
_FIRST: Final = "the first match will make it dirty"
_NO_HOME: Final = "~ is a name as any other here, since a shell replaces it only unquoted and in front of a word"
_NO_BRACES: Final = "braces are no alternatives, but signs as any other: a --dep for each way"
_BELOW: Final = {b"dir": (b"names:", b"/*"), b"tree": (b"glob:", b"/**")}
"""The patterns that name of many directories what these kinds name of one: what stands before, and behind."""
_OF_NOTHING: Final = "xxh3:99aa06d3014798d86001c324468d497f"
"""The digest of the empty set, which is that of no bytes."""
_UNSEEN: Final = Seen(None, None)
_SORTS: Final = (
    (stat.S_ISREG, "a file"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)


def check(deps: Sequence[str]) -> None:
    """Raises Usage where `dir:` or `tree:` names what is there and no directory: nothing would ever be seen of it."""
    named = [(dep, *names.parts(os.fsencode(dep))) for dep in deps]
    places = {dep: rest.rstrip(b"/") or b"/" for dep, kind, rest in named if kind in _DIRECTORY_KINDS and rest}
    there = look(places.values())
    for dep, path in places.items():
        sort = _sort(seen := there.get(path, _UNSEEN))
        if sort in {None, "a directory"}:
            continue
        word, shown = names.parts(os.fsencode(dep))[0].decode(), output.name_of(path)
        if sort == "a file":
            linked = " (by a link)" if seen.is_link else ""
            hint = f"for its content: --dep {_quoted(b'file:' + path)}"
            raise Usage(f"--dep {output.name_of(os.fsencode(dep))}: {shown} is a file{linked}, no directory", hint)
        above = os.path.dirname(path) or b"."
        hint = f"its content is nothing to compare; what is in its directory is: --dep {_quoted(b'dir:' + above)}"
        raise Usage(f"--dep {word}:{shown}: it is {sort}, no directory", hint)


def unmatched(client: Client, deps: Sequence[str]) -> frozenset[str]:
    """The patterns among dependencies, as they were typed, that match nothing now; asks the daemon where there are any.

    Only names are listed for it. What cannot be told is left out.
    """
    told = [(dep, *names.parts(os.fsencode(dep))) for dep in deps]
    patterns = {dep: names.dependency(os.fsdecode(b"names:" + rest)) for dep, kind, rest in told if _is_set(kind, rest)}
    if not patterns:
        return frozenset()
    try:
        found = client.call("deps.snapshot", deps=list(patterns.values()))["digests"]
    except (ProvdUnreachable, RpcError):  # it was to be of help, and the answer has been given
        return frozenset()
    return frozenset(dep for dep, item in zip(patterns, found, strict=True) if item.get("digest") == _OF_NOTHING)


def _is_set(kind: bytes, rest: bytes) -> bool:
    return kind in names.PATTERN_KINDS and rest != b""


def remarks(deps: Sequence[str], empty: Container[str] = ()) -> Iterator[str]:
    """What is said of dependencies, as they were typed, that may not mean what was meant: a line each.

    `empty`: the patterns among them that match nothing.
    """
    raws = list(map(os.fsencode, deps))
    named = [(raw, *names.parts(raw)) for raw in raws]
    places = {raw: _literal(rest) if kind in names.PATTERN_KINDS else rest for raw, kind, rest in named if rest}
    there = look(places[raw] for raw, kind, rest in named if rest and kind in names.PATH_KINDS)
    for raw, kind, rest in named:
        where, told = places.get(raw, b""), output.name_of(raw)
        if (seen := there.get(where)) is None:
            continue
        if seen.name is None and rest.startswith(b"~"):
            yield f"{told}: {_NO_HOME}"
        elif kind in names.PATTERN_KINDS:
            yield from _of_pattern(told, rest, where, seen, empty=os.fsdecode(raw) in empty)
        elif kind == b"file":
            yield from _of_file(told, rest, seen)
        elif seen.name is None and (meant := _meant(kind, rest)):
            yield f"{told} is taken as the name of one directory: {meant}"


def _of_pattern(told: str, rest: bytes, where: bytes, seen: Seen, *, empty: bool) -> Iterator[str]:
    """The same of a pattern; `seen` is what is at `where`, its last directory without a wildcard."""
    first = _FIRST + (f"; {_NO_BRACES}" if _BRACES.search(rest) else "")
    if seen.name is None:
        yield f"{told}: there is no directory {output.name_of(where)} yet: {first}"
    elif (sort := _sort(seen)) not in {None, "a directory"}:
        yield f"{told}: {output.name_of(where)} is {sort}, so nothing can match"
    elif empty:
        yield f"{told} matches nothing now: {first}"


def _of_file(told: str, rest: bytes, seen: Seen) -> Iterator[str]:
    """The same of a `file:`."""
    if seen.loops:
        yield f"{told} is a link that leads to itself, so it has no content"
    elif _sort(seen) == "a directory":
        ways = f"{_quoted(b'dir:' + rest)} names what is in it, {_quoted(b'tree:' + rest)} all below"
        yield f"{told} is a directory, and file: of it says only that: {ways}"
    elif seen.name is None and (meant := _meant(b"file", rest)):
        yield f"{told} is taken as the name of one file: {meant}"


def _meant(kind: bytes, rest: bytes) -> str:
    """What a name of what is not there may have been meant as; empty where it looks like no pattern."""
    if names.is_pattern(rest):
        below = _BELOW.get(kind)
        more = "" if below is None else f", or for what is in each {_quoted(below[0] + rest.rstrip(b'/') + below[1])}"
        return f"did you mean {_quoted(b'glob:' + rest)}{more}?"
    return _NO_BRACES if _BRACES.search(rest) else ""


def absence(dep: WirePath) -> str:
    """Why a dependency on an absolute path is `absent`: what is there may be no directory, or a dangling link."""
    kind, rest = names.parts(local_path(dep))
    path = rest.rstrip(b"/") or b"/"
    seen = look([path]).get(path, _UNSEEN) if rest.startswith(b"/") else _UNSEEN
    sort = _sort(seen)
    if (kind in _DIRECTORY_KINDS or path != rest) and sort not in {None, "a directory"}:
        return f"is {sort}, no directory"
    if sort is not None:
        return "was not there"
    if seen.loops:
        return "is a link that leads to itself"
    return "is a link to what does not exist" if seen.is_link else "does not exist"


def _sort(seen: Seen) -> str | None:
    """What reading a path would find, links followed; None for nothing, and for what cannot be seen."""
    mode = seen.end
    if mode is None:
        return None
    if stat.S_ISDIR(mode):
        return "a directory"
    return next((sort for is_one, sort in _SORTS if is_one(mode)), "something else")


def _literal(pattern: bytes) -> bytes:
    """The last directory of a pattern before its first wildcard."""
    parts = pattern.split(b"/")[:-1]
    wild = next((at for at, part in enumerate(parts) if names.is_pattern(part)), len(parts))
    literal = b"/".join(parts[:wild])
    return literal or (b"/" if pattern.startswith(b"/") else b".")


def _quoted(argument: bytes) -> str:
    return output.quoted(os.fsdecode(argument))
