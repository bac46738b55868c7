"""The processes that are measured, where they are placed, and how they are asked."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Self

from provd.client import Client

START: Final = 30.0
"""Seconds that a process may take until it answers, or to end."""
TRIES: Final = 60
"""Yields before a yielding client blocks."""
PLACEMENTS: Final = ("free", "one", "two")

ECHO: Final = """
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
while True:
    connection, _ = listener.accept()
    while data := connection.recv(65536):
        connection.sendall(data)
"""


@dataclasses.dataclass(frozen=True)
class Placement:
    """Which CPUs the servers and the client may use. Children and all their threads inherit what is set."""

    name: str
    server_cpus: frozenset[int]
    client_cpus: frozenset[int]

    @staticmethod
    def named(name: str) -> Placement | None:
        """`free` (the scheduler's choice), `one` (all on one CPU), `two` (one each); None without a second CPU."""
        cpus = sorted(os.sched_getaffinity(0))
        match name:
            case "free":
                return Placement(name, frozenset(cpus), frozenset(cpus))
            case "one":
                return Placement(name, frozenset(cpus[:1]), frozenset(cpus[:1]))
            case _:
                return Placement(name, frozenset(cpus[:1]), frozenset(cpus[1:2])) if len(cpus) > 1 else None

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """What is started within is placed as a server."""
        with _on(self.server_cpus):
            yield

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """This process is placed as the client."""
        with _on(self.client_cpus):
            yield


@contextlib.contextmanager
def _on(cpus: frozenset[int]) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def connect(path: str) -> socket.socket:
    """A connection to a server that was just started. Raises OSError where none listens within START seconds."""
    deadline = time.monotonic() + START
    while True:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(path)
        except OSError:
            sock.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return sock


def request(method: str, **params: Any) -> bytes:
    """One line of provd's wire."""
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"


def blocking(sock: socket.socket, line: Callable[[], bytes]) -> Callable[[], bytes]:
    """Sends the next line and reads one to its last byte, unparsed; each call blocks."""

    def ask() -> bytes:
        sock.sendall(line())
        answer = sock.recv(65536)
        while not answer.endswith(b"\n"):
            answer += sock.recv(65536)
        return answer

    return ask


def yielding(sock: socket.socket, line: Callable[[], bytes]) -> Callable[[], bytes]:
    """The same by a client that gives its CPU away a few times before it blocks, as `provd.client` does."""

    def receive() -> bytes:
        for _ in range(TRIES):
            os.sched_yield()
            try:
                return sock.recv(1 << 20, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
        return sock.recv(1 << 20)

    def ask() -> bytes:
        sock.sendall(line())
        pieces = [receive()]
        while not pieces[-1].endswith(b"\n"):
            pieces.append(receive())
        return b"".join(pieces)

    return ask


def kept_client(path: str) -> Client:
    """The product's own client on a connection that was used."""
    client = Client(path, timeout=600)
    client.call("daemon.hello", protocol=1)
    return client


class Peer:
    """A process that ends, by its own id, with the block that it was made for."""

    def __init__(self, command: list[str], home: str) -> None:
        os.makedirs(home, exist_ok=True)
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PROVD_", "XDG_"))}
        with open(os.path.join(home, "log"), "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**env, "HOME": home}
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(START)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Echo(Peer):
    """A process that does nothing but `recv` and `send`, at the socket `path`; it serves one connection."""

    def __init__(self, home: str) -> None:
        self.path = os.path.join(home, "echo.sock")
        super().__init__([sys.executable, "-c", ECHO, self.path], home)


class Watchman(Peer):
    """A Watchman of one's own, asked in JSON over its Unix socket on one kept connection."""

    def __init__(self, home: str) -> None:
        places = [f"--sockname={home}/sock", f"--statefile={home}/state", f"--logfile={home}/own-log"]
        os.makedirs(home, mode=0o700)
        super().__init__(["watchman", "--foreground", "--no-save-state", *places], home)
        try:
            self.sock = connect(f"{home}/sock")
        except BaseException:
            self.__exit__()
            raise

    @staticmethod
    def is_here() -> bool:
        """Whether it is installed."""
        return shutil.which("watchman") is not None

    def call(self, *command: Any) -> dict[str, Any]:
        """One command. Raises RuntimeError where Watchman refuses it."""
        line = json.dumps(command).encode() + b"\n"
        answer: dict[str, Any] = json.loads(blocking(self.sock, lambda: line)())
        if "error" in answer:
            raise RuntimeError(f"Watchman refused {command[0]}: {answer['error']}; look at its log")
        return answer

    def watch(self, root: str) -> None:
        """Watches a directory and returns once the crawl is over."""
        self.call("watch", root)
        self.call("clock", root, {"sync_timeout": 600_000})


def watchman_query(root: str, paths: list[str]) -> bytes:
    """One line: Watchman's synchronised query of files below a root."""
    names = [os.path.relpath(path, root) for path in paths]
    fields = ["name", "exists", "size", "mtime_ns"]
    return json.dumps(["query", root, {"path": names, "fields": fields}]).encode() + b"\n"
