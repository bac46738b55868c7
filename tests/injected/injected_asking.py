"""Scenes of questions: long ones, sets at rest, what clocks show, what goes on beside them."""

from __future__ import annotations

import os
import time
from typing import Any, Final

from injected_scene import BASE, Fault, Injected, Scene
from support import HANG, MIB

_MANY: Final = 150
"""Dependencies from which on threads think, here."""
_WIDE: Final = 151
_KEPT: Final = 1000
"""Records of the log that are kept."""


class Asking(Scene):
    """Large questions, and those that rest on a clock."""

    @classmethod
    def daemon(cls) -> Injected:
        many = {"provd.inquiry": {"_BIG": _MANY}, "provd.resolver": {"_MANY": _MANY}}
        return Injected(quick={**many, "provd.recorder.entries": {"_MANY": _MANY}})

    def arrange(self) -> None:
        for number in range(140):
            self._write(f"many/{number}", b"%d" % number)
        self._write("link to/file", b"there")
        os.symlink("link to", os.path.join(self.root, "led"))
        os.symlink("link to/file", os.path.join(self.root, "many/link"))
        with open(os.path.join(self.root, "large"), "wb") as file:
            file.truncate(17 * MIB)
        self.deps |= {
            "wide": [f"file:absent/{number}" for number in range(_WIDE)],
            "files": [f"file:many/{number}" for number in range(30)],
            "more": [f"file:many/{number}" for number in range(140)],
            "linked": ["file:led/file", "tree:many"],
            "large": ["file:large", "file:f"],
            "proved": ["file:kept"],
        }

    def theme(self) -> None:
        for verify in ("auto", "log", "content"):
            self.ask(("wide", "files", "more", "linked", "large"), verify=verify)
        self.ask(("files", "same", "more"), revalidate=False)
        for _ in range(2):
            self.ask(("more", "files"))
        self.ask(tuple(f"none {number}" for number in range(70)))
        self._listed()
        self._put_and_proved()
        self._by_the_clock()

    def _listed(self) -> None:
        inside = os.path.join(self.root, "many/1")
        self.request("entry.list", touching=inside, root=self.root)
        self.request("entry.list", verdict="fresh", root=self.root)
        self.request("entry.places", key="same")
        self.request("log.since", clock=self.clock, paths=[inside, self._daemon.outside], root=self.root)

    def _put_and_proved(self) -> None:
        value = "v" * 70_000
        wide = [{"dep": dep} for dep in self.deps["wide"]]
        same = [{"dep": "file:kept", "digest": self._made["same"][0]}]
        with self._may_be_refused():
            self._put("big", value=value, meta={"m": value}, deps=wide, as_of="put", op=f"op {self._number}")
        self.ask(("big",))
        with self._may_be_refused():
            self._put("big", value=[value] * 4, deps=same)
        with self._may_be_refused():  # each file is sealed by now, and no answer on this one was given
            self._put("sealed", deps=self.deps["more"], as_of="put")
        self.ask(("sealed",))
        # Another value than stands, which rests on what is not there any more: what stands is judged before it goes.
        with self._may_be_refused():
            self._put("big", value="late", deps=[{"dep": "file:f", "digest": "absent"}])
        self._versions.pop("big", None)
        for more in ({}, {"value": "new"}, {"value": "newer", "as_of": "put"}):
            expected = "clock.missing" if more == {"value": "new"} else ""
            told = self.request("entry.revalidate", expected, key="proved", root=self.root, **more)
            self._versions.pop("proved", None)
            if told is not None and told["version"] is not None:
                self._versions["proved"] = told["version"]

    def _by_the_clock(self) -> None:
        with self._may_be_refused():
            clock = self._rpc("log.clock")["clock"]
            deps = ["file:kept", "tree:many", "glob:many/*", "file:absent/1", "dir:link to"]
            self._rpc("deps.check", deps=deps, fetched_at=clock, root=self.root)
            self._put("shown", deps=deps, fetched_at=clock)
        # What was written just before a clock is not shown by it; the next write is a touch.
        with self._may_be_refused():
            self._write("young", b"one")
            self._write("younger/a/name", b"one")
            clock = self._rpc("log.clock")["clock"]
            self._put("young", deps=["file:young", "glob:younger/**/n*"], fetched_at=clock)
            self._write("younger/a/other", b"two")
            self._write("younger/a/name", b"two")
            self._write("young", b"two")
            told = self._rpc("entry.check", key="young", root=self.root)
            if told["verdict"] == "fresh":
                raise Fault(f"what was written since the clock: {told}")


