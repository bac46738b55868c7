"""Ignore rules in gitignore's language, as words: the default ones, and the rule that names one directory.

Rule: nothing is matched here. Daemon and command line ask here, so that they agree.
"""

from __future__ import annotations

import re
from typing import Final

DEFAULT_PATTERNS: Final = (".git/",)
"""What is ignored where nothing else is said, outside every root too."""
_SPECIAL: Final = re.compile(r"[\\*?\[]| $")


def undone(pattern: str) -> str:
    """The rule that takes an earlier one back."""
    return f"!{pattern}"


def naming(place: bytes) -> str | None:
    """The rule that leaves out one directory, given by its path below the root; None where no rule can be written."""
    try:
        written = place.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if not written.isprintable():
        return None
    return "/" + "/".join(_SPECIAL.sub(lambda sign: "\\" + sign[0], name) for name in written.split("/")) + "/"
