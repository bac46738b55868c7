"""Renamed directories: what the short ways of looking say is what looking at all of them says."""

from __future__ import annotations

import asyncio
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provd.core.dependency import is_under
from provd.disk.workers import Workers
from provd.recorder import hashing, renames
from provd.recorder.hashing import Hashing
from provd.recorder.items import moved
from provd.recorder.renames import Below, Renames

names = st.lists(st.sampled_from([b"a", b"b", b"a-"]), min_size=1, max_size=4).map(
    lambda parts: b"/" + b"/".join(parts)
)


@given(st.lists(st.tuples(names, names), max_size=12), names, st.integers(0, 12), st.integers(0, 12))
def test_a_path_is_where_all_renames_after_a_moment_took_it(
    some: list[tuple[bytes, bytes]], path: bytes, after: int, forgotten: int
) -> None:
    known = Renames()
    for number, (source, target) in enumerate(some, 1):
        known.add(number, source, target)
    known.forget(min(after, forgotten))
    expected = path
    for number, (source, target) in enumerate(some, 1):
        if number > after:
            expected = moved(expected, source, target)
    assert known.now(path, after) == expected
    assert len(known) == max(0, len(some) - min(after, forgotten))


@pytest.mark.parametrize("few", [0, 2, 32])
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["put", "pop", "ask", "ask", "clear"]), names | st.just(b"/")), max_size=40
    )
)
def test_what_lies_below_a_directory_is_what_all_paths_say(few: int, steps: list[tuple[str, bytes]]) -> None:
    known: Below[int] = Below()
    model: dict[bytes, int] = {}
    with mock.patch.object(renames, "_FEW", few):
        for number, (what, path) in enumerate(steps):
            if what == "put":
                known.put(path, number)
                model[path] = number
            elif what == "pop":
                assert known.pop(path) == model.pop(path, None)
            elif what == "clear":
                known.clear()
                model.clear()
            else:
                assert sorted(known.at_or_below(path)) == sorted(each for each in model if is_under(each, path))
            assert list(known) == list(model.items())
            assert known.get(path) == model.get(path)
            assert len(known) == len(model)


def test_renames_are_forgotten_though_something_always_waits_for_its_digest() -> None:
    async def main() -> None:
        waiting = Hashing(Workers(), lambda: None)
        with mock.patch.object(hashing, "_MOVES", 10):
            waiting._most = 10
            for number in range(1, 1000, 2):
                waiting.add(number, b"/r/a/f")
                waiting.superseded(number - 6)
                waiting.moved(number + 1, b"/r/a", b"/r/x")
            assert len(waiting) == 3
            assert len(waiting._moves) < 20
        waiting.close()

    asyncio.run(main())


def test_a_digest_is_looked_for_where_its_file_is_after_many_renames() -> None:
    async def main() -> None:
        waiting = Hashing(Workers(), lambda: None)
        waiting._most = 10
        waiting.add(1, b"/r/0/f")
        for number in range(100):
            waiting.moved(number + 2, b"/r/%d" % number, b"/r/%d" % (number + 1))
        assert waiting.now(1, b"/r/0/f") == b"/r/100/f"
        assert waiting.now(50, b"/r/49/f") == b"/r/100/f"
        assert waiting.now(50, b"/r/7/f") == b"/r/7/f"
        waiting.close()

    asyncio.run(main())
