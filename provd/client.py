"""A blocking client for one connection to the daemon.

Rule: the standard library only, and fast to import, since hooks and shells start it for one question. A client
belongs to one thread. What the daemon says is handed on as it came; only paths and errors are translated.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import socket
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Self

from provd import farend, places
from provd.hello import PROTOCOL, WirePath, is_hello, local_path, wire_path
from provd.reach import ProvdUnreachable, Silent, connect, runs, stranger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "MAX_LINE",
    "MAX_VALUE",
    "PROTOCOL",
    "Client",
    "ProvdUnreachable",
    "RpcError",
    "WirePath",
    "local_path",
    "wire_path",
]

Json = dict[str, Any]

MAX_LINE: Final = 16 * 1024 * 1024
"""Bytes of a request or an answer."""
MAX_VALUE: Final = 8 * 1024 * 1024
"""Bytes of a value as JSON."""
_PIECE: Final = 65536  # below malloc's threshold for mapping memory anew at each read
_decode: Final = json.JSONDecoder().decode
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_TRIES: Final = 60  # a question is often answered before a sleeping process would have been woken


class RpcError(Exception):
    """The daemon refused: `code` is stable (`dep.malformed`), `data` is the whole `data` of the wire's error."""

    def __init__(self, code: str, message: str, hint: str = "", data: Json | None = None) -> None:
        super().__init__(f"{code}: {message}" + (f"; {hint}" if hint else ""))
        self.code = code
        self.message = message
        self.hint = hint
        self.data = data or {}


