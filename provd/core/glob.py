"""Path patterns: `*`, `?`, `[..]`, `[!..]` and `**`, matched against names alone, without any reading.

Rule: time is linear in the names, whatever the pattern. A component is a regular expression that never
returns to a choice once made, and a walk carries the *set* of components that may come next, so that
several `**` visit each directory once.

What a pattern means:

- `*` any run of characters, `?` one character, `[a-z_]` one of these, `[!a-z]` one of the others. A `]`
  that comes first and a `-` that comes first or last stand for themselves. There is no other escape: `[*]`
  is a star, `[[]` a bracket; braces, `^` and backslashes stand for themselves.
- `**` as a whole component is any number of directories, none too; at the end it is everything below, at
  any depth. Inside a component it is `*`.
- Names match as text; each byte that is not UTF-8 is one character.
- A leading dot is matched only by a dot written first in the component; `**` passes over such names too.
- A pattern that ends in `/` matches directories only (and links to directories), named without the slash.
- `.` and `..` may stand before the first wildcard, not after it: there they would give one thing two names.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from provd.core import errors

if TYPE_CHECKING:
    from collections.abc import Callable

States = frozenset[int]
"""The indices of the components that may match the next name."""

_WILD: Final = re.compile(rb"[*?\[]")
_ESCAPED: Final = re.compile(rb"\[([*?\[])\]")
_STARS: Final = re.compile(r"\*+")
_CACHED: Final = 4096


class Part(msgspec.Struct, frozen=True):
    """One component below a pattern's base.

    `literal` is its name where it has no wildcard; `deep` says that it is `**`. `test` takes a name that does
    not start with a dot that `dotted` would have to allow.
    """

    text: str
    test: Callable[[str], bool]
    literal: bytes | None = None
    deep: bool = False

    def matches(self, name: str) -> bool:
        """Whether one whole name matches (for `**`: whether it may be passed through)."""
        if name.startswith(".") and not self.text.startswith("."):
            return False
        return self.test(name)


class Pattern(msgspec.Struct, frozen=True):
    """A compiled pattern.

    `base` is its last directory without a wildcard, otherwise as it was written: what is escaped is none, so that what
    a set holds does not hang on the name of the directory that it lies in. `parts` are the components below it;
    `directories` says that it ended in `/`.
    """

    base: bytes
    parts: tuple[Part, ...]
    directories: bool = False

    def start(self) -> States:
        """The states in the base directory."""
        return self._after(0)

    def step(self, states: States, name: bytes, *, link: bool = False) -> tuple[bool, States]:
        """Whether `name` matches in a directory of these `states`, and the states inside it.

        With `link` the name is that of a symbolic link, which `**` does not pass through.
        """
        text = name.decode("utf-8", "surrogateescape")
        matched = False
        onward: States = frozenset()
        for index in states:
            part = self.parts[index]
            if (part.deep and link) or not part.matches(text):
                continue
            if part.deep:
                onward |= self._after(index)
            elif index + 1 == len(self.parts):
                matched = True
            else:
                onward |= self._after(index + 1)
        return matched, onward

    def literal(self, states: States) -> tuple[bytes, ...] | None:
        """The only names that can match in these `states`, or None where the directory has to be listed."""
        names = {self.parts[index].literal for index in states}
        return None if None in names else tuple(sorted(name for name in names if name is not None))

    def may_hold(self, relative: bytes) -> bool:
        """Whether `relative` (to the base) matches or, as a directory, may have matches below it."""
        matched, states = self._walk(relative)
        return matched or bool(states)

    def matches(self, relative: bytes) -> bool:
        """Whether the whole of `relative` (to the base) matches, links and types left aside."""
        return self._walk(relative)[0]

    def _walk(self, relative: bytes) -> tuple[bool, States]:
        matched, states = False, self.start()
        for name in filter(None, relative.split(b"/")):
            matched, states = self.step(states, name)
        return matched, states

    def _after(self, index: int) -> States:
        """The states at component `index`: itself, and what follows where it is a `**` that passes nothing."""
        return frozenset((index, index + 1)) if self.parts[index].deep else frozenset((index,))


@lru_cache(maxsize=_CACHED)
def compile_pattern(pattern: bytes) -> Pattern:
    """The compiled form of an absolute `pattern`; raises DependencyMalformed where it cannot be one."""
    names = pattern.rstrip(b"/").split(b"/")
    plain = [_literal(name) for name in names]
    first = next((at for at, name in enumerate(plain[:-1]) if name is None), len(names) - 1)
    base = b"/".join(name for name in plain[:first] if name is not None).rstrip(b"/") or b"/"
    parts: list[Part] = []
    for name in filter(None, names[first:]):
        if name in {b".", b".."}:
            raise _malformed(pattern, f"{name.decode()} has no meaning there", "write the path without it")
        part = _compile_part(name, pattern)
        if not (part.deep and parts and parts[-1].deep):  # `**/**` is `**`
            parts.append(part)
    if not parts:
        raise _malformed(pattern, "it names nothing", "write what to look for, such as /*")
    if parts[-1].deep:
        parts.append(_compile_part(b"*", pattern))
    return Pattern(base, tuple(parts), pattern.endswith(b"/"))


def escape(name: bytes) -> bytes:
    """A pattern that means just this path, whatever is special in it."""
    return _WILD.sub(lambda found: b"[" + found[0] + b"]", name)


def _literal(name: bytes) -> bytes | None:
    """The only name that a component matches where all that is special in it is escaped, else None."""
    return None if _WILD.search(_ESCAPED.sub(b"", name)) else _ESCAPED.sub(rb"\1", name)


def _malformed(pattern: bytes, why: str, hint: str) -> errors.DependencyMalformed:
    shown = pattern[:120].decode("utf-8", "backslashreplace")
    return errors.DependencyMalformed(f"the pattern {shown!r} cannot be used: {why}", hint)


def _compile_part(name: bytes, pattern: bytes) -> Part:
    """One component; the usual shapes (a name, `*`, `*.py`, `test_*`, `a*b`) go without a regular expression."""
    text = name.decode("utf-8", "surrogateescape")
    if (literal := _literal(name)) is not None:
        return Part(text, literal.decode("utf-8", "surrogateescape").__eq__, literal=literal)
    if text == "**":
        return Part(text, _anything, deep=True)
    if "?" not in text and "[" not in text:
        pieces = _STARS.split(text)
        if len(pieces) == 2:  # noqa: PLR2004 - one star
            return Part(text, _around(*pieces))
    return Part(text, _expression(text, pattern))


def _anything(_name: str) -> bool:
    return True


def _around(before: str, after: str) -> Callable[[str], bool]:
    """The test for `before*after`."""
    if not before and not after:
        return _anything
    if not before:
        return lambda name: name.endswith(after)
    if not after:
        return lambda name: name.startswith(before)
    least = len(before) + len(after)
    return lambda name: len(name) >= least and name.startswith(before) and name.endswith(after)


def _expression(text: str, pattern: bytes) -> Callable[[str], bool]:
    """The test for any other component.

    The first place where the piece after a star fits is always good enough, so each such piece stands in an
    atomic group and is never tried again further on; only the last piece is bound to the end of the name.
    """
    runs = [""]
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "*":
            runs.append("")
        elif char == "?":
            runs[-1] += "."
        elif char == "[":
            one, at = _bracket(text, at, pattern)
            runs[-1] += one
        else:
            runs[-1] += re.escape(char)
    head, *middle = runs
    if middle:
        *middle, tail = middle
        head += "".join(f"(?>.*?{run})" for run in middle if run) + ".*" + tail
    whole = re.compile(head, re.DOTALL)
    return lambda name: whole.fullmatch(name) is not None


def _bracket(text: str, at: int, pattern: bytes) -> tuple[str, int]:
    """The expression for the set whose `[` was just before `at`, and where the component goes on."""
    negated = text.startswith("!", at)
    at += negated
    end = text.find("]", at + 1)  # a `]` that comes first stands for itself
    if end < 0:
        raise _malformed(pattern, "a [ has no ] in the same component", "write [[] for a literal bracket")
    chars = text[at:end]
    ranges = []
    index = 0
    while index < len(chars):
        low = high = chars[index]
        if chars[index + 1 : index + 2] == "-" and index + 2 < len(chars):
            high = chars[index + 2]
            index += 2
        index += 1
        if low <= high:  # z-a holds nothing
            ranges.append(f"{re.escape(low)}-{re.escape(high)}")
    if not ranges:
        return ("." if negated else "(?!)"), end + 1
    return f"[{'^' if negated else ''}{''.join(ranges)}]", end + 1
