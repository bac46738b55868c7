"""What the daemon says of its work, on standard error.

Rule: contents of files and values of entries are never logged. What cannot be said (the disk is full, the terminal is
gone, nobody reads) is dropped: no work depends on it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import MutableMapping
from typing import Any, Final, TextIO, cast

import structlog

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_least = LEVELS["info"]


class _StandardError:
    """Standard error without a buffer, that never raises."""

    def write(self, text: str) -> int:
        """Writes it, or drops it."""
        with contextlib.suppress(OSError, ValueError):
            os.write(sys.stderr.fileno(), text.encode(errors="backslashreplace"))
        return len(text)

    def flush(self) -> None:
        """Nothing is kept back."""


def configure(log_format: str | None) -> None:
    """Sets structlog up: `console` for people, `json` for one object a line."""
    renderer: Any
    if log_format == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            _by_level,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", _StandardError())),
        cache_logger_on_first_use=True,
    )


def set_level(level: str) -> None:
    """From now on nothing below `level` (`debug`, `info`, `warning`, `error`) is said."""
    global _least  # noqa: PLW0603  the log is one of the process
    _least = LEVELS[level]


def _by_level(_logger: object, name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Drops what is below the level; `name` is the method that was called."""
    if LEVELS.get("error" if name == "exception" else name, _least) < _least:
        raise structlog.DropEvent
    return event