class Client:
    """One connection. `path` is the socket (default: where the daemon's is), `timeout` the seconds for an answer.

    with Client() as client:
        text = open("/home/me/repo/notes.md", "rb").read()
        read = {"dep": "notes.md", "digest": "sha256:" + hashlib.sha256(text).hexdigest()}
        client.put("summary", value="a summary of it", deps=[read], root="/home/me/repo")
        client.check("summary", root="/home/me/repo")["verdict"]
    """

    def __init__(self, path: str | None = None, timeout: float | None = 30.0) -> None:
        self.path = path or places.socket_path()
        self.timeout = timeout
        self._ids = itertools.count(1)
        self._buffer = bytearray()
        self._scanned = 0  # bytes of the buffer known to hold no newline
        self._notes: deque[Json] = deque()
        self.greeting: Json | None = None
        """What the last `hello` said."""
        self._socket = connect(self.path, timeout)
        self._socket.settimeout(0)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def __enter__(self) -> Self:
        """The client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def fileno(self) -> int:
        """The connection's descriptor, to wait for what comes."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection. Held actions end as failed."""
        self._socket.close()

    def call(self, method: str, /, **params: Any) -> Any:
        """The result of one request; raises RpcError or ProvdUnreachable."""
        number = next(self._ids)
        deadline = self._deadline()
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        eager = True
        while True:
            reply = self._message(deadline, eager)
            eager = False
            if "method" in reply:
                self._notes.append(reply)
            elif reply.get("id") == number or (reply.get("id") is None and "error" in reply):
                break  # an error without an id is about a line that the daemon could not take apart: ours
            elif "id" not in reply:
                raise self._stranger()
        if isinstance(error := reply.get("error"), dict) and error.get("code") is not None:
            raise _refusal(error)
        if not isinstance(reply.get("result"), dict):  # every method answers with an object
            raise self._stranger()
        return reply["result"]

    def subscribe(self, **params: Any) -> Iterator[Json]:
        """Follow the log (`log.subscribe`): yields `{"method", "params"}` as it comes, for as long as it is read."""
        self.call("log.subscribe", **params)
        return self.notifications()

    def notifications(self) -> Iterator[Json]:
        """What the daemon sends unasked, after a `log.subscribe`; ends only by an exception."""
        while True:
            if (note := self.notification()) is not None:
                yield note

    def notification(self, wait: float | None = None) -> Json | None:
        """The next of those; None where none comes within `wait` seconds. Without `wait` it waits for one."""
        deadline = None if wait is None else time.monotonic() + wait
        while not self._notes:
            try:
                message = self._message(deadline, eager=False)
            except Silent:
                return None
            if "method" in message:
                self._notes.append(message)
        return self._notes.popleft()

    def peer_pid(self) -> int | None:
        """The process that listens, as the system tells it: 0 where it is out of sight, None where it is not told."""
        if not hasattr(socket, "SO_PEERCRED"):
            return None
        return farend.who(self._socket)[0]

    def wait_closed(self) -> None:
        """Read until the daemon closes the connection; raises ProvdUnreachable after the client's timeout."""
        deadline = self._deadline()
        try:
            while self._receive(deadline):
                self._buffer.clear()
        except (ConnectionError, EOFError):
            return

    # The methods that programs use most; every other one is `call(name, ...)`.

    def hello(self) -> Json:
        """Who answers: `name`, `version`, `pid`, `roots` and so on; raises ProvdUnreachable where it is not provd."""
        answer = self.call("daemon.hello", protocol=PROTOCOL)
        if not is_hello(answer):
            raise self._stranger()
        told: Json = answer
        self.greeting = told
        return told

    def greet(self, patience: float) -> None:
        """Ask who answers, with fewer seconds than the client's: a daemon that hangs is told from slow work.

        Raises ProvdUnreachable.
        """
        usual, self.timeout = self.timeout, patience
        try:
            self.hello()
        finally:
            self.timeout = usual

    def clock(self) -> str:
        """A token for this moment. Take it before looking at what a value is made from."""
        token: str = self.call("log.clock")["clock"]
        return token

    def check(self, key: str | None = None, *, keys: Iterable[str] | None = None, **params: Any) -> Json:
        """The verdict for `key`, or `{"verdicts": {key: verdict}}` for `keys`."""
        about = {"key": key} if keys is None else {"keys": list(keys)}
        answer: Json = self.call("entry.check", **about, **params)
        return answer

    def put(self, key: str, **params: Any) -> Json:
        """Store an entry: `value=` (left out: an entry without one), `deps=` (`[]`: it rests on nothing), and so on.

        When its sources were read is said by a digest for each dependency, by `fetched_at=` (a clock taken before), or
        by `as_of="put"`: the value is true of what is there now. Else it is RpcError `clock.missing`.
        With `"ended": true` its `op` put a version before that does not stand any more: nothing was put.
        """
        answer: Json = self.call("entry.put", key=key, **params)
        return answer

    def get(self, key: str, **params: Any) -> Json:
        """The verdict, with `value` and `meta` where the entry is usable (or as `even_if` allows)."""
        answer: Json = self.call("entry.get", key=key, **params)
        return answer

    def begin(self, writes: Iterable[Any], **params: Any) -> Json:
        """Declare an action before it is done: `{"id", "clock", "affects"}`.

        With `"ended": true` its `op` began an action that has ended: nothing is open.
        """
        answer: Json = self.call("action.begin", writes=list(writes), **params)
        return answer

    def end(self, action: Any, outcome: str = "done") -> Json:
        """Say how an action ended: `done`, `failed` or `aborted`."""
        answer: Json = self.call("action.end", id=action, outcome=outcome)
        return answer

    # How a line becomes a value and a value a line, for clients that need it otherwise.

    def encode(self, request: Json) -> str:
        """A request as one line of JSON; raises ValueError for what JSON has no word for."""
        return _encode(request)

    def decode(self, line: bytes) -> Any:
        """A line as a value; raises ValueError."""
        return _decode(line.decode())

    def _deadline(self) -> float | None:
        return None if self.timeout is None else time.monotonic() + self.timeout

    def _send(self, request: Json) -> None:
        try:
            line = self.encode(request).encode() + b"\n"
        except UnicodeEncodeError:
            raise ValueError("a string of the request is not UTF-8: names travel by wire_path") from None
        if len(line) > MAX_LINE:
            raise RpcError(
                "limit",
                f"the request is {len(line)} bytes long",
                "at most 16 MiB: send less at once; of a value, keep a path to it instead",
            )
        try:
            self._send_all(line)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it may have said why before it closed: read on
        except OSError as error:
            raise self._vanished(error) from None

    def _send_all(self, line: bytes) -> None:
        """Send all of it; raises Silent where the daemon takes none of it for the client's timeout."""
        sent = 0
        while True:
            try:
                sent += self._socket.send(line[sent:] if sent else line)
            except BlockingIOError:
                self._wait(self._deadline(), select.POLLOUT)
            if sent == len(line):
                return

    def _wait(self, deadline: float | None, event: int) -> None:
        """Sleep until the socket can be read or written; raises Silent at the deadline."""
        left = None if deadline is None else deadline - time.monotonic()
        if event != select.POLLIN:
            self._poll.modify(self._socket, event)
        try:
            if (left is not None and left <= 0) or not self._poll.poll(None if left is None else left * 1000):
                raise self._silent()
        finally:
            if event != select.POLLIN:
                self._poll.modify(self._socket, select.POLLIN)

    def _message(self, deadline: float | None, eager: bool) -> Json:
        """The next line, as JSON."""
        while (end := self._buffer.find(b"\n", self._scanned)) < 0:
            self._scanned = len(self._buffer)
            if self._scanned > MAX_LINE:
                raise self._stranger()  # the daemon sends no such line either
            try:
                if not (eager and self._try_receive()):
                    self._receive(deadline)
            except (OSError, EOFError) as error:
                raise self._vanished(error) from None
        if end + 1 == len(self._buffer):  # the usual answer is all there is
            line, self._buffer = bytes(self._buffer), bytearray()
        else:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
        self._scanned = 0
        try:
            message = self.decode(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise self._stranger()
        return message

    def _try_receive(self) -> bool:
        """Take what has come without sleeping for it; yields the processor between tries, so that it can come."""
        if not hasattr(os, "sched_yield"):
            return False
        give_way, receive = os.sched_yield, self._socket.recv
        for _ in range(_TRIES):
            give_way()
            try:
                piece = receive(_PIECE)
            except BlockingIOError:
                continue
            self._take(piece)
            return True
        return False

    def _receive(self, deadline: float | None) -> int:
        """Wait for the next piece; its length. Raises EOFError at the end of the stream."""
        while True:
            self._wait(deadline, select.POLLIN)
            try:
                return self._take(self._socket.recv(_PIECE))
            except BlockingIOError:  # somebody else's wake-up
                continue

    def _take(self, piece: bytes) -> int:
        if not piece:
            raise EOFError
        self._buffer += piece
        return len(piece)

    def _silent(self) -> Silent:
        return Silent(self.path, self.timeout or 0.0)

    def _stranger(self) -> ProvdUnreachable:
        return stranger(self.path)

    def _vanished(self, error: Exception) -> ProvdUnreachable:
        why = "" if isinstance(error, EOFError) else f" ({error})"
        hint = "provd start"
        pid = self.peer_pid()
        if pid and runs(pid):
            why += f", and its process {pid} still runs"
            hint = "provd status  # try again: it ends, or has no descriptor left for a connection\nprovd stop"
        return ProvdUnreachable(
            f"the daemon at {self.path} closed the connection before it answered{why}", hint, "closed"
        )


def _refusal(error: Json) -> RpcError:
    """The exception for an error object of the wire."""
    data = error.get("data")
    detail: Json = data if isinstance(data, dict) else {}
    message = detail.get("message") or error.get("message") or "refused"
    return RpcError(str(detail.get("code") or error.get("code")), str(message), str(detail.get("hint") or ""), detail)
