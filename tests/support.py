"""A real daemon, its wire and SPEC's digests, for tests that look at provd from outside.

Rule: nothing of the product is imported here. The wire is spoken by hand and the digests are made with hashlib
over os.walk, so that a mistake in the product cannot hide in its own helpers. A test never sleeps to wait for
something: the only loop with a pause is the one that waits for a daemon to answer `daemon.hello`.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from typing import IO, TYPE_CHECKING, Final

from digests_by_hand import digest, read_dep
from wire_by_hand import HANG, MIB, Json, Rpc, RpcError, unwire, wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "HANG",
    "MIB",
    "SHOWN",
    "Daemon",
    "Json",
    "Rpc",
    "RpcError",
    "StartError",
    "Workspace",
    "clean_environment",
    "digest",
    "read_dep",
    "records_since",
    "shown",
    "tree_state",
    "unwire",
    "wire",
]

SHOWN: Final = frozenset({"content", "stat"})
"""What `checked` says where every content was shown: read, or at rest under a seal."""
REPOSITORY: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def clean_environment(home: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child: no setting of the caller's leaks in, and the checkout's package is found."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PROVD_", "XDG_", "LISTEN_", "NOTIFY_"))}
    kept.pop("RUNTIME_DIRECTORY", None)
    kept.pop("STATE_DIRECTORY", None)
    kept.pop("CONFIGURATION_DIRECTORY", None)
    kept.update(HOME=home, PYTHONPATH=REPOSITORY, PYTHONUNBUFFERED="1")
    kept.update(extra or {})
    return kept


class StartError(Exception):
    """The daemon ended instead of answering; `code` is its exit status, `stderr` what it said."""

    def __init__(self, code: int, stderr: str) -> None:
        super().__init__(f"the daemon exited with {code}: {stderr[-2000:]}")
        self.code = code
        self.stderr = stderr


class Daemon:
    """One daemon with its own root, state and socket, all below `home`, which goes when it is closed."""

    def __init__(
        self,
        *,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        home: str | None = None,
        state: str | None = None,
        socket_path: str | None = None,
        roots: Sequence[str] | None = None,
    ) -> None:
        self._owns_home = home is None
        self.home = os.path.realpath(home or tempfile.mkdtemp(prefix="provd-", dir="/tmp"))
        self.root = os.path.join(self.home, "root")
        self.outside = os.path.join(self.home, "outside")
        self.state = state or os.path.join(self.home, "state")
        self.socket = socket_path or os.path.join(self.home, "s.sock")
        self.args = list(args)
        self.env = dict(env or {})
        self.roots = [self.root] if roots is None else list(roots)
        self.process: subprocess.Popen[bytes] | None = None
        self.killed = 0
        self._log: IO[bytes] | None = None
        self._connections: list[Rpc] = []
        self._rpc: Rpc | None = None
        os.makedirs(self.root, exist_ok=True)
        os.makedirs(self.outside, exist_ok=True)

    # -- life

    def command(self) -> list[str]:
        """The command line of this daemon."""
        roots = itertools.chain.from_iterable(("--root", root) for root in self.roots)
        places = ["--state", self.state, "--socket", self.socket]
        return [sys.executable, "-m", "provd", "run", *roots, *places, *self.args]

    def scanned(self) -> Daemon:
        """Asks until no root is being scanned any more: from then on what is watched is watched."""
        deadline = time.monotonic() + HANG
        while any(root["state"] == "scanning" for root in self.rpc("root.list")["roots"]):
            assert time.monotonic() < deadline, f"still scanning after {HANG} s"
        return self

    def launch(self, **env: str) -> subprocess.Popen[bytes]:
        """Starts the process without waiting for it."""
        assert self.process is None or self.process.poll() is not None
        if self._log is None:
            self._log = open(os.path.join(self.home, "daemon.log"), "w+b")  # noqa: SIM115 - lives as long as the daemon
        self._log.seek(0, os.SEEK_END)
        self._said_from = self._log.tell()
        self.process = subprocess.Popen(
            self.command(),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            cwd="/",
            env=clean_environment(self.home, {**self.env, **env}),
        )
        return self.process

    def start(self, **env: str) -> Daemon:
        """Starts and waits until `daemon.hello` is answered. Raises StartError where the process ends first."""
        process = self.launch(**env)
        deadline = time.monotonic() + HANG
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise StartError(process.returncode, self.said())
            with contextlib.suppress(OSError, RpcError):
                with contextlib.closing(Rpc(self.socket)) as rpc:
                    hello = rpc("daemon.hello", protocol=1)
                if hello["pid"] == process.pid:
                    return self
            time.sleep(0.005)  # the one wait of this house: a process that is not there cannot tell when it will be
        raise AssertionError(f"the daemon did not answer in {HANG} s: {self.said()}")

    def refused(self, **env: str) -> StartError:
        """Starts a daemon that must not come up, and gives how it ended."""
        process = self.launch(**env)
        try:
            code = process.wait(HANG)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise AssertionError(f"the daemon came up or hung: {self.said()}") from None
        return StartError(code, self.said())

    def said(self) -> str:
        """What the process wrote since it was launched."""
        if self._log is None:
            return ""
        self._log.flush()
        with open(self._log.name, "rb") as log:
            log.seek(self._said_from)
            return log.read().decode(errors="replace")

    def stop(self, signal_number: int = signal.SIGTERM) -> int:
        """Ends the daemon by a signal and gives its exit status."""
        self.disconnect()
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
        try:
            return self.process.wait(HANG)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the daemon did not stop within {HANG} s: {self.said()}") from None

    def kill9(self) -> None:
        """SIGKILL, and the process reaped."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.killed += 1
        self.disconnect()

    def restart(self) -> Daemon:
        """An orderly stop and a new start."""
        self.stop()
        return self.start()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.poll() is None

    # -- connections

    def connect(self) -> Rpc:
        """A new connection, closed with the daemon."""
        rpc = Rpc(self.socket)
        self._connections.append(rpc)
        return rpc

    @property
    def rpc(self) -> Rpc:
        """The daemon's common connection of this test."""
        if self._rpc is None:
            self._rpc = self.connect()
        return self._rpc

    def disconnect(self) -> None:
        """Closes every connection that was made here."""
        for rpc in self._connections:
            rpc.close()
        self._connections = []
        self._rpc = None

    def close(self) -> None:
        """Ends the process and removes the home."""
        self.disconnect()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._owns_home:
            shutil.rmtree(self.home, ignore_errors=True)

    def workspace(self) -> Workspace:
        """The watched root itself."""
        return Workspace(self, self.root, "")


