"""The exit codes: one for each outcome, so that a script can trust them.

Rule: this is the one place that knows the numbers; `provd help exit-codes` explains them.
"""

from __future__ import annotations

import signal
from typing import Final

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
INTERRUPTED: Final = 128 + signal.SIGINT
READER_GONE: Final = 128 + signal.SIGPIPE
