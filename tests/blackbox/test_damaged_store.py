"""Bytes of the store are not what was written: told as that, of that alone, and by the next start."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import lmdb
import pytest
from support import Daemon, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    home = Daemon(roots=[])
    home.start()
    for key in ("a", "b", "c"):
        home.rpc("entry.put", key=key, value=f"value of {key}", deps=[], scope="s")
    home.stop()
    yield home
    home.close()


def _change(daemon: Daemon, table: bytes, key: bytes, value: bytes) -> None:
    """Another value in the row of that table whose key ends so."""
    with lmdb.open(os.path.join(daemon.state, "store"), max_dbs=64) as env:
        db = env.open_db(table, create=False)
        with env.begin(write=True, db=db) as txn:
            row = next(k for k in txn.cursor().iternext(values=False) if k.endswith(key))
            old = txn.get(row) or b""
            txn.put(row, old.replace(b"value of b", value) if key == b"b" and table == b"values" else value)


def _row(daemon: Daemon, table: bytes, key: bytes) -> bytes:
    """The row of that table whose key ends so."""
    store = os.path.join(daemon.state, "store")
    with lmdb.open(store, max_dbs=64) as env, env.begin(db=env.open_db(table, create=False)) as txn:
        return next(value for at, value in txn.cursor() if at.endswith(key))


def _break_pages(daemon: Daemon) -> None:
    """All pages but the two of the environment itself are garbage."""
    path = os.path.join(daemon.state, "store", "data.mdb")
    with open(path, "r+b") as file:
        size = os.path.getsize(path)
        file.seek(8192)
        file.write(b"\xa5" * (size - 8192))


def _keys(answer: dict[str, list[dict[str, str]]]) -> list[str]:
    return [entry["key"] for entry in answer["entries"]]


def test_a_value_that_is_no_json_is_told_and_the_rest_goes_on(daemon: Daemon) -> None:
    _change(daemon, b"values", b"b", b"\xff" * 10)
    daemon.start()

    with pytest.raises(RpcError) as told:
        daemon.rpc("entry.get", key="b", scope="s")
    assert (told.value.code, "'b'" in told.value.message) == ("store.damaged", True)
    assert told.value.hint.startswith("provd forget KEY")
    assert "the value of 'b'" in daemon.rpc("daemon.status")["store"]["damaged"]
    page = daemon.rpc("entry.export", scope="s")
    assert _keys(page) == ["a", "c"]
    assert [(one["key"], one["why"]) for one in page["left_out"]] == [("b", "it is damaged in the store")]
    daemon.rpc("entry.put", key="b", value="new", deps=[], scope="s")  # the old one is in the archive now
    assert daemon.rpc("entry.get", key="b", scope="s")["value"] == "new"
    page = daemon.rpc("entry.export", all=True)
    assert _keys(page) == ["a", "b", "c"]
    assert [one["key"] for one in page["left_out"]] == ["b"]


def test_an_entry_that_cannot_be_read_is_told_and_the_rest_goes_on(daemon: Daemon) -> None:
    _change(daemon, b"entries", b"b", b"\xc1\xff")
    daemon.start()

    for method in ("entry.check", "entry.get", "entry.revalidate"):
        told = daemon.rpc(method, key="b", scope="s")
        told = told.get("verdict") if method == "entry.revalidate" else told
        assert (told["verdict"], told["why"], told["version"]) == ("unknown", "damaged", None)
        assert told["evidence"][0]["hint"].startswith("forget it")
    told = daemon.rpc("entry.check", keys=["a", "b", "c"], scope="s")["verdicts"]
    assert {key: one["verdict"] for key, one in told.items()} == {"a": "fresh", "b": "unknown", "c": "fresh"}
    with pytest.raises(RpcError) as refused:
        daemon.rpc("action.begin", writes=["object:o"], if_usable=["a", "b"], scope="s")
    assert refused.value.code == "action.stale"
    with pytest.raises(RpcError) as refused:
        daemon.rpc("entry.put", key="b", value="new", deps=[], scope="s")
    assert (refused.value.code, "'b'" in refused.value.message) == ("store.damaged", True)
    assert refused.value.hint.startswith("provd forget b ")
    listed = daemon.rpc("entry.list", scope="s")
    assert (_keys(listed), listed["damaged"]) == (["a", "c"], ["b"])
    page = daemon.rpc("entry.export", scope="s")
    assert (_keys(page), [one["key"] for one in page["left_out"]]) == (["a", "c"], ["b"])
    assert daemon.rpc("daemon.status")["store"]["damaged"]
    assert daemon.rpc("entry.check", key="a", scope="s")["verdict"] == "fresh"
    assert daemon.rpc("entry.forget", key="b", scope="s") == {"gone": True}
    daemon.rpc("entry.put", key="b", value="new", deps=[], scope="s")
    assert _keys(daemon.rpc("entry.list", scope="s")) == ["a", "b", "c"]


def test_what_rests_on_a_damaged_entry_is_unknown_and_the_index_goes_with_it(daemon: Daemon) -> None:
    daemon.start()
    daemon.rpc("entry.put", key="b", value=1, deps=["object:o"], fetched_at=daemon.rpc("log.clock")["clock"], scope="s")
    clock = daemon.rpc("log.clock")["clock"]
    daemon.rpc("entry.put", key="above", value=1, deps=["entry:b"], fetched_at=clock, scope="s")
    daemon.stop()
    _change(daemon, b"entries", b"b", b"\xc1\xff")
    daemon.start()

    told = daemon.rpc("entry.check", key="above", scope="s")
    assert (told["verdict"], told["why"]) == ("unknown", "entry-unknown")
    with pytest.raises(RpcError) as refused:
        daemon.rpc("entry.put", key="new", value=1, deps=["entry:b"], fetched_at=clock, scope="s")
    assert refused.value.hint.startswith("provd forget b "), "not the one that is put"
    assert daemon.rpc("action.record", writes=["object:o"])["affects"]["keys"] == ["b", "above"]
    assert daemon.rpc("entry.forget", key="b", scope="s") == {"gone": True}
    assert daemon.rpc("action.record", writes=["object:o"])["affects"]["keys"] == []
    assert daemon.rpc("entry.check", key="above", scope="s")["why"] == "entry-missing"


def test_a_byte_that_is_no_text_in_the_name_of_another_entry_harms_one_entry(daemon: Daemon) -> None:
    daemon.start()
    clock = daemon.rpc("log.clock")["clock"]
    daemon.rpc("entry.put", key="a\nb", value=1, deps=["entry:c"], fetched_at=clock, scope="s")
    daemon.stop()
    row = _row(daemon, b"entries", b"a\nb")
    _change(daemon, b"entries", b"a\nb", row.replace(b"\xc4\x01c", b"\xc4\x01\xff"))
    daemon.start()

    told = daemon.rpc("entry.check", keys=["a\nb", "c"], scope="s")["verdicts"]
    assert {key: (one["verdict"], one["why"]) for key, one in told.items()} == {
        "a\nb": ("unknown", "damaged"),
        "c": ("fresh", "no-dependencies"),
    }
    listed = daemon.rpc("entry.list", verdict="fresh", scope="s")
    assert (_keys(listed), listed["damaged"]) == (["a", "b", "c"], ["a\nb"])
    with pytest.raises(RpcError) as refused:
        daemon.rpc("entry.put", key="a\nb", value=2, deps=[], scope="s")
    assert (refused.value.code, refused.value.hint) == (
        "store.damaged",
        "provd forget $'a\\x0ab'  # then put it anew",
    )
    assert daemon.rpc("entry.forget", key="a\nb", scope="s") == {"gone": True}


def _break_action(daemon: Daemon) -> None:
    """A row that each start reads is garbage."""
    daemon.start()
    daemon.rpc("action.begin", writes=["object:o"])
    daemon.stop()
    _change(daemon, b"actions", b"", b"\xc1")


def _empty(daemon: Daemon) -> None:
    os.truncate(os.path.join(daemon.state, "store", "data.mdb"), 0)


@pytest.mark.parametrize("harm", [_break_pages, _break_action, _empty])
def test_what_no_start_can_use_is_set_aside(daemon: Daemon, harm: Callable[[Daemon], None]) -> None:
    harm(daemon)
    daemon.start()

    aside = [name for name in os.listdir(daemon.state) if name.startswith("store.unusable-")]
    assert len(aside) == 1
    assert aside[0] in str(daemon.rpc("daemon.status"))
    assert daemon.rpc("entry.check", key="a", scope="s")["why"] == "no-entry"


def test_a_version_of_a_log_that_was_set_aside_is_no_version_of_the_next(daemon: Daemon) -> None:
    """Broken: an entry that was made from what the first log had is fresh, by a number that both told."""
    old = int(daemon.start().rpc("entry.get", key="a", scope="s")["version"])
    daemon.stop()
    _break_pages(daemon)
    rpc = daemon.start().rpc
    for number in range(old + 1):
        version = rpc("entry.put", key="a", value=number, deps=[], scope="s")["version"]
        told = rpc(
            "entry.put", key=f"on {number}", value=1, deps=[{"dep": "entry:a", "digest": f"version:{old}"}], scope="s"
        )
        assert version > old
        assert told["verdict"]["verdict"] == "dirty"
