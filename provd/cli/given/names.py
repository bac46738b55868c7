"""What the command line names, as the daemon should read it: paths, dependencies, keys, the root around us.

Rule: a relative path means what it means in the current directory. It is made absolute, and `..` is left out of it
where it only leads back out of a directory: `a/link/../b` is for the system to follow, and stays. Bytes that are not
UTF-8 travel as they are.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from provd import hello
from provd.cli.command import Usage
from provd.cli.given.looking import look
from provd.client import WirePath, local_path, wire_path

if TYPE_CHECKING:
    from provd.client import Client

_WORD: Final = re.compile(rb"([A-Za-z][A-Za-z0-9_.+-]*):")
PATH_KINDS: Final = frozenset({b"file", b"dir", b"names", b"glob", b"tree"})
TIMELESS: Final = frozenset({b"object", b"entry"})
"""Kinds of which only a clock can say when they were looked at."""
PATTERN_KINDS: Final = frozenset({b"names", b"glob"})
_SPECIAL: Final = re.compile(rb"[*?\[]")


def absolute(argument: str) -> bytes:
    """The path that an argument names, absolute and clean; a `..` after what is no directory stays."""
    return _joined(os.fsencode(argument), b"")


def spelled(dep: bytes) -> bytes:
    """A dependency that was put in whatever way, its absolute path spelled as `dependency` spells it."""
    kind, rest = parts(dep)
    if kind not in PATH_KINDS or not rest.startswith(b"/"):
        return dep
    return kind + b":" + _clean([], rest, pattern=kind in PATTERN_KINDS)


def path(argument: str) -> WirePath:
    """The same, as it travels."""
    return wire_path(absolute(argument))


def parts(dep: bytes) -> tuple[bytes, bytes]:
    """The kind of a dependency and the rest of it; without a word at its start it is a `file:`."""
    word = _WORD.match(dep)
    return (word[1], dep[word.end() :]) if word else (b"file", dep)


def named(item: dict[str, Any]) -> bytes:
    """What an item of an answer is about, to the absolute path: as it was put it may be relative to another root."""
    dep = local_path(item["dep"])
    return dep if item.get("path") is None else parts(dep)[0] + b":" + local_path(item["path"])


def dependency(argument: str) -> str | dict[str, WirePath]:
    """A dependency or a write, its path made absolute; what the daemon has to judge is left to it."""
    raw = os.fsencode(argument)
    kind, rest = parts(raw)
    if kind in PATH_KINDS and rest:
        raw = kind + b":" + _joined(rest, kind)
    return _travelling(raw)


def is_pattern(name: bytes) -> bool:
    """Whether a name has what is special in a pattern."""
    return _SPECIAL.search(name) is not None


def of_write(write: str | dict[str, Any]) -> WirePath:
    """What a write names, as it is answered; `dependency` sends one that is not UTF-8 as an item."""
    return write["dep"] if isinstance(write, dict) and "dep" in write else write


def is_object(write: str | dict[str, Any]) -> bool:
    """Whether a write, as it is sent or answered, names something that is no file."""
    return parts(local_path(of_write(write)))[0] == b"object"


def file(path: WirePath) -> str | dict[str, WirePath]:
    """The dependency on what an absolute path names."""
    return _travelling(b"file:" + local_path(path))


def _travelling(dep: bytes) -> str | dict[str, WirePath]:
    text = wire_path(dep)
    return text if isinstance(text, str) else {"dep": text}


@dataclass(frozen=True)
class Scope:
    """Where keys live, as the command line says it: `--root`, `--scope`, or neither."""

    root: str | None
    name: str | None

    def __post_init__(self) -> None:
        """Raises Usage where both are given."""
        if self.root is not None and self.name is not None:
            raise Usage("--root and --scope exclude each other", "a key lives below a root or in a named scope")

    def params(self, client: Client) -> dict[str, Any]:
        """`root` or `scope` of a request, never left to the daemon; raises Usage where there is no directory here."""
        if self.name is not None:
            return {"scope": self.name}
        return {"root": wire_path(absolute(self.root) if self.root is not None else root_around(client))}


def root_around(client: Client) -> bytes:
    """The innermost watched root that holds the current directory; else the directory itself, however many there are.

    Where the current directory is gone it is the only watched root; raises Usage where there is not just one.
    """
    around = hello.root_around(_told(client))
    if around is not None:
        return around
    roots = watched(client)
    if len(roots) != 1:
        message = f"the current directory no longer exists, and {len(roots)} roots are watched"
        raise Usage(message, "cd to one that does, or say --root DIR")
    return roots[0]


def watched(client: Client) -> list[bytes]:
    """The watched roots, by their real paths."""
    return hello.watched(_told(client))  # root.list would wait for every root's disk


def watched_around(client: Client) -> bytes | None:
    """The innermost watched root that holds the current directory, if one does; the only one where that is gone."""
    here, roots = hello.here(), watched(client)
    return hello.holding(roots, here) if here is not None or len(roots) != 1 else roots[0]


def watched_below(client: Client) -> list[bytes]:
    """The watched roots that lie below the current directory; none where that is gone."""
    here = hello.here()
    return [] if here is None else [root for root in watched(client) if hello.holding([here], root) is not None]


def _told(client: Client) -> dict[str, Any]:
    return client.greeting or client.hello()


def _joined(given: bytes, kind: bytes) -> bytes:
    if not given:  # a variable that is not set, most likely: never the current directory
        raise Usage("an empty path names nothing", "name a file or a directory; . is the current one")
    if given.startswith(b"/"):
        return _clean([], given, pattern=kind in PATTERN_KINDS)
    try:
        here = os.getcwdb()
    except FileNotFoundError:
        raise Usage("the current directory no longer exists", "cd to one that does, or give absolute paths") from None
    return _clean([name for name in here.split(b"/") if name], given, pattern=kind in PATTERN_KINDS)


def _clean(here: list[bytes], given: bytes, *, pattern: bool) -> bytes:
    """`given` below the directory `here`, absolute, without `//`, `/./`, and `..` where that leads out of a directory.

    `here` are the names of a real path, so `..` leads out of each. Of a pattern nothing is touched from the first name
    on that has anything special. A slash at the end stays, since it says something.
    """
    names, sure = list(here), len(here)
    parts = given.split(b"/")
    for at, part in enumerate(parts):
        last = at + 1 == len(parts)
        if pattern and is_pattern(part):
            names += parts[at:]
            break
        if part == b".." and (not names or len(names) <= sure or _is_directory(b"/" + b"/".join(names))):
            del names[-1:]
            sure = min(sure, len(names))
        elif part not in {b"", b"."}:
            names.append(part)
        elif last and len(names) > sure:
            names.append(b"")
    if pattern:  # what is special in a pattern is not special in the directory we happen to be in
        names[:sure] = [_SPECIAL.sub(lambda found: b"[" + found[0] + b"]", name) for name in names[:sure]]
    return b"/" + b"/".join(names)


@cache  # thousands of names in one command lead through few directories
def _is_directory(path: bytes) -> bool:
    """Whether a name is that of a directory, and no link to one, as far as that can be seen in a moment."""
    seen = None if path.endswith(b"/..") else look([path]).get(path)
    return seen is not None and seen.name is not None and stat.S_ISDIR(seen.name)
