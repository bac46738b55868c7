"""Which places are left out of `tree:`, `glob:` and `names:`.

Rule: a rule keeps what nobody asked for out of a set; it never hides what was named. So where the literal
base of a dependency lies in an ignored place itself, the rules do not apply to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from pathspec import GitIgnoreSpec

from provd.core.dependency import is_under, up_to
from provd.ignoring import DEFAULT_PATTERNS

Predicate = Callable[[bytes, bool], bool]
"""Whether an absolute path is left out; the second argument says that it is a directory (a link is none)."""

_GIT: Final = b"/.git"
_DIRECTORY: Final = True


class IgnoreRules:
    """The rules of all roots.

    `roots` are pairs of a root's path and its patterns, in gitignore's language; they stand for the default
    ones, which are to be repeated where they are wanted. What is in `always` (the daemon's own places) is left
    out under every root and outside.
    """

    def __init__(self, roots: Sequence[tuple[bytes, Sequence[str]]] = (), always: Sequence[bytes] = ()) -> None:
        longest_first = sorted(roots, key=lambda root: -len(root[0]))
        self._roots = tuple((_lexical(path), tuple(patterns)) for path, patterns in longest_first)
        self._always = frozenset(map(_lexical, always))

    def are_alike(self, one: bytes, other: bytes) -> bool:
        """Whether the same names are left out below both directories, as far as patterns alone can tell."""
        found = []
        for base in map(_lexical, (one, other)):
            root, patterns = self._in_force(base)
            by_pattern = _by_pattern(patterns, len(root.rstrip(b"/")))
            if any(by_pattern(place, _DIRECTORY) for place in up_to(root, base)):
                return False
            found.append(patterns)
        anchored = any("/" in pattern.rstrip("/") for pattern in found[0])
        return found[0] == found[1] and not anchored

    def _in_force(self, lexical: bytes) -> tuple[bytes, tuple[str, ...]]:
        """The root whose rules hold for a set, and its patterns."""
        known = ((root, patterns) for root, patterns in self._roots if is_under(lexical, root))
        return next(known, (b"/", DEFAULT_PATTERNS))

    def for_set(self, base: bytes) -> Predicate:
        """The test for the members of a set whose literal base is `base`; they are asked from the top down."""
        lexical = _lexical(base)
        root, patterns = self._in_force(lexical)
        by_pattern = _by_pattern(patterns, len(root.rstrip(b"/")))
        if any(by_pattern(place, _DIRECTORY) for place in up_to(root, lexical)):
            by_pattern = _nothing
        always = self._always
        if any(is_under(lexical, place) for place in always):
            always = frozenset()
        if not always:
            return _from_base(base, lexical, by_pattern)
        names = frozenset(map(os.path.basename, always))

        def ignored(path: bytes, is_dir: bool) -> bool:
            if path.rpartition(b"/")[2] in names and (path in always or os.path.realpath(path) in always):
                return True  # by its real path too: the base may have been named through a link
            return by_pattern(path, is_dir)

        return _from_base(base, lexical, ignored)


def _lexical(path: bytes) -> bytes:
    """`path` without dots and double slashes: rules speak of names as they are written."""
    return b"/" + os.path.normpath(path).lstrip(b"/")


def _from_base(base: bytes, lexical: bytes, predicate: Predicate) -> Predicate:
    """Asks about members by the lexical name of their base."""
    written = base.rstrip(b"/")
    if written == lexical.rstrip(b"/"):
        return predicate
    start = len(written)
    prefix = lexical.rstrip(b"/")
    return lambda path, is_dir: predicate(prefix + path[start:], is_dir)


def _nothing(_path: bytes, _is_dir: bool) -> bool:
    return False


def _by_pattern(patterns: tuple[str, ...], root_length: int) -> Predicate:
    if not patterns:
        return _nothing
    if patterns == DEFAULT_PATTERNS:  # most trees: no pattern needs to be asked
        return lambda path, is_dir: is_dir and path.endswith(_GIT)
    spec = _compile(patterns)

    def ignored(path: bytes, is_dir: bool) -> bool:
        name = path[root_length + 1 :].decode("utf-8", "surrogateescape")
        return spec.match_file(name + "/" if is_dir else name)

    return ignored


@lru_cache(maxsize=256)
def _compile(patterns: tuple[str, ...]) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(patterns)
