"""Entries, and what rests on what: indexes tell the truth."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storing import ANY_DEPS, ONE, SCOPE, entry, kept, opened, put, scratch, small_keys, some_paths

from provd.core.dependency import Kind, Member, touches
from provd.core.entry import Entry, EntryId, Kept, Standing
from provd.store import Touching, Writer
from provd.store.keys import Stored
from provd.store.touching import ALL

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture
def directory(tmp_path: Any) -> str:
    """Where a store may be made."""
    return os.path.join(tmp_path, "store")


def keys_of(entries: Sequence[Entry | EntryId]) -> set[str]:
    return {(one if isinstance(one, EntryId) else one.id).key for one in entries}


# entries


def test_an_entry_comes_back_with_its_value_and_its_members(directory: str) -> None:
    one = entry("k", kept(b"dir:d", digest=ONE), kept(b"a\xff", digest="absent"))
    held = (Member("f", b"\xff", b"1"), Member("d", b"x", b""))
    with opened(directory) as store:
        store.run(lambda writer: writer.put_entry(one, Stored(b'{"a":1}', b"{}"), {0: held}))
    with opened(directory) as store, store.view() as view:
        assert view.entry(one.id) == one
        assert view.stored(one.id) == Stored(b'{"a":1}', b"{}")
        assert view.members(one.id, 0) == held
        assert view.members(one.id, 1) is None
        assert list(view.all_entries()) == [one]
        assert view.entry(EntryId(b"/s", "k")) is None
        assert view.stored(EntryId(b"/s", "k")) == Stored(None, None)


def test_one_key_in_two_scopes_is_two_entries(directory: str) -> None:
    with opened(directory) as store:
        store.run(lambda w: put(w, entry("k", version=1, scope=b"/a"), entry("k", version=2, scope=b"=a")))
        with store.view() as view:
            assert [view.entry(EntryId(scope, "k")).version for scope in (b"/a", b"=a")] == [1, 2]  # type: ignore[union-attr]


def test_a_value_that_stays_and_members_of_dependencies_that_went(directory: str) -> None:
    old = entry("k", kept(b"dir:d", digest=ONE), kept(b"dir:e", digest=ONE))
    new = msgspec.structs.replace(old, deps=(kept(b"dir:f", digest=ONE),), renewed=9)
    with opened(directory) as store:
        store.run(lambda w: w.put_entry(old, Stored(b"1", None), {0: (), 1: ()}))
        store.run(lambda w: w.put_entry(new, None, {}))
        with store.view() as view:
            assert view.stored(old.id) == Stored(b"1", None)
            assert [view.members(old.id, n) for n in range(2)] == [None, None]
            assert (view.count("paths"), view.count("members")) == (1, 0), "no row is left behind"
            assert [keys_of(view.on_path(p)) for p in (b"/r/d", b"/r/e", b"/r/f")] == [set(), set(), {"k"}]


def test_precedents_are_kept_in_order(directory: str) -> None:
    with opened(directory) as store:

        def command(writer: Writer) -> None:
            for n in (300, 1, 70_000):
                old = msgspec.structs.replace(entry("k", version=n), standing=Standing.REVOKED)
                writer.archive(old, "superseded", Stored(b"%d" % n, None))

        store.run(command)
        with store.view() as view:
            told = list(view.archived(EntryId(SCOPE, "k")))
            assert [(a.entry.version, a.reason, a.value) for a in told] == [
                (1, "superseded", b"1"),
                (300, "superseded", b"300"),
                (70_000, "superseded", b"70000"),
            ]
            assert list(view.archived(EntryId(SCOPE, "other"))) == []


def test_forgetting_leaves_no_row_behind(directory: str) -> None:
    one = entry("k", kept(b"dir:d", b"/real/d", digest=ONE), kept(b"object:o"), kept(b"entry:e"), kept(b"a"))
    with opened(directory) as store:
        store.run(lambda w: w.put_entry(one, Stored(b"1", b"{}"), {0: (Member("f", b"x", b""),)}))
        store.run(lambda w: w.archive(one, "late", Stored(None, None)))
        store.run(lambda w: w.forget(one.id))
        with store.view() as view:
            tables = ("entries", "values", "archive", "members", "paths", "others")
            assert {table: view.count(table) for table in tables} == dict.fromkeys(tables, 0)


LONG: Final = ["x" * 1024, "x" * 1023 + "y", "x" * 470, "x" * 471, "x" * 469, "\u00e4" * 512, "x"]


def test_keys_as_long_as_the_limit_are_kept_apart(directory: str) -> None:
    with opened(directory) as store:
        store.run(lambda w: put(w, *(entry(key, version=n) for n, key in enumerate(LONG))))
        with store.view() as view:
            for n, key in enumerate(LONG):
                found = view.entry(EntryId(SCOPE, key))
                assert found is not None
                assert (found.version, found.id.key) == (n, key)
            assert keys_of(view.entries(SCOPE, "x" * 471, None, 100)) == {"x" * 471, "x" * 1024, "x" * 1023 + "y"}
            assert keys_of(view.entries(SCOPE, "x" * 1023, None, 100)) == {"x" * 1024, "x" * 1023 + "y"}
            assert keys_of(view.entries(SCOPE, "x" * 1025, None, 100)) == set()
        store.run(lambda w: w.forget(EntryId(SCOPE, "x" * 1024)))
        with store.view() as view:
            assert keys_of(view.entries(SCOPE, "", None, 100)) == set(LONG) - {"x" * 1024}


some_keys = st.one_of(
    st.text("ab\u00e4", min_size=1, max_size=4),
    st.tuples(st.sampled_from([468, 469, 470, 471, 1000]), st.text("ab", max_size=3)).map(lambda t: "a" * t[0] + t[1]),
)


@settings(deadline=None, max_examples=30)
@given(st.sets(some_keys, max_size=12), st.lists(st.tuples(some_keys | st.just(""), st.integers(1, 4)), max_size=6))
def test_listing_by_prefix_and_in_pages_tells_each_entry_once(keys: set[str], asked: list[tuple[str, int]]) -> None:
    with scratch() as store:
        store.run(lambda w: put(w, *(entry(key) for key in keys), entry("other", scope=b"/s"), entry("a", scope=b"=a")))
        with store.view() as view:
            for prefix, limit in [*asked, ("", 3)]:
                whole = [one.id.key for one in view.entries(SCOPE, prefix, None, 1000)]
                assert sorted(whole) == sorted(key for key in keys if key.startswith(prefix))
                assert [k.encode()[:470] for k in whole] == sorted(k.encode()[:470] for k in whole)
                paged: list[str] = []
                while page := view.entries(SCOPE, prefix, paged[-1] if paged else None, limit):
                    assert len(page) <= limit
                    paged += [one.id.key for one in page]
                assert paged == whole


def test_a_page_goes_on_after_a_key_that_is_gone(directory: str) -> None:
    with opened(directory) as store:
        store.run(lambda w: put(w, *(entry(key) for key in "abcd")))
        store.run(lambda w: w.forget(EntryId(SCOPE, "b")))
        with store.view() as view:
            assert [one.id.key for one in view.entries(SCOPE, "", "b", 10)] == ["c", "d"]
            assert view.entries(SCOPE, "", "d", 10) == []
            assert view.entries(b"/nowhere", "", None, 10) == []


# what rests on what


def test_paths_as_long_as_the_limit_are_found(directory: str) -> None:
    deep = b"/r" + b"/x" * 2047
    assert len(deep) == 4096
    twin = deep[:-1] + b"y"
    above = deep[:3000].rstrip(b"/")
    with opened(directory) as store:
        store.run(
            lambda w: put(
                w,
                entry("deep", kept(b"file:" + deep)),
                entry("twin", kept(b"file:" + twin)),
                entry("tree", kept(b"tree:" + above)),
                entry("names", kept(b"names:" + deep[:-1] + b"*")),
                entry("other", kept(b"file:/s" + deep[2:])),
            )
        )
        with store.view() as view:
            assert keys_of(view.on_path(deep)) == {"deep", "tree", "names"}
            assert keys_of(view.on_path(twin)) == {"twin", "tree", "names"}
            assert keys_of(view.on_path(above)) == {"deep", "twin", "tree", "names"}
            assert keys_of(view.on_path(above + b"/y")) == {"tree"}
            assert keys_of(view.on_path(b"/r")) == {"deep", "twin", "tree", "names"}
            assert keys_of(view.on_path(b"/")) == {"deep", "twin", "tree", "names", "other"}


changes = st.lists(st.tuples(small_keys, st.none() | st.lists(ANY_DEPS, max_size=4)), max_size=10)


@settings(deadline=None, max_examples=100)
@given(changes, st.lists(some_paths, min_size=1, max_size=8))
def test_what_rests_on_what_is_found_as_by_looking_at_all(
    history: list[tuple[str, list[Kept] | None]], written: list[bytes]
) -> None:
    """Entries are put, put again with other dependencies, and forgotten: the index follows."""
    model: dict[str, Entry] = {}
    with scratch() as store:

        def change(writer: Writer) -> None:
            for version, (key, deps) in enumerate(history, 1):
                if deps is None:
                    writer.forget(EntryId(SCOPE, key))
                    model.pop(key, None)
                else:
                    model[key] = entry(key, *deps, version=version)
                    put(writer, model[key])

        store.run(change)
        with store.view() as view:
            assert {one.id.key: one for one in view.all_entries()} == model
            deps = [k for one in model.values() for k in one.deps or ()]
            named = [k.dep.name for k in deps if k.dep.kind is Kind.FILE] + [k.real for k in deps if k.real]
            for path in [*written, *named, b"/"]:
                on = {
                    key
                    for key, one in model.items()
                    if any(k.dep.name[:1] == b"/" and touches(k.dep, k.real, path) for k in one.deps or ())
                }
                assert sorted(one.key for one in view.on_path(path)) == sorted(on), "each once"
            for name in (b"x", b"y", b"z"):
                on = {k for k, one in model.items() if any(d.dep.text == b"object:" + name for d in one.deps or ())}
                assert keys_of(Touching([name], deep=False).take(view, ALL)[0]) == on
            for ground in (EntryId(SCOPE, key) for key in "klm"):
                assert view.on_entry(ground) == any(ground in one.entry_ids() for one in model.values())


@settings(deadline=None, max_examples=100)
@given(changes, st.lists(some_paths, max_size=3), st.integers(0, 3), st.booleans(), st.integers(1, 4))
def test_what_is_found_in_slices_is_what_is_found_at_once(
    history: list[tuple[str, list[Kept] | None]], written: list[bytes], many: int, structural: bool, steps: int
) -> None:
    leaves = set(written[:many])
    model = {key: entry(key, *deps) for key, deps in history if deps is not None}
    on = {
        key
        for key, one in model.items()
        for d in one.deps or ()
        if d.dep.text == b"object:x"
        or (
            d.dep.name[:1] == b"/"
            and any(touches(d.dep, d.real, path, structural=structural, leaf=path in leaves) for path in written)
        )
    }
    while more := {key for key, one in model.items() if any(i.key in on for i in one.entry_ids())} - on:
        on |= more
    with scratch() as store:
        store.run(lambda writer: put(writer, *model.values()))
        touching = Touching([b"x"], written, structural=structural, leaves=leaves)
        found: list[EntryId] = []
        while not touching.done:
            with store.view() as view:
                some, left = touching.take(view, steps)
            assert len(some) <= steps
            assert left < steps
            found += some
        assert sorted(one.key for one in found) == sorted(on), "each once"


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 100])
def test_slices_end_within_one_path_and_go_on_there(directory: str, steps: int) -> None:
    """Long keys lie in the index cut short; of paths that were cut, only those are meant that were written."""
    long, deep = "k" * 600, b"/r/" + b"d" * 600
    some = [
        *(entry(f"{n}", kept(b"file:/r/f")) for n in range(10)),
        *(entry(f"{long}{n}", kept(b"file:/r/f"), kept(b"file:/r/f/g")) for n in range(3)),
        *(entry(f"below{n}", kept(b"file:/r/f/%d" % (n % 2))) for n in range(5)),
        *(entry(f"above{n}", kept(b"tree:/r")) for n in range(3)),
        *(entry(f"beside{n}", kept(b"file:/r/e"), kept(b"file:/r/f0"), kept(b"dir:/r/g")) for n in range(3)),
        entry("deep", kept(b"file:" + deep + b"x")),
        entry("deeper", kept(b"file:" + deep + b"x/y")),
        entry("twin", kept(b"file:" + deep + b"y")),
    ]
    with opened(directory) as store:
        store.run(lambda writer: put(writer, *some))
        for path, expected in (
            (b"/r/f", {one.id for one in some[:21]}),
            (deep + b"x", {one.id for one in some if one.id.key in {"deep", "deeper", "above0", "above1", "above2"}}),
        ):
            touching, found = Touching(paths=[path], structural=True), []
            with store.view() as view:
                while not touching.done:
                    found += touching.take(view, steps)[0]
            assert sorted(i.key for i in found) == sorted(i.key for i in expected)


def test_below_what_is_no_directory_no_pattern_matches(directory: str) -> None:
    with opened(directory) as store:
        store.run(lambda writer: put(writer, entry("k", kept(b"glob:/r/*/x")), entry("l", kept(b"glob:/r/*"))))
        with store.view() as view:
            for leaves, on in ((set(), {"k", "l"}), ({b"/r/f"}, {"k", "l"}), ({b"/r/f", b"/r/g"}, {"l"})):
                touching = Touching(paths=[b"/r/f", b"/r/g"], leaves=leaves)
                assert keys_of(touching.take(view, ALL)[0]) == on


def test_what_is_put_and_forgotten_between_two_slices(directory: str) -> None:
    some = [entry(f"{n}", kept(b"file:/r/f")) for n in range(6)]
    with opened(directory) as store:
        store.run(lambda writer: put(writer, *some))
        touching = Touching(paths=[b"/r/f"])
        with store.view() as view:
            first = touching.take(view, 3)[0]
        assert first == [one.id for one in some[:3]]

        def change(writer: Writer) -> None:
            for one in some[1:4]:
                writer.forget(one.id)
            put(writer, entry("1", kept(b"file:/r/f")), entry("45", kept(b"file:/r/f")))

        store.run(change)
        with store.view() as view:
            assert keys_of(touching.take(view, ALL)[0]) == {"4", "45", "5"}
        assert touching.done


def test_rows_that_must_be_decoded_count_by_their_length(directory: str) -> None:
    def wide(number: int) -> Entry:
        files = [kept(b"file:/elsewhere/%d" % other) for other in range(400)]
        return entry(f"{number:02}", kept(b"glob:/r/*.py"), *files)

    some = [wide(number) for number in range(40)]
    with opened(directory) as store:
        store.run(lambda writer: put(writer, *some))
        touching = Touching(paths=[b"/r/a.py"])
        found: list[EntryId] = []
        with store.view() as view:
            while not touching.done:
                more, _ = touching.take(view, 128)
                found += more
                assert len(more) <= 2
        assert found == [one.id for one in some]


def test_the_limit_counts_what_rests_on_a_write_at_any_depth(directory: str) -> None:
    chain = [entry("000", kept(b"object:x")), *(entry(f"{n:03}", kept(b"entry:%03d" % (n - 1))) for n in range(1, 200))]
    with opened(directory) as store:
        store.run(lambda w: put(w, *chain))
        with store.view() as view:
            assert view.touched([b"x"], [], 1000) == [one.id for one in chain]
            assert view.touched([b"x", b"x"], [], 50) == [one.id for one in chain[:50]]
            assert view.touched([b"y"], [b"/r"], 1000) == []


def test_a_ring_of_dependents_ends(directory: str) -> None:
    with opened(directory) as store:
        store.run(lambda w: put(w, entry("k", kept(b"entry:l"), kept(b"object:x")), entry("l", kept(b"entry:k"))))
        with store.view() as view:
            assert {i.key for i in view.touched([b"x"], [], 100)} == {"k", "l"}


def test_the_same_words_mean_another_path_where_a_link_leads_elsewhere(directory: str) -> None:
    here, there = kept(b"file:link", digest=ONE, real=b"/r/here"), kept(b"file:link", digest=ONE, real=b"/r/there")
    with opened(directory) as store:
        store.run(lambda w: put(w, entry("h", here), entry("t", there), entry("both", here, there)))
        with store.view() as view:
            assert keys_of(view.on_path(b"/r/here")) == {"h", "both"}
            assert keys_of(view.on_path(b"/r/there")) == {"t", "both"}
            assert keys_of(view.on_path(b"/r/link")) == {"h", "t", "both"}
