"""The wire spoken by hand: names as they travel, errors, and one connection. Nothing of the product is imported."""

from __future__ import annotations

import base64
import itertools
import json
import os
import socket
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

HANG: Final = 60.0
"""Seconds after which a wait is called a hang. No test's outcome depends on it while the product works."""
MIB: Final = 1 << 20

Json = Any


def wire(name: str | bytes) -> Json:
    """A path or dependency as it travels: a string where it is UTF-8, else `{"b64": ...}`."""
    raw = os.fsencode(name)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(raw).decode()}


def unwire(name: Json) -> bytes:
    """The bytes that a path or dependency on the wire stands for."""
    if isinstance(name, dict):
        return base64.b64decode(name["b64"], validate=True)
    return os.fsencode(name)


class RpcError(Exception):
    """An error that the daemon answered. `code` is the word of SPEC 9, or JSON-RPC's number as text."""

    def __init__(self, error: Mapping[str, Json]) -> None:
        super().__init__(json.dumps(error)[:600])
        self.error = dict(error)
        self.number: int = error["code"]
        self.data: dict[str, Json] = error.get("data") or {}
        self.code: str = self.data.get("code") or str(self.number)
        self.message: str = error.get("message") or ""
        self.hint: str = self.data.get("hint") or ""


class Rpc:
    """One blocking connection. Notifications that arrive while an answer is awaited are kept in `notes`."""

    def __init__(self, path: str, timeout: float = HANG) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        try:
            self.sock.connect(path)  # without a timeout, which would make a full backlog an error
        except OSError:
            self.sock.close()
            raise
        self.sock.settimeout(timeout)
        self.notes: list[Json] = []
        self._answers: dict[Json, Json] = {}
        self._buffer = bytearray()
        self._searched = 0
        self._ids = itertools.count(1)

    def send_raw(self, data: bytes) -> None:
        """Bytes as they are."""
        self.sock.sendall(data)

    def send(self, method: str, **params: Json) -> int:
        """Sends without waiting: `answer(id)` takes the answer."""
        number = self.next_id()
        self.send_as(number, method, params)
        return number

    def next_id(self) -> int:
        """An id that no request of this connection had."""
        return next(self._ids)

    def send_as(self, number: int, method: str, params: Mapping[str, Json]) -> None:
        """Sends under this id."""
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.sock.sendall(json.dumps(request).encode() + b"\n")

    def line(self) -> Json:
        """The next line, whatever it is. Raises ConnectionError at the end of the stream."""
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            part = self.sock.recv(MIB)
            if not part:
                raise ConnectionError("the daemon closed the connection")
            self._buffer += part
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return json.loads(line)

    def answer(self, number: int | None) -> Json:
        """The whole answer to one request, as an object with `result` or `error`."""
        while number not in self._answers:
            reply = self.line()
            assert reply["jsonrpc"] == "2.0"
            if "method" in reply:
                assert "id" not in reply
                self.notes.append(reply)
            else:
                self._answers[reply["id"]] = reply
        return self._answers.pop(number)

    def result(self, number: int) -> Json:
        """The result of one request; raises RpcError where it was refused."""
        answer = self.answer(number)
        assert ("error" in answer) != ("result" in answer)
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def __call__(self, method: str, **params: Json) -> Json:
        """Asks and waits for the result."""
        return self.result(self.send(method, **params))

    def note(self) -> Json:
        """The next notification: one that was kept, or the next on the wire."""
        while not self.notes:
            reply = self.line()
            if "method" in reply:
                return reply
            self._answers[reply["id"]] = reply
        return self.notes.pop(0)

    def at_end(self) -> bool:
        """Reads on until the daemon closes; true when nothing more came."""
        if self._buffer:
            return False
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        """Closes the connection."""
        self.sock.close()
