"""A daemon of today on the store of every released version: all that it held is there, and said truly.

The stores were written by those versions (tests/data/stores). Their files are made again here, so what they rest on
by content is as it was, and everything that was only declared lies before the gap of a new run.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, Any, Final

import lmdb
import pytest
from changes import until
from old_stores import RELEASED, bring, daemon_in, new_home, rows_of
from support import HANG, SHOWN, Daemon, Json, Workspace, records_since, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

OBJECTS: Final = {"object": ("unknown", "gap"), "written": ("dirty", "written"), "open": ("dirty", "written")}
KEPT: Final = "the old one is kept"
POINTS: Final = ("migrate.copied", "migrate.kept", "migrate.before", "migrate.after")


class Old:
    """A home with a released store, and a daemon of today that is not started yet."""

    def __init__(self, name: str) -> None:
        self.home = new_home()
        self.held = bring(name, self.home)
        self.daemon = daemon_in(self.home)
        self.store = os.path.join(self.home, "state", "store")
        self.kept = f"{self.store}.format-{name.partition('-')[0]}"

    @property
    def ws(self) -> Workspace:
        return self.daemon.workspace()

    def close(self) -> None:
        self.daemon.close()
        shutil.rmtree(self.home, ignore_errors=True)


@pytest.fixture(params=RELEASED)
def old(request: pytest.FixtureRequest) -> Iterator[Old]:
    there = Old(request.param)
    yield there
    there.close()


@pytest.fixture
def watched_before() -> Iterator[Old]:
    there = Old("1-watched")
    yield there
    there.close()


def got(ws: Workspace, entry: Json, **more: Any) -> Json:
    where = {"scope": entry["scope"]} if "scope" in entry else {}
    return ws("entry.get", key=entry["key"], even_if=["dirty", "unknown"], deps=True, **where, **more)


def expected(entry: Json) -> set[tuple[str, str]]:
    """What today's daemon may say: objects lie before its gap, all else is read as it was then."""
    told = {OBJECTS.get(entry["key"], shown(entry))}
    if entry["why"] == "unproven":  # where the old version knew the files, these are others: made again here
        told.add(("dirty", "touched"))
    return told


def everything_is_there(old: Old) -> None:
    """Entries, values, verdicts, records, numbers and actions."""
    ws = old.ws
    for entry in old.held["entries"]:
        now = got(ws, entry)
        for dep, then in zip(now.get("deps") or [], entry.get("deps") or [], strict=True):
            if "path" not in then:  # the first versions did not tell the absolute name
                dep.pop("path", None)
        assert shown(now) in expected(entry), entry["key"][:40]
        for field in ("value", "meta", "version", "deps", "supports", "at", "session", "turn", "clock_of_entry"):
            assert now.get(field) == entry.get(field), (entry["key"][:40], field)
        assert "born" not in now, "nobody kept what the verdict of its put was"
    there = ws.rpc("log.since", last=10_000)["records"]
    assert there[: len(old.held["records"])] == old.held["records"]
    assert [record["seq"] for record in there] == list(range(1, len(there) + 1))
    assert [action["id"] for action in ws.rpc("action.list")["actions"]] == [old.held["action"]]
    assert ws.rpc("daemon.hello", protocol=1)["log"] == old.held["log"]


# what was held


def test_all_that_a_released_store_held_is_there_and_said_truly(old: Old) -> None:
    old.daemon.start().scanned()
    everything_is_there(old)


def test_the_archive_of_a_released_store_is_there(old: Old) -> None:
    old.daemon.start()
    rows = [row for row in old.ws("entry.export")["entries"] if row["key"] == "thrice"]
    told = [(row["standing"], row.get("reason"), row.get("value")) for row in rows]
    superseded = [("revoked", "superseded", 0), ("revoked", "superseded", 1)]
    assert told == [("active", None, 2), *superseded, ("revoked", "late", "late")]


def test_a_retry_of_an_op_gets_the_first_answer_after_the_upgrade(old: Old) -> None:
    old.daemon.start()
    head = old.ws.clock()
    for op in old.held["ops"]:
        assert old.ws(op["method"], **op["params"]) == op["answer"]
    assert not [r for r in records_since(old.ws.rpc, head) if r["type"] in {"entry", "action"}]


def test_an_action_that_was_open_ends_after_the_upgrade(old: Old) -> None:
    old.daemon.start()
    old.ws.rpc("action.end", id=old.held["action"], outcome="done")
    assert old.ws.rpc("action.list")["actions"] == []
    assert old.ws.found("open") == ("dirty", "written")


def test_what_was_put_before_the_upgrade_turns_dirty_when_its_file_changes(old: Old) -> None:
    old.daemon.start().scanned()
    old.ws.write("src/api.py", "def f(): return 2\n")
    old.ws.write("docs/new.md", "")
    for key in ("file", "many", "now", "dir", "names", "tree", "glob"):
        assert old.ws.verdict(key) == "dirty", key
    old.ws.write("missing.txt", "")
    assert old.ws.found("absent") == ("dirty", "created")


def test_silence_proves_nothing_of_what_was_put_before_the_upgrade(old: Old) -> None:
    old.daemon.start().scanned()
    for key in ("file", "tree", "absent", "derived", "now"):
        entry = next(entry for entry in old.held["entries"] if entry["key"] == key)
        if entry["verdict"] != "fresh":
            continue
        assert old.ws.verdict(key, revalidate=False) != "fresh", key
        assert old.ws.check(key, verify="log")["checked"] in SHOWN, key


