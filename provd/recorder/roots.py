"""Adding and removing roots.

Rule: every change of what is watched is a record, with a gap for the subtree.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

import msgspec
import pathspec

from provd.core import errors, records
from provd.core.records import wire_name
from provd.disk import DEFAULT_PATTERNS, Directory, IgnoreRules
from provd.store import Store, Writer
from provd.store.keys import Root

MAX_PATTERNS = 1000
MAX_PATTERN = 1024
MAX_STARS = 3
_STARS = re.compile(r"[*?]+")
NO_WATCHER = "this version has no watcher: answers are by reading"


class Roots:
    """The roots, kept across restarts; `own` is the daemon's state directory, which is never part of them.

    `paths` and `kept` are those of the moment, in order of path, and `rules` what they ignore.
    """

    def __init__(self, store: Store, own: bytes) -> None:
        self._store = store
        self._own = own
        self.load()

    def load(self) -> None:
        """Takes over what the store has."""
        with self._store.view() as view:
            self.kept: list[Root] = sorted(view.roots(), key=lambda root: root.path)
        patterns = [(r.path, DEFAULT_PATTERNS if r.ignore is None else r.ignore) for r in self.kept]
        self.rules = IgnoreRules(patterns, [self._own, os.path.realpath(self._own)])

    @property
    def paths(self) -> list[bytes]:
        """The paths of the roots."""
        return [root.path for root in self.kept]

    async def add(self, directory: Directory, ignore: tuple[str, ...] | None) -> None:
        """Adds a directory as a root, or gives it other ignore rules."""
        await self._store.submit(adding(directory, ignore))
        self.load()

    async def remove(self, path: bytes) -> None:
        """Removes a root; raises RootMissing."""

        def command(writer: Writer) -> None:
            if path not in {root.path for root in writer.roots()}:
                raise errors.RootMissing(f"{wire_name(path)} is no root", "provd watch ls shows the roots")
            writer.append(records.RootChange(writer.now, "removed", path))
            writer.append(records.Gap(writer.now, path, "root removed"))
            writer.delete_root(path)

        await self._store.submit(command)
        self.load()


def check_patterns(patterns: Sequence[str]) -> None:
    """Raises InvalidParams for ignore rules that do not parse, or that could take for ever to match.

    A rule becomes a regular expression in which each star may begin anywhere: few of them are enough for any use.
    """
    if len(patterns) > MAX_PATTERNS:
        raise errors.InvalidParams(f"{len(patterns)} ignore rules", f"at most {MAX_PATTERNS}")
    for pattern in patterns:
        names = pattern.split("/")
        stars = max(names.count("**"), *(len(_STARS.findall(name)) for name in names))
        if len(pattern) > MAX_PATTERN or stars > MAX_STARS:
            raise errors.InvalidParams(
                f"the ignore rule {pattern[:80]!r} is too long or has over {MAX_STARS} stars", "simplify it"
            )
        try:
            pathspec.GitIgnoreSpec.from_lines([pattern])
        except (ValueError, re.error) as e:
            raise errors.InvalidParams(
                f"the ignore rule {pattern[:80]!r} does not parse: {e}", "see gitignore(5)"
            ) from None


def adding(directory: Directory, ignore: tuple[str, ...] | None) -> Callable[[Writer], None]:
    """The command that adds a root."""
    path = directory.path

    def command(writer: Writer) -> None:
        there = next((root for root in writer.roots() if root.path == path), None)
        rules = ignore if ignore is not None or there is None else there.ignore
        root = Root(path, directory.dev, directory.ino, rules)
        if there is not None and msgspec.structs.replace(there, gap=0) == root:
            return
        if there is None:
            writer.append(records.RootChange(writer.now, "added", path))
            writer.append(records.Coverage(writer.now, path, "none", NO_WATCHER))
        reason = "root added" if there is None else "rules changed" if there.ignore != rules else "root replaced"
        gap = writer.append(records.Gap(writer.now, path, reason))
        writer.put_root(msgspec.structs.replace(root, gap=gap))

    return command
