"""What the daemon says of its work: on standard error, in a file, or in systemd's journal.

Rule: contents of files and values of entries are never logged. What cannot be said (the disk is full, the terminal is
gone, nobody reads) is dropped: no work depends on it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final

import structlog

from provd import journal
from provd.core import errors
from provd.logfile import LogFile
from provd.stream import Lines

LEVELS: Final[Mapping[str, int]] = {"debug": 10, "info": 20, "warning": 30, "error": 40}
"""The levels by name, the least important first."""
_INFO: Final = LEVELS["info"]
_threshold = _INFO

_Event = MutableMapping[str, Any]
_Processor = Callable[[Any, str, _Event], Any]


def configure(log_format: str | None, *, log_file: str | None = None, level: str = "info") -> None:
    """Sets structlog up, once for a process: loggers that were used keep what they had.

    `log_format`: `console` for people, `json` for one object a line; None is the journal's own protocol where standard
    error is the journal, else `console`. `log_file`: there instead, and standard error becomes that file.
    Raises InvalidParams where there is no such level, or the file cannot be opened.
    """
    set_level(level)
    write, is_journal = _target(log_file)
    structlog.configure(
        processors=[_enough, structlog.processors.add_log_level, *_processors(log_format, is_journal=is_journal)],
        logger_factory=lambda *_: _Lines(write),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_Libraries()], level=logging.WARNING, force=True)


def set_level(level: str) -> None:
    """From now on what is less important is not said; raises InvalidParams where there is no such level."""
    global _threshold  # noqa: PLW0603  loggers are made once and kept; what they all ask is this
    if level not in LEVELS:
        raise errors.InvalidParams(f"there is no log level {level!r}", f"one of {', '.join(LEVELS)}")
    _threshold = LEVELS[level]


def _enough(_logger: Any, method: str, event: _Event) -> _Event:
    """Drops what is not important enough."""
    if LEVELS.get("error" if method in {"exception", "critical"} else method, _INFO) < _threshold:
        raise structlog.DropEvent
    return event


def _processors(log_format: str | None, *, is_journal: bool) -> list[_Processor]:
    """What makes a line of an event; to the journal each line says how important it is."""
    if log_format is None and is_journal:
        return [structlog.processors.format_exc_info, journal.Native()]
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    render: _Processor
    if log_format == "json":
        render = structlog.processors.JSONRenderer()
    else:
        render = structlog.dev.ConsoleRenderer(colors=not is_journal and os.isatty(2))
    plain = [] if log_format == "json" else [_harmless]
    return [stamp, structlog.processors.format_exc_info, *plain, _prefixing(render) if is_journal else render]


def _harmless(_logger: Any, _method: str, event: _Event) -> _Event:
    """Nothing of a name steers a terminal or looks like another line; only a traceback has several."""
    for word, told in event.items():
        if isinstance(told, str) and not told.isprintable():
            event[word] = "".join(
                sign if sign.isprintable() or (sign == "\n" and word == "exception") else repr(sign)[1:-1]
                for sign in told
            )
    return event


def _prefixing(render: _Processor) -> _Processor:
    def prefixed(logger: Any, method: str, event: _Event) -> str:
        level = str(event.get("level"))
        return journal.prefixed(str(render(logger, method, event)), level)

    return prefixed


def _target(log_file: str | None) -> tuple[Callable[[bytes], object], bool]:
    """What lines are written with, and whether they go to the journal."""
    if log_file is not None:
        try:
            return LogFile(log_file).write, False
        except OSError as e:
            raise errors.InvalidParams(
                f"the log file {log_file} cannot be opened: {e.strerror or e}", "give another --log-file"
            ) from None
    if sys.stderr is None:  # it was closed when we were started: then 2 may be anything
        return len, False
    return Lines(2).write, journal.is_journal(2)


class _Libraries(logging.Handler):
    """What libraries say (asyncio: of a task that failed and nobody waited for) is said as all else is."""

    def emit(self, record: logging.LogRecord) -> None:
        """Takes one message."""
        level = next((name for name, number in LEVELS.items() if record.levelno <= number), "error")
        more = {"exc_info": record.exc_info} if record.exc_info else {}
        getattr(structlog.get_logger(), level)(record.getMessage(), library=record.name, **more)


class _Lines:
    """The logger under structlog's: takes ready lines, keeps none back, never raises."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def msg(self, text: str) -> None:
        """Writes a line, or drops it."""
        with contextlib.suppress(OSError, ValueError):
            self._write(text.encode(errors="backslashreplace") + b"\n")

    debug = info = warning = error = critical = msg
