"""A store whose file is not at its place any more: what nobody would find again is not acknowledged."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Any

import lmdb
import pytest
from storing import appending, in_loop, log_of, together
from support import content_of, write_over

from provd import faults
from provd.core import errors
from provd.core.records import ALL, Gap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from provd.store import Store


def _replaced(directory: str) -> None:
    os.rename(directory, directory + ".moved")
    shutil.copytree(directory + ".moved", directory)


def _beheaded(page: int) -> Callable[[str], None]:
    def lose(directory: str) -> None:
        fd = os.open(os.path.join(directory, "data.mdb"), os.O_WRONLY)
        try:
            os.pwrite(fd, bytes(16), page * os.sysconf("SC_PAGE_SIZE"))
        finally:
            os.close(fd)

    return lose


@pytest.mark.parametrize(
    "lose",
    [
        *(shutil.rmtree, lambda directory: os.rename(directory, directory + ".moved"), _replaced),
        *(_beheaded(0), _beheaded(1)),
    ],
)
def test_nothing_is_acknowledged_that_the_next_start_would_not_find(tmp_path: Any, lose: Callable[[str], Any]) -> None:
    directory = os.path.join(tmp_path, "store")

    async def body(store: Store) -> None:
        await store.submit(appending("kept"))
        lose(directory)
        for refused in await together_after(store):
            assert isinstance(refused, errors.StoreUnusable)
            assert "nothing was changed" in refused.message
            assert "provd restart" in refused.hint
        with store.view() as view:
            assert log_of(view) == [(1, "kept")]
        assert store.lost is None

    async def together_after(store: Store) -> list[Any]:
        futures = [store.submit(appending(str(n))) for n in range(3)]
        return [await _error(future) for future in futures]

    in_loop(directory, body)


@pytest.mark.parametrize(
    "lose", [shutil.rmtree, lambda directory: os.rename(directory, directory + ".moved"), _replaced]
)
def test_what_was_synced_into_a_file_that_went_meanwhile_is_not_acknowledged(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, lose: Callable[[str], Any]
) -> None:
    directory = os.path.join(tmp_path, "store")
    moved: list[int] = []

    def point(name: str) -> None:
        if name == "commit.before" and armed:
            armed.pop()
            lose(directory)  # after the first look, before the sync

    armed: list[bool] = []
    monkeypatch.setattr(faults, "point", point)

    async def body(store: Store) -> None:
        await store.submit(appending("kept"))
        store.on_commit = moved.append
        armed.append(True)
        refused = await _error(store.submit(appending("lost")))
        assert isinstance(refused, errors.StoreUnusable)
        assert "while a change was written" in refused.message
        assert (store.head, moved, store.lost) == (1, [], None)
        assert "nothing was changed" in (await _error(store.submit(appending("refused")))).message

    in_loop(directory, body)


def test_what_was_synced_while_the_store_was_away_counts_when_it_is_back(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = os.path.join(tmp_path, "store")
    armed: list[bool] = []

    def point(name: str) -> None:
        if name == "commit.before" and armed:
            armed.pop()
            os.rename(directory, directory + ".moved")

    monkeypatch.setattr(faults, "point", point)

    async def body(store: Store) -> None:
        armed.append(True)
        assert isinstance(await _error(store.submit(appending("unsure"))), errors.StoreUnusable)
        os.rename(directory + ".moved", directory)
        assert await store.submit(appending("taken")) == 2
        with store.view() as view:
            assert log_of(view) == [(1, "unsure"), (2, "taken")]
        assert store.head == 2

    in_loop(directory, body)


async def _error(future: Any) -> Any:
    try:
        return await future
    except errors.ProvdError as error:
        return error


def test_a_store_that_is_put_back_takes_changes_again(tmp_path: Any) -> None:
    directory = os.path.join(tmp_path, "store")

    async def body(store: Store) -> None:
        os.rename(directory, directory + ".moved")
        assert isinstance(await _error(store.submit(appending("refused"))), errors.StoreUnusable)
        assert store.environment.astray() is not None
        os.rename(directory + ".moved", directory)
        assert await together(store, appending("taken")) == [1]
        assert store.environment.astray() is None

    in_loop(directory, body)


@pytest.mark.parametrize("looks_first", [True, False], ids=["a view notices", "the writer notices"])
def test_a_store_that_an_older_one_was_written_over_is_lost(tmp_path: Any, *, looks_first: bool) -> None:
    directory = os.path.join(tmp_path, "store")
    data = os.path.join(directory, "data.mdb")

    async def body(store: Store) -> None:
        await store.submit(appending("old"))
        older = content_of(data)
        for number in range(3):
            await store.submit(appending(str(number)))
        assert store.is_own()
        write_over(data, older)
        assert not store.is_own()
        if looks_first:
            with pytest.raises(errors.StoreUnusable, match="came back at record"), store.view():
                pass
        with pytest.raises(errors.StoreUnusable, match="came back at record"):
            await store.submit(appending("new"))
        assert store.lost is not None

    in_loop(directory, body)


def test_a_store_in_which_this_run_did_not_begin_is_lost(tmp_path: Any) -> None:
    directory = os.path.join(tmp_path, "store")

    async def body(store: Store) -> None:
        await store.submit(lambda writer: writer.append(Gap(writer.now, ALL, "started", "a" * 16)))
        store.run_id = "a" * 16
        await store.submit(appending("kept"))
        assert store.is_own()
        store.run_id = "b" * 16  # as if the file had been written over by that of another run, as long as this one
        assert not store.is_own()
        with pytest.raises(errors.StoreUnusable, match="this run never began in it"), store.view():
            pass
        with pytest.raises(errors.StoreUnusable):
            await store.submit(appending("new"))
        assert store.lost is not None

    in_loop(directory, body)


@pytest.mark.parametrize("proven", [True, False])
def test_what_a_failed_commit_left_is_acknowledged_once_the_disk_has_it(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, *, proven: bool
) -> None:
    """Broken: what can be read again is taken for what is on the disk."""
    directory = os.path.join(tmp_path, "store")

    async def body(store: Store) -> None:
        await store.submit(appending("kept"))
        environment = store.environment
        asked: list[bool] = []
        real = environment.prove

        def prove() -> None:
            asked.append(True)
            if not proven:
                raise lmdb.DiskError("mdb_txn_commit: Input/output error")
            real()

        monkeypatch.setattr(environment, "prove", prove)
        environment.env = _FailsAfterwards(environment.env)  # type: ignore[assignment]
        if proven:
            assert await store.submit(appending("there")) == 2
            assert await store.submit(appending("next")) == 3
            assert store.lost is None
        else:
            assert isinstance(await _error(store.submit(appending("there"))), errors.StoreUnusable)
            assert store.lost is not None
            assert store.head == 1
        assert asked == [True]

    in_loop(directory, body)


class _FailsAfterwards:
    """An environment of which a commit is told to have failed, and can be read all the same."""

    def __init__(self, env: lmdb.Environment) -> None:
        self._env = env
        self.close = env.close
        self.info = env.info
        self.stat = env.stat

    @contextlib.contextmanager
    def begin(self, *, write: bool = False) -> Iterator[lmdb.Transaction]:
        with self._env.begin(write=write) as txn:
            yield txn
        if write:
            raise lmdb.DiskError("mdb_txn_commit: Input/output error")
