"""Names as a shell can be given them, whatever they hold.

Rule: light, since clients and the daemon's own errors quote too; what is made here is printable and on one line.
"""

from __future__ import annotations

import os
import shlex
import string

_UNQUOTED = frozenset(string.printable[: -len("\t\n\r\v\f")]) - frozenset("'\\")
"""Signs that stand for themselves between $' and '."""


def quoted(text: str) -> str:
    """A name that a shell can be given, in printable signs: it may hold anything.

    One that begins with a dash has quotes in any case, so that it can be told from an option.
    """
    told = typed(text)
    return f"'{told}'" if told.startswith("-") else told


def typed(text: str) -> str:
    """The same of an argument as it was typed: an option stays one."""
    if text.isprintable():
        return shlex.quote(text)
    signs = (sign if (sign := chr(byte)) in _UNQUOTED else f"\\x{byte:02x}" for byte in _bytes(text))
    return "$'" + "".join(signs) + "'"


def _bytes(text: str) -> bytes:
    """A name's own bytes. A key is UTF-8 whatever the locale is, so that the locale may have no bytes for it."""
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