_counter = itertools.count(1)


class Workspace:
    """A directory with a daemon behind it: `ws("entry.check", key="k")` asks with this directory as root.

    Workspaces of one daemon do not see each other's keys (each is its own root) nor, by `object`, each other's
    objects.
    """

    def __init__(self, daemon: Daemon, root: str, tag: str) -> None:
        self.daemon = daemon
        self.root = root
        self.tag = tag

    @classmethod
    def fresh(cls, daemon: Daemon) -> Workspace:
        """A new directory outside the daemon's watched root."""
        number = next(_counter)
        root = os.path.join(daemon.home, f"w{number}")
        os.mkdir(root)
        return cls(daemon, root, f"w{number}-")

    @property
    def rpc(self) -> Rpc:
        """The daemon's common connection of this test."""
        return self.daemon.rpc

    def __call__(self, method: str, **params: Json) -> Json:
        """Asks with this directory as root."""
        return self.rpc(method, **self.fill(method, params))

    def fill(self, method: str, params: dict[str, Json]) -> dict[str, Json]:
        """The parameters, with this directory as root where the method takes one, and time enough for any machine."""
        defaults: dict[str, Json] = {}
        if method.startswith(("entry.", "deps.")) or method in {"action.begin", "action.record"}:
            defaults["root"] = wire(self.root)
        if method in {"entry.check", "entry.get", "entry.revalidate", "deps.check"}:
            defaults["timeout_ms"] = 60_000
        return {**defaults, **params}

    # -- files

    def path(self, name: str | bytes) -> bytes:
        """An absolute path below this directory."""
        return os.path.join(os.fsencode(self.root), os.fsencode(name))

    def write(self, name: str | bytes, content: str | bytes = "one\n") -> bytes:
        """Writes a file in place, making its directories."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return path

    def digest(self, dependency: str | bytes, algorithm: str = "sha256") -> str:
        """SPEC's digest of what stands there now."""
        return digest(dependency, self.root, algorithm)

    def dep(self, dependency: str | bytes, algorithm: str = "sha256") -> dict[str, Json]:
        """A path dependency that the client read."""
        return read_dep(dependency, self.root, algorithm)

    def object(self, name: str) -> str:
        """An object that no other workspace names."""
        return f"object:{self.tag}{name}"

    # -- the questions that nearly every test asks

    def clock(self) -> str:
        """A clock of now."""
        token = self.rpc("log.clock")["clock"]
        assert isinstance(token, str)
        return token

    def put(self, key: str, *dependencies: str | bytes, value: Json = "value", **params: Json) -> Json:
        """Puts with the digests of what stands there now."""
        return self("entry.put", key=key, value=value, deps=[self.dep(d) for d in dependencies], **params)

    def check(self, key: str, **params: Json) -> Json:
        """The verdict on one key."""
        return self("entry.check", key=key, **params)

    def verdict(self, key: str, **params: Json) -> str:
        """The verdict's one word."""
        verdict = self.check(key, **params)["verdict"]
        assert isinstance(verdict, str)
        return verdict

    def found(self, key: str, **params: Json) -> tuple[str, str]:
        """`(verdict, why)` of one key, as `shown` gives it."""
        return shown(self.check(key, **params))


