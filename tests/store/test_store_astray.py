"""A store whose file is not at its place any more: what nobody would find again is not acknowledged."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from storing import appending, in_loop, log_of, together

from provd.core import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from provd.store import Store


def _replaced(directory: str) -> None:
    os.rename(directory, directory + ".moved")
    shutil.copytree(directory + ".moved", directory)


@pytest.mark.parametrize(
    "lose", [shutil.rmtree, lambda directory: os.rename(directory, directory + ".moved"), _replaced]
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
