"""Scenes of places: a service manager, a reload, other watchers, roots that go and come, a store that fails."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from typing import Any, Final

from injected_scene import Fault, Injected, Scene
from support import HANG, MIB

_LOOK_OFTEN: Final = {"provd.live": {"_LOOK_EVERY": 0.05}}


class Managed(Injected):
    """A daemon with a configuration, a log file that is full, and a service manager who waits for signs of life."""

    def __init__(self, **others: Any) -> None:
        super().__init__(quick={**_LOOK_OFTEN, "provd.bulletin": {"_LATER": 0.05, "_SLICE": 2}}, **others)
        self.config = os.path.join(self.home, "config.toml")
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        address = os.path.join(self.home, "manager")
        self.manager.bind(address)
        self.manager.settimeout(HANG)
        self.env |= {"PROVD_CONFIG": self.config, "NOTIFY_SOCKET": address, "WATCHDOG_USEC": "300000"}
        self.log_file = os.path.join(self.home, "said", "provd.log")
        self.args = ["--log-file", self.log_file]
        self.many = [os.path.join(self.home, "roots", str(number)) for number in range(3)]
        for path in self.many:
            os.makedirs(path)
        self.configure(self.many)

    def configure(self, roots: list[str], more: str = "") -> None:
        """Another configuration."""
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(f"roots = {roots!r}\n{more}\n")

    def command(self) -> list[str]:
        """With fewer descriptors than it may have."""
        return ["sh", "-c", 'ulimit -S -n 512; exec "$@"', "sh", *super().command()]

    def prepare(self) -> None:
        """A log that is as long as one gets, and the name of a daemon that was killed."""
        os.makedirs(os.path.dirname(self.log_file), exist_ok=True)
        for name in (self.log_file, f"{self.log_file}.1"):
            with open(name, "w", encoding="utf-8") as file:
                file.truncate(10 * MIB)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(self.socket)

    def said(self) -> str:
        """What is in its log files."""
        there = [name for name in (f"{self.log_file}.1", self.log_file) if os.path.exists(name)]
        texts = [open(name, "rb").read().replace(b"\0", b"") for name in there]  # noqa: SIM115
        return super().said() + b"".join(texts).decode(errors="replace")

    def waits_for(self, word: bytes) -> None:
        """Reads what the manager is told until it has this word. Raises Fault where it is not told."""
        deadline = time.monotonic() + HANG
        try:
            while word not in self.manager.recv(4096):
                if time.monotonic() > deadline:
                    raise Fault(f"the manager is not told {word!r}: {self.said()[-3000:]}")
        except TimeoutError:
            raise Fault(f"the manager is told nothing, not {word!r}: {self.said()[-3000:]}") from None

    def forget_what_was_told(self) -> None:
        """What comes from now on is new."""
        self.manager.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.manager.recv(4096)
        self.manager.settimeout(HANG)

    def close(self) -> None:
        """Also the manager."""
        super().close()
        self.manager.close()


class Managing(Scene):
    """A manager waits for signs of life; SIGHUP, with the socket gone; a reload, with a root that is missing."""

    @classmethod
    def daemon(cls) -> Injected:
        return Managed()

    def theme(self) -> None:
        daemon: Managed = self._daemon
        new = os.path.join(daemon.home, "roots", f"new {self._number}")
        os.makedirs(new)
        daemon.configure([*daemon.many, new], "[watch]\npoll_seconds = 5.0")
        daemon.forget_what_was_told()
        daemon.tell(also={"heartbeat.py:Heartbeat._tried:shown": ["runtime", 1]})
        os.chmod(os.path.join(daemon.state, "lock"), 0o600)  # the kernel tells of it, and it is still there
        assert daemon.process is not None
        os.unlink(daemon.socket)
        daemon.process.send_signal(signal.SIGHUP)
        try:
            daemon.waits_for(b"RELOADING=1")
        except Fault:  # the reload itself met the fault: its manager calls it failed, and the next one is heeded
            daemon.process.send_signal(signal.SIGHUP)
            daemon.waits_for(b"RELOADING=1")
        daemon.waits_for(b"READY=1")
        # One that fails to make its socket anew says so in its log, and goes on; whoever is connected is answered.
        daemon.configure([*daemon.many, os.path.join(new, "missing")])
        self.request("daemon.reload", "root.missing")
        daemon.configure(daemon.many)
        self.request("daemon.reload")
        self.request("daemon.config")
        self.request("root.remove", path=new)
        self.ask()
        daemon.waits_for(b"STATUS=watching")
        daemon.waits_for(b"WATCHDOG=1")

    def end(self) -> None:
        daemon: Managed = self._daemon
        if not os.path.exists(daemon.socket):  # it was asked for once, and failed; asked again it is there
            assert daemon.process is not None
            daemon.forget_what_was_told()
            daemon.process.send_signal(signal.SIGHUP)
            daemon.waits_for(b"READY=1")
        super().end()

    def afterwards(self) -> None:
        daemon: Managed = self._daemon
        daemon.forget_what_was_told()
        daemon.waits_for(b"WATCHDOG=1")


class Polling(Scene):
    """Roots that are polled."""

    backend = "poll"
    vouches = False

    @classmethod
    def daemon(cls) -> Injected:
        made = Injected(quick=_LOOK_OFTEN, args=["--backend", cls.backend])
        made.env["PROVD_CONFIG"] = os.path.join(made.home, "config.toml")
        with open(made.env["PROVD_CONFIG"], "w", encoding="utf-8") as file:
            file.write("[watch]\npoll_seconds = 0.1\n")
        return made

    def theme(self) -> None:
        self.ask()
        self._listened()
        with self._may_be_refused():  # two scans at once: the second one waits for the first
            for number in [self._rpc.send("log.clock") for _ in range(2)]:
                self._rpc.result(number)
        self.request("log.since", clock=self.clock, paths=[self.root])
        self.ask(verify="log")
        self.request("daemon.audit")
        self.request("root.list")
        super().theme()

    def leave(self) -> None:
        for _ in range(3):
            self._rpc.send("log.clock")

    def _listened(self) -> None:
        """Waits until a change is told of which nobody asks: a round has found it."""
        self._write("told", b"of")
        with self._may_be_refused():
            while self._listens and not _is_of(self._listener.note(), "told"):
                pass


class Observing(Polling):
    """Roots that watchdog observes."""

    backend = "watchdog"


def _is_of(note: dict[str, Any], name: str) -> bool:
    params = note["params"]
    return note["method"] != "log.record" or str(params.get("path", "")).endswith(name)


class Moving(Scene):
    """Roots that go and come, inside each other; directories that move while they are looked at; large trees."""

    @classmethod
    def daemon(cls) -> Injected:
        made = Injected(quick=_LOOK_OFTEN)
        for number in range(1200):  # of more than one slice, and of more than one command
            for name in ("wide", f"deep/{number % 10}"):
                os.makedirs(os.path.join(made.outside, "many", name), exist_ok=True)
                with open(os.path.join(made.outside, "many", name, str(number)), "wb") as file:
                    file.write(b"one")
        return made

    def arrange(self) -> None:
        os.makedirs(os.path.join(self.root, ".git/inner"))
        os.makedirs(os.path.join(self.root, "shuffled/0/deep"))

    def theme(self) -> None:
        many = os.path.join(self._daemon.outside, "many")
        inner = os.path.join(self.root, ".git/inner")
        self.request("root.add", path=many)
        self.request("root.add", path=inner)
        self.request("root.add", path=os.path.join(self.root, "d"), ignore=["*.o"])
        self.request("root.remove", path=os.path.join(self.root, "d"))
        self.request("root.remove", path=inner)
        self._unheard()
        self._shuffle()
        self._root_away()
        self.request("daemon.audit", root=self.root)
        link = os.path.join(self.root, "link")
        os.symlink(many, link)
        self.request("root.remove", path=link)
        self.ask()

    def leave(self) -> None:
        many = os.path.join(self._daemon.outside, "many")
        for method, params in (("root.add", {"path": many}), ("daemon.audit", {}), ("log.clock", {})):
            self._rpc.send(method, **params)

    def _unheard(self) -> None:
        """A burst, and a large file, of which nobody asks: who listens is told when they are at rest."""
        self._write("big", b"2" * (2 * MIB))
        for number in range(100):
            self._write(f"burst/{number}", b"%d" % number)
        come = os.path.join(self._daemon.outside, f"come {self._number}")
        for number in range(300):
            os.makedirs(come, exist_ok=True)
            with open(os.path.join(come, str(number)), "wb") as file:
                file.write(b"come")
        os.rename(come, os.path.join(self.root, "come"))
        self._write("told", b"last")
        with self._may_be_refused():
            wanted = {"told", "hashed"} if self._listens else set()
            while wanted:
                note = self._listener.note()["params"]
                wanted -= {note["type"], os.path.basename(str(note.get("path", "")))}

    def _shuffle(self) -> None:
        """A directory has many names, one after another."""
        at = os.path.join(self.root, "shuffled")
        for number in range(60):
            os.rename(f"{at}/{number}", f"{at}/{number + 1}")
            with open(f"{at}/{number + 1}/deep/{number}", "wb") as file:
                file.write(b"deep")
            if number % 20 == 0:
                self.request("log.clock")

    def _root_away(self) -> None:
        """A directory above a root has another name for a while; then the root itself is gone for a while."""
        above = os.path.join(self._daemon.home, f"above {self._number}")
        root = os.path.join(above, "root")
        os.makedirs(root)
        self.request("root.add", path=root)
        for path in (above, root):
            os.rename(path, f"{path} away")
            self._until(root, {"gone", "degraded"})
            os.rename(f"{path} away", path)
            self._until(root, {"watching"})
        self.request("root.remove", path=root)

    def _until(self, root: str, states: set[str]) -> None:
        """Asks until the root is as it should be; that it never is is silence."""
        deadline = time.monotonic() + HANG
        while True:
            told = self.request("root.list")
            there = [one["state"] for one in (told or {"roots": []})["roots"] if one["path"] == root]
            if told is not None and (not there or there[0] in states):
                return
            if time.monotonic() > deadline:
                raise Fault(f"{root} is {there}, and never {states}")


class _Short(Injected):
    """A daemon whose files may not be longer than a GiB."""

    def command(self) -> list[str]:
        return ["sh", "-c", 'ulimit -f 2097152; exec "$@"', "sh", *super().command()]


class Failing(Scene):
    """A store that takes no writes for a while, is full for a while, and is opened anew."""

    @classmethod
    def daemon(cls) -> Injected:
        return _Short(quick={**_LOOK_OFTEN, "provd.lasting": {"_PAUSE": 0.01}})

    def theme(self) -> None:
        self._daemon.tell(also={"live.py:Live._look:asyncio.sleep": ["runtime", 1]})
        held = self._daemon.connect()
        with self._may_be_refused():
            held("action.begin", writes=[f"{self._object}-held"], hold=True, root=self.root)
            self._daemon.tell(also={"recorder/held.py:Held._let_go:self._store.submit": ["full", 1]})
        held.close()
        for error, times in (("full", 3), ("lmdb", 1), ("lmdb", 2), ("short write", 1)):
            self._daemon.tell(also={"store/commit.py:Store._attempt:'commit.before'": [error, times]})
            self._write("none", error.encode() * times)
            self._write("d/new", error.encode())
            self.request("log.clock")
            self.request("action.record", "store.full", writes=[self._object], root=self.root)
            self._object_written = self.refused[-1:] != ["closed"]  # what is refused may have been written
            self.ask()
        # Opened anew while its disk is full, and then while it takes no writes.
        for error in ("disk full", "read-only"):
            self._daemon.tell(
                also={
                    "store/commit.py:Store._attempt:'commit.before'": ["lmdb", 1],
                    "store/environment.py:Environment._open_map:lmdb.open": [error, 1],
                }
            )
            self._write("none", error.encode())
            self.request("action.record", "store.full", writes=[f"{self._object}-other"], root=self.root)
            self.ask()
        self.refused = [code for code in self.refused if not code.startswith("store.")]
        super().theme()

    def afterwards(self) -> None:
        """What nobody holds any more is ended in the end."""
        deadline = time.monotonic() + HANG
        while any(f"{self._object}-held" in action["writes"] for action in self._rpc("action.list")["actions"]):
            if time.monotonic() > deadline:
                raise Fault("an action that nobody holds any more is never ended")
