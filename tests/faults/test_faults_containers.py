"""The daemon in one container and who asks in another: answers are of the files that both see, or unknown."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from typing import TYPE_CHECKING, Final

import pytest
from fault_ground import ask_from
from support import HANG, Daemon, Rpc, RpcError, Workspace, read_dep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from support import Json

DEPS: Final = {"file": "file:f", "hidden": "file:d/f", "tree": "tree:d", "absent": "file:none"}
INSIDE: Final = 'mount -t tmpfs none "$0/d" && printf "%s" inside > "$0/d/f" && exec "$@"'
"""Begins a container in which a directory of the root is another one."""


def _may(*flags: str) -> bool:
    probe = ["unshare", *flags, "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not _may("-Urm") or not _may("-Urmpf"), reason="no containers may be made here")


class Contained(Daemon):
    """A daemon in a container, which gets the flags of `unshare`."""

    flags: tuple[str, ...] = ("-Urm",)

    def command(self) -> list[str]:
        return ["unshare", *self.flags, "sh", "-c", INSIDE, self.root, *super().command()]

    def begin(self) -> Contained:
        """Starts it, and waits until it answers: its number is another one inside."""
        self.launch()
        deadline = time.monotonic() + HANG
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, RpcError), contextlib.closing(Rpc(self.socket)) as rpc:
                rpc("daemon.hello", protocol=1)
                return self
            time.sleep(0.005)  # as `Daemon.start`
        raise AssertionError(self.said())

    @property
    def number(self) -> int:
        """Its process as it is called out here."""
        assert self.process is not None
        if self.flags == Contained.flags:
            return self.process.pid
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(path, encoding="ascii") as children:
            return int(children.read())

    def enter(self) -> list[str]:
        """The beginning of a command that is to run where the daemon does."""
        processes = [] if self.flags == Contained.flags else ["-p"]
        return ["nsenter", "-t", str(self.number), "-U", "-m", *processes, "--preserve-credentials"]


def furnish(ws: Workspace) -> Workspace:
    ws.write("f", "one")
    ws.write("d/f", "outside")
    return ws


def puts(ws: Workspace) -> list[tuple[str, Json]]:
    """As a client out here reads them."""
    kept = {key: [read_dep(dep, ws.root)] for key, dep in DEPS.items()}
    return [("entry.put", {"key": key, "value": 1, "deps": deps, "root": ws.root}) for key, deps in kept.items()]


def verdicts(ws: Workspace, prefix: Sequence[str]) -> dict[str, tuple[str, str]]:
    """What a client is told, by each way to ask the same."""
    keys = [*DEPS, "object"]
    asked: list[tuple[str, Json]] = [
        ("entry.check", {"keys": keys, "root": ws.root, "timeout_ms": 60_000, "verify": verify})
        for verify in ("content", "log", "auto")
    ]
    answers = [reply["result"]["verdicts"] for reply in ask_from(ws, list(prefix), "", asked)]
    told = [{key: each[key]["verdict"] for key in keys} for each in answers]
    assert told[0] == told[1] == told[2]
    return {key: (answers[0][key]["verdict"], answers[0][key]["why"]) for key in keys}


def true(**changed: str) -> dict[str, tuple[str, str]]:
    """All that is the same but these, each with why."""
    return {key: ("dirty", changed[key]) if key in changed else ("fresh", "same") for key in DEPS}


UNKNOWN: Final = dict.fromkeys(DEPS, ("unknown", "namespace"))
DECLARED: Final = {"object": ("fresh", "declared")}


@pytest.fixture
def outside(watched: Workspace) -> Workspace:
    """A directory of a daemon in no container, with its entries."""
    ws = furnish(watched)
    for method, params in puts(ws):
        ws.rpc(method, **params)
    ws("entry.put", key="object", value=1, deps=[ws.object("o")], fetched_at=ws.clock())
    return ws


def test_who_asks_in_a_container_gets_unknown_for_paths_of_a_daemon_outside(outside: Workspace) -> None:
    """Also from a container that has no `proc` of its own. Broken: `peers` looks at the root alone."""
    for flags in ("-Urm", "-Urmpf"):
        inside = ["unshare", flags, "sh", "-c", INSIDE, outside.root]
        assert verdicts(outside, inside) == UNKNOWN | DECLARED, flags
    assert verdicts(outside, []) == true() | DECLARED
    outside.write("f", "two")
    assert verdicts(outside, ["unshare", "-Urm"]) == UNKNOWN | DECLARED
    assert verdicts(outside, []) == true(file="changed") | DECLARED


@pytest.mark.parametrize("flags", ["-Ur", "-pf", "-Unipf"])
def test_who_sees_the_same_files_in_a_container_gets_what_is_true(outside: Workspace, flags: str) -> None:
    assert verdicts(outside, ["unshare", flags]) == true() | DECLARED
    outside.write("f", "two")
    assert verdicts(outside, ["unshare", flags]) == true(file="changed") | DECLARED


@pytest.fixture(params=[("-Urm",), ("-Urmpf", "--mount-proc")], ids=["mounts", "processes too"])
def inside(request: pytest.FixtureRequest) -> Iterator[Contained]:
    """A daemon in a container, where a directory of its root is another one than out here."""
    daemon = Contained()
    daemon.flags = request.param
    try:
        furnish(daemon.workspace())
        yield daemon.begin()
        assert daemon.alive, daemon.said()
        assert "Traceback" not in daemon.said()
    finally:
        if daemon.alive:
            with contextlib.suppress(OSError, ValueError):
                os.kill(daemon.number, 9)  # who forks its container ends with it
        daemon.close()


def test_a_daemon_in_a_container_answers_for_its_own_files(inside: Contained) -> None:
    """Who asks outside may read others by the same paths. Broken: who has no number in there is taken for near."""
    ws = inside.workspace()
    made = [reply["result"]["verdict"] for reply in ask_from(ws, [], "", puts(ws))]
    assert {(verdict["verdict"], verdict["why"]) for verdict in made} == {("unknown", "namespace")}
    clock = ws.clock()
    ws("entry.put", key="object", value=1, deps=["object:o"], fetched_at=clock)
    assert verdicts(ws, []) == UNKNOWN | DECLARED
    assert verdicts(ws, inside.enter()) == true(hidden="changed", tree="changed") | DECLARED
    ws.write("f", "two")
    assert verdicts(ws, []) == UNKNOWN | DECLARED
    expected = true(file="changed", hidden="changed", tree="changed") | DECLARED
    assert verdicts(ws, inside.enter()) == expected
