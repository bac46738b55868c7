"""What an entry rests on, and which records of the log concern that.

Rule: a record is left out of a story only where it lies under a dependency's base and cannot have touched it. What the
daemon found to concern the entry in another way (through a link, say) stays.
"""

from __future__ import annotations

import bisect
import fnmatch
import os
import re
from typing import TYPE_CHECKING, Any, Final

from provd.cli.given import names
from provd.cli.words import records
from provd.client import local_path

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

_STRUCTURAL: Final = frozenset({"created", "deleted", "moved"})
_ASKED: Final = 64
"""Paths of which the log is asked at once; of more, the directories above them are asked for."""
ALL_NAMED: Final = 16
"""Members at which evidence may not name all that differ."""
_WILD: Final = re.compile(rb"[*?\[]")


class Dependency:
    """One path dependency of an entry: its base, and what below the base can touch it."""

    def __init__(self, kind: bytes, path: bytes) -> None:
        self.kind = kind
        self.base, self._pattern = path.rstrip(b"/") or b"/", []
        if kind in names.PATTERN_KINDS:
            wild = _WILD.search(path)
            cut = path.rfind(b"/", 0, wild.start() if wild else len(path))
            self.base = path[:cut] or b"/"
            self._pattern = [part for part in path[cut:].split(b"/") if part]

    def led_by(self, directory: bytes) -> bool:
        """Whether a directory lies only on the way to it: its own making is no change of that."""
        return records.is_below(self.base, directory) and (self.base != directory or bool(self._pattern))

    def touched(self, record: Json, path: bytes) -> bool | None:
        """Whether a mutation of `path` can have touched it; None where the path is neither at its base nor below."""
        if records.is_below(self.base, path):
            return True
        if not records.is_below(path, self.base):
            return None
        structural = record.get("kind") in _STRUCTURAL
        if self.kind == b"dir":
            return structural and os.path.dirname(path) == self.base
        if self.kind == b"tree":
            return True
        whole, begun = self._match(path[len(self.base.rstrip(b"/")) + 1 :].split(b"/"))
        return structural and (whole or begun) if self.kind == b"names" else whole or (structural and begun)

    def _match(self, parts: list[bytes]) -> tuple[bool, bool]:
        """Whether the parts of a name match the pattern, and whether something below them could."""
        live = self._skip({0})
        for part in parts:
            live = self._skip(
                {
                    at if self._pattern[at] == b"**" else at + 1
                    for at in live
                    if at < len(self._pattern) and _fits(part, self._pattern[at])
                }
            )
        end = len(self._pattern)
        return end in live, any(at < end for at in live)

    def _skip(self, live: set[int]) -> set[int]:
        """Those and what is reached from them over `**`, which may stand for nothing."""
        for at in sorted(live):
            while at < len(self._pattern) and self._pattern[at] == b"**":
                at += 1  # noqa: PLW2901
                live.add(at)
        return live


def _fits(part: bytes, pattern: bytes) -> bool:
    if part.startswith(b".") and not pattern.startswith(b"."):
        return False
    return pattern == b"**" or fnmatch.fnmatchcase(part, pattern)


def root_of(answer: Json) -> bytes | None:
    """The absolute path of an entry's root, where an answer tells it."""
    return None if answer.get("root") is None else local_path(answer["root"])


def path_of(item: Json, root: bytes | None) -> tuple[bytes, bytes] | None:
    """The kind and absolute path or pattern that an item of an answer names; None for what is none, or not known.

    `root` is the absolute path of the entry's root, where that is known.
    """
    kind, rest = names.parts(names.named(item))
    if kind not in names.PATH_KINDS or (not rest.startswith(b"/") and root is None):
        return None
    return kind, rest if rest.startswith(b"/") else (root or b"").rstrip(b"/") + b"/" + rest


