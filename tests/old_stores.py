"""Stores of released versions, brought into the home of a daemon of today.

Rule: nothing of the product is imported here: rows are rewritten by replacing bytes, names by names of the same
length, and hashes of names by the hashes of the new ones.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tempfile
from typing import TYPE_CHECKING, Any, Final

import lmdb
import msgspec
from support import REPOSITORY, Daemon

if TYPE_CHECKING:
    from collections.abc import Callable

STORES: Final = os.path.join(REPOSITORY, "tests", "data", "stores")
RELEASED: Final = tuple(sorted(name.removesuffix(".mdb.gz") for name in os.listdir(STORES) if name.endswith(".mdb.gz")))
_PREFIX: Final = "provd-up-"


def new_home() -> str:
    """An empty home whose name is as long as that in which the stores were made."""
    return tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp")


def bring(name: str, home: str) -> dict[str, Any]:
    """Puts the released store `name`, and the files that it speaks of, into `home`; returns what it holds."""
    with open(os.path.join(STORES, f"{name}.json"), encoding="utf-8") as file:
        told = file.read()
    old = json.loads(told)["home"]
    assert len(old) == len(home)
    held: dict[str, Any] = json.loads(told.replace(old, home))
    for path, content in held["files"].items():
        where = os.path.join(home, "root", path)
        os.makedirs(os.path.dirname(where), exist_ok=True)
        with open(where, "w", encoding="utf-8") as file:
            file.write(content)
    directory = os.path.join(home, "state", "store")
    os.makedirs(directory, mode=0o700)
    with gzip.open(os.path.join(STORES, f"{name}.mdb.gz")) as packed, open(f"{directory}/data.mdb", "wb") as store:
        store.write(packed.read())
    _rename(directory, old.encode(), home.encode())
    return held


def daemon_in(home: str) -> Daemon:
    """A daemon, not started, that lives in `home`; closing it leaves the home."""
    return Daemon(home=home)


def rows_of(directory: str) -> dict[str, list[tuple[bytes, bytes]]]:
    """Every row of every table of a store that nobody has open."""
    with lmdb.open(os.fsencode(directory), max_dbs=64, readonly=True, lock=False) as env, env.begin() as txn:
        names = [name for name, _ in txn.cursor()]
        return {
            name.decode(): [(bytes(k), bytes(v)) for k, v in txn.cursor(db=env.open_db(name, txn=txn, create=False))]
            for name in names
        }


def _rename(directory: str, old: bytes, new: bytes) -> None:
    with lmdb.open(directory, max_dbs=64, map_size=1 << 30) as env:
        names = [name for name, _ in _rows(env, None)]
        tables = {name: env.open_db(name, create=False) for name in names}
        replace = _replacer(old, new, [v for _, v in _rows(env, tables[b"log"])])
        with env.begin(write=True) as txn:
            for table in tables.values():
                rows = list(txn.cursor(db=table))
                txn.drop(table, delete=False)
                for key, value in rows:
                    txn.put(replace(key), replace(value), db=table)


def _rows(env: lmdb.Environment, table: Any) -> list[tuple[bytes, bytes]]:
    with env.begin() as txn:
        return list(txn.cursor(db=table))


def _replacer(old: bytes, new: bytes, log: list[bytes]) -> Callable[[bytes], bytes]:
    """Replaces a home and all hashes of what has it in its name: scopes, roots, declared paths, ops."""
    hashed = {old + b"/root"}
    ops: set[tuple[bytes, bytes]] = set()
    for row in log:
        record = msgspec.msgpack.decode(row)
        if record[0] == "action":
            hashed.update(record[11])
            session = (record[6] or "").encode()
            ops.add((b"\0".join((b"action.begin", session, *record[10], b"", *record[11], b"")), b"begin-1"))
        elif record[0] == "entry":
            ops.add((b"\0".join((b"entry.put", record[3], record[4].encode())), b"put-1"))
    hashed.update(about + b"\0" + op for about, op in ops)
    pairs = [(_hash(name), _hash(name.replace(old, new))) for name in hashed]
    pairs += [(old, new), (os.path.basename(old), os.path.basename(new))]

    def replace(data: bytes) -> bytes:
        for was, now in pairs:
            data = data.replace(was, now)
        return data

    return replace


def _hash(name: bytes) -> bytes:
    return hashlib.blake2b(name, digest_size=16).digest()
