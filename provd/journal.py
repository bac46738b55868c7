"""systemd's journal: whether standard error leads there, and its native protocol, which takes fields.

Rule: a message that the journal does not take at once is told by a line on standard error instead, or dropped; nothing
waits for it. The protocol: "Native Journal Protocol" of systemd; the prefix of lines: sd-daemon(3).
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Mapping
from typing import Any, Final

import structlog

SOCKET: Final = "/run/systemd/journal/socket"
PRIORITIES: Final[Mapping[str, int]] = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
"""syslog(3)'s numbers by the names of our levels."""
_LONGEST_NAME: Final = 64
_NO_NAME: Final = re.compile(r"[^A-Z0-9_]")
_PLAIN: Final = re.compile(r"[^\s\"'=]+")


def is_journal(fd: int, stream: str | None = None) -> bool:
    """Whether a descriptor is the connection to the journal that `$JOURNAL_STREAM` (or `stream`) names."""
    named = os.environ.get("JOURNAL_STREAM", "") if stream is None else stream
    try:
        st = os.fstat(fd)
    except OSError:
        return False
    return named == f"{st.st_dev}:{st.st_ino}"


def fields(event: Mapping[str, Any]) -> dict[str, str]:
    """What structlog tells of one event, as fields of the journal. `level` becomes PRIORITY, all else PROVD_KEY."""
    told = {
        "MESSAGE": message(event),
        "PRIORITY": str(PRIORITIES.get(str(event.get("level")), PRIORITIES["info"])),
        "SYSLOG_IDENTIFIER": "provd",
    }
    for key, value in event.items():
        if key != "level":
            told[f"PROVD_{_NO_NAME.sub('_', key.upper())}"[:_LONGEST_NAME]] = _text(value)
    return told


def message(event: Mapping[str, Any]) -> str:
    """One event for people: what happened, `key=value`, and a traceback on lines of its own."""
    told = [_text(event.get("event", ""))]
    for key, value in event.items():
        if key not in {"event", "level", "exception"}:
            text = _text(value)
            told.append(f"{key}={text if _PLAIN.fullmatch(text) else repr(text)}")
    first = " ".join(told)
    return f"{first}\n{_text(event['exception'])}" if "exception" in event else first


def datagram(told: Mapping[str, str]) -> bytes:
    """The fields as the journal takes them: those of several lines have their length before them."""
    out = bytearray()
    for name, text in told.items():
        value = text.encode(errors="backslashreplace")
        out += name.encode()
        out += b"\n" + len(value).to_bytes(8, "little") if b"\n" in value else b"="
        out += value + b"\n"
    return bytes(out)


def prefixed(text: str, level: str) -> str:
    """A text whose every line tells the journal how important it is."""
    prefix = f"<{PRIORITIES.get(level, PRIORITIES['info'])}>"
    return "\n".join(prefix + line for line in text.split("\n"))


class Native:
    """The last processor of structlog: sends the event; what cannot be sent it gives back as a text to be written."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path or SOCKET
        self._socket: socket.socket | None = None
        with contextlib.suppress(OSError):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.settimeout(0)

    def __call__(self, _logger: Any, _method: str, event: Mapping[str, Any]) -> str:
        """Raises DropEvent when it is sent."""
        try:
            if self._socket is None:
                return self._line(event)
            self._socket.sendto(datagram(fields(event)), self._path)
        except OSError:  # nobody listens, its queue is full, or the message is too long for a datagram
            return self._line(event)
        raise structlog.DropEvent

    @staticmethod
    def _line(event: Mapping[str, Any]) -> str:
        return prefixed(message(event), str(event.get("level")))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)
