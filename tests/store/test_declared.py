"""What actions declared, and what is kept beside the entries: indexes tell the truth."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storing import opened, path_deps, scratch, some_paths

from provd.core.dependency import touches
from provd.core.entry import Kept
from provd.core.facts import ObjectState, Touch
from provd.store import Writer
from provd.store.keys import OpenAction, PathState, Root

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def directory(tmp_path: Any) -> str:
    """Where a store may be made."""
    return os.path.join(tmp_path, "store")


def keeping(*some: PathState | OpenAction | Root) -> Callable[[Writer], None]:
    def command(writer: Writer) -> None:
        for one in some:
            match one:
                case PathState():
                    writer.put_path(one)
                case OpenAction():
                    writer.put_action(one)
                case Root():
                    writer.put_root(one)

    return command


ends = st.tuples(some_paths, st.integers(1, 100), st.booleans())


@settings(deadline=None, max_examples=200)
@given(st.lists(ends, max_size=8), path_deps())
def test_the_newest_declared_write_is_found_as_by_looking_at_all(
    written: list[tuple[bytes, int, bool]], one: Kept
) -> None:
    states = {path: PathState(path, end, end * 2, (end * 2 + 1,) if is_open else ()) for path, end, is_open in written}
    with scratch() as store:
        store.run(keeping(*states.values()))
        on = [state for state in states.values() if touches(one.dep, one.real, state.path)]
        opened_ = [state.open[-1] for state in on if state.open]
        with store.view() as view:
            told = view.touch(one)
        if opened_:
            assert told == Touch(None, max(opened_))
        elif on:
            assert told is not None
            newest = max(state.last_end for state in on)
            assert told == Touch(newest, newest * 2)
        else:
            assert told is None


def test_actions_objects_and_roots_come_back_in_order(directory: str) -> None:
    actions = [OpenAction(n, 1, (b"object:x",), (b"x",), (b"/r/\xff",), turn="t") for n in (70_000, 3, 300)]
    state = ObjectState(b"x" * 1024, 5, 3, (7,), 9)
    roots = [Root(b"/b", 1, 2), Root(b"/a\xff", 1, 3, ("*.o",))]
    with opened(directory) as store:
        store.run(keeping(*actions))
        store.run(lambda w: w.put_object(state))
        store.run(keeping(*roots))
    with opened(directory) as store:
        with store.view() as view:
            assert [action.id for action in view.actions()] == [3, 300, 70_000]
            assert view.action(300) == actions[2]
            assert [view.action(n) for n in (4, -1, 2**63, 2**80)] == [None] * 4
            assert view.object_state(b"x" * 1024) == state
            assert view.object_state(b"x" * 1023) == ObjectState(b"x" * 1023)
            assert sorted(view.roots(), key=lambda r: r.path) == sorted(roots, key=lambda r: r.path)
        store.run(lambda w: w.delete_action(300))
        store.run(lambda w: w.delete_root(b"/b"))
        with store.view() as view:
            assert [action.id for action in view.actions()] == [3, 70_000]
            assert view.roots() == [roots[1]]
