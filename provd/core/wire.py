"""The wire: bytes in, requests out; answers in, bytes out. JSON-RPC 2.0, one UTF-8 JSON value a line.

Rule: nothing here knows a socket. A bad line is a value too, so that it gets its error and the connection goes on.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from provd.core import errors, members

MAX_LINE: Final = 16 * 1024 * 1024
"""Bytes of a line, its end not counted."""

DECLARING: Final = frozenset({"action.begin", "action.record"})
"""The methods that declare writes."""
_BEGINNING: Final = 64 * 1024
"""Bytes of an over-long line in which it is looked for what it is."""

_CODES: Final[dict[str, int]] = {
    "parse": -32700,
    "request": -32600,
    "method": -32601,
    "params": -32602,
    "internal": -32603,
}
_OWN: Final = -32000


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One request. Without an id it is a notification: carried out, never answered."""

    jsonrpc: str
    method: str
    id: int | str | float | msgspec.UnsetType | None = msgspec.UNSET
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Bad(msgspec.Struct, frozen=True):
    """A line that is no request: the error to answer with, and the id where one could be read.

    `line` is the line itself (of an over-long one the beginning) where it may declare writes, else empty.
    """

    error: errors.RequestError
    id: int | str | float | None = None
    fatal: bool = False
    line: bytes = b""


class _Id(msgspec.Struct):
    id: int | str | float | None = None


_requests = msgspec.json.Decoder(Request)
_ids = msgspec.json.Decoder(_Id)
_encode = msgspec.json.Encoder().encode
_ESCAPED: Final = b"\\u00"
"""How a letter may be written, so that a word is not seen before the line is read."""
_WORDS: Final = (*(name.encode() for name in DECLARING), b'"writes"')
_SPELLED: Final = tuple(
    (b"\\u00" + digits, bytes([sign]))
    for sign in sorted({sign for word in _WORDS for sign in word})
    for digits in sorted({b"%02x" % sign, b"%02X" % sign})
)
"""How the signs of these words may be escaped, and what each is."""


_PIECES: Final = 64
"""Pieces without a request that are looked at before others have their turn."""
_EMPTY: Final = re.compile(rb"[ \t\n\r\x0b\x0c]*\n")
"""Empty lines, however many."""


class Framer:
    """Cuts a stream of bytes into lines, whatever the pieces it arrives in; each is looked at when it is taken.

    After a line over MAX_LINE it is `broken`: it gives one fatal Bad and takes no more.
    """

    def __init__(self) -> None:
        self._chunk = b""
        self._at = 0
        self._more: deque[bytes] = deque()
        self._pieces: list[bytes] = []
        self._held = 0
        self.unread = 0
        """Bytes that were not looked at."""
        self.broken = False

    def feed(self, data: bytes) -> None:
        """Takes in what comes next of the stream."""
        if self.broken:
            return
        if self.unread:
            self._more.append(data)
        else:
            self._chunk, self._at = data, 0
        self.unread += len(data)

    def take(self) -> Request | Bad | None:
        """The next request, in order; None where no line is whole, or where only empty ones came for now."""
        for _ in range(_PIECES):
            if not self.unread:
                return None
            chunk, at = self._chunk, self._at
            if not self._held and (empty := _EMPTY.match(chunk, at)):
                self._go_to(empty.end())
                continue
            end = chunk.find(b"\n", at) + 1
            self._go_to(end or len(chunk))
            if not end:
                self._pieces.append(chunk[at:])
                self._held += len(chunk) - at
                if self._held > MAX_LINE:
                    return self._broke(b"".join(self._pieces))
                continue
            line = chunk[at : end - 1]
            if self._held:
                line = b"".join([*self._pieces, line])
                self._pieces, self._held = [], 0
            if len(line) > MAX_LINE:
                return self._broke(line)
            if line.strip():
                return parse(line)
        return None

    def drop(self) -> None:
        """Forgets what was not taken."""
        self._chunk, self._at, self._held, self.unread = b"", 0, 0, 0
        self._more.clear()
        self._pieces.clear()

    def _go_to(self, end: int) -> None:
        self.unread -= end - self._at
        self._at = end
        if end == len(self._chunk):
            self._chunk, self._at = self._more.popleft() if self._more else b"", 0

    def _broke(self, line: bytes) -> Bad:
        self.broken = True
        self.drop()
        error = errors.LimitExceeded(f"a line is over {MAX_LINE} bytes", "send less at once; this connection ends here")
        return _bad(error, line[:_BEGINNING], fatal=True)


