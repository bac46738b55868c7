"""A store with rows in all tables, and rows whose bytes are others than were written."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from support import Daemon

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

TABLES = [
    *("runs", "log", "scopes", "entries", "values", "archive", "members", "paths", "others", "objects", "written"),
    *("actions", "ops", "roots", "files", "touched", "gaps", "imports"),
]
KEYS = ["file changed", "file whole", "set", "object", "above", "came"]
"""Of the entries; they are those of the one root."""

PIECES = [b"\xc0", b"\x00", b"\xcf" + b"\xff" * 8, b"\xd3" + b"\xff" * 8, b"\xc4\x00", b"\xa1\xff", b"\x90", b"/"]
"""In msgpack: nothing, zero, numbers too great and below zero, no bytes, no text, no members."""
NUMBERS = (0, 1, 2, -26, 2**64 - 1)
"""Such as a row may hold where one byte of it is another; directories have the first ones."""


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


def harmed(chance: random.Random, row: bytes) -> bytes:
    """The row with one byte changed, a few put in, one replaced by a piece of msgpack, or its end cut off."""
    at = chance.randrange(len(row) or 1)
    match chance.randrange(4):
        case 0:
            return row[:at] + bytes([chance.randrange(256)]) + row[at + 1 :]
        case 1:
            return row[:at] + chance.choice(PIECES) + row[at + 1 :]
        case 2:
            return row[:at] + chance.randbytes(3) + row[at:]
        case _:
            return row[:at]


def variants(row: bytes) -> list[bytes]:
    """The row with another number in the place of one, and with one byte of a name that is no text or no name's."""
    try:
        whole = msgspec.msgpack.decode(row)
    except msgspec.MsgspecError:  # it is packed in another way
        return []
    return [msgspec.msgpack.encode(one) for one in _others(whole) if one != whole]


def _others(whole: Any) -> Iterator[Any]:
    match whole:
        case list():
            for at, part in enumerate(whole):
                yield from ([*whole[:at], other, *whole[at + 1 :]] for other in _others(part))
        case int() if not isinstance(whole, bool):
            yield from NUMBERS
        case bytes() if whole:
            middle = len(whole) // 2
            yield from (whole[:middle] + bad + whole[middle + 1 :] for bad in (b"\xff", b"\0"))
            yield from (b"", b"\xff" + whole[1:])
        case _:
            pass
