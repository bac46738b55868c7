"""Any row of the store may be other bytes than were written: no start fails for ever, nothing is provd's own fault, and
nothing is fresh that is not.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import lmdb
import pytest
from damaging import KEYS, TABLES, stopped_home, write
from support import Daemon, RpcError, clean_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _random(row: bytes) -> bytes:
    return random.Random(row).randbytes(len(row) or 1)


HARMS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda row: row[: len(row) // 2],
    "random": _random,
    "of another": lambda _: b"\x93\x01\x02\x03",
}


@pytest.fixture(scope="module")
def kept() -> Iterator[Daemon]:
    with stopped_home() as home:
        yield home


def _harm(state: str, table: str, only: Callable[[int, bytes], bool], harm: Callable[[int, bytes], bytes]) -> int:
    """Changes the rows of a table that `only` chooses by number and key; returns how many."""
    with lmdb.open(os.path.join(state, "store"), max_dbs=64) as env:
        db = env.open_db(table.encode(), create=False)
        with env.begin(write=True, db=db) as txn:
            rows = [row for number, row in enumerate(txn.cursor()) if only(number, row[0])]
            for number, (key, value) in enumerate(rows):
                if table in {"paths", "others"}:
                    txn.delete(key, value)
                    txn.put(key, harm(number, value) or b"\0")
                else:
                    txn.put(key, harm(number, value))
            return len(rows)


class Asking:
    """Everything that may be asked; what provd says is its own fault is an error here."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self.codes: dict[str, str] = {}

    def __call__(self, method: str, **params: Any) -> Any:
        try:
            return self._daemon.rpc(method, **params)
        except RpcError as e:
            refused = e
        assert refused.code != "internal", (method, params, refused.message)
        assert refused.hint, (method, params, refused.message)
        self.codes[method] = refused.code
        return None


MAY_BE_FRESH = {"file whole", "set", "came"}


def _doctor(daemon: Daemon) -> None:
    places = ["--socket", daemon.socket, "--state", daemon.state]
    asked = [sys.executable, "-m", "provd", "doctor", "--json", *places]
    done = subprocess.run(asked, env=clean_environment(daemon.home), capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    assert "internal" not in done.stdout


def _ask_all(daemon: Daemon) -> None:
    ask = Asking(daemon)
    root = {"root": daemon.root}
    fresh = set()
    for verify in ("auto", "log"):
        for key in KEYS:
            told = ask("entry.check", key=key, verify=verify, **root)
            fresh |= {key} if told and told["verdict"] == "fresh" else set()
            ask("entry.get", key=key, even_if=["dirty", "unknown"], deps=True, **root)
        told = ask("entry.check", keys=KEYS, verify=verify, **root) or {"verdicts": {}}
        fresh |= {key for key, one in told["verdicts"].items() if one["verdict"] == "fresh"}
    assert fresh <= MAY_BE_FRESH
    for method in ("daemon.status", "daemon.audit", "root.list", "action.list", "log.clock", "daemon.config"):
        ask(method)
    for params in ({}, {"verdict": "fresh"}, {"touching": "whole"}):
        ask("entry.list", **params, **root)
    ask("log.since", last=1000)
    ask("entry.export", all=True)
    assert ask.codes.keys().isdisjoint(
        {"daemon.status", "daemon.audit", "root.list", "log.clock", "log.since", "entry.check"}
    )


def _use(daemon: Daemon) -> None:
    """What changes the state is done, or refused."""
    ask = Asking(daemon)
    root = {"root": daemon.root}
    write(daemon, "whole", "three")
    write(daemon, "new/one", "one")
    ask("action.record", writes=["object:y", "object:new", "file:set/one"], **root)
    ask("entry.put", key="new", value=1, deps=["file:whole", "glob:set/*"], as_of="put", op="o", **root)
    told = ask("entry.check", keys=["file whole", "file changed"], **root) or {"verdicts": {}}
    assert all(one["verdict"] != "fresh" for one in told["verdicts"].values())
    for key in KEYS:
        ask("entry.revalidate", key=key, **root)
        ask("entry.forget", key=key, **root)
    ask("root.remove", path=daemon.root)
    ask("root.add", path=daemon.root)


def _live(kept: Daemon, harm: Callable[[str], int]) -> None:
    """A daemon starts on a harmed copy of the store, twice, and is asked and used."""
    home = Daemon(home=kept.home, state=os.path.join(kept.home, "harmed"))
    shutil.rmtree(home.state, ignore_errors=True)
    shutil.copytree(kept.state, home.state)
    assert harm(home.state)
    try:
        home.start()
        _ask_all(home)
        _doctor(home)
        home.stop()
        home.start()
        _use(home)
        home.stop()
    finally:
        home.close()
        write(kept, "whole", "one")
        shutil.rmtree(os.path.join(kept.root, "new"), ignore_errors=True)


@pytest.mark.parametrize("table", TABLES)
def test_every_row_of_a_table(kept: Daemon, table: str) -> None:
    harms = list(HARMS.values())
    _live(kept, lambda state: _harm(state, table, lambda *_: True, lambda number, row: harms[number % len(harms)](row)))


@pytest.mark.parametrize(("name", "how"), [("head", "cut"), ("gap_all", "random"), ("log", "empty")])
def test_a_small_value(kept: Daemon, name: str, how: str) -> None:
    _live(kept, lambda state: _harm(state, "meta", lambda _, key: key == name.encode(), lambda _, row: HARMS[how](row)))