def test_an_entry_of_before_is_proven_by_silence_once_it_was_read_again(old: Old) -> None:
    old.daemon.start().scanned()
    if old.daemon.rpc("root.list")["roots"][0]["coverage"] != "whole":
        pytest.skip("nothing is wholly watched here, so that silence proves nothing")
    assert old.ws("entry.revalidate", key="file")["verdict"]["verdict"] == "fresh"
    assert old.ws.check("file", verify="log")["checked"] == "log"
    old.ws.write("src/api.py", "def f(): return 3\n")
    assert old.ws.verdict("file", verify="log") == "dirty"


# the copy


def test_the_old_store_is_kept_as_it_was_until_a_second_start_found_the_new_one_whole(watched_before: Old) -> None:
    old = watched_before
    before = rows_of(old.store)
    old.daemon.start()
    told = old.daemon.rpc("daemon.status")["migrated"]
    assert (told["from"], told["kept"]) == (1, old.kept)
    assert int(told["at"]) > 0
    assert rows_of(old.kept) == before
    assert os.stat(old.kept).st_mode & 0o777 == 0o700
    assert os.stat(f"{old.kept}/data.mdb").st_mode & 0o777 == 0o600
    until(lambda: KEPT in old.daemon.said(), old.home, old.daemon.process)
    old.daemon.restart()
    until_settled(old.daemon)
    assert KEPT not in old.daemon.said(), "it goes in this run"
    assert sorted(os.listdir(f"{old.home}/state")) == ["lock", "store"]
    everything_is_there(old)


def test_a_start_that_never_answered_is_no_proof(watched_before: Old) -> None:
    old = watched_before
    assert old.daemon.refused(PROVD_KILL_AT="commit.after:1").code == -9  # the run is durable, nobody was answered
    old.daemon.start()
    assert os.path.isdir(old.kept)
    old.daemon.restart()
    until_settled(old.daemon)
    assert not os.path.exists(old.kept)


def test_a_run_that_was_killed_is_no_proof(watched_before: Old) -> None:
    old = watched_before
    old.daemon.start().scanned()
    old.daemon.kill9()
    old.daemon.start().scanned()
    everything_is_there(old)
    assert old.daemon.rpc("daemon.status")["migrated"]["kept"] == old.kept
    old.daemon.restart()
    until_settled(old.daemon)
    assert not os.path.exists(old.kept)


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_point_of_the_migration_the_next_start_ends_right(watched_before: Old, point: str) -> None:
    old = watched_before
    before = rows_of(old.store)
    assert old.daemon.refused(PROVD_KILL_AT=point).code == -9
    old.daemon.start().scanned()
    everything_is_there(old)
    assert rows_of(old.kept) == before
    assert sorted(os.listdir(f"{old.home}/state")) == ["lock", "store", "store.format-1"]
    old.daemon.restart()
    until_settled(old.daemon)
    everything_is_there(old)


def test_killed_while_the_copy_is_removed_the_next_start_removes_the_rest(watched_before: Old) -> None:
    old = watched_before
    old.daemon.start()
    old.daemon.stop()
    old.daemon.launch(PROVD_KILL_AT="migrate.dropping")
    assert old.daemon.process is not None
    assert old.daemon.process.wait(60) == -9
    assert not os.path.exists(old.kept)
    old.daemon.start()
    until_settled(old.daemon)
    assert sorted(os.listdir(f"{old.home}/state")) == ["lock", "store"]


def test_a_copy_of_before_an_older_version_went_on_is_put_aside(watched_before: Old) -> None:
    old = watched_before
    assert old.daemon.refused(PROVD_KILL_AT="migrate.kept").code == -9
    with open_store(old.store) as env:  # as an older version would that goes on with the store
        meta = env.open_db(b"meta", create=False)
        with env.begin(write=True) as txn:
            head = int(txn.get(b"head", db=meta) or b"") + 1
            record = b"\x95\xa3gap\x01\xc4\x03all\xa1x\xa0"
            txn.put(head.to_bytes(8, "big"), record, append=True, db=env.open_db(b"log", txn=txn, create=False))
            txn.put(b"head", b"%d" % head, db=meta)
    before = rows_of(old.store)
    old.daemon.start()
    assert rows_of(old.kept) == before
    names = [name for name in os.listdir(f"{old.home}/state") if name.startswith("store.format-1-")]
    assert len(names) == 1


def test_a_damaged_row_of_before_is_told_and_stops_no_migration(watched_before: Old) -> None:
    old = watched_before
    with open_store(old.store) as env, env.begin(write=True) as txn:
        txn.put((3).to_bytes(8, "big"), b"\xc1", db=env.open_db(b"log", txn=txn, create=False))  # no record at all
    old.daemon.start()
    status = old.daemon.rpc("daemon.status")
    assert (status["migrated"]["kept"], "a record cannot be read" in status["store"]["damaged"]) == (old.kept, True)
    third = old.daemon.rpc("log.since", last=1000)["records"][2]
    assert (third["seq"], third["type"], third["scope"]) == (3, "gap", "all")


def open_store(directory: str) -> lmdb.Environment:
    return lmdb.open(directory, max_dbs=64, map_size=1 << 30)


def until_settled(daemon: Daemon) -> None:
    """Asks until the daemon has removed the old store and forgotten it."""
    deadline = time.monotonic() + HANG
    while "migrated" in daemon.rpc("daemon.status"):
        assert time.monotonic() < deadline, "the old store is still kept"
