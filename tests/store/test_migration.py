"""A store of an older format: its copy, its migration, and what is left where one of them fails."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import lmdb
import pytest
from old_stores import RELEASED, bring, new_home, rows_of
from storing import in_loop, opened

from provd.core import clock, errors, records
from provd.store import Store, keeping, migrate
from provd.store.environment import FORMAT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from provd.store import Writer

ROOT: Final = b"/root"


@pytest.fixture
def home() -> Iterator[str]:
    """A home that goes with the test."""
    directory = new_home()
    yield directory
    shutil.rmtree(directory)


def store_of(name: str, home: str) -> str:
    """The directory of a released store."""
    bring(name, home)
    return os.path.join(home, "state", "store")


@pytest.fixture
def directory(home: str) -> str:
    """The store of the version without a watcher."""
    return store_of("1-unwatched", home)


def names_beside(directory: str) -> list[str]:
    return sorted(os.listdir(os.path.dirname(directory)))


def written_by(directory: str, command: Callable[[Writer], Any]) -> None:
    """Runs a command in an open store of today."""
    with opened(directory) as store:
        store.run(command)


def test_the_format_is_written_with_the_rows(directory: str) -> None:
    with opened(directory) as store, store.view() as view:
        assert view.meta(b"format") == b"%d" % FORMAT
        assert store.migrated() == {
            "from": 1,
            "at": store.migrated()["at"],  # type: ignore[index]
            "kept": f"{directory}.format-1",
        }
    with opened(directory) as store:
        assert store.migrated() is not None, "opening it again migrates nothing and forgets nothing"
    assert names_beside(directory) == ["store", "store.format-1"]


def test_every_format_has_a_step_and_a_released_store_to_show_it() -> None:
    older = set(range(1, FORMAT))
    assert set(migrate.STEPS) == older
    assert {int(name.partition("-")[0]) for name in RELEASED} == older


def test_a_new_store_was_never_migrated(home: str) -> None:
    with opened(os.path.join(home, "new")) as store, store.view() as view:
        assert store.migrated() is None
        assert view.meta(b"format") == b"%d" % FORMAT


@pytest.mark.parametrize("name", RELEASED)
def test_no_row_of_before_is_lost_or_another(home: str, name: str) -> None:
    directory = store_of(name, home)
    before = rows_of(directory)
    with opened(directory):
        pass
    after = rows_of(directory)
    for table, rows in before.items():
        if table not in {"meta", "gaps"}:
            assert after[table] == rows, table
    meta = dict(after["meta"])
    assert all(meta[key] == value for key, value in before["meta"] if key != b"format")


def test_gaps_and_coverage_of_the_log_are_indexed(home: str, directory: str) -> None:
    root = os.fsencode(home) + ROOT
    with opened(directory) as store, store.view() as view:
        told = [(at, r) for at, r in view.all_records() if isinstance(r, records.Gap | records.Coverage)]
        newest = max(at for at, r in told if (r.scope if isinstance(r, records.Gap) else r.path) == root)
        assert newest > view.gap_all()
        assert view.newest_gap(root) == newest
        assert view.newest_gap(root + b"/src/api.py") == newest
        assert view.newest_gap(b"/elsewhere") == view.gap_all()


def test_the_index_of_a_watched_store_is_as_its_own_version_kept_it(home: str) -> None:
    directory = store_of("1-watched", home)
    before = rows_of(directory)
    with opened(directory):
        pass
    assert rows_of(directory)["gaps"] == before["gaps"]


def test_fields_that_older_rows_lack_have_the_value_that_claims_least(directory: str) -> None:
    with opened(directory) as store, store.view() as view:
        kept = [kept for entry in view.all_entries() for kept in entry.deps or ()]
        assert kept
        assert not any(one.shown or one.proven is not None for one in kept)


def test_a_copy_at_the_same_position_of_another_run_is_of_another_store(directory: str) -> None:
    def kept() -> str:
        with closing(lmdb.open(directory, max_dbs=8)) as env:
            return keeping.keep(env, directory, 1)

    path = kept()
    assert kept() == path
    assert names_beside(directory).count("store.format-1") == 1
    with closing(lmdb.open(path, max_dbs=8)) as env, env.begin(write=True) as txn:
        runs = env.open_db(b"runs", txn)
        ((run, first), *_) = list(txn.cursor(db=runs))
        txn.delete(run, db=runs)
        txn.put(b"f" * 16, first, db=runs)
    assert kept() == path
    assert rows_of(path) == rows_of(directory)
    aside = [name for name in names_beside(directory) if name.startswith("store.format-1-")]
    assert len(aside) == 1


# what may fail


def unchanged(directory: str, before: dict[str, list[tuple[bytes, bytes]]]) -> None:
    """The store is as it was, and opens when nothing fails any more."""
    assert rows_of(directory) == before
    assert "store.format-1.partial" not in names_beside(directory)
    with opened(directory) as store:
        assert store.migrated() is not None


def test_a_disk_too_small_for_the_copy_is_a_full_store(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows_of(directory)

    class Full:
        f_bavail, f_frsize = 3, 4096

    monkeypatch.setattr(os, "statvfs", lambda _: Full)
    with pytest.raises(errors.StoreFull) as caught:
        Store(directory)
    assert "nothing was changed" in caught.value.message
    assert "free 17 MiB" in caught.value.hint
    assert names_beside(directory) == ["store"]
    monkeypatch.undo()
    unchanged(directory, before)


class FailingCopy:
    """An environment whose copy does not fit the disk after all."""

    def __init__(self, env: lmdb.Environment) -> None:
        self._env = env

    def copy(self, path: bytes, **_: Any) -> None:
        with open(os.path.join(path, b"data.mdb"), "wb") as file:
            file.write(b"half")
        raise lmdb.DiskError(f"{os.fsdecode(path)}: No space left on device")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)


def test_a_disk_that_fills_up_while_it_is_copied_is_a_full_store(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows_of(directory)
    keep = keeping.keep
    monkeypatch.setattr(keeping, "keep", lambda env, *more: keep(FailingCopy(env), *more))  # type: ignore[arg-type]
    with pytest.raises(errors.StoreFull):
        Store(directory)
    monkeypatch.undo()
    assert names_beside(directory) == ["store"]
    unchanged(directory, before)


def test_a_copy_that_cannot_be_synced_is_none(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows_of(directory)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(errors.StoreUnusable):
        Store(directory)
    monkeypatch.undo()
    unchanged(directory, before)


@pytest.mark.parametrize("error", [KeyError("x"), ValueError("y"), RuntimeError("z")])
def test_a_step_that_raises_leaves_nothing_and_says_what_to_run(
    directory: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    before = rows_of(directory)

    def step(writer: Writer) -> None:
        migrate.from_1(writer)
        raise error

    monkeypatch.setattr(migrate, "STEPS", {1: step})
    with pytest.raises(errors.StoreUnusable) as caught:
        Store(directory)
    assert "nothing was changed" in caught.value.message
    assert f"{directory}.format-1" in caught.value.hint
    monkeypatch.undo()
    unchanged(directory, before)


def test_a_full_disk_in_a_step_is_a_full_store(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows_of(directory)

    def step(_: Writer) -> None:
        raise lmdb.MapFullError("mdb_put: MDB_MAP_FULL")

    monkeypatch.setattr(migrate, "STEPS", {1: step})
    with pytest.raises(errors.StoreFull):
        Store(directory)
    monkeypatch.undo()
    unchanged(directory, before)


# the copy goes


def settled(directory: str, run: str, *, orderly: bool = True) -> str | None:
    """A run from its start to its end; the name of the copy that it removed."""

    async def body(store: Store) -> str | None:
        gone = await migrate.settle(store, run)
        if orderly:
            await store.submit(lambda writer: migrate.prove(writer, run))
        return gone

    return in_loop(directory, body)


def test_the_copy_goes_with_the_second_run_that_came_up(directory: str) -> None:
    assert settled(directory, "one") is None
    assert settled(directory, "one") is None, "the same run is no second one"
    assert names_beside(directory) == ["store", "store.format-1"]
    assert settled(directory, "two") == "store.format-1"
    assert names_beside(directory) == ["store"]
    with opened(directory) as store:
        assert store.migrated() is None
    assert settled(directory, "three") is None


def test_runs_that_crash_prove_nothing(directory: str) -> None:
    for run in ("one", "two"):
        assert settled(directory, run, orderly=False) is None
    assert settled(directory, "three") is None
    assert names_beside(directory) == ["store", "store.format-1"]
    assert settled(directory, "four", orderly=False) == "store.format-1"


def test_a_run_that_was_there_long_proves_the_store_though_it_crashes(directory: str) -> None:
    async def body(store: Store) -> None:
        assert await migrate.settle(store, "one") is None
        await migrate.prove_in_time(store, "one", seconds=0)

    in_loop(directory, body)
    assert settled(directory, "two", orderly=False) == "store.format-1"


def test_a_directory_whose_name_is_no_text_is_migrated_as_any_other(directory: str) -> None:
    odd = os.fsdecode(os.fsencode(os.path.dirname(directory)) + b"/odd-\xff")
    os.mkdir(odd)
    try:
        os.rename(directory, f"{odd}/store")
    except OSError as e:  # a file system that takes only text
        pytest.skip(str(e))
    before = rows_of(f"{odd}/store")
    with opened(f"{odd}/store") as store:
        assert store.migrated() is not None
    assert rows_of(f"{odd}/store.format-1") == before
    shutil.rmtree(f"{odd}/store")
    shutil.copytree(f"{odd}/store.format-1", f"{odd}/store")
    with opened(f"{odd}/store"):
        pass
    assert names_beside(f"{odd}/store") == ["store", "store.format-1"], "the copy of the same moment is taken"
    assert settled(f"{odd}/store", "one") is None
    assert settled(f"{odd}/store", "two") == "store.format-1"


def test_a_copy_that_somebody_removed_is_forgotten(directory: str) -> None:
    settled(directory, "one")
    shutil.rmtree(f"{directory}.format-1")
    assert settled(directory, "two") == "store.format-1"
    with opened(directory) as store:
        assert store.migrated() is None


def test_a_store_that_is_not_whole_keeps_the_copy(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settled(directory, "one")

    def walk(*_: Any) -> None:
        raise lmdb.CorruptedError("a page is damaged")

    monkeypatch.setattr("provd.store.rows.Rows.walk", walk)
    with pytest.raises(errors.StoreDamaged, match="a page is damaged"):
        settled(directory, "two")
    monkeypatch.undo()
    assert names_beside(directory) == ["store", "store.format-1"]
    assert settled(directory, "three") == "store.format-1"


def test_the_walk_meets_every_row_in_slices(directory: str) -> None:
    with opened(directory) as store, store.view() as view:
        low: bytes | None = b""
        steps = 0
        while low is not None:
            low = view.walk("log", low, 10, 1 << 20)
            steps += 1
        assert steps == view.count("log") // 10 + 1


def test_the_walk_goes_no_further_than_its_bytes(directory: str) -> None:
    with opened(directory) as store:
        for reason in ("a", "x" * 1000, "b"):
            store.run(lambda writer, reason=reason: writer.append(records.Gap(1, b"/x", reason)))  # type: ignore[misc]
        with store.view() as view:
            first = clock.key(view.head() - 2)
            assert view.walk("log", first, 10, 1000) == clock.key(view.head() - 1) + b"\0"
            assert view.walk("log", first, 10, 10_000) is None


def test_the_copy_can_be_put_back_in_its_place(directory: str) -> None:
    before = rows_of(directory)
    written_by(directory, lambda writer: writer.append(records.Gap(1, b"/x", "after the migration")))
    shutil.rmtree(directory)
    os.rename(f"{directory}.format-1", directory)
    assert rows_of(directory) == before
    with opened(directory) as store:
        assert store.migrated() is not None
