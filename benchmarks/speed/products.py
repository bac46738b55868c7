"""Row 17: other products that tell what of a memory is stale, asked about ten files in the same run as provd.

They are used where they are found, and never installed from here: docs/performance.md has the command that makes the
directory of `--products`. Each has a tree of its own, since two of them write into it, and each must tell a changed
file from an unchanged one before its time counts.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Any, Final, Protocol, Self

from support import Daemon

from speed.figures import Table, measure, ratio
from speed.plan import Plan, Tree, write
from speed.processes import START, kept_client
from speed.questions import put_all, watching

BENCHMARKS: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROVD: Final = "provd, provd.client"
IN_PYTHON: Final = {"freshctx": "freshctx", "memcite": "agentic_memory"}
"""Product -> the package that it is imported by."""
_NODE: Final = (22, 13)
"""The oldest Node that openlore starts on."""
_FILES: Final = 100
"""Files of each tree: few, since openlore reads all of them beforehand."""
_FASTER: Final = 20.0
"""How many times the time of provd the fastest of the others must take."""


class Product(Protocol):
    """Something that remembers what rests on the first ten files of its tree."""

    name: str
    tree: Tree

    def fresh(self) -> bool:
        """Its answer, asked now."""

    def measure(self, count: int, seconds: float) -> list[int]:
        """Nanoseconds of each question: at most so many and for so long, but at least two."""


class Provd:
    """This checkout's daemon, asked by the client of this package on a kept connection."""

    name = PROVD

    def __init__(self, daemon: Daemon, tree: Tree) -> None:
        self.tree = tree
        self._daemon = daemon
        self.remember()
        client = kept_client(daemon.socket)
        self._ask: Callable[[], Any] = lambda: client.check("k0", root=tree.root)

    def remember(self) -> None:
        """Puts the entry, or puts it anew, as whoever was told `dirty` does."""
        put_all(self._daemon, self.tree.root, [self.tree.paths[:10]])

    def fresh(self) -> bool:
        """See Product."""
        return bool(self._ask()["verdict"] == "fresh")

    def measure(self, count: int, seconds: float) -> list[int]:
        """See Product."""
        return measure(self._ask, count, seconds)


