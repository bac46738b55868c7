"""Faults of the daemon and of the machine, mixed into a run; when one returns it is over, or known to be under way."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

from oracle_eyes import content
from oracle_place import ACTS
from oracle_run import FULL, WHILE_STOPPED
from support import HANG, Daemon, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable

    from oracle_eyes import Token
    from oracle_run import Run

HERE: Final = os.path.dirname(os.path.abspath(__file__))
EVENTS: Final = 20_000
_FLOODED: Final = 12
_AMONG: Final = 16
_NEW: Final = 6
_FEW_WATCHES: Final = 8
_LIMIT: Final = "/proc/sys/user/max_inotify_watches"
_BARRED: Final = "--bounding-set=-dac_override,-dac_read_search"


class Tried(Daemon):
    """A daemon whose clock can be set; `bars`: one that the modes of files keep out, as they do an ordinary user."""

    bars = False

    def command(self) -> list[str]:
        interpreter, _, _, *rest = super().command()
        barred = ["setpriv", _BARRED] if self.bars else []
        return [*barred, interpreter, os.path.join(HERE, "oracle_stepped.py"), *rest]

    def launch(self, **env: str) -> subprocess.Popen[bytes]:
        return super().launch(**{"ORACLE_STEPPED": self.sign, **env})

    @property
    def sign(self) -> str:
        """The file that says that the clock was set."""
        return os.path.join(self.home, "stepped")


class Faults:
    """Does one fault after another. `disk` is the state's own small file system, if it has one."""

    def __init__(self, run: Run, daemon: Tried, *, disk: str = "", limits: bool = False) -> None:
        self._run, self._daemon, self._disk = run, daemon, disk
        self._limited = False
        self.kinds: dict[str, Callable[[], None]] = {
            "kill -9": self._kill,
            "restart": self._restart,
            "stopped": self._stopped,
            "clock step": self._clock,
        }
        if limits:
            self.kinds["watch limit"] = self._few_watches
        if disk:
            self.kinds[FULL] = self._full

    def do(self, name: str) -> None:
        """Does it; the questions that follow are counted as its own until `over`."""
        self.over()
        self._run.fault = name
        self._run.faults[name]["times"] += 1
        self._run.steps.append(f"FAULT {name}")
        self.kinds[name]()

    def over(self) -> None:
        """What goes on until then ends."""
        name, self._run.fault = self._run.fault, ""
        if name == FULL:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._ballast)
            self._settle()
        if name == "watch limit":
            self._set_limit(self._before)
            self._restart()
        self._run.fault = ""

    def _settle(self) -> None:
        """What is still refused after the disk was full is taken from now on."""
        deadline = time.monotonic() + HANG
        while time.monotonic() < deadline:
            try:
                self._run.rpcs[0]("action.record", writes=["object:nobody's"], root=self._run.place.root)
            except RpcError:
                continue
            return
        raise AssertionError("nothing is taken though there is room again")

    # -- kinds

    def _down(self, end: Callable[[], object]) -> None:
        end()
        run = self._run
        for _ in range(run.random.choice((0, 1, 3))):
            run.place.nudge = lambda: None
            name = run.random.choice(run.place.acts())
            run.act(name)
        self._up()

    def _up(self) -> None:
        run = self._run
        self._daemon.start()
        run.declaring.restarted()
        run.connect()
        run.place.nudge = run.ask_some
        if run.random.random() < 0.5:
            self._daemon.scanned()

    def _kill(self) -> None:
        """Puts are on their way: of those nobody knows, so they are forgotten."""
        run = self._run
        sent = sorted(run.oracle.entries)
        sent = run.random.sample(sent, min(5, len(sent)))
        for key in sent:
            run.rpcs[1].send("entry.put", key=key, value=1, deps=[], root=run.place.root)
        self._down(self._daemon.kill9)
        for key in sent:
            run.forget(key)

    def _restart(self) -> None:
        self._down(self._daemon.stop)

    def _stopped(self) -> None:
        """The daemon stands still while more happens than the kernel's queue holds; it wakes to questions about it."""
        run, place, process = self._run, self._run.place, self._daemon.process
        assert process is not None
        place.nudge = lambda: None
        process.send_signal(signal.SIGSTOP)
        try:
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            run.touched(WHILE_STOPPED, self._flood())
            marked = [key for key, entry in run.oracle.entries.items() if entry.mark and entry.mark[0] == WHILE_STOPPED]
            run.ask(marked, run.eyes(), lambda: process.send_signal(signal.SIGCONT))
        finally:
            process.send_signal(signal.SIGCONT)
            place.nudge = run.ask_some

    def _flood(self) -> set[Token]:
        """Writes to some files in turn, no two in a row alike, and acts among them; gives what was touched.

        Two files of nobody's are written to as well: the others may be moved to where they make no events.
        """
        run, place, random = self._run, self._run.place, self._run.random
        place.touched.clear()
        opened: dict[Token, tuple[int, bytes]] = {}
        with contextlib.ExitStack() as held:
            for number in range(_FLOODED):
                with contextlib.suppress(OSError):
                    if number < _NEW:  # what was absent is seldom there to be written to
                        place.write(place.favoured())
                    descriptor = place.open(place.present())
                    held.callback(os.close, descriptor)
                    opened[content(os.fstat(descriptor))] = (descriptor, os.pread(descriptor, 1, 0))
            touched, files = set(place.touched), list(opened.values())
            busy = [os.open(os.path.join(self._daemon.root, f"busy{n}"), os.O_WRONLY | os.O_CREAT) for n in range(2)]
            for descriptor in busy:
                held.callback(os.close, descriptor)
            for number in range(EVENTS):
                os.pwrite(busy[number % 2], b"x", 0)
                if number % (EVENTS // _AMONG) == 0:
                    column = run.table.thinnest(WHILE_STOPPED)
                    name = random.choice([name for name in place.acts() if column in ACTS[name].reach])
                    place.act(name)
                    touched |= place.touched
                    run.steps.append(f"  among the events {name}: {' '.join(place.said)}")
                if files:
                    os.pwrite(files[number % len(files)][0], b"%d" % (number % 10), 0)
            for descriptor, before in files:
                if random.random() < 0.5:
                    os.pwrite(descriptor, before, 0)
        return touched

    def _clock(self) -> None:
        process = self._daemon.process
        assert process is not None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._daemon.sign)
        process.send_signal(signal.SIGUSR2)
        deadline = time.monotonic() + HANG
        while not os.path.exists(self._daemon.sign):
            assert time.monotonic() < deadline
            self._run.rpcs[0]("daemon.hello", protocol=1)

    def _few_watches(self) -> None:
        with open(_LIMIT, "rb") as file:
            self._before = int(file.read())
        self._set_limit(_FEW_WATCHES)
        self._restart()

    def _set_limit(self, number: int) -> None:
        with open(_LIMIT, "wb") as file:
            file.write(b"%d" % number)

    def _full(self) -> None:
        with open(self._ballast, "ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * 4096)

    @property
    def _ballast(self) -> str:
        return os.path.join(self._disk, "ballast")


def may_bar() -> bool:
    """Whether a daemon can be started that modes keep out, by a process that they do not."""
    if os.geteuid() != 0:
        return False
    done = subprocess.run(["setpriv", _BARRED, sys.executable, "-c", ""], capture_output=True, check=False)
    return done.returncode == 0
