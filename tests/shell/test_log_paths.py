"""Which records concern the paths that `log.since` is asked about: what the definition says, however many there are."""

from __future__ import annotations

import itertools

import pytest

from provd.core.dependency import is_under
from provd.disk import Route
from provd.pages import Named

NAMES = [b"/", b"/a", b"/a/b", b"/a/b/c", b"/ab", b"/a/bc", b"/x", b"/x/y", b"/x/y/z"]


@pytest.mark.parametrize("asked", [*itertools.combinations(NAMES, 1), *itertools.combinations(NAMES, 2)])
def test_a_record_concerns_what_it_names_what_is_below_it_and_ways_through_it(asked: tuple[bytes, ...]) -> None:
    hop, at = b"/w/link", b"/x/y"
    named = Named(dict.fromkeys(asked, Route((hop,), at, there=True)))
    for path in [*NAMES, b"/w", b"/w/link", b"/w/link/below", b"/w/other"]:
        wanted = is_under(hop, path) or any(is_under(path, p) or is_under(p, path) for p in (*asked, at))
        assert named.concerns(path) is wanted, path


def test_without_a_way_the_paths_alone_count() -> None:
    named = Named({b"/a/b": None})
    assert [named.concerns(p) for p in (b"/a", b"/a/b", b"/a/b/c", b"/a/bc", b"/b")] == [True, True, True, False, False]