def shown(answer: Json) -> tuple[str, str]:
    """`(verdict, why)` of an answer; what a seal has shown to be untouched is the `same`, as what was read.

    Which of both it is depends on how long the file is at rest at this moment. Who means the reading asks with
    `verify="content"`.
    """
    by_seal = (answer["why"], answer["checked"]) == ("untouched", "stat")
    return answer["verdict"], "same" if by_seal else answer["why"]


def tree_state(path: str) -> dict[str, tuple[int, int, int, str]]:
    """Everything below a path that a refused start must leave alone: mode, owner, size and content of each."""
    state: dict[str, tuple[int, int, int, str]] = {}
    for directory, directories, files in os.walk(path):
        for name in [".", *directories, *files]:
            member = os.path.join(directory, name)
            status = os.lstat(member)
            content = ""
            if stat.S_ISREG(status.st_mode):
                with open(member, "rb") as file:
                    content = hashlib.file_digest(file, "sha256").hexdigest()
            state[member] = (status.st_mode, status.st_uid, status.st_size if content else 0, content)
    return state


def content_of(path: str) -> bytes:
    """All that is in a file."""
    with open(path, "rb") as file:
        return file.read()


def write_over(path: str, content: bytes) -> None:
    """Writes into a file that somebody has open, from its beginning, and cuts nothing off."""
    with open(path, "r+b") as file:
        file.write(content)


def records_since(rpc: Rpc, clock: str, limit: int = 1000) -> list[Json]:
    """All records after a clock, page by page."""
    found: list[Json] = []
    while True:
        page = rpc("log.since", clock=clock, limit=limit)
        assert len(page["records"]) <= limit
        found += page["records"]
        if not page.get("more"):
            return found
        assert page["records"], "more, yet nothing returned"
        clock = page["clock"]


def run_module(module: str, *arguments: str) -> None:
    """Runs `python -m MODULE` in a process of its own; raises AssertionError with what it said where it failed."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": REPOSITORY},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5000:]
