"""Signals that would end a command, where it has something to clear away.

Rule: they end it by an exception, and only where they are heeded, which must be inside of what clears away; else they
wait. So none comes between the making of a thing and the moment from which somebody will clear it away, nor while it
is cleared away.
"""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Takes the signals while it is entered. One that waited to the end is raised there."""

    def __init__(self) -> None:
        self._heeded = False
        self._waiting: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """From here on they wait."""
        ours = [number for number in _ENDING if signal.getsignal(number) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._take) for number in ours}
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """From here on they are as before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is None and self._waiting is not None:
            _end(self._waiting)

    @contextlib.contextmanager
    def heeded(self) -> Iterator[None]:
        """What comes meanwhile, or waited until now, is raised: KeyboardInterrupt, or the exit code of the signal."""
        self._heeded = True
        try:
            if self._waiting is not None:
                _end(self._waiting)
            yield
        finally:
            self._heeded = False

    def _take(self, number: int, _: object) -> None:
        if not self._heeded:
            self._waiting = number
            return
        self._heeded = False
        _end(number)


def _end(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise click.exceptions.Exit(128 + number)
