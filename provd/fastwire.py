"""One request after another over the C halves of socket and json, which cost a tenth of the whole modules to import.

Rule: they are private to Python. Whoever uses this does without where anything is raised, ImportError among it.
"""

from __future__ import annotations

import _json
import _socket
import time

from provd import farend

TYPE_CHECKING = False  # typing costs more than all that is here
if TYPE_CHECKING:
    from typing import Any, Final, Self

    Json = dict[str, Any]

_PIECE: Final = 65536
_MOST: Final = 1 << 20
"""Bytes of an answer that is taken here: thousands of verdicts are no common form, and a stranger may send for ever."""
_ID: Final = 1


class NotUnderstood(Exception):
    """An answer that is not of the common form."""


class Connection:
    """A connection to the daemon at `path`. Whatever goes wrong raises: OSError, ValueError, NotUnderstood, others."""

    def __init__(self, path: str, seconds: float) -> None:
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self._socket.settimeout(seconds)
        try:
            self._socket.connect(path)
        except BaseException:
            self._socket.close()
            raise
        if farend.doubtful(self._socket, path) is not None:
            self._socket.close()
            raise NotUnderstood

    def __enter__(self) -> Self:
        """The connection itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._socket.close()

    def call(self, method: str, params: Json, seconds: float) -> Json:
        """The result of a request. Its answer has to be the next line, and there in so many seconds."""
        request = {"jsonrpc": "2.0", "id": _ID, "method": method, "params": params}
        self._socket.sendall(encoded(request).encode() + b"\n")
        deadline = time.monotonic() + seconds
        line = b""
        while not line.endswith(b"\n"):
            self._socket.settimeout(deadline - time.monotonic())
            piece = self._socket.recv(_PIECE)
            if not piece or len(line) > _MOST:
                raise NotUnderstood
            line += piece
        reply = decoded(line[:-1].decode())
        if reply.get("id") != _ID or "method" in reply or "error" in reply or not isinstance(reply["result"], dict):
            raise NotUnderstood
        result: Json = reply["result"]
        return result


def encoded(value: Any) -> str:
    """A request, or a part of it, as JSON in ASCII; raises TypeError for what requests here do not have."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{encoded(name)}:{encoded(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(encoded, value)) + "]"
    return str(value) if isinstance(value, int) else _json.encode_basestring_ascii(value)


class _Defaults:
    """How json.loads has the scanner read; any object with these attributes will do."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def decoded(text: str) -> Any:
    """What json.loads gives, for a text without space around it; raises ValueError, StopIteration, NotUnderstood."""
    value, end = _json.make_scanner(_Defaults)(text, 0)  # type: ignore[arg-type]
    if end != len(text):
        raise NotUnderstood
    return value
