"""What a service manager is told: systemd's notification protocol, one datagram a message.

Rule: where nobody listens nothing happens; nothing here ever raises or waits for long. What the manager gave us is
taken out of the environment, so that no child speaks in our name. The protocol: sd_notify(3), sd_watchdog_enabled(3).
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import MutableMapping
from typing import Final

_PATIENCE: Final = 2.0
"""Seconds for which a message that must arrive waits for room in the manager's queue."""

_MORE_US: Final = 600 * 1_000_000
"""What the shipped units give a start, in microseconds."""


class Notifier:
    """Speaks to the service manager at `address`, a path or `@` and an abstract name; to nobody where that is None.

    `watchdog` is after how many seconds without a `ping` the manager ends us; None where it does not.
    """

    def __init__(self, address: str | None = None, watchdog: float | None = None) -> None:
        self._address = None if address is None else _address(address)
        self.watchdog = watchdog if self.listens else None

    @classmethod
    def take(cls, environ: MutableMapping[str, str] = os.environ) -> Notifier:
        """What the environment says, which does not say it any more afterwards."""
        watchdog = _watchdog(environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", ""))
        return cls(environ.pop("NOTIFY_SOCKET", None), watchdog)

    @property
    def listens(self) -> bool:
        """Whether there is anybody to speak to."""
        return self._address is not None

    def ready(self, status: str = "") -> None:
        """We answer, for the first time or after `reloading`."""
        self._say("READY=1", *_status(status), patience=_PATIENCE)

    def going_on(self) -> None:
        """The start takes long and gets on: it may take ten more minutes until the next such word, or `ready`."""
        self._say(f"EXTEND_TIMEOUT_USEC={_MORE_US}")

    def reloading(self) -> None:
        """The settings are read again; `ready` says when that is done."""
        self._say("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}", patience=_PATIENCE)

    def stopping(self) -> None:
        """We are about to end, of ourselves or since we were told to."""
        self._say("STOPPING=1", "STATUS=stopping", patience=_PATIENCE)

    def status(self, text: str) -> None:
        """One line for people; the next one takes its place."""
        self._say(*_status(text))

    def ping(self) -> None:
        """We are well: the watchdog begins to count anew."""
        self._say("WATCHDOG=1")

    def _say(self, *lines: str, patience: float = 0.0) -> None:
        """Sends one message; drops it where there is no room for it within `patience` seconds."""
        if self._address is None:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | _CLOEXEC) as sock:
            sock.settimeout(patience)
            sock.sendto("\n".join(lines).encode(errors="surrogateescape"), self._address)


_DIGITS: Final = 20
"""Of the greatest number of microseconds that systemd knows, 2**64 - 1."""
_CLOEXEC: Final = getattr(socket, "SOCK_CLOEXEC", 0)
"""Python makes descriptors that children do not inherit in any case; with this there is no moment between."""


def _address(name: str) -> bytes | None:
    """The address of a socket; None for what is none, such as another family's."""
    if name.startswith("@"):
        return b"\0" + os.fsencode(name[1:])
    return os.fsencode(name) if name.startswith("/") else None


def _watchdog(usec: str, pid: str) -> float | None:
    """Seconds of the watchdog; None where none is asked for, or of another process than this."""
    if pid and pid != str(os.getpid()):
        return None
    said = usec.isascii() and usec.isdigit() and len(usec) <= _DIGITS
    return int(usec) / 1e6 if said and int(usec) > 0 else None


def _status(text: str) -> list[str]:
    return [f"STATUS={' '.join(text.split())}"] if text else []
