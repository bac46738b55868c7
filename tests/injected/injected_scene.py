"""What clients do while one thing of the daemon fails, and what must be true then and afterwards.

While it fails, each request is answered, by an error or by what is true. Afterwards all answers are right again, what
was acknowledged is there, and whoever is told that the log is complete finds each change in it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import socket
import time
from typing import TYPE_CHECKING, Any, ClassVar, Final

from support import HANG, Daemon, RpcError, StartError, digest, unwire

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from support import Json

HERE: Final = os.path.dirname(os.path.abspath(__file__))
DEPS: Final = {
    "file": "file:f",
    "same": "file:kept",
    "absent": "file:none",
    "dir": "dir:d",
    "names": "names:d/*",
    "glob": "glob:d/*",
    "tree": "tree:d",
}
_WRITTEN: Final = ("f", "d/new", "none", "moved", "made/below/file", "made/e")
"""Each file that a scene changes, by its name afterwards."""
BASE: Final = (*DEPS, "entry", "object")
SHORT: Final = 20_000
"""Milliseconds for a question: an answer that comes is the right one on any machine."""


class Fault(Exception):
    """Something that must not be."""


class Injected(Daemon):
    """A daemon of which something can be told to fail.

    `quick`: other values for constants of modules, where a test would have to wait. `also`: what fails beside it, by
    the beginning of its site: which error, and how often.
    """

    def __init__(
        self,
        *,
        quick: Mapping[str, Mapping[str, float]] | None = None,
        also: Mapping[str, tuple[str, int]] | None = None,
        **others: Any,
    ) -> None:
        super().__init__(**others)
        self.env |= {"INJECTED_QUICK": json.dumps(quick or {}), "INJECTED_CONTROL": self._control}
        self.env["INJECTED_CACHE"] = os.environ.get("INJECTED_CACHE") or self.home
        self.also = dict(also or {})

    def prepare(self) -> None:
        """Makes what the next start is to find; nothing runs."""

    def begin(self, **env: str) -> None:
        """A start that finds what `prepare` made, and what fails `also`. Raises StartError."""
        self.prepare()
        self.start(INJECTED_ALSO=json.dumps(self.also), **env)

    def command(self) -> list[str]:
        """The rewritten provd."""
        interpreter, _, _, *rest = super().command()
        return [interpreter, os.path.join(HERE, "injected_daemon.py"), *rest]

    @property
    def _control(self) -> str:
        return os.path.join(self.home, "control")

    def tell(self, **asked: Json) -> Json:
        """One word to what fails."""
        with socket.socket(socket.AF_UNIX) as there:
            there.settimeout(HANG)
            there.connect(self._control)
            there.sendall(json.dumps(asked).encode() + b"\n")
            with there.makefile("rb") as stream:
                return json.loads(stream.readline())

    def told_at_its_end(self) -> Json:
        """What the last one passed: `passed`, `known`, and whether what was armed `fired`."""
        path = f"{self._control}.passed"
        if not os.path.exists(path):
            return {"passed": {}, "known": [], "fired": False}
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
        os.unlink(path)
        return told

    def arm(self, site: str, error: str, nth: int) -> None:
        """This fails once, at the nth passing from now."""
        self.tell(arm=site, error=error, nth=nth)

    def disarm(self) -> bool:
        """Nothing fails any more; whether it did."""
        return bool(self.tell(arm="", error="", nth=0))


class Scene:
    """One directory of the root, its entries, and what becomes of them.

    Of others of its kind it sees no key, no object and no file.
    """

    starts: ClassVar = True
    """Whether its daemon comes up; of one that is refused each start is to be refused, whatever fails."""
    vouches: ClassVar = True
    """Whether its watcher says of a root that is wholly watched that nothing is missing."""
    mounts: ClassVar = False
    """Whether it mounts something."""

    @classmethod
    def daemon(cls) -> Injected:
        """The daemon that it is played with, not started."""
        return Injected()

    def __init__(self, daemon: Any, number: int) -> None:
        self._daemon = daemon
        self._number = number
        self.root = os.path.join(daemon.root, f"w{number}")
        self._object = f"object:o{number}"
        self._rpc, self._listener = daemon.connect(), daemon.connect()
        self._listens = False
        self._alive = daemon.process
        self.deps: dict[str, list[str]] = {key: [dep] for key, dep in DEPS.items()}
        """What each entry that was put with digests rests on."""
        self._made: dict[str, list[str]] = {}
        self.refused: list[str] = []
        self._versions: dict[str, int] = {}
        self._object_written = False
        os.makedirs(os.path.join(self.root, "d/e"))
        for name in ("f", "kept", "d/old", "d/e/deep", "going"):
            self._write(name, b"one " + name.encode())
        self.arrange()
        for key in self.deps:
            self._made[key] = self._now(key)
            digests = [{"dep": d, "digest": was} for d, was in zip(self.deps[key], self._made[key], strict=True)]
            self._put(key, deps=digests)
        clock = self._rpc("log.clock")["clock"]
        self._put("object", deps=[self._object], fetched_at=clock)
        self._put("entry", deps=["entry:same"], fetched_at=clock)
        self.clock: str = self._rpc("log.clock")["clock"]

    def arrange(self) -> None:
        """Makes files and adds to `deps`, before anything fails."""

    # -- while something fails

    def play(self) -> None:
        """Changes files, asks, puts and acts; each request is answered. Raises Fault."""
        self._listen()
        self._changes()
        self.theme()

    def _listen(self, **params: Json) -> None:
        with self._may_be_refused():
            self._listener("log.subscribe", **params)
            self._listens = True

    def theme(self) -> None:
        """What this kind of scene does."""
        for verify in ("auto", "log", "content"):
            self.ask(verify=verify)
        with self._may_be_refused():
            self._put("again", deps=[{"dep": "file:kept", "digest": self._made["same"][0]}])
        with self._may_be_refused():
            clock = self._rpc("log.clock")["clock"]
            self._put("clocked", deps=[{"dep": "file:kept"}], fetched_at=clock)
        with self._may_be_refused():
            self._put("now", deps=[{"dep": "tree:d"}], as_of="put")
        self._act()
        far = self.elsewhere("d")
        for method, params in (
            ("log.since", {"clock": self.clock}),
            ("root.add", {"path": far}),
            ("root.remove", {"path": far}),
            ("deps.check", {"deps": [{"dep": "file:kept", "digest": self._made["same"][0]}], "root": self.root}),
            ("deps.snapshot", {"deps": ["file:kept", "tree:d"], "root": self.root}),
            ("entry.export", {"root": self.root}),
            ("entry.forget", {"key": "no such key", "root": self.root}),
            ("action.record", {"writes": [f"{self._object}-other"], "root": self.root}),
            ("daemon.audit", {}),
            ("entry.list", {"root": self.root}),
            ("entry.get", {"key": "same", "root": self.root}),
            ("entry.revalidate", {"key": "same", "root": self.root}),
            ("daemon.status", {}),
            ("root.list", {}),
        ):
            self.request(method, **params)

    def elsewhere(self, below: str) -> str:
        """A directory outside of the roots, with one in it."""
        far = os.path.join(self._daemon.outside, os.path.basename(self.root))
        os.makedirs(os.path.join(far, below), exist_ok=True)
        return far

    def _changes(self) -> None:
        self._write("f", b"two")
        self._write("d/new", b"new")
        self._write("none", b"there")
        os.rename(os.path.join(self.root, "going"), os.path.join(self.root, "moved"))
        os.unlink(os.path.join(self.root, "d/old"))
        os.makedirs(os.path.join(self.root, "made/below"))
        self._write("made/below/file", b"deep")
        os.rename(os.path.join(self.root, "d/e"), os.path.join(self.root, "made/e"))

    def _act(self) -> None:
        with self._may_be_refused():
            begun = self._rpc("action.begin", writes=[self._object], root=self.root)
            self._object_written = True
            self._rpc("action.end", id=begun["id"], outcome="done")

    def ask(self, keys: tuple[str, ...] = BASE, **params: Json) -> None:
        """The verdicts on these keys are right, or unknown."""
        with self._may_be_refused():
            told = self._checked(keys, **params)
            if not params.get("revalidate", True):  # there a touch is enough to be dirty
                told = {key: verdict for key, verdict in told.items() if verdict["verdict"] == "fresh"}
            self._judge(told, exact=False)

    def request(self, method: str, expected: str = "", **params: Json) -> Json:
        """The result of a request; None where it is refused, be it as `expected`."""
        try:
            with self._may_be_refused():
                return self._rpc(method, **params)
        finally:
            if self.refused and expected and self.refused[-1] == expected:
                self.refused.pop()

    def _checked(self, keys: tuple[str, ...], **params: Json) -> dict[str, Json]:
        asked = {"keys": list(keys), "root": self.root, "timeout_ms": SHORT, **params}
        verdicts: dict[str, Json] = self._rpc("entry.check", **asked)["verdicts"]
        return verdicts

    def _judge(self, verdicts: dict[str, Json], *, exact: bool) -> None:
        for key, told in verdicts.items():
            ground, said = "same" if key == "entry" else key, told["verdict"]
            if ground in self.deps:
                right = "fresh" if self._now(ground) == self._made[ground] else "dirty"
                if said != right and (exact or said != "unknown"):
                    raise Fault(f"{key} is {right}, said: {told}")
            if key == "object" and self._object_written and said == "fresh":
                raise Fault(f"an object that was written: {told}")

    def _now(self, key: str) -> list[str]:
        return [digest(dep, self.root) for dep in self.deps[key]]

    # -- while it ends

    def leave(self) -> None:
        """Asks for what need not be answered any more when the daemon is told to end."""

    # -- afterwards

    def end(self) -> None:
        """Nothing fails any more: all is right. Raises Fault."""
        self._rpc.close()  # a daemon takes 1,024 connections, and outlives many scenes
        self._rpc = self._daemon.connect()
        keys = tuple(dict.fromkeys((*self.deps, *BASE)))
        self._judge(self._checked(keys, verify="log"), exact=False)
        for verify in ("auto", "content"):
            self._judge(self._checked(keys, verify=verify), exact=True)
        for key, version in self._versions.items():
            got = self._rpc("entry.get", key=key, root=self.root, even_if=["dirty", "unknown"])
            if got.get("version") != version:
                raise Fault(f"{key} was acknowledged as {version}, is {got}")
        self._logged()
        if self._listens and self._alive == self._daemon.process:
            self._told()
        self._recovers()
        self.afterwards()
        self._listener.close()
        self._rpc.close()

    def _vouches(self) -> bool:
        """Whether the log has to be complete: not where the daemon had to poll, and says so."""
        return self.vouches and all(root["backend"] != "poll" for root in self._rpc("daemon.status")["roots"])

    def _recovers(self) -> None:
        """What happens from now on is in the log, and before long nothing is missing. Raises Fault."""
        deadline = time.monotonic() + HANG
        for number in itertools.count():
            clock, name = self._rpc("log.clock")["clock"], f"after {number}"
            self._write(name, b"there")
            self._rpc("log.clock")  # what is polled is scanned for it
            told = self._rpc("log.since", clock=clock, paths=[self.root])
            paths = {record.get("path") for record in told["records"]}
            if told["complete"] and os.path.join(self.root, name) not in paths:
                raise Fault(f"the log is called complete and lacks {name}: {told}")
            if os.path.join(self.root, name) in paths and told["complete"] >= self._vouches():
                return
            if time.monotonic() > deadline:
                raise Fault(f"what happens is not recorded, or never called complete any more: {told}")

    def afterwards(self) -> None:
        """What else must be right then."""

    def close(self) -> None:
        """Takes its files away."""
        shutil.rmtree(self.root, ignore_errors=True)

    def _told(self) -> None:
        """Who listens was told every record, or that he was not, or was cut off."""
        head = self._rpc("action.record", writes=["object:last"])["seq"]
        numbers: list[int] = []
        try:
            while not numbers or numbers[-1] < head:
                note = self._listener.note()
                if note["method"] == "log.lost":
                    return
                if note["method"] == "log.record":
                    numbers.append(note["params"]["seq"])
        except TimeoutError as error:
            raise Fault(f"who listens was told {numbers[-1:]} of {head}, and nothing more") from error
        except ConnectionError:
            return
        if numbers != list(range(numbers[0], head + 1)):
            raise Fault(f"who listens was told of a hole: {numbers}")

    def _logged(self) -> None:
        """Who is told that nothing is missing misses nothing."""
        told, complete = self._since(paths=[self.root])
        there = {unwire(record["path"]) for record in told if record["type"] == "mutation"}
        wanted = {os.fsencode(os.path.join(self.root, name)) for name in _WRITTEN}
        if complete and not wanted <= there:
            raise Fault(f"the log is called complete and lacks {wanted - there}")
        numbers = [record["seq"] for record in self._since()[0]]
        if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise Fault(f"the log has a hole: {numbers}")

    def _since(self, **params: Json) -> tuple[list[Json], bool]:
        """The records since the scene began, and whether they are called all there are."""
        records: list[Json] = []
        clock, complete, more = self.clock, True, True
        while more:
            told = self._rpc("log.since", clock=clock, limit=1000, **params)
            clock, complete, more = told["clock"], complete and told["complete"], told.get("more", False)
            records += told["records"]
        return records, complete

    # -- requests

    def _put(self, key: str, **params: Json) -> None:
        self._versions.pop(key, None)
        told = self._rpc("entry.put", key=key, **{"value": key, "root": self.root, **params})
        self._versions[key] = told["version"]

    @contextlib.contextmanager
    def _may_be_refused(self) -> Iterator[None]:
        """An error is an answer, and so is a connection that is closed; no answer at all is none."""
        try:
            yield
        except RpcError as error:
            self.refused.append(error.code)
        except TimeoutError as error:
            raise Fault("a client waits for ever") from error
        except ConnectionError:
            self.refused.append("closed")
            if not self._daemon.alive:
                raise
            self._rpc = self._daemon.connect()

    def _write(self, name: str, content: bytes) -> None:
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)


__all__ = ["BASE", "SHORT", "Fault", "Injected", "Scene", "StartError"]
