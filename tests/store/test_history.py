"""The log's index of paths: what it says is what looking at all records says."""

from __future__ import annotations

import os
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storing import gap, kept, opened, path_deps, scratch, some_paths

from provd.core.dependency import is_under, touches
from provd.core.entry import Kept
from provd.core.facts import Touch
from provd.core.records import (
    ALL,
    STRUCTURAL,
    Coverage,
    DigestState,
    Gap,
    Hashed,
    Mutation,
    MutationKind,
    Record,
)
from provd.store import Store, Writer
from provd.store.keys import PathState

DONE: Final = "xxh3:" + "d" * 32


@pytest.fixture
def directory(tmp_path: Any) -> str:
    """Where a store may be made."""
    return os.path.join(tmp_path, "store")


def mutation(path: bytes, kind: MutationKind = MutationKind.MODIFIED, source: bytes | None = None) -> Mutation:
    return Mutation(1, kind, path, source, digest_state=DigestState.PENDING)


def appending(*some: Record) -> Any:
    return lambda writer: [writer.append(one) for one in some]


@st.composite
def mutations(draw: st.DrawFn) -> Mutation:
    kind = draw(st.sampled_from(list(MutationKind)))
    source = draw(some_paths) if kind is MutationKind.MOVED else None
    return mutation(draw(some_paths), kind, source)


logs = st.lists(
    mutations()
    | st.builds(gap, scope=some_paths)
    | st.builds(Coverage, st.just(1), some_paths, st.sampled_from(["whole", "none"]), st.just(""))
    | st.just(gap(scope=ALL)),
    max_size=12,
)


def said(record: Record, one: Kept) -> bool:
    """Whether a record says that a dependency may have changed."""
    if not isinstance(record, Mutation):
        return False
    named = [record.path] if record.source is None else [record.path, record.source]
    return any(touches(one.dep, one.real, name, structural=record.kind in STRUCTURAL) for name in named)


@settings(deadline=None, max_examples=300)
@given(logs, st.lists(path_deps(), min_size=1, max_size=4), st.lists(some_paths, min_size=1), st.data())
def test_the_newest_of_all_is_found_as_by_looking_at_all(
    log: list[Record], deps: list[Kept], places: list[bytes], data: st.DataObject
) -> None:
    """In one transaction or in many, read while it is written or afterwards, and with the oldest records trimmed."""
    cuts = data.draw(st.lists(st.integers(0, len(log)), max_size=3).map(sorted))
    keep = data.draw(st.integers(1, len(log) + 1))
    held = dict(enumerate(log, 1))

    def compare(view: Any) -> None:
        for one in deps:
            assert view.newest_mutation(one) == max((n for n, r in held.items() if said(r, one)), default=None)
        gap_all = max((n for n, r in enumerate(log, 1) if isinstance(r, Gap) and r.scope == ALL), default=0)
        gaps = [(n, r.scope) for n, r in held.items() if isinstance(r, Gap) and r.scope != ALL]
        gaps += [(n, r.path) for n, r in held.items() if isinstance(r, Coverage)]
        for path in places:
            here = max([gap_all, *(n for n, scope in gaps if is_under(path, scope))])
            assert view.newest_gap(path) == here
            assert view.newest_gap(path, below=True) == max([here, *(n for n, scope in gaps if is_under(scope, path))])
            inside = [n for n, scope in gaps if scope != b"/" and (scope.rpartition(b"/")[0] or b"/") == path]
            assert view.newest_gap(path, inside=True) == max([here, *inside])

    def last(writer: Writer) -> None:
        compare(writer)
        before = writer.wrote
        writer.finish()
        assert writer.wrote == before, "what another command left is not this one's"
        compare(writer)

    with scratch() as store:
        for begin, end in zip([0, *cuts], [*cuts, len(log)], strict=True):
            store.run(appending(*log[begin:end]))
        store.run(last)
        store.run(lambda writer: writer.trim(keep, 0))
        held = {n: r for n, r in held.items() if n > len(log) - keep}
        with store.view() as view:
            compare(view)
            assert view.oldest() == min(held, default=0)
        store.run(lambda writer: [writer.trim(1, 0), writer.append(gap(scope=b"/"))])
        store.run(lambda writer: writer.trim(1, 0))
        with store.view() as view:
            assert (view.count("touched"), view.count("gaps")) == (0, 1), "what is trimmed leaves no row behind"


def test_what_is_written_in_a_group_is_seen_by_the_commands_after_it(directory: str) -> None:
    with opened(directory) as store:

        def command(writer: Writer) -> None:
            writer.append(mutation(b"/r/a/f"))
            assert writer.newest_mutation(kept(b"glob:/r/a/*")) == 1
            writer.append(mutation(b"/r/a/f"))
            assert writer.newest_mutation(kept(b"tree:/r")) == 2

        store.run(command)
        with store.view() as view:
            assert view.newest_mutation(kept(b"glob:/r/a/*")) == 2


