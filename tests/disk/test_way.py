"""The names that are looked up on the way to a path, as the system does it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_help import Link, build, place

from provd.disk.way import Route, route_of


@pytest.fixture
def home() -> Iterator[bytes]:
    """A directory whose own way has no links."""
    with place() as path:
        yield os.path.realpath(path)


def below(home: bytes, route: Route) -> list[bytes]:
    """The hops below `home`, relative to it; those above are all of them, in order."""
    above = [hop for hop in route.hops if not hop.startswith(home + b"/")]
    parts = home.split(b"/")
    whole = [b"/".join(parts[:n]) for n in range(2, len(parts) + 1)]
    assert above[: len(whole)] == whole
    return [hop[len(home) + 1 :] for hop in route.hops if hop.startswith(home + b"/")]


TREE: Any = {
    b"a": {b"f": b"1", b"up": Link(b".."), b"side": Link(b"../b/g")},
    b"b": {b"g": b"2", b"abs": Link(b"/nowhere/else")},
    b"l": Link(b"a"),
    b"ll": Link(b"l"),
    b"round": Link(b"round"),
    b"dangling": Link(b"a/none/deeper"),
}


@pytest.mark.parametrize(
    ("path", "hops", "at", "there"),
    [
        (b"a/f", [b"a", b"a/f"], b"a/f", True),
        (b"a/./f", [b"a", b"a/f"], b"a/f", True),
        (b"a//f", [b"a", b"a/f"], b"a/f", True),
        (b"a", [b"a"], b"a", True),
        (b"l/f", [b"l", b"a", b"a/f"], b"a/f", True),
        (b"ll/f", [b"ll", b"l", b"a", b"a/f"], b"a/f", True),
        (b"ll/../b/g", [b"ll", b"l", b"a", b"b", b"b/g"], b"b/g", True),
        (b"a/side", [b"a", b"a/side", b"b", b"b/g"], b"b/g", True),
        (b"a/up/b", [b"a", b"a/up", b"b"], b"b", True),
        (b"none", [b"none"], b"none", False),
        (b"none/deeper", [b"none"], b"none", False),
        (b"dangling", [b"dangling", b"a", b"a/none"], b"a/none", False),
        (b"a/f/x", [b"a", b"a/f"], b"a/f", False),
    ],
)
def test_each_name_is_told_in_its_real_directory(
    home: bytes, path: bytes, hops: list[bytes], at: bytes, there: bool
) -> None:
    build(home, TREE)
    route = route_of(home + b"/" + path)
    assert below(home, route) == hops
    assert (route.at, route.there) == (home + b"/" + at, there)


def test_a_link_to_elsewhere_leads_over_all_names_there(home: bytes) -> None:
    build(home, {b"l": Link(b"/nowhere/else")})
    route = route_of(home + b"/l")
    assert route.hops[-2:] == (home + b"/l", b"/nowhere")
    assert (route.at, route.there) == (b"/nowhere", False)


def test_a_link_to_itself_ends(home: bytes) -> None:
    build(home, {b"round": Link(b"round")})
    route = route_of(home + b"/round")
    assert not route.there
    assert set(below(home, route)) == {b"round"}


def test_forty_links_are_followed_and_no_more(home: bytes) -> None:
    build(home, {b"0": b"x"} | {b"%d" % n: Link(b"%d" % (n - 1)) for n in range(1, 42)})
    assert route_of(home + b"/40").at == home + b"/0"
    assert not route_of(home + b"/41").there


def test_what_cannot_be_seen_raises(home: bytes) -> None:
    with pytest.raises(OSError, match="too long"):
        route_of(home + b"/" + b"x" * 300)


names = st.sampled_from([b"a", b"b", b"c", b"..", b".", b""])
paths = st.lists(names, min_size=1, max_size=5).map(b"/".join)
targets = st.builds(Link, paths.filter(bool) | paths.map(lambda path: b"./" + path))
trees = st.recursive(
    st.just(b"") | targets, lambda below: st.dictionaries(st.sampled_from([b"a", b"b", b"c"]), below, max_size=3)
)


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.sampled_from([b"a", b"b", b"c"]), trees), st.lists(paths, min_size=1, max_size=5))
def test_it_ends_where_the_system_ends(tree: Any, asked: list[bytes]) -> None:
    with place() as made:
        home = os.path.realpath(made)
        build(home, tree)
        for path in asked:
            full = home + b"/" + path
            route = route_of(full)
            assert route.at in {*route.hops, home, *(os.path.dirname(hop) for hop in route.hops)}
            try:
                there: os.stat_result | None = os.stat(full)
            except OSError:
                there = None
            if there is not None:
                assert route.there
                assert os.path.samestat(os.lstat(route.at), there)
            assert route.at == os.path.realpath(route.at) or not route.there
