"""Reading sets: `dir:`, `names:`, `glob:` and `tree:`.

Rule: a set is what one walk found, every directory of which was listed while it stood still. A member that
is gone before it was read means that the walk has to be made again, and is never left out in silence.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from typing import Final

from provd.core import dependency, glob
from provd.core.dependency import Kind, Member
from provd.core.reading import Found, Reading, Trouble
from provd.disk.files import Attempt, Changed, Seen, Sort, list_directory, read_content
from provd.disk.ignore import IgnoreRules

MAX_PATHS: Final = 16
"""Unreadable paths that are named; a walk ends when it has met so many."""

Entry = tuple[bytes, Sort]


class _Enough(Exception):
    """There are MAX_PATHS unreadable places already."""


def read_set(reading: Reading, rules: IgnoreRules, attempt: Attempt) -> Found:
    """The digest and members of a set; raises Changed and Cancelled, never OSError."""
    walk = _Walk(reading, rules, attempt)
    try:
        there = walk.run()
    except _Enough:
        there = True
    if walk.troubles:
        paths = tuple(sorted(walk.troubles))
        detail = "; ".join(sorted({reason(error) for error in walk.troubles.values()}))
        return Found(trouble=Trouble.UNREADABLE, detail=detail, paths=paths, ignored=walk.ignored)
    if not there:
        return Found(dependency.ABSENT)
    members = tuple(sorted(walk.members, key=lambda member: member.name))
    digest = dependency.set_digest(attempt.algorithm, members)
    return Found(digest, members=members, ignored=walk.ignored, linked=walk.linked, sealed=attempt.sealed)


def reason(error: OSError) -> str:
    """An error of the system as a detail for people."""
    code = errno.errorcode.get(error.errno or 0, "error")
    return f"{code}: {os.strerror(error.errno or 0)}"


class _Walk:
    """One walk over one set."""

    def __init__(self, reading: Reading, rules: IgnoreRules, attempt: Attempt) -> None:
        self.members: list[Member] = []
        self.troubles: dict[bytes, OSError] = {}
        self.ignored = 0
        self.linked = False
        self._reading = reading
        self._rules = rules
        self._attempt = attempt

    def run(self) -> bool:
        """Fills `members`; False if what has to be a directory is none."""
        kind, path = self._reading.kind, self._reading.path
        pattern = glob.compile_pattern(path) if kind in dependency.PATTERN_KINDS else None
        try:
            self._attempt.follow(path if pattern is None else pattern.base)
        except OSError as error:
            self._trouble(path, error)
            return True
        if pattern is not None:
            self._matches(pattern)
            return True
        return self._directory(path) if kind is Kind.DIR else self._tree(path)

    def _directory(self, path: bytes) -> bool:
        entries = self._list(path, top=True, follow=True)
        self.members = [Member(sort, name, b"") for name, sort in entries or ()]
        return entries is not None

    def _tree(self, path: bytes) -> bool:
        ignored = self._rules.for_set(path)
        there = True
        stack = [(path, b"")]
        while stack:
            directory, prefix = stack.pop()
            entries = self._list(directory, top=not prefix, follow=not prefix)
            if entries is None:
                there = False
                continue
            for full, name, sort in _below(directory, entries):
                if ignored(full, sort is Sort.DIRECTORY):
                    self.ignored += 1
                    continue
                self._tree_member(full, prefix + name, sort)
                if sort is Sort.DIRECTORY:
                    stack.append((full, prefix + name + b"/"))
        return there

    def _tree_member(self, full: bytes, relative: bytes, sort: Sort) -> None:
        try:
            raw = b""
            if sort is Sort.FILE:
                sort, raw = self._content(full, follow=False)
            elif sort is Sort.LINK:
                raw = self._target(full)
            self.members.append(Member(sort, relative, raw))
        except OSError as error:
            self._trouble(full, error)

    def _matches(self, pattern: glob.Pattern) -> None:
        ignored = self._rules.for_set(pattern.base)
        stack = [(pattern.base, b"", pattern.start(), True)]
        while stack:
            directory, prefix, states, follow = stack.pop()
            literals = pattern.literal(states)
            entries = (
                self._list(directory, top=not prefix, follow=follow)
                if literals is None
                else self._look_for(directory, literals)
            )
            for full, name, sort in _below(directory, entries or ()):
                matched, onward = pattern.step(states, name, link=sort is Sort.LINK)
                enters = bool(onward) and sort in {Sort.DIRECTORY, Sort.LINK}
                if not matched and not enters:
                    continue
                if ignored(full, sort is Sort.DIRECTORY):
                    self.ignored += 1
                    continue
                if matched:
                    self._match(full, prefix + name, sort, directories=pattern.directories)
                if enters and (sort is Sort.DIRECTORY or self._leads_to_directory(full)):
                    stack.append((full, prefix + name + b"/", onward, sort is Sort.LINK))

    def _match(self, full: bytes, relative: bytes, sort: Sort, *, directories: bool) -> None:
        if directories and sort is not Sort.DIRECTORY and not (sort is Sort.LINK and self._leads_to_directory(full)):
            return
        try:
            raw = b""
            if self._reading.kind is Kind.GLOB and sort in {Sort.FILE, Sort.LINK}:
                sort, raw = self._content(full, follow=sort is Sort.LINK)
            self.members.append(Member(sort, relative, raw))
        except OSError as error:
            self._trouble(full, error)

    def _list(self, path: bytes, *, top: bool, follow: bool) -> tuple[Entry, ...] | None:
        """The entries of a directory; None if the `top` one is no directory; nothing if it cannot be read."""
        self._attempt.check()
        try:
            now = self._attempt.look(path, follow=follow)
            if now.sort is Sort.DIRECTORY:
                return list_directory(path, now, self._attempt, follow=follow).entries
            if not top:
                raise Changed(path)
            self._attempt.seen.append(Seen(path, follow, now.sort))
        except OSError as error:
            self._trouble(path, error)
            return ()
        return None

    def _look_for(self, directory: bytes, names: Iterable[bytes]) -> list[Entry]:
        """Those of `names` that are there: a directory need not be listed, nor be readable, for that."""
        entries: list[Entry] = []
        for full, name, _ in _below(directory, ((name, Sort.ABSENT) for name in names)):
            self._attempt.check()
            try:
                self._attempt.follow(full, last=False)
                sort = self._attempt.look(full, follow=False).sort
            except OSError as error:
                self._trouble(full, error)
                continue
            self._attempt.seen.append(Seen(full, follow=False, sort=sort))
            if sort not in {Sort.ABSENT, Sort.LOOP}:
                entries.append((name, sort))
        return entries

    def _leads_to_directory(self, link: bytes) -> bool:
        self.linked = True
        try:
            self._attempt.follow(link)
            sort = self._attempt.look(link, follow=True).sort
        except OSError as error:
            self._trouble(link, error)
            return False
        self._attempt.seen.append(Seen(link, follow=True, sort=sort))
        return sort is Sort.DIRECTORY

    def _content(self, full: bytes, *, follow: bool) -> tuple[Sort, bytes]:
        """What a file or, with `follow`, a link gives: its type and raw digest; a link that leads nowhere is `l`."""
        self._attempt.check()
        if follow:
            self.linked = True
            self._attempt.follow(full)
        now = self._attempt.look(full, follow=follow)
        if now.sort is Sort.FILE:
            return Sort.FILE, read_content(full, now, self._attempt, follow=follow).raw
        if not follow and now.sort is not Sort.SPECIAL:
            raise Changed(full)
        self._attempt.seen.append(Seen(full, follow, now.sort))
        return (Sort.LINK if now.sort in {Sort.ABSENT, Sort.LOOP} else now.sort), b""

    def _target(self, full: bytes) -> bytes:
        self._attempt.check()
        try:
            target = os.readlink(full)
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.EINVAL}:
                raise Changed(full) from error
            raise
        self._attempt.seen.append(Seen(full, follow=False, sort=Sort.LINK, raw=target))
        hasher = dependency.hasher(self._attempt.algorithm)
        hasher.update(target)
        return hasher.digest()

    def _trouble(self, path: bytes, error: OSError) -> None:
        self.troubles[path] = error
        if len(self.troubles) == MAX_PATHS:
            raise _Enough


def _below(directory: bytes, entries: Iterable[Entry]) -> Iterator[tuple[bytes, bytes, Sort]]:
    """Each entry with its path."""
    start = directory.rstrip(b"/") + b"/"
    for name, sort in entries:
        yield start + name, name, sort
