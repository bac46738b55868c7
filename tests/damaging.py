"""A store with rows in all tables, for tests that change their bytes."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from support import Daemon

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = [
    *("runs", "log", "scopes", "entries", "values", "archive", "members", "paths", "others", "objects", "written"),
    *("actions", "ops", "roots", "files", "touched", "gaps", "imports"),
]
KEYS = ["file changed", "file whole", "set", "object", "above", "came"]
"""Of the entries; they are those of the one root."""


@contextmanager
def stopped_home() -> Iterator[Daemon]:
    """A store with rows in all tables, and nobody who has it open."""
    home = Daemon()
    try:
        home.start()
        _fill(home)
        home.stop()
        write(home, "changed", "two")
        yield home
    finally:
        home.close()


def _fill(home: Daemon) -> None:
    for name in ("changed", "whole", "set/one", "set/two"):
        write(home, name, "one")
    home.rpc("root.add", path=home.root)
    home.scanned()
    write(home, "seen", "one")
    clock = home.rpc("log.clock")["clock"]
    for name in ("changed", "whole"):
        home.rpc(
            "entry.put", key=f"file {name}", value=name, deps=[f"file:{name}"], as_of="put", meta={"m": 1}, op=name
        )
    home.rpc("entry.put", key="set", value=1, deps=["glob:set/*", "dir:set"], as_of="put")
    home.rpc("entry.put", key="set", value=2, deps=["glob:set/*", "tree:set"], as_of="put")
    home.rpc("entry.put", key="object", value=1, deps=["object:x"], fetched_at=clock)
    home.rpc("entry.put", key="above", value=1, deps=["entry:file changed"], fetched_at=home.rpc("log.clock")["clock"])
    home.rpc("entry.put", key="other", value=1, deps=[], scope="other")
    there = home.rpc("entry.export", scope="other")["entries"]
    home.rpc("entry.import", entries=[{**one, "key": "came"} for one in there])
    home.rpc("action.begin", writes=["object:x", "file:whole"], op="b")
    home.rpc("action.record", writes=["object:y", "file:set/one"])


def write(daemon: Daemon, name: str, content: str) -> None:
    """A file below the root."""
    path = os.path.join(daemon.root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)
