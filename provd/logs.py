"""What the daemon says of its work, on standard error.

Rule: contents of files and values of entries are never logged.
"""

from __future__ import annotations

import sys
from typing import Any

import structlog


def configure(log_format: str) -> None:
    """Sets structlog up: `console` for people, `json` for one object a line."""
    renderer: Any
    if log_format == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