class Spoken:
    """A process that is asked by lines, one answer a line; it ends with the block that it was made for."""

    def __init__(self, name: str, tree: Tree, command: list[str], home: str, **env: str) -> None:
        self.name = name
        self.tree = tree
        os.makedirs(home, exist_ok=True)
        self.log = os.path.join(home, "log")
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=home,
                env=os.environ | env | {"HOME": home},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.communicate(timeout=START)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def send(self, line: bytes) -> None:
        """One line, without its end."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def receive(self) -> bytes:
        """The next line. Raises RuntimeError where the process ended instead."""
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            with open(self.log, errors="replace") as log:
                raise RuntimeError(f"{self.name} ended without an answer; it said last: {log.read()[-300:]}")
        return line


class InPython(Spoken):
    """A library, asked in a process of its own that measures itself, so that nothing of ours is in its times."""

    def __init__(self, name: str, python: str, home: str, tree: Tree) -> None:
        command = [python, os.path.join(BENCHMARKS, "remembering.py"), name, tree.root, *tree.paths[:10]]
        super().__init__(name, tree, command, home)
        self.name += " " + self.receive().decode().strip()

    def fresh(self) -> bool:
        """See Product."""
        self.send(b"fresh")
        return bool(json.loads(self.receive()))

    def measure(self, count: int, seconds: float) -> list[int]:
        """See Product."""
        self.send(b"%d %f" % (count, seconds))
        samples: list[int] = json.loads(self.receive())
        return samples


class OpenLore(Spoken):
    """Its MCP server on a kept session: `recall` of a note that is anchored to ten files, read to its last byte."""

    def __init__(self, node: str, package: str, home: str, tree: Tree) -> None:
        command = [node, f"{package}/dist/cli/index.js"]
        os.makedirs(home)
        env = os.environ | {"HOME": home}
        with open(os.path.join(home, "log"), "ab") as log:
            for step in (["init"], ["analyze", "--no-embed"]):
                run = [*command, *step]
                subprocess.run(
                    run, cwd=tree.root, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True
                )
        with open(f"{package}/package.json") as file:
            name = f"openlore {json.load(file)['version']}"
        # Without the variable it starts itself again with another heap: a second process, which would be left.
        super().__init__(name, tree, [*command, "mcp", "--preset", "memory"], home, OPENLORE_NO_AUTO_HEAP="1")
        self._number = 0
        info = {"name": "provd-benchmarks", "version": "1"}
        self._call("initialize", {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": info})
        self.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode())
        anchors = [{"file": os.path.relpath(path, tree.root)} for path in tree.paths[:10]]
        note = {"directory": tree.root, "content": "what ten files say", "anchors": anchors}
        self._call("tools/call", {"name": "remember", "arguments": note})
        self._recall = {"name": "recall", "arguments": {"directory": tree.root}}

    def _call(self, method: str, params: dict[str, Any]) -> bytes:
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.send(json.dumps(request).encode())
        while b'"id":%d' % self._number not in (line := self.receive())[-40:]:
            continue  # a notification of the server's
        return line

    def fresh(self) -> bool:
        """See Product. Raises RuntimeError where it does not tell of its note."""
        content = json.loads(self._call("tools/call", self._recall))["result"]["content"]
        told = json.loads(next(part["text"] for part in content if part["text"].startswith("{")))
        if told.get("total") != 1:
            raise RuntimeError(f"openlore did not recall its note: {str(told)[:300]}; look into {self.log}")
        return bool(told["summary"]["fresh"] == 1)

    def measure(self, count: int, seconds: float) -> list[int]:
        """See Product."""
        return measure(lambda: self._call("tools/call", self._recall), count, seconds)


def _node(directory: str) -> str | None:
    """A Node that is new enough: of the directory, else on the path."""
    for node in [*glob.glob(f"{directory}/node_modules/node-*/bin/node"), shutil.which("node")]:
        if node is not None:
            told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
            major, _, rest = told.strip().removeprefix("v").partition(".")
            if told and (int(major), int(rest.partition(".")[0])) >= _NODE:
                return node
    return None


def _found(plan: Plan, stack: contextlib.ExitStack) -> tuple[list[InPython | OpenLore], list[str]]:
    """Those that the directory of products has, started, and what is said of those that it has not."""
    found: list[InPython | OpenLore] = []
    absent: list[str] = []
    directory = os.path.abspath(plan.products) if plan.products else None
    for name, package in IN_PYTHON.items():
        python = f"{directory}/bin/python"
        has = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
        if directory and os.path.exists(python) and not subprocess.run([python, "-c", has], check=False).returncode:
            peer = InPython(name, python, plan.place(name), _tree(plan))
            found.append(stack.enter_context(peer))
        else:
            absent.append(name)
    package = f"{directory}/node_modules/openlore"
    if not directory or not os.path.exists(package):
        absent.append("openlore")
    elif (node := _node(directory)) is None:
        absent.append(f"openlore (there is no Node from {'.'.join(map(str, _NODE))} on)")
    else:
        found.append(stack.enter_context(OpenLore(node, package, plan.place("openlore"), _tree(plan))))
    return found, absent


def _tree(plan: Plan) -> Tree:
    return Tree(plan.place("tree"), _FILES)


def _must_tell(product: Product) -> None:
    """Raises RuntimeError where it takes the change of one file of ten for none, or what was put back for a change."""
    path = product.tree.paths[3]
    with open(path, "rb") as file:
        before = file.read()
    told = [product.fresh()]
    for content in (b"changed".ljust(len(before)), before):
        write(path, content)
        told.append(product.fresh())
    if told != [True, False, True]:
        raise RuntimeError(f"{product.name} told fresh {told} of ten files as remembered, one changed, and put back")
    product.tree.made = time.monotonic()


def products(plan: Plan) -> None:
    """Row 17: the same question about ten files to each product, in the first of the placements."""
    placement, own = plan.placements[0], _tree(plan)
    samples: dict[str, list[int]] = {}
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(watching(plan, placement, own.root))
        with placement.starting():
            others, absent = _found(plan, stack)
        ours = Provd(daemon, own)
        asked: list[Product] = [ours, *others]
        for product in asked:
            _must_tell(product)
        with placement.asking():
            for product in asked:
                product.tree.rest()
                product.measure(plan.questions // 4, plan.seconds)  # warm, and sealed
            for _ in range(plan.rounds):
                for product in asked:
                    samples.setdefault(product.name, []).extend(product.measure(plan.questions, plan.seconds))
    title = f"10 files of {_FILES}, other products, placement {placement.name}"
    table = Table("17", title, base=PROVD).add_all(samples)
    fastest = min((table.lines[other.name].p50 for other in others), default=None)
    if absent:
        missing = ", ".join(absent)
        table.remarks.append(f"not found, so not measured: {missing}; docs/performance.md says how to get them")
        fastest = None  # whoever is absent may be the fastest
    table.at_least("p50 of the fastest other, of provd's", ratio(fastest, table.p50(PROVD)), _FASTER)
    plan.tell(table)
