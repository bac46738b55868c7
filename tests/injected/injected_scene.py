"""What clients do while one thing of the daemon fails, and what must be true then and afterwards.

While it fails, each request is answered, by an error or by what is true. Afterwards all answers are right again, what
was acknowledged is there, and whoever is told that the log is complete finds each change in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from typing import TYPE_CHECKING, Final

from support import HANG, Daemon, Rpc, RpcError, StartError, digest, records_since, unwire

if TYPE_CHECKING:
    from collections.abc import Iterator

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


class Fault(Exception):
    """Something that must not be."""


class Injected(Daemon):
    """A daemon of which something can be told to fail."""

    def command(self) -> list[str]:
        """The rewritten provd."""
        interpreter, _, _, *rest = super().command()
        return [interpreter, os.path.join(HERE, "injected_daemon.py"), *rest]

    def launch(self, **env: str) -> object:  # type: ignore[override]
        """Starts it, with its control beside it."""
        return super().launch(INJECTED_CONTROL=self._control, **env)

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

    def arm(self, site: str, error: str, nth: int) -> None:
        """This fails once, at the nth passing from now."""
        self.tell(arm=site, error=error, nth=nth)

    def disarm(self) -> bool:
        """Nothing fails any more; whether it did."""
        return bool(self.tell(arm="", error="", nth=0))


class Scene:
    """One directory of the root, its entries, and what becomes of them."""

    def __init__(self, daemon: Injected, number: int) -> None:
        self._daemon = daemon
        self.root = os.path.join(daemon.root, f"w{number}")
        self._object = f"object:o{number}"
        self._rpc, self._listener = daemon.connect(), daemon.connect()
        self._listens = False
        self._alive = daemon.process
        self._made: dict[str, str] = {}
        self.refused: list[str] = []
        self._versions: dict[str, int] = {}
        self._object_doubtful = self._object_written = False
        os.makedirs(os.path.join(self.root, "d/e"))
        for name in ("f", "kept", "d/old", "d/e/deep", "going"):
            self._write(name, b"one " + name.encode())
        for key, dep in DEPS.items():
            self._made[key] = digest(dep, self.root)
            self._put(self._rpc, key, deps=[{"dep": dep, "digest": self._made[key]}])
        clock = self._rpc("log.clock")["clock"]
        self._put(self._rpc, "object", deps=[self._object], fetched_at=clock)
        self._put(self._rpc, "entry", deps=["entry:same"], fetched_at=clock)
        self.clock: str = self._rpc("log.clock")["clock"]

    # -- while something fails

    def play(self) -> None:
        """Changes files, asks, puts and acts; each request is answered. Raises Fault."""
        with self._may_be_refused():
            self._listener("log.subscribe")
            self._listens = True
        self._changes()
        for verify in ("auto", "log", "content"):
            self._ask(verify)
        with self._may_be_refused():
            self._put(self._client(), "again", deps=[{"dep": "file:kept", "digest": self._made["same"]}])
        with self._may_be_refused():
            clock = self._client()("log.clock")["clock"]
            self._put(self._client(), "clocked", deps=[{"dep": "file:kept"}], fetched_at=clock)
        with self._may_be_refused():
            self._put(self._client(), "now", deps=[{"dep": "tree:d"}], as_of="put")
        self._act()
        far = os.path.join(self._daemon.outside, os.path.basename(self.root))
        os.makedirs(os.path.join(far, "d"), exist_ok=True)
        for method, params in (
            ("log.since", {"clock": self.clock}),
            ("root.add", {"path": far}),
            ("root.remove", {"path": far}),
            ("deps.check", {"deps": [{"dep": "file:kept", "digest": self._made["same"]}], "root": self.root}),
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
            with self._may_be_refused():
                self._client()(method, **params)

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
        self._object_doubtful = True
        with self._may_be_refused():
            begun = self._client()("action.begin", writes=[self._object], root=self.root)
            self._object_written = True
            self._client()("action.end", id=begun["id"], outcome="done")

    def _ask(self, verify: str) -> None:
        keys = [*DEPS, "entry", "object"]
        with self._may_be_refused():
            told = self._client()("entry.check", keys=keys, root=self.root, verify=verify, timeout_ms=20_000)
            self._judge(told["verdicts"], verify)

    def _judge(self, verdicts: dict[str, Json], verify: str, *, exact: bool = False) -> None:
        now = {key: digest(dep, self.root) for key, dep in DEPS.items()}
        true = {key: "fresh" if now[key] == self._made[key] else "dirty" for key in DEPS}
        true["entry"] = true["same"]
        for key, right in true.items():
            said = verdicts[key]["verdict"]
            if said != right and (exact or said != "unknown"):
                raise Fault(f"{key} is {right}, said {verify}: {verdicts[key]}")
        said = verdicts["object"]["verdict"]
        if self._object_written and said == "fresh":
            raise Fault(f"an object that was written: {verdicts['object']}")

    # -- afterwards

    def end(self) -> None:
        """Nothing fails any more: all is right. Raises Fault."""
        self._rpc.close()  # a daemon takes 1,024 connections, and outlives many scenes
        self._rpc = self._daemon.connect()
        for verify in ("log", "auto", "content"):
            keys = [*DEPS, "entry", "object"]
            told = self._rpc("entry.check", keys=keys, root=self.root, verify=verify, timeout_ms=20_000)
            self._judge(told["verdicts"], verify, exact=verify != "log")
        for key, version in self._versions.items():
            got = self._rpc("entry.get", key=key, root=self.root, even_if=["dirty", "unknown"])
            if got.get("version") != version:
                raise Fault(f"{key} was acknowledged as {version}, is {got}")
        self._logged()
        if self._listens and self._alive == self._daemon.process:
            self._told()
        self._listener.close()
        self._rpc.close()

    def _told(self) -> None:
        """Who listens was told every record, or that he was not, or was cut off."""
        head = self._rpc("action.record", writes=["object:last"])["seq"]
        numbers: list[int] = []
        try:
            while not numbers or numbers[-1] < head:
                note = self._listener.note()
                if note["method"] == "log.lost":
                    return
                numbers.append(note["params"]["seq"])
        except TimeoutError as error:
            raise Fault(f"who listens was told {numbers[-1:]} of {head}, and nothing more") from error
        except ConnectionError:
            return
        if numbers != list(range(numbers[0], head + 1)):
            raise Fault(f"who listens was told of a hole: {numbers}")

    def _logged(self) -> None:
        """Who is told that nothing is missing misses nothing."""
        told = self._rpc("log.since", clock=self.clock, paths=[self.root], limit=1000)
        there = {unwire(record["path"]) for record in told["records"] if record["type"] == "mutation"}
        wanted = {os.fsencode(os.path.join(self.root, name)) for name in _WRITTEN}
        if told["complete"] and not wanted <= there:
            raise Fault(f"the log is called complete and lacks {wanted - there}")
        numbers = [record["seq"] for record in records_since(self._rpc, self.clock)]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise Fault(f"the log has a hole: {numbers}")

    # -- requests

    def _client(self) -> Rpc:
        """The connection; a new one where that was closed."""
        return self._rpc

    def _put(self, rpc: Rpc, key: str, **params: Json) -> None:
        self._versions.pop(key, None)
        told = rpc("entry.put", key=key, value=key, root=self.root, **params)
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
        with open(os.path.join(self.root, name), "wb") as file:
            file.write(content)


__all__ = ["Fault", "Injected", "Scene", "StartError", "sys"]