class Ground:
    """All that an entry rests on."""

    def __init__(self, answer: Json) -> None:
        self.objects: set[bytes] = set()
        self.entries: set[str] = set()
        self.relative = 0
        """Dependencies whose path is relative to a directory that is not known here."""
        self.digests: dict[bytes, str] = {}
        """What is kept of files, by path."""
        self._files: set[bytes] = set()
        self._others: list[Dependency] = []
        root = root_of(answer)
        for item in answer.get("deps") or []:
            self._take(item, root)
        self._sorted = sorted(self._files)
        self.bases, self._near = _few({*self._files, *(dep.base for dep in self._others)})
        self._begun: set[Any] = set()
        self._place = {word: answer[word] for word in ("root", "scope") if answer.get(word) is not None}

    def _take(self, item: Json, root: bytes | None) -> None:
        kind, rest = names.parts(names.named(item))
        if kind == b"object":
            self.objects.add(kind + b":" + rest)
        elif kind == b"entry":
            self.entries.add(rest.decode("utf-8", "replace"))
        elif (there := path_of(item, root)) is None:
            self.relative += 1
        else:
            kind, path = there
            if kind != b"file":
                self._others.append(Dependency(kind, path))
            else:
                self._files.add(path)
                if item.get("digest"):
                    self.digests[path] = str(item["digest"])

    def touched(self, record: Json) -> bool:
        """Whether a record that the daemon found to be about `bases` says something of the paths rested on."""
        match record.get("type"):
            case "mutation" | "action":
                seen = record if record["type"] == "mutation" else {"kind": "created"}
                answers = [answer for path in records.places(record) for answer in self._answers(seen, path)]
                return any(answers) or (not self._near and all(answer is None for answer in answers))
            case _:
                return True

    def strange(self, place: bytes) -> bool:
        """Whether what the daemon found to be about `bases` lies at none of them: it came to it through a link."""
        return not self._near and all(answer is None for answer in self._answers({"kind": "created"}, place))

    def names(self, record: Json) -> bool:
        """Whether a mutation, of whatever place, changed one of the paths rested on."""
        return any(answer for path in records.places(record) for answer in self._answers(record, path))

    def _answers(self, record: Json, path: bytes) -> Iterator[bool | None]:
        yield self._of_files(path)
        for dep in self._others:
            yield dep.touched(record, path)

    def _of_files(self, path: bytes) -> bool | None:
        """Whether `path` is a file rested on or a directory above one; None where it is not below one either."""
        if path in self._files:
            return True
        above = path.rstrip(b"/") + b"/"
        at = bisect.bisect_left(self._sorted, above)
        if at < len(self._sorted) and self._sorted[at].startswith(above):
            return True
        return False if any(parent in self._files for parent in _parents(path)) else None

    def told(self, record: Json) -> bool:
        """Whether a record says something of the objects and entries rested on; of gaps, those for all."""
        match record.get("type"):
            case "action":
                written = {local_path(write) for write in record.get("writes") or []}
                if written & self.objects:
                    self._begun.add(record.get("id"))
                return record.get("id") in self._begun
            case "entry":
                place = {word: record[word] for word in ("root", "scope") if word in record}
                return record.get("key") in self.entries and place == self._place
            case "gap":
                return record.get("scope") == "all"
            case _:
                return False


class Differing:
    """The members that differ of the sets at fault, where evidence names all of them."""

    def __init__(self, evidence: list[Json], root: bytes | None) -> None:
        self._sets = []
        self.told: set[bytes] = set()
        """Those sets, by what they name."""
        self.members: set[bytes] = set()
        """All that evidence names of sets."""
        for item in (item for item in evidence if item.get("dep") is not None):
            paths = [local_path(path) for path in item.get("paths") or []]
            there = path_of(item, root)
            self.members.update(paths)
            if there is not None and there[0] != b"file" and 0 < len(paths) < ALL_NAMED:
                self.told.add(names.named(item))
                self._sets.append((Dependency(*there).base, paths))

    def passes_by(self, record: Json) -> bool:
        """Whether a mutation is of such a set, and of no member of it that differs."""
        return bool(self._sets) and all(map(self._passes_by, records.places(record)))

    def _passes_by(self, place: bytes) -> bool:
        members = [paths for base, paths in self._sets if records.is_below(place, base)]
        return bool(members) and not any(
            records.is_below(place, path) or records.is_below(path, place) for paths in members for path in paths
        )


def _few(paths: set[bytes]) -> tuple[list[bytes], bool]:
    """At most _ASKED paths that hold all of `paths`, and whether they hold more than those."""
    near = False
    while True:
        kept: list[bytes] = []
        for path in sorted(paths, key=lambda path: path.rstrip(b"/") + b"/"):
            if not (kept and records.is_below(path, kept[-1])):
                kept.append(path)
        if len(kept) <= _ASKED:
            return kept, near
        paths, near = {os.path.dirname(path) for path in kept}, True


def _parents(path: bytes) -> Iterator[bytes]:
    while (parent := os.path.dirname(path)) != path:
        yield parent
        path = parent
