"""The command line as a terminal shows it: run in a pty of a fixed width, against a real daemon, and compared as text.

Rule: what differs from run to run (times, clocks, digests, the daemon's home) is put in the place of something of equal
width, and nothing else is. Nothing here sleeps: what is waited for is read from the terminal, with a deadline.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pty
import re
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import pytest
from support import HANG, Daemon, clean_environment, records_since

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOME: Final = "/tmp/provd-HOME0000"
COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_TIME: Final = re.compile(r"(?<!\d)\d\d:\d\d:\d\d(\.\d{3})?\b")
_DAY: Final = re.compile(r"(?<!\d)\d{4}-\d\d-\d\d\b")
_AGO: Final = re.compile(r"(?:just now|\d+ (?:s|min) ago)( *(?=  |\x1b))?")
_CLOCK: Final = re.compile(r"\bc:[0-9a-f]{16}:[0-9a-f]{16}:")
NAMES: Final = {
    "dim": "\x1b[2m",
    "bold": "\x1b[1m",
    "red": "\x1b[31m",
    "green": "\x1b[32m",
    "yellow": "\x1b[33m",
    "cyan": "\x1b[36m",
    "/": "\x1b[0m",
}


ROOT: Final = "/tmp/provd-HOME0000/root"
"""The root as `Desk.normal` writes it."""


@pytest.fixture
def desk() -> Iterator[Desk]:
    """A daemon whose root is wholly watched, and a terminal to look at it."""
    daemon = Daemon(args=["--backend", "inotify"])
    try:
        daemon.start().scanned()
        if any(root["coverage"] != "whole" for root in daemon.rpc("root.list")["roots"]):
            pytest.skip("the file system of the test's directory cannot be watched wholly")
        yield Desk(daemon)
    finally:
        daemon.close()


@dataclass(frozen=True)
class Seen:
    """What a command showed, and its exit code."""

    code: int
    text: str

    @property
    def plain(self) -> str:
        """The same without colours."""
        return COLOUR.sub("", self.text)

    @property
    def lines(self) -> list[str]:
        """The same, a line each."""
        return self.plain.splitlines()

    @property
    def marked(self) -> list[str]:
        """The records that `why` marks as what made the entry dirty."""
        return [line for line in self.lines if line.startswith("✗ HH:MM")]


class Desk:
    """A daemon's root to work in, and terminals to look at the daemon."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon

    # -- work

    def put(self, key: str, *deps: object, **params: object) -> None:
        """Puts an entry below the root."""
        about = {"key": key, "value": key, "deps": list(deps), "root": self.daemon.root}
        self.daemon.rpc("entry.put", **about | params)

    def put_as_it_is(self, key: str, *deps: str) -> None:
        """Puts what is true of the files as they are, which the log knows by now."""
        self.clock()
        self.put(key, *deps, as_of="put")

    def read(self, name: str) -> dict[str, str]:
        """A dependency on a file as it is now, by the digest of what is read."""
        path = os.path.join(self.daemon.root, name)
        with open(path, "rb") as file:
            return {"dep": f"file:{path}", "digest": f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"}

    def save(self, name: str, content: str) -> None:
        """Makes the content of a file another, in one event; goes on when the log knows its digest."""
        path = os.path.join(self.daemon.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        clock = self.clock()  # new directories are watched from now on
        made = os.path.join(self.daemon.outside, "made")
        with open(made, "w") as file:
            file.write(content)
        os.rename(made, path)
        self.hashed(clock)

    def clock(self) -> str:
        """A clock of now."""
        token: str = self.daemon.rpc("log.clock")["clock"]
        return token

    def hashed(self, clock: str) -> None:
        """Asks until no digest since a clock is to come any more."""
        deadline = time.monotonic() + HANG
        while True:
            self.clock()
            records = records_since(self.daemon.rpc, clock)
            told = {record["of"] for record in records if record["type"] == "hashed"}
            if all(r["seq"] in told for r in records if r.get("digest_state") == "pending"):
                return
            assert time.monotonic() < deadline, f"not hashed within {HANG} s"

    # -- looking

    def look(self, *arguments: str, columns: int = 80, **env: str) -> Seen:
        """What a command shows on a terminal."""
        with self.terminal(*arguments, columns=columns, **env) as terminal:
            terminal.read(lambda _: False)
            return Seen(terminal.process.wait(HANG), self.normal(terminal.text))

    def pipe(self, *arguments: str, **env: str) -> Seen:
        """What a command writes to a pipe."""
        done = subprocess.run(
            self.command(*arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=HANG,
            cwd=self.daemon.root,
            env=self.environment(**env),
        )
        assert done.stderr.decode() == "", done.stderr
        return Seen(done.returncode, self.normal(done.stdout.decode()))

    def terminal(self, *arguments: str, columns: int = 80, **env: str) -> Terminal:
        """A command that runs on a terminal."""
        environment = self.environment(COLUMNS=str(columns), TERM="xterm-256color") | env
        return Terminal(self.command(*arguments), self.daemon.root, environment)

    def command(self, *arguments: str) -> list[str]:
        """The command line of the real command."""
        return [sys.executable, "-m", "provd", *arguments]

    def environment(self, **env: str) -> dict[str, str]:
        """An environment without surprises."""
        own = {"PROVD_SOCKET": self.daemon.socket, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        kept = clean_environment(self.daemon.home, own)
        for name in ("NO_COLOR", "COLUMNS", "PYTHONUTF8", "PYTHONIOENCODING"):
            kept.pop(name, None)
        return kept | env

    def normal(self, text: str) -> str:
        """The text, with what differs from run to run put in the place of something of equal width."""
        text = text.replace("\r\n", "\n").replace(self.daemon.home, HOME)
        text = _TIME.sub(lambda found: "HH:MM:SS.mmm"[: len(found[0])], text)
        text = _AGO.sub(lambda found: "AGO" if found[1] is None else f"{'AGO':<{len(found[0])}}", text)
        text = text.replace("checked stat", "checked content").replace("checked\nstat", "checked\ncontent")
        return _CLOCK.sub(f"c:{'L' * 16}:{'R' * 16}:", _DAY.sub("YYYY-MM-DD", text))


class Terminal:
    """A pty with a command in it."""

    def __init__(self, command: list[str], where: str, environment: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=where, env=environment
        )
        os.close(theirs)
        self._raw = b""

    def __enter__(self) -> Self:
        """The terminal itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends what still runs in it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)

    @property
    def text(self) -> str:
        """All that was shown so far."""
        return self._raw.decode(errors="replace")

    def read(self, enough: Callable[[str], bool]) -> str:
        """Reads until what was shown is enough, or all is."""
        deadline = time.monotonic() + HANG
        while not enough(self.text):
            ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"not shown within {HANG} s: {self.text}"
            piece = b""
            with contextlib.suppress(OSError):  # Linux says so where the last writer has gone
                piece = os.read(self._ours, 65536)
            if not piece:
                break
            self._raw += piece
        return self.text


def coloured(text: str) -> str:
    """Colours written as their names: `<red>✗</>`."""
    for name, code in NAMES.items():
        text = text.replace(code, f"<{name}>")
    return text
