"""A daemon that says what a test tells it to, and the command line as a test calls it.

Rule: every request must fit the types of its method, else the test fails; so that a client tested here speaks to
the real daemon too.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import tempfile
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import msgspec
import pytest
from ran import InProcess

from provd.core import errors, params

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Json = dict[str, Any]

HELLO: Json = {
    "name": "provd",
    "version": "9.9",
    "protocol": 1,
    "log": "ab",
    "run": "cd",
    "pid": 2**22 + 1,
    "roots": [],
}
"""What the fake says first. No process has its pid."""


@dataclass
class Refusal:
    """An answer that is an error."""

    code: str
    message: str = "no"
    hint: str = ""
    data: Json = field(default_factory=dict)
    number: int = -32000


class Hangup:
    """Close the connection instead of answering."""


@dataclass
class Silence:
    """Never answer; `asked` is set when the question has come."""

    asked: threading.Event = field(default_factory=threading.Event)


@dataclass
class Stream:
    """An answer with notifications around it: `before` leave before the answer, `after` behind it."""

    result: Any
    before: list[Json] = field(default_factory=list)
    after: list[Json] = field(default_factory=list)
    close: bool = True


@dataclass
class Raw:
    """Bytes to send as they are."""

    data: bytes


def in_turn(*answers: Any) -> Callable[[Json], Any]:
    """An answer for each request, in turn."""
    left: Iterator[Any] = iter(answers)
    return lambda _: next(left)


class FakeDaemon:
    """Listens at `path`. `answers` holds, for each method, a result or one of the above, or makes one of the params."""

    def __init__(self, **answers: Any) -> None:
        self.home = tempfile.mkdtemp(prefix="provd-")
        self.path = os.path.join(self.home, "s.sock")
        self.answers: dict[str, Any] = {
            "daemon.hello": HELLO | {"roots": ["/watched"]},
            "root.list": {"roots": [{"path": "/watched"}]},
        }
        self.asked: list[tuple[str, Json]] = []
        self.misfits: list[str] = []
        self._open: deque[socket.socket] = deque()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        for name, answer in answers.items():
            self.answers[name.replace("_", ".", 1)] = answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every connection and thread; fails where a request did not fit its method."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()
        shutil.rmtree(self.home)
        assert self.misfits == []

    @property
    def questions(self) -> list[tuple[str, Json]]:
        """All requests but those of who answers."""
        return [each for each in self.asked if each[0] != "daemon.hello"]

    def params_of(self, method: str) -> Json:
        """The params of the newest request of that method, without the root where it is the current directory."""
        params = next(params for name, params in reversed(self.asked) if name == method)
        around = params.get("root") == os.path.realpath(os.getcwd())
        return {name: value for name, value in params.items() if name != "root" or not around}

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines, contextlib.suppress(OSError):
            for line in lines:
                if not self._answer(connection, json.loads(line)):
                    return

    def _answer(self, connection: socket.socket, request: Json) -> bool:
        """Whether the connection goes on."""
        method = request["method"]
        self.asked.append((method, request["params"]))
        answer = self._misfit(method, request["params"]) or self.answers.get(method)
        if callable(answer):
            answer = answer(request["params"])
        head = {"jsonrpc": "2.0", "id": request["id"]}
        match answer:
            case Silence():
                answer.asked.set()
            case Hangup():
                return False
            case Raw():
                connection.sendall(answer.data)
            case Refusal():
                data = {"code": answer.code, "message": answer.message, "hint": answer.hint} | answer.data
                self._send(connection, [head | {"error": {"code": answer.number, "message": "error", "data": data}}])
            case Stream():
                notes = [*answer.before, head | {"result": answer.result}, *answer.after]
                self._send(connection, [{"jsonrpc": "2.0"} | note for note in notes])
                return not answer.close
            case _:
                self._send(connection, [head | {"result": answer}])
        return True

    def _send(self, connection: socket.socket, messages: list[Json]) -> None:
        connection.sendall(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def _misfit(self, method: str, given: Json) -> Refusal | None:
        if method not in params.METHODS:
            return None
        try:
            params.decode(method, msgspec.Raw(json.dumps(given).encode()))
        except errors.RequestError as error:
            self.misfits.append(error.message)
            return Refusal("params", error.message)
        return None


class Cli(InProcess):
    """Runs commands in this process, against the fake daemon, in an environment without surprises."""

    def __init__(self, fake: FakeDaemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        for name in list(os.environ):
            if name.startswith(("PROVD_", "XDG_")) or name in {
                "STATE_DIRECTORY",
                "RUNTIME_DIRECTORY",
                "CONFIGURATION_DIRECTORY",
                "NO_COLOR",
            }:
                monkeypatch.delenv(name)
        monkeypatch.setenv("PROVD_SOCKET", fake.path)
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("LC_ALL", "C.UTF-8")  # symbols are drawn, whatever the caller's locale
        monkeypatch.chdir(fake.home)
        self.fake = fake
        self.here = os.path.realpath(fake.home)
        super().__init__(capsys)


@pytest.fixture
def fake() -> Iterator[FakeDaemon]:
    """A daemon that knows nothing but who it is; a module that needs another has its own."""
    with FakeDaemon() as daemon:
        yield daemon


@pytest.fixture
def cli(fake: FakeDaemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line against the module's `fake`."""
    return Cli(fake, capsys, monkeypatch)


def verdict(word: str = "fresh", **fields: Any) -> Json:
    """A verdict as the daemon gives it."""
    base: Json = {"key": "k", "verdict": word, "usable": word == "fresh", "standing": "active", "version": 7}
    return base | {"why": "same", "clock": "c:1", "checked": "content", "evidence": [], "more": 0} | fields
