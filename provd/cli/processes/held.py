"""An action that is held while something runs, over the ends of daemons.

Rule: the connection is all that a daemon knows of who holds an action. Where it is gone it is made again as soon as
somebody listens, and the action is taken over by its `op`: else nobody would know of a write that comes after another
looked at the object again. What was declared is recorded in the end, or it is told that it was not.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from provd.cli.command import WORK_PATIENCE, least
from provd.cli.given import names
from provd.client import ProvdUnreachable, RpcError

if TYPE_CHECKING:
    from provd.cli.command import Place
    from provd.client import Client, WirePath

Json = dict[str, Any]

_PAUSES: Final = (0.05, 1.0)
"""Seconds between two tries to reach a daemon: at first, and at most. What was held waits 10 s for its holder."""
_PATIENCE: Final = 5.0
"""Seconds for which a daemon is waited for when what was run has ended."""


class Held:
    """An action held over `client`, which it closes. `params` are those of its begin; raises RpcError and its kin."""

    def __init__(self, at: Place, client: Client, params: Json) -> None:
        self.client = client
        self.writes: list[WirePath] = list(map(names.of_write, params["writes"]))
        self._at = at
        self._params = params | {"hold": True, "op": secrets.token_hex(16)}
        self._wake = os.pipe()
        self._thread: threading.Thread | None = None
        self._gone = False
        self._shared: socket.socket | None = None
        self._deadline = 0.0
        self.begun: Json = client.begin(**self._params)
        self.ids: list[int] = [self.begun["id"]]
        """The action, and those as which it was begun anew where it could not be taken over."""
        self.ended_by_others = False
        """Whether it was found ended before its time, so that the log has nothing open that stands for it."""

    def watch(self, after: int | None = None) -> None:
        """From now on a daemon that ends is waited for, until `rest`. Signals stay for the main thread.

        With `after`, a pipe's end, from the moment on at which nobody holds the other.
        """
        self._thread = threading.Thread(target=self._follow, args=(after,), daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def share(self, end: socket.socket) -> None:
        """Connections that are made from now on are open too for as long as somebody has the other end of this pair."""
        self._shared = end

    def rest(self) -> None:
        """What was run has ended: there is one try more to reach a daemon.

        It takes some seconds where something was declared: else nothing is lost that is worth waiting for.
        """
        if self._thread is None:
            return
        os.write(self._wake[1], b".")
        self._thread.join()
        self._deadline = time.monotonic() + (_PATIENCE if self.writes else 0)
        while self._gone and not self._take_over(_PAUSES[0]):
            if time.monotonic() >= self._deadline:
                return

    def end(self, outcome: str) -> None:
        """The action has ended; raises ProvdUnreachable, RpcError where that could not be recorded."""
        while True:
            try:
                self._end(outcome)
            except (ProvdUnreachable, RpcError) as error:
                passing = not isinstance(error, RpcError) or error.code == "shutdown"
                if not passing or outcome == "aborted" or time.monotonic() >= self._deadline:
                    raise
                self._take_over(_PAUSES[0])
            else:
                return

    def close(self) -> None:
        """Close the connection."""
        self.client.close()
        if self._shared is not None:
            self._shared.close()
        for descriptor in self._wake:
            os.close(descriptor)

    def _end(self, outcome: str) -> None:
        self.client.greet(least(None))  # one that hangs is not waited for
        try:
            self.client.end(self.ids[-1], outcome)
        except RpcError as error:
            if error.code != "action.unknown" or outcome == "aborted" or not self.writes:
                raise
            self.ended_by_others = True
            # It was ended by somebody else, before what was run has ended: that wrote until now.
            told = {word: value for word, value in self._params.items() if word not in {"hold", "op", "if_usable"}}
            self.ids.append(self.client.call("action.record", **told, outcome=outcome)["id"])

    def _follow(self, after: int | None) -> None:
        """Until it is woken: takes the action over whenever the connection is gone."""
        if after is not None:
            os.read(after, 1)
        pause = _PAUSES[0]
        while True:
            waiting = select.poll()
            waiting.register(self._wake[0], select.POLLIN)
            if not self._gone:
                waiting.register(self.client.fileno(), select.POLLIN)  # nothing comes unasked but the end
            ready = [descriptor for descriptor, _ in waiting.poll(pause * 1000 if self._gone else None)]
            self._gone = self._gone or self.client.fileno() in ready
            if self._wake[0] in ready:
                return
            if self._gone and self._take_over(0):
                pause = _PAUSES[0]
            elif self._gone:
                pause = min(2 * pause, _PAUSES[1])

    def _take_over(self, pause: float) -> bool:
        """Tries to hold the action over a new connection; where that is in vain it pauses, and says False."""
        try:
            self._hold(self._at.connect(_PATIENCE))
        except (ProvdUnreachable, RpcError):
            self._gone = True
            time.sleep(pause)
            return False
        self._gone = False
        return True

    def _hold(self, client: Client) -> None:
        """Holds it over `client` from now on; raises ProvdUnreachable, RpcError, and then that one is closed."""
        if self._shared is not None:  # first, so that there is no moment at which it is held by us alone
            with contextlib.suppress(OSError):  # the other end has gone
                socket.send_fds(self._shared, [b"."], [client.fileno()])
        try:
            begun = self._begin(client)
        except BaseException:
            client.close()
            raise
        self.client.close()
        client.timeout = WORK_PATIENCE
        self.client = client
        if begun["id"] not in self.ids:
            self.ids.append(begun["id"])

    def _begin(self, client: Client) -> Json:
        try:
            return client.begin(**self._params)
        except RpcError as error:
            if error.code != "action.stale":
                raise
        # It runs already: whether it should is no question any more.
        return client.begin(**{word: value for word, value in self._params.items() if word != "if_usable"})
