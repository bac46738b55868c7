"""Daemons whose store lies on a disk that fails, the places that the crash tests make, and what must be true then.

While it fails each question is answered, and nothing is acknowledged that is not durable. Afterwards what was
acknowledged is there, also for the next daemon, and what could not be logged is a gap.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

HERE: Final = os.path.dirname(os.path.abspath(__file__))
_TESTS: Final = os.path.dirname(HERE)
sys.path += [os.path.join(_TESTS, room) for room in ("crash", "oracle", "blackbox")]

from asking import ask_from, code  # noqa: E402
from crash_ground import new_device  # noqa: E402
from support import REPOSITORY, Daemon, Workspace, records_since  # noqa: E402
from watching import gaps  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "FULL",
    "UNUSABLE",
    "Failing",
    "Fault",
    "ask_from",
    "code",
    "command",
    "compiled",
    "complete",
    "fill",
    "findings",
    "new_device",
    "through",
]

FULL, UNUSABLE = "store.full", "store.unusable"
_ALWAYS: Final = 1 << 30


def compiled(directory: str) -> str | None:
    """The library that stands between a daemon and its disk; None where there is no compiler for it."""
    if shutil.which("gcc") is None:
        return None
    library = os.path.join(directory, "failing_disk.so")
    source = os.path.join(HERE, "failing_disk.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


class Failing(Daemon):
    """A daemon that can be told that its disk fails."""

    def __init__(self, library: str, *, state: str | None = None) -> None:
        super().__init__(state=state)
        self._control = os.path.join(self.home, "failing")
        self.env.update(LD_PRELOAD=library, FAILING=self._control)

    def fail(self, what: str, error: str = "EIO", most: int = _ALWAYS) -> None:
        """From now on, so many times; `what` is a word of `failing_disk.c`."""
        with open(self._control + ".new", "w", encoding="ascii") as file:
            file.write(f"{what} {getattr(errno, error)} {most}\n")
        os.rename(self._control + ".new", self._control)

    def mend(self) -> None:
        """Nothing fails any more."""
        os.unlink(self._control)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._control + ".count")

    @property
    def failed(self) -> int:
        """How often something did since it was told to."""
        try:
            return os.path.getsize(self._control + ".count")
        except FileNotFoundError:
            return 0


def command(daemon: Daemon, *words: str) -> tuple[int, str]:
    """What a command says of a daemon that listens or listened there: its exit code, and both of its outputs."""
    where = ["--socket", daemon.socket, "--state", daemon.state]
    env = {**os.environ, "PYTHONPATH": REPOSITORY}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "provd", *words, *(where if words[0] != "status" else where[:2])],
        env=env,
        cwd=daemon.home,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def findings(daemon: Daemon) -> dict[str, str]:
    """What doctor finds of the state directory and the store: the next step by its code."""
    told = json.loads(command(daemon, "doctor", "--json")[1])
    return {one["code"]: one["next"] for one in told["findings"] if one["check"] in {"state", "store"}}


def fill(directory: str) -> None:
    """Takes all that is left on a file system, for a file `fill` there."""
    with open(os.path.join(directory, "fill"), "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
        with contextlib.suppress(OSError):
            os.fsync(file.fileno())


def complete(ws: Workspace, clock: str) -> bool:
    """Whether the log says that it has all that happened since."""
    answer = ws.rpc("log.since", clock=clock, paths=[ws.root])["complete"]
    assert isinstance(answer, bool)
    return answer


class Fault(NamedTuple):
    """How it begins and ends, and the code with which what changes state is refused meanwhile."""

    begin: Callable[[], object]
    end: Callable[[], object]
    refusal: str


def through(daemon: Daemon, *faults: Fault) -> None:
    """What must be true before, while and after each fault of the disk of a daemon's store, and for the next daemon."""
    ws = daemon.start().scanned().workspace()
    rounds = [_round(ws, fault, str(number)) for number, fault in enumerate(faults)]
    daemon.kill9()
    daemon.start().scanned()
    for one in rounds:
        _afterwards(ws, one)
    assert "Traceback" not in daemon.said()


class _Round(NamedTuple):
    """One fault that is over: a part of every name, a clock before it, and the versions that were acknowledged."""

    name: str
    clock: str
    there: dict[str, int]


def _round(ws: Workspace, fault: Fault, name: str) -> _Round:
    keys = [f"changed{name}", f"still{name}"]
    for key in keys:
        ws.write(key, "one")
    there = {key: ws.put(key, f"file:{key}")["version"] for key in keys}
    ws("entry.put", key=f"object{name}", value=1, deps=[ws.object(name)], fetched_at=ws.clock())
    clock = ws.clock()
    assert ws.found(f"object{name}") == ("fresh", "declared")

    fault.begin()
    assert code(ws, "entry.put", key=f"refused{name}", value=1, deps=[]) == fault.refusal
    assert code(ws, "action.record", writes=[ws.object(name)]) == fault.refusal
    _questions_go_on(ws, name)
    ws.write(f"made{name}/while", "it failed")
    ws.write(f"changed{name}", "two")
    assert ws.found(f"changed{name}") == ("dirty", "changed")
    assert not complete(ws, clock)
    assert code(ws, "entry.put", key=f"refused{name}", value=2, deps=[]) == fault.refusal
    _questions_go_on(ws, name)

    fault.end()
    there[f"after{name}"] = ws.put(f"after{name}", f"file:still{name}")["version"]
    assert ws.rpc("daemon.audit")["mismatches"] == []
    done = _Round(name, clock, there)
    _afterwards(ws, done)
    return done


def _questions_go_on(ws: Workspace, name: str) -> None:
    assert ws.found(f"still{name}") == ("fresh", "same")
    assert ws("entry.get", key=f"still{name}")["value"] == "value"
    assert ws.verdict(f"object{name}") != "fresh"
    assert ws.found(f"refused{name}") == ("unknown", "no-entry")
    assert ws.rpc("daemon.status")["pid"]


def _afterwards(ws: Workspace, done: _Round) -> None:
    for key, version in done.there.items():
        assert ws.check(key)["version"] == version, key
    assert ws.found(f"still{done.name}") == ("fresh", "same")
    assert ws.found(f"changed{done.name}") == ("dirty", "changed")
    assert ws.found(f"object{done.name}") == ("unknown", "gap")
    assert ws.found(f"refused{done.name}") == ("unknown", "no-entry")
    assert not complete(ws, done.clock)
    records = records_since(ws.rpc, done.clock)
    assert [record["seq"] for record in records] == list(range(records[0]["seq"], records[-1]["seq"] + 1))
    assert gaps(records, ws.root)