def test_a_crashed_transaction_leaves_nothing_in_the_index(directory: str) -> None:
    def crash(writer: Writer) -> None:
        writer.append(mutation(b"/r/f"))
        writer.append(gap(scope=b"/r/f"))
        raise ZeroDivisionError

    with opened(directory) as store:
        with pytest.raises(ZeroDivisionError):
            store.run(crash)
        with store.view() as view:
            assert view.newest_mutation(kept(b"file:/r/f")) is None
            assert view.newest_gap(b"/r/f") == 0


@pytest.mark.parametrize(
    ("text", "kind", "touched"),
    [
        (b"dir:/r/d", MutationKind.MODIFIED, False),
        (b"dir:/r/d", MutationKind.ATTRIB, False),
        (b"dir:/r/d", MutationKind.CREATED, True),
        (b"names:/r/d/*", MutationKind.MODIFIED, False),
        (b"names:/r/d/*", MutationKind.DELETED, True),
        (b"glob:/r/d/*", MutationKind.MODIFIED, True),
        (b"glob:/r/d/*", MutationKind.ATTRIB, True),
        (b"glob:/r/d/*.py", MutationKind.MODIFIED, False),
        (b"tree:/r/d", MutationKind.ATTRIB, True),
        (b"file:/r/d", MutationKind.CREATED, False),
    ],
)
@pytest.mark.parametrize("of_format_2", [False, True])
def test_a_member_counts_where_it_is_part_of_what_the_set_is(
    text: bytes, kind: MutationKind, touched: bool, of_format_2: bool
) -> None:
    with scratch() as store:
        store.run(appending(mutation(b"/r/d/f", kind)))
        if of_format_2:  # rows repeated the path that is their key
            with store.environment.env.begin(write=True, db=store.environment.tables["touched"]) as txn:
                for path, row in list(txn.cursor()):
                    txn.put(path, row + path)
        with store.view() as view:
            assert (view.newest_mutation(kept(text)) is not None) == touched


def test_where_a_thing_was_moved_from_is_touched_too(directory: str) -> None:
    with opened(directory) as store:
        store.run(appending(mutation(b"/r/new/x", MutationKind.MOVED, b"/r/old/x")))
        with store.view() as view:
            for text in (b"file:/r/old/x", b"file:/r/old/x/deep", b"dir:/r/old", b"names:/r/old/*", b"dir:/r/new"):
                assert view.newest_mutation(kept(text)) == 1
            assert view.newest_mutation(kept(b"dir:/r")) is None


def test_a_touch_has_the_declared_write_and_the_observed_one(directory: str) -> None:
    one = kept(b"file:/r/f")
    with opened(directory) as store:
        store.run(appending(mutation(b"/r/f"), mutation(b"/r/f")))
        with store.view() as view:
            assert view.touch(one) == Touch(0, None, 2)
        store.run(lambda w: w.put_path(PathState(b"/r", 1, 9)))
        with store.view() as view:
            assert view.touch(one) == Touch(1, 9, 2)
        store.run(lambda w: w.put_path(PathState(b"/r", 1, 9, (7,))))
        with store.view() as view:
            assert view.touch(one) == Touch(None, 7, 2)


def test_the_digest_that_came_later_is_found_for_the_newest_mutation_alone(directory: str) -> None:
    first, second = mutation(b"/r/f"), mutation(b"/r/f")
    superseded = Hashed(1, 1, b"/r/f", None, DigestState.SUPERSEDED)
    with opened(directory) as store:
        store.run(appending(first, second, superseded, Hashed(1, 2, b"/r/f", DONE, DigestState.DONE)))
        with store.view() as view:
            assert view.hashed(2, second) == 4
            assert view.hashed(1, first) is None
        store.run(appending(mutation(b"/r/f"), Hashed(1, 2, b"/r/f", DONE, DigestState.DONE)))
        with store.view() as view:
            assert view.hashed(2, second) is None, "it is not the newest any more"
            assert view.hashed(5, first) is None, "not hashed yet, and an older digest is none of it"