def parse(line: bytes) -> Request | Bad:
    """The request that a line holds."""
    try:
        if not line.isascii():
            line.decode()  # msgspec takes what is kept raw as it comes
        request = _requests.decode(line)
    except msgspec.ValidationError as e:
        try:
            json.loads(line.decode())  # a wrong type may be met before the line is seen to be no JSON
        except (ValueError, RecursionError) as bad:
            return _bad(errors.ParseError(f"not JSON: {bad}", "one UTF-8 JSON value a line"), line)
        hint = "one JSON-RPC 2.0 request a line: jsonrpc, id, method, params; batches are not taken"
        return _bad(errors.InvalidRequest(f"not a request: {e}", hint), line, _id_of(line))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as e:
        return _bad(errors.ParseError(f"not JSON in UTF-8: {e}", "one UTF-8 JSON value a line"), line)
    if request.jsonrpc != "2.0":
        return _bad(errors.InvalidRequest("jsonrpc is not '2.0'", 'send "jsonrpc": "2.0"'), line, _id_of(line))
    if _has_more(line, request) and (again := members.twice(line)) is not None:
        return _bad(errors.InvalidRequest(f"{again!r} comes twice", "send each member once"), line, request.id)
    return request


def _has_more(line: bytes, request: Request) -> bool:
    """Whether a line has more quotes beside its params than the members that were taken: a member twice, or escapes."""
    beside = line.count(b'"')
    taken = 8  # "jsonrpc":"2.0" and "method":"..."
    if request.params is not msgspec.UNSET:
        beside -= bytes(request.params).count(b'"')
        taken += 2
    if request.id is not msgspec.UNSET:
        taken += 4 if isinstance(request.id, str) else 2
    return beside != taken


def may_declare(text: bytes) -> bool:
    """Whether what cannot be read may be a request that declares writes."""
    if _ESCAPED in text:
        for spelled, sign in _SPELLED:
            text = text.replace(spelled, sign)
    return any(word in text for word in _WORDS)  # a pattern takes ten times as long


def _bad(
    error: errors.RequestError,
    line: bytes,
    request_id: str | float | msgspec.UnsetType | None = None,
    *,
    fatal: bool = False,
) -> Bad:
    number = None if request_id is msgspec.UNSET else request_id
    return Bad(error, number, fatal, line if may_declare(line) or _ESCAPED in line else b"")


def _id_of(line: bytes) -> int | str | float | None:
    try:
        return _ids.decode(line).id
    except (msgspec.MsgspecError, RecursionError):
        return None


def answer(request_id: Any, result: Any) -> bytes:
    """The line that answers a request. `result` may hold msgspec.Raw."""
    return _encode({"jsonrpc": "2.0", "id": request_id, "result": result}) + b"\n"


def answer_raw(request_id: Any, result: bytes) -> bytes:
    """The same line of a result that is JSON already."""
    return b'{"jsonrpc":"2.0","id":' + _encode(request_id) + b',"result":' + result + b"}\n"


def failure(request_id: Any, error: errors.ProvdError) -> bytes:
    """The line that answers a request with an error."""
    number = _CODES.get(error.code, _OWN)
    data = {"code": error.code, "message": error.message, "hint": error.hint} | error.detail
    body = {"code": number, "message": error.message, "data": data}
    return _encode({"jsonrpc": "2.0", "id": request_id, "error": body}) + b"\n"


_HOLE: Final = msgspec.Raw(b"\0")
"""What is put in where something is to be filled in: no JSON has such a byte."""


def notifications(method: str, params: dict[str, Any], name: str, values: Iterable[str]) -> bytes:
    """The lines of notifications that differ in one string alone: the member `name`, which goes before `params`.

    A quarter of the time that as many calls of `notification` take.
    """
    before, after = notification(method, {name: _HOLE} | params).split(b"\0")
    return b"".join([before + _encode(value) + after for value in values])


def notification(method: str, params: Any) -> bytes:
    """The line of a notification."""
    return _encode({"jsonrpc": "2.0", "method": method, "params": params}) + b"\n"


def failed(error: Exception) -> errors.ProvdError:
    """What is told where provd itself failed."""
    return errors.Internal(f"provd failed: {type(error).__name__}: {error}", "see the daemon's log, and report it")


def too_long() -> errors.ProvdError:
    """What is told instead of an answer that no line takes."""
    return errors.LimitExceeded(f"the answer is over {MAX_LINE} bytes", "ask for less at once")