class Declaring(Scene):
    """Actions that are refused, that are guarded, that are held; and lines that may declare something."""

    def theme(self) -> None:
        same, root = f"{self._object}-misread", self.root
        guarded: dict[str, Any] = {"writes": [self._object, "file:kept"], "root": root}
        self.request("action.begin", "action.stale", if_usable=["file", "same"], **guarded)
        self.request("action.begin", "action.stale", if_usable=["tree", "entry"], **guarded)
        told = self.request("action.begin", if_usable=["same", "entry"], op=f"op {self._number}", **guarded)
        if told is not None:
            self._object_written = True
            self.request("action.end", id=told["id"], outcome="failed")
        many = [f"{same}-{number}" for number in range(2001)]
        self.request("action.begin", "dep.malformed", writes=[*many, "entry:k"], root=root)
        self.request("action.begin", "dep.unsupported", writes=[*many, "region:x#y"], root=root)
        self.request("action.begin", "params", writes=[same, 5], root=root)
        self.request("action.begin", "params", writes=[same], no_such="field", root=root)
        self.request("action.record", writes=many, root=root)
        with self._may_be_refused():
            self._rpc.send_raw(b'{"jsonrpc": "2.0", "id": 7, "method": "action.begin", "params": {"writes": [\n')
            self._rpc.answer(None)
        held = self._daemon.connect()
        with self._may_be_refused():
            held("action.begin", writes=[f"{self._object}-held", "file:kept"], hold=True, root=root)
        held.close()
        self.request("action.list")
        self.ask()


class Carrying(Scene):
    """Export and import, and what moved in between."""

    def theme(self) -> None:
        told = self.request("entry.export", root=self.root)
        if told is None:
            return
        far = self.elsewhere("d")
        lines = [line for line in told["entries"] if line["key"] in {*BASE}]
        self.request("entry.import", entries=lines, moved={"source": self.root, "to": far})
        # Another value under a key that stands: both are judged, in the scope of each.
        others = [{**line, "value": "another", "made": _of_another_log(line["made"])} for line in lines]
        self.request("entry.import", entries=others)
        self.request("entry.export", all=True)
        self.ask()
        for key in self.deps:
            self._versions.pop(key, None)  # what came may stand in its place, and says so itself
        self._versions.clear()


def _of_another_log(token: str) -> str:
    name, _, rest = token.partition(":")
    return f"{name}:{'0' * 16}:{rest.partition(':')[2]}"


