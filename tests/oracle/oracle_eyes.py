"""What is there, seen by our own eyes: the digest of a dependency, and all that this digest rests on.

Rule: nothing of the product is imported, and nothing is remembered from one moment to the next: an `Eyes` is one
moment, in which nobody does anything. Paths are text with surrogates, as `os.fsdecode` makes it.

A token names something that can change: `("c", device, inode)` is what a file holds and who may read it, `("n", device,
inode, name)` is what a name in a directory means, `("l", device, inode)` is which names a directory has.
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import os
import re
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Token = tuple[str | int, ...]
ABSENT: Final = "absent"
SPECIAL: Final = "type:special"
_LINKS: Final = 40
_WILD: Final = re.compile(r"[*?\[]")
_SIGN: Final = re.compile(r"\[([*?\[])\]")


class Look(NamedTuple):
    """The digest (sha256) of a dependency, what it rests on, and whether something of it may not be read."""

    digest: str
    rests: frozenset[Token]
    barred: bool


class _Way(NamedTuple):
    path: str  # the real one; what it would be where nothing is
    status: os.stat_result | None
    word: str  # why there is no status


def identity(status: os.stat_result) -> tuple[int, int]:
    """What makes two names of a file the same."""
    return (status.st_dev, status.st_ino)


def content(status: os.stat_result) -> Token:
    """The token of what is in a file."""
    return ("c", status.st_dev, status.st_ino)


@functools.cache
def _matcher(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))


class Eyes:
    """One moment of all that lies below `home`, which no link leaves. `bars`: whether modes keep a reader out."""

    def __init__(self, home: str, root: str, *, bars: bool = False) -> None:
        self._home, self._root, self._bars = home, root, bars
        self._looks: dict[str, Look] = {}
        self._statuses: dict[str, os.stat_result | None] = {}
        self._ways: dict[str, tuple[_Way, set[Token], bool]] = {}
        self._names: dict[str, list[str]] = {}
        self._contents: dict[tuple[int, int], bytes] = {}
        self._rests: set[Token] = set()
        self._barred = False

    def look(self, dep: str) -> Look:
        """What a path dependency is now; relative ones are below the root."""
        if dep not in self._looks:
            self._rests, self._barred = set(), False
            kind, _, name = dep.partition(":")
            digest = self._digest(kind, os.path.join(self._root, name))
            self._looks[dep] = Look(digest, frozenset(self._rests), self._barred)
        return self._looks[dep]

    def _digest(self, kind: str, path: str) -> str:
        if kind == "file":
            return self._file(path)
        rows: set[tuple[bytes, str, bytes]] = set()
        if kind in {"dir", "tree"}:
            way = self._way(path)
            if way.status is None or not stat.S_ISDIR(way.status.st_mode):
                return ABSENT
            members = self._below(way.path, "") if kind == "tree" else ((n, n) for n in self._list(way.path))
            for name, member in members:
                status = self._lstat(f"{way.path}/{member}")
                rows.add((os.fsencode(name), *self._row(f"{way.path}/{member}", status, read=kind == "tree")))
        else:
            base, parts = _split(path)
            way = self._way(base)
            for member in self._matches(way.path, "", parts) if way.status is not None else ():
                letter, raw = self._member(f"{way.path}/{member}", read=kind == "glob")
                rows.add((os.fsencode(member), letter, raw))
        whole = b"".join(letter.encode() + b"\0" + name + b"\0" + raw + b"\0" for name, letter, raw in sorted(rows))
        return f"sha256:{hashlib.sha256(whole).hexdigest()}"

    def _file(self, path: str) -> str:
        way = self._way(path)
        if way.status is None:
            return way.word
        if stat.S_ISREG(way.status.st_mode):
            return f"sha256:{self._content(way.path, way.status).hex()}"
        return "type:dir" if stat.S_ISDIR(way.status.st_mode) else SPECIAL

    # -- members of sets

    def _row(self, path: str, status: os.stat_result | None, *, read: bool) -> tuple[str, bytes]:
        """Type and raw digest of a member by `lstat`; it counts as something that this rests on."""
        self._rest_on_name(path)
        assert status is not None
        if stat.S_ISREG(status.st_mode):
            return "f", self._content(path, status) if read else b""
        if stat.S_ISLNK(status.st_mode):
            return "l", hashlib.sha256(os.fsencode(os.readlink(path))).digest() if read else b""
        return ("d" if stat.S_ISDIR(status.st_mode) else "s"), b""

    def _member(self, path: str, *, read: bool) -> tuple[str, bytes]:
        """A match; `glob:` follows one that is a link."""
        status = self._lstat(path)
        if not read or status is None or not stat.S_ISLNK(status.st_mode):
            return self._row(path, status, read=read)
        self._rest_on_name(path)
        way = self._way(path)
        if way.status is None:
            return "l", b""
        if stat.S_ISREG(way.status.st_mode):
            return "f", self._content(way.path, way.status)
        return ("d" if stat.S_ISDIR(way.status.st_mode) else "s"), b""

    def _below(self, directory: str, prefix: str) -> Iterator[tuple[str, str]]:
        for name in self._list(directory):
            member = f"{prefix}/{name}" if prefix else name
            yield member, member
            path = f"{directory}/{name}"
            status = self._lstat(path)
            if status is not None and stat.S_ISDIR(status.st_mode):
                yield from self._below(path, member)

    def _matches(self, directory: str, prefix: str, parts: Sequence[str]) -> Iterator[str]:
        first, rest = parts[0], parts[1:]
        if first == "**":
            yield from self._matches(directory, prefix, rest)
            for name in self._list(directory):
                path = f"{directory}/{name}"
                status = self._lstat(path)
                if not name.startswith(".") and status is not None and stat.S_ISDIR(status.st_mode):
                    self._rest_on_name(path)
                    yield from self._matches(path, (f"{prefix}/{name}" if prefix else name), parts)
            return
        for name in self._list(directory):
            if name.startswith(".") and not first.startswith("."):
                continue
            if _matcher(first).match(name):
                member = f"{prefix}/{name}" if prefix else name
                if not rest:
                    yield member
                    continue
                self._rest_on_name(f"{directory}/{name}")
                way = self._way(f"{directory}/{name}")
                if way.status is not None and stat.S_ISDIR(way.status.st_mode):
                    yield from self._matches(way.path, member, rest)

    # -- the disk, each thing looked at once

    def _way(self, path: str) -> _Way:
        """What a path leads to; this rests on all names on the way."""
        if path not in self._ways:
            outer, barred = self._rests, self._barred
            self._rests, self._barred = set(), False
            self._ways[path] = (self._follow(path), self._rests, self._barred)
            self._rests, self._barred = outer, barred
        way, rests, barred = self._ways[path]
        self._rests |= rests
        self._barred |= barred
        return way

    def _follow(self, path: str) -> _Way:
        """Follows all links, name by name."""
        left = self._inside(path).split(os.sep)[::-1]
        current, links = self._home, 0
        while left:
            name = left.pop()
            if name in {"", "."}:
                continue
            if name == "..":
                current = os.path.dirname(current)
                continue
            there = self._lstat(current)
            if there is None or not stat.S_ISDIR(there.st_mode):
                return _Way(current, None, ABSENT)
            self._bar(there, 0o100)
            next_path = f"{current}/{name}"
            self._rests.add(("n", there.st_dev, there.st_ino, name))
            self._rests.add(content(there))
            status = self._lstat(next_path)
            if status is None:
                return _Way(next_path, None, ABSENT)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if links > _LINKS:
                    return _Way(next_path, None, "type:loop")
                target = os.readlink(next_path)
                if os.path.isabs(target):
                    target, current = self._inside(target), self._home
                left += target.split(os.sep)[::-1]
                continue
            current = next_path
        return _Way(current, self._lstat(current), ABSENT)

    def _inside(self, path: str) -> str:
        assert path.startswith(self._home + os.sep), path
        return path[len(self._home) + 1 :]

    def _rest_on_name(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        there = self._lstat(directory)
        assert there is not None
        self._rests.add(("n", there.st_dev, there.st_ino, name))

    def _bar(self, status: os.stat_result, bit: int) -> None:
        self._barred = self._barred or (self._bars and not status.st_mode & bit)

    def _lstat(self, path: str) -> os.stat_result | None:
        if path not in self._statuses:
            try:
                self._statuses[path] = os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                self._statuses[path] = None
        return self._statuses[path]

    def _list(self, directory: str) -> list[str]:
        there = self._lstat(directory)
        if there is None or not stat.S_ISDIR(there.st_mode):
            return []
        self._bar(there, 0o400)
        self._rests.update((("l", *identity(there)), content(there)))
        if directory not in self._names:
            self._names[directory] = os.listdir(directory)
        self._bar(there, 0o100)
        return self._names[directory]

    def _content(self, path: str, status: os.stat_result) -> bytes:
        self._bar(status, 0o400)
        self._rests.add(content(status))
        which = identity(status)
        if which not in self._contents:
            with open(path, "rb") as file:
                self._contents[which] = hashlib.sha256(file.read()).digest()
        return self._contents[which]


def _split(pattern: str) -> tuple[str, list[str]]:
    """The last directory without a wildcard, and the parts behind it."""
    parts = pattern.split(os.sep)
    plain = 0
    while plain < len(parts) - 1 and not _WILD.search(_SIGN.sub("", parts[plain])):
        plain += 1
    return _SIGN.sub(r"\1", os.sep.join(parts[:plain])), parts[plain:]
