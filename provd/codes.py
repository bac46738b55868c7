"""The exit codes: one for each outcome, so that a script can trust them.

Rule: this is the one place that knows the numbers; `provd help exit-codes` explains them. It imports nothing: a
question asked as a whole process waits for what it imports (`fastpath`).
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing costs more than all that is here
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Final

FRESH: Final = 0
"""Fresh, or done."""
FOUND: Final = 1
"""Dirty, or something was found."""
USAGE: Final = 2
UNREACHABLE: Final = 3
UNKNOWN: Final = 4
REFUSED: Final = 5
"""Refused, provd's own fault, or an answer that could not be written."""
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
"""Of `exec`, as a shell has them."""
INTERRUPTED: Final = 128 + 2
"""As a shell says that SIGINT ended a program."""
READER_GONE: Final = 128 + 13
"""The same of SIGPIPE."""


def of_verdicts(verdicts: Iterable[Mapping[str, Any]]) -> int:
    """Of verdicts as they came: dirty if any is, else unknown if any is not fresh, or if there is none.

    It is 0 only where every verdict is `fresh`, whatever else an answer holds.
    """
    words = {str(verdict.get("verdict")) for verdict in verdicts}
    if "dirty" in words:
        return FOUND
    return FRESH if words == {"fresh"} else UNKNOWN