def test_a_gap_or_a_mutation_on_the_way_ends_the_silence(directory: str) -> None:
    hops = (b"/r", b"/r/link", b"/r/d", b"/r/d/f")
    one = kept(b"file:/r/link/f", b"/r/d/f")
    cases: list[tuple[Record, bool]] = [
        (gap(scope=b"/r"), False),
        (gap(scope=b"/"), False),
        (gap(scope=ALL), False),
        (gap(scope=b"/r/d/f"), False),
        (mutation(b"/r/link"), False),
        (mutation(b"/r/d", MutationKind.ATTRIB), False),
        (gap(scope=b"/r/d/other"), True),
        (mutation(b"/r/d/other"), True),
        (mutation(b"/r/link2"), True),
    ]
    for record, quiet in cases:
        with scratch() as store:
            store.run(appending(gap(scope=b"/elsewhere"), record))
            with store.view() as view:
                assert view.is_whole_since(one, hops, 1) == quiet, record
                assert view.is_whole_since(one, hops, 2)


@pytest.mark.parametrize(("scope", "listing"), [(b"/r/d/below/deep", True), (b"/r/d/below", False)])
def test_a_gap_below_concerns_what_is_deep_and_one_of_a_name_its_listing(
    directory: str, scope: bytes, listing: bool
) -> None:
    """Something may be mounted over the name, which is of another type then."""
    with opened(directory) as store:
        store.run(appending(gap(scope=scope)))
        with store.view() as view:
            for text, quiet in ((b"dir:/r/d", listing), (b"tree:/r/d", False), (b"glob:/r/d/*", False)):
                assert view.is_whole_since(kept(text, b"/r/d"), (b"/r", b"/r/d"), 0) == quiet


def _filled(store: Store, count: int) -> None:
    names = [b"/r/d%d/f%d" % (n % 100, n) for n in range(count)]
    store.run(appending(*(mutation(name) for name in names)))


def test_a_question_about_a_big_tree_looks_at_few_rows(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(directory) as store:
        _filled(store, 20_000)
        looked: list[bytes] = []
        with store.view() as view:
            get = view._get

            def counting(table: str, key: bytes) -> bytes | None:
                looked.append(key)
                return get(table, key)

            monkeypatch.setattr(view, "_get", counting)
            monkeypatch.setattr(view, "_rows", None)  # a tree and a listing need no scan
            assert view.newest_mutation(kept(b"tree:/r")) == 20_000
            assert view.newest_mutation(kept(b"dir:/r")) is None
        assert len(looked) < 20


def test_a_member_may_lie_deeper_than_a_stack_has_frames(directory: str) -> None:
    deep = b"/r" + b"/a" * 2000
    with opened(directory) as store:
        [position] = store.run(appending(mutation(deep + b"/x.py")))
        with store.view() as view:
            assert view.newest_mutation(kept(b"glob:/r/**/*.py")) == position
            assert view.newest_mutation(kept(b"glob:/r/*/*.py")) is None


def test_many_gaps_below_a_directory_are_one_look(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(directory) as store:
        positions = store.run(appending(*(gap(scope=b"/r/d/%d" % n) for n in range(100))))
        with store.view() as view:
            monkeypatch.setattr(view, "_rows", None)
            assert view.newest_gap(b"/r", below=True) == positions[-1]
            assert view.newest_gap(b"/r", inside=True) == 0
            assert view.newest_gap(b"/r/d", inside=True) == positions[-1]


class CountingCursor:
    """A cursor that counts the rows that are looked at."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self.looked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def item(self) -> Any:
        self.looked += 1
        return self._cursor.item()


def test_a_pattern_passes_over_directories_in_which_nothing_newer_happened(directory: str) -> None:
    some = [mutation(b"/r/d%d/e/f%d" % (d, f)) for d in range(20) for f in range(50)]
    with opened(directory) as store:
        store.run(appending(*some))
        [_, newest] = store.run(appending(mutation(b"/r/d7/e/x"), mutation(b"/r/d7/e/f3")))
        with store.view() as view:
            real = view._txn.cursor
            cursors: list[CountingCursor] = []

            class Counting:
                def cursor(self, db: Any) -> CountingCursor:
                    cursors.append(CountingCursor(real(db=db)))
                    return cursors[-1]

                get = view._txn.get

            view._txn = Counting()  # type: ignore[assignment]
            assert view.newest_mutation(kept(b"glob:/r/**/f*"), len(some)) == newest
            assert sum(cursor.looked for cursor in cursors) < 2 * 20 + 60


def test_a_member_whose_path_is_longer_than_a_key_is_known_by_its_whole_path() -> None:
    deep = b"/r/" + b"d" * 200 + b"/" + b"e" * 200
    with scratch() as store:
        store.run(appending(mutation(deep + b"/" + b"f" * 200 + b".py"), mutation(deep + b"/" + b"f" * 200 + b".md")))
        with store.view() as view:
            found = [view.newest_mutation(kept(b"glob:" + deep + end)) for end in (b"/*.py", b"/*.md", b"/*.rs")]
            assert found == [1, 2, None]
