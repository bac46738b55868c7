"""A line of a shell as it is being typed: its words, and the quotes that stand open in the last one.

Rule: what is handed back to a shell is quoted, since a key may hold what a shell would run. Where it is not certain how
the shell would put a word together, nothing is offered.
"""

from __future__ import annotations

import os
import string
from dataclasses import dataclass, field
from typing import Final

_SAFE: Final = frozenset(string.ascii_letters + string.digits + "_@%+=:,./-")
"""Of ASCII: what means nothing to a shell, wherever it stands."""
_ESCAPED: Final = frozenset('\\"$`')
"""What a backslash protects between double quotes."""


@dataclass
class Typed:
    """A line up to the cursor. Words are as the command would get them."""

    words: list[str] = field(default_factory=list)
    """Those that are complete."""
    word: str = ""
    """The last one, which is being typed; empty where it has not begun."""
    quote: str = ""
    """The quote that stands open in it."""
    start: int = 0
    """Where in it that begins which bash would replace: behind the open quote, or behind the last break."""
    at_home: bool = False
    """Whether it begins with a ~ that the shell will replace."""
    certain: bool = True
    """Whether it has neither a quote that was closed nor a backslash at its end."""

    @property
    def option(self) -> str:
        """What stands before an option's value in the last word, as `--dep=`; empty where that is no such word."""
        name, equals, _ = self.word.partition("=")
        return name + equals if equals and name.startswith("--") else ""


def take_apart(line: str, breaks: str = "") -> Typed:
    """The words of a line; `breaks`: what bash takes for the end of a word, besides spaces."""
    typed = Typed()
    begun = escaped = False
    for sign in line:
        if escaped:
            kept = "\\" if typed.quote and sign not in _ESCAPED else ""
            typed.word, escaped = typed.word + kept + sign, False
        elif sign == "\\" and typed.quote != "'":
            begun = escaped = True
        elif sign == typed.quote:
            typed.quote, typed.certain = "", False
        elif typed.quote:
            typed.word += sign
        elif sign in "'\"":
            begun, typed.quote, typed.start = True, sign, len(typed.word)
        elif sign.isspace():
            typed, begun = Typed([*typed.words, _got(typed)] if begun else typed.words), False
        else:
            typed.at_home = typed.at_home or (sign == "~" and not begun)
            begun = True
            typed.word += sign
            typed.start = len(typed.word) if sign in breaks else typed.start
    typed.certain = typed.certain and not escaped
    return typed


def _got(typed: Typed) -> str:
    """The last word as the command gets it, when it is complete."""
    return os.path.expanduser(typed.word) if typed.at_home else typed.word


def quoted(text: str, quote: str) -> str:
    """Printable text as bash must read it, to get it back: behind an open quote, or without one (empty)."""
    if quote == "'":
        return text.replace("'", "'\\''")
    if quote:
        # History is looked up between double quotes too, and no backslash there hides a ! without staying.
        return "".join("\"'!'\"" if sign == "!" else "\\" * (sign in _ESCAPED) + sign for sign in text)
    return "".join(sign if sign in _SAFE or not sign.isascii() else f"\\{sign}" for sign in text)
