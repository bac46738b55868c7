"""The table of files on a real LMDB."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storing import opened, scratch

from provd.core.mutation import State
from provd.store import Store, Writer
from provd.store.files import UNKNOWN, Files, Row

DIRECTORY = State("d", 0, 0, 0, 7)


def file(size: int = 1) -> Row:
    return Row(State("f", size, 2, 3, 4))


def change(store: Store, *steps: Any) -> None:
    def command(writer: Writer) -> None:
        files = Files(writer)
        for name, *arguments in steps:
            getattr(files, name)(*arguments)

    store.run(command)


def everything(store: Store) -> dict[bytes, str]:
    with store.view() as view:
        return {path: row.state.sort for path, row in Files(view).below(b"/")}


@pytest.fixture
def directory(tmp_path: Any) -> str:
    return os.path.join(tmp_path, "store")


def test_a_row_is_kept_with_the_directories_above(directory: str) -> None:
    with opened(directory) as store:
        change(store, ("put", b"/r/d/a", file(5)))
    with opened(directory) as store, store.view() as view:
        files = Files(view)
        assert files.get(b"/r/d/a") == file(5)
        above = files.get(b"/r/d")
        assert above is not None
        assert above.state == UNKNOWN
        assert not above.listed
        assert files.get(b"/r/x") is files.get(b"/x/y/z") is files.get(b"/r/d/a/below") is None
        assert files.count() == 3


def test_names_of_255_bytes_and_of_any_bytes_are_kept(directory: str) -> None:
    with opened(directory) as store:
        names = [b"x" * 255, b"\xff" * 255, b"\x01", b"\n"]
        change(store, *(("put", b"/r/" + name, file()) for name in names))
        with store.view() as view:
            assert list(Files(view).children(b"/r")) == sorted(names)


def test_a_directory_is_renamed_with_all_below_by_moving_one_row(directory: str) -> None:
    with opened(directory) as store:
        change(store, *(("put", b"/r/d/e/%d" % n, file(n)) for n in range(50)))
        with store.view() as view:
            before = Files(view).children(b"/r/d/e")

        def command(writer: Writer) -> int:
            files, wrote = Files(writer), writer.wrote
            files.get(b"/r/d/e/1")
            files.move(b"/r/d", b"/r/z")
            assert files.get(b"/r/d/e/1") is None
            assert files.children(b"/r/z/e") == before
            return writer.wrote - wrote

        assert store.run(command) == 2


def test_a_root_above_another_takes_in_its_rows(directory: str) -> None:
    with opened(directory) as store:
        change(store, ("put", b"/r/in/a", file(5)))
        change(store, ("fill", b"/r", [(b"b", file().state)]), ("put", b"/r", Row(DIRECTORY, listed=True)))
        assert set(everything(store)) == {b"/r", b"/r/b", b"/r/in", b"/r/in/a"}


def test_children_are_in_order_and_between_bounds(directory: str) -> None:
    with opened(directory) as store:
        change(store, ("fill", b"/r", [(name, file().state) for name in (b"a", b"b", b"c", b"d")]))
        with store.view() as view:
            files = Files(view)
            assert list(files.children(b"/r")) == [b"a", b"b", b"c", b"d"]
            assert list(files.children(b"/r", b"b", b"d")) == [b"b", b"c"]
            assert list(files.children(b"/r", b"b", limit=1)) == [b"b"]
            assert files.children(b"/none") == {}


def test_below_gives_what_is_in_a_directory_before_it(directory: str) -> None:
    with opened(directory) as store:
        change(store, *(("put", path, file()) for path in (b"/r/a/b/c", b"/r/a/d", b"/r/e")))
        with store.view() as view:
            assert [path for path, _ in Files(view).below(b"/r")] == [
                b"/r/a/b/c",
                b"/r/a/b",
                b"/r/a/d",
                b"/r/a",
                b"/r/e",
            ]


def test_the_top_is_a_directory_like_others(directory: str) -> None:
    with opened(directory) as store:
        change(store, ("put", b"/", Row(DIRECTORY, listed=True)), ("put", b"/a", file()))
        with store.view() as view:
            files = Files(view)
            top = files.get(b"/")
            assert top is not None
            assert top.listed
            assert list(files.children(b"/")) == [b"a"]
            assert files.count() == 1


def test_numbers_are_never_used_again(directory: str) -> None:
    with opened(directory) as store:
        change(store, ("put", b"/r/a", Row(DIRECTORY)), ("put", b"/r/a/x", file()))
        change(store, ("delete", b"/r/a/x"), ("delete", b"/r/a"), ("put", b"/r/b", Row(DIRECTORY)))
        with store.view() as view:
            row = Files(view).get(b"/r/b")
            assert row is not None
            assert row.number == 3
            assert Files(view).children(b"/r/b") == {}


names = st.sampled_from([b"/r", b"/r/a", b"/r/b", b"/r/a/a", b"/r/a/b", b"/r/b/a", b"/r/a/a/a"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("file"), names, names),
        st.tuples(st.just("dir"), names, names),
        st.tuples(st.just("delete"), names, names),
        st.tuples(st.just("move"), names, names),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_the_table_is_a_tree(some: list[tuple[str, bytes, bytes]]) -> None:
    model: dict[bytes, str] = {}

    def above(path: bytes) -> list[bytes]:
        parts = path.split(b"/")[1:-1]
        return [b"/" + b"/".join(parts[: n + 1]) for n in range(len(parts))]

    def below(path: bytes) -> list[bytes]:
        return [p for p in model if p.startswith(path + b"/")]

    with scratch() as store:
        for what, one, two in some:
            if any(model.get(p) == "f" for p in (*above(one), *above(two))):
                continue
            if what in {"file", "dir"} and not below(one):
                change(store, ("put", one, file() if what == "file" else Row(DIRECTORY)))
                model |= dict.fromkeys(above(one), "d") | {one: what[0]}
            elif what == "delete" and not below(one):
                change(store, ("delete", one))
                model.pop(one, None)
            elif what == "move" and one in model and not below(two) and not (two + b"/").startswith(one + b"/"):
                change(store, ("move", one, two))
                moved = {two + p[len(one) :]: model.pop(p) for p in [one, *below(one)]}
                model |= dict.fromkeys(above(two), "d") | moved
            assert everything(store) == model
        with store.view() as view:
            assert Files(view).count() == len(model)


def test_a_row_can_be_read_by_who_knows_fewer_fields() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode([file().state]), type=Row) == file()


def test_a_path_may_have_more_names_than_a_stack_has_frames(directory: str) -> None:
    deep = b"/a" * 2000
    with opened(directory) as store:
        change(store, ("put", deep, file()))
        with store.view() as view:
            assert Files(view).get(deep) == file()
            assert Files(view).get(deep + b"/x") is None
            assert len(list(Files(view).below(b"/"))) == 2000