class Streaming(Scene):
    """Who listens to everything from the beginning, and who does not read."""

    @classmethod
    def daemon(cls) -> Injected:
        made = Injected(quick={"provd.trimming": {"_EVERY": 0.02}})
        made.env["PROVD_CONFIG"] = os.path.join(made.home, "config.toml")
        with open(made.env["PROVD_CONFIG"], "w", encoding="utf-8") as file:
            file.write(f"[log]\nmax_records = {_KEPT}\n")
        return made

    def play(self) -> None:
        self._listen(entries=True)
        with self._may_be_refused():  # a change of that file touches so many that they are told in pieces
            deps, root = [{"dep": "file:f", "digest": "absent"}], self.root
            sent = [self._rpc.send("entry.put", key=f"on it {n}", value=n, deps=deps, root=root) for n in range(200)]
            for number in sent:
                self._rpc.result(number)
        self._changes()
        self._fill()
        late = self._daemon.connect()
        with self._may_be_refused():
            late("log.subscribe", clock=self.clock, entries=True)
            late.note()
        self._refuses_to_read()
        self.ask()
        late.close()

    def _fill(self) -> None:
        """More records than are kept, and then it is waited for that some are gone."""
        with self._may_be_refused():
            sent = [self._rpc.send("action.record", writes=[f"{self._object}-x"], root=self.root) for _ in range(1100)]
            for number in sent:
                self._rpc.result(number)
            self._rpc("log.since", clock=self.clock, limit=1000)
            deadline = time.monotonic() + HANG
            while self._rpc("daemon.status")["records"] > _KEPT + 50:
                self._rpc("action.record", writes=[f"{self._object}-x"], root=self.root)
                if time.monotonic() > deadline:
                    raise Fault("the log is not trimmed any more")

    def _refuses_to_read(self) -> None:
        """An answer is 7 MiB long, and eleven are asked for before one is read."""
        slow = self._daemon.connect()
        with self._may_be_refused():
            slow("entry.put", key="long", value="x" * (7 * MIB), deps=[], root=self.root)
            numbers = [slow.send("entry.get", key="long", root=self.root) for _ in range(11)]
            for number in numbers:
                slow.result(number)
        slow.close()
        self.request("entry.forget", key="long", root=self.root)


class Checking(Scene):
    """Each answer by seals is looked at afterwards; a file is written by a name outside of what is watched."""

    @classmethod
    def daemon(cls) -> Injected:
        made = Injected(quick={"provd.selfcheck": {"_REST": 0}})
        made.env["PROVD_CONFIG"] = os.path.join(made.home, "config.toml")
        with open(made.env["PROVD_CONFIG"], "w", encoding="utf-8") as file:
            file.write("[self_check]\nshare = 1.0\n")
        return made

    def arrange(self) -> None:
        for number in range(140):
            self._write(f"many/{number}", b"%d" % number)
        with open(os.path.join(self.root, "large"), "wb") as file:
            file.truncate(17 * MIB)
        self._write("linked", b"by two names")
        self._other = os.path.join(self.elsewhere("d"), "linked")
        os.link(os.path.join(self.root, "linked"), self._other)
        self.deps |= {
            "set": ["tree:many"],
            "large": ["file:large"],
            "sets": ["tree:many", "dir:many", "glob:many/1*", "file:kept"],
        }

    def theme(self) -> None:
        with self._may_be_refused():
            self._put("by two names", deps=["file:linked"], as_of="put")
        for _ in range(3):
            self.ask(("same", "set"))
            self.ask(("sets",))
        with self._may_be_refused():  # a change comes while the first one is still read
            sent = [self._rpc.send("entry.check", key=key, root=self.root) for key in ("large", "large", "set")]
            for number in sent:
                self._rpc.result(number)
            self._write("many/7", b"another")
        self.ask(("set", "sets"))
        self._write("many/7", b"7")
        self.ask(("set", "sets"))
        with open(self._other, "wb") as file:
            file.write(b"by the other")
        with self._may_be_refused():  # no event tells of it
            if self._rpc("entry.check", key="by two names", root=self.root)["verdict"] == "fresh":
                raise Fault("a file that was written by a name outside is called fresh")
        self.request("daemon.audit")
        self.request("daemon.audit", root=self.root)
        self.ask()

    def afterwards(self) -> None:
        """The self-check goes on."""
        deadline = time.monotonic() + HANG
        before = self._rpc("daemon.status")["self_check"]
        while self._rpc("daemon.status")["self_check"]["checked"] == before["checked"]:
            self._checked(("same",))
            if time.monotonic() > deadline:
                raise Fault("answers are not looked at any more")
