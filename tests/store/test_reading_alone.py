"""A store that was opened again for reading alone: what is refused, and that it takes changes as soon as it may."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from provd.core import errors
from provd.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from provd.store import Writer


def _put(writer: Writer) -> None:
    writer.put_meta(b"x", b"kept")


@pytest.fixture
def store(tmp_path: os.PathLike[str]) -> Iterator[Store]:
    made = Store(os.path.join(tmp_path, "store"))
    yield made
    made.stop()


def _submitted(store: Store, *between: Callable[[], object]) -> list[BaseException | None]:
    """What became of a change before each of these acts, and after the last."""

    async def go() -> list[BaseException | None]:
        store.start(asyncio.get_running_loop())
        found: list[BaseException | None] = []
        for act in (*between, list):
            (told,) = await asyncio.gather(store.submit(_put), return_exceptions=True)
            found.append(told)
            act()
        return found

    return asyncio.run(go())


def test_changes_are_refused_for_the_reason_that_it_has_and_the_first_one_after_is_taken(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken: it says that its file system is read-only, or refuses the change that could open it again."""
    environment = store.environment
    with monkeypatch.context() as there_is_no_room:

        def refuse() -> None:
            raise errors.StoreFull("no room for its lock file", "make room")

        there_is_no_room.setattr(environment, "_open", refuse)
        environment.reopen()
        assert isinstance(environment.reading_only, errors.StoreFull)
        refused, taken = _submitted(store, there_is_no_room.undo)
    assert isinstance(refused, errors.StoreFull)
    assert refused.message == "no room for its lock file"
    assert taken is None
    assert store.environment.reading_only is None
    with store.view() as view:
        assert view.meta(b"x") == b"kept"
