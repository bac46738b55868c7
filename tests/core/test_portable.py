"""Precedents as lines: what a line says, and that nothing is lost on the way there and back."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provd.core import errors, portable
from provd.core.dependency import Dependency, parse
from provd.core.entry import Entry, EntryId, Kept, Standing
from provd.core.portable import Precedent

ROOT: Final = b"/work/tree"
ONES: Final = "xxh3:" + "1" * 32


def token(position: int) -> str | None:
    return f"c:{'a' * 16}:{'b' * 16}:{position}" if position else None


def entry_of(*deps: Kept, scope: bytes = ROOT, **more: Any) -> Entry:
    fields: dict[str, Any] = {
        "id": EntryId(scope, "k"),
        "version": 7,
        "renewed": 9,
        "clock": 6,
        "deps": deps,
        "at": 12,
    } | more
    return Entry(**fields)


def carried(entry: Entry, moved: portable.Moved | None = None, **more: Any) -> tuple[EntryId, list[portable.Rested]]:
    """The key and the dependencies of an entry after its line was written and read."""
    told = portable.decode(portable.line(Precedent(entry, None, None, **more), token))
    root = portable.root_of(told)
    return portable.entry_id(told, root, moved), [portable.rested(dep, root, moved) for dep in told.deps or ()]


def line(**more: Any) -> bytes:
    told = {"root": "/r", "key": "k", "version": 1, "made": "c", "renewed": "c", "deps": []} | more
    return json.dumps(told).encode()


names = st.binary(min_size=1, max_size=12).map(
    lambda raw: raw.replace(b"\0", b"x").replace(b"[", b"y").replace(b":", b"z")
)
kinds = st.sampled_from([b"", b"file:", b"dir:", b"tree:", b"names:", b"glob:"])
roots = st.sampled_from([b"/", ROOT, b"/else/where", b"/odd\xff"])


@st.composite
def dependencies(draw: st.DrawFn) -> Dependency:
    """A path dependency as a put makes it: relative to any directory, or absolute."""
    text = draw(kinds) + draw(st.sampled_from([b"", b"/"])) + draw(names).lstrip(b"/") + b"x"
    return parse(text, draw(roots))


@given(st.lists(st.tuples(dependencies(), st.sampled_from([None, ONES, "absent"])), max_size=4), st.booleans(), roots)
def test_dependencies_come_back_as_they_were(
    deps: list[tuple[Dependency, str | None]], named: bool, scope: bytes
) -> None:
    kept = [
        Kept(dep, digest, shown=digest is not None and number % 2 == 0) for number, (dep, digest) in enumerate(deps)
    ]
    there, rested = carried(entry_of(*kept, scope=b"=name" if named else scope))
    assert there == EntryId(b"=name" if named else scope, "k")
    assert [one.kept for one in rested] == kept


def test_what_silence_proves_and_what_was_seen_of_a_file_is_no_part_of_a_line() -> None:
    kept = Kept(parse(b"a", ROOT), ONES, real=b"/real/a", proven=5)
    _, (rested,) = carried(entry_of(kept))
    assert rested.kept == Kept(kept.dep, ONES)


def test_an_entry_below_is_named_by_its_token() -> None:
    dep = parse(b"entry:base", None)
    _, rested = carried(entry_of(Kept(dep, version=4), Kept(dep, version=0), Kept(dep)))
    assert [(one.kept.version, one.made) for one in rested] == [(None, token(4)), (0, None), (None, None)]


def test_an_archived_precedent_says_why_it_is() -> None:
    archived = Precedent(entry_of(standing=Standing.REVOKED), b"1.00", b'{"m":1}', "late")
    told = json.loads(portable.line(archived, token), parse_float=str)
    assert (told["standing"], told["reason"], told["value"], told["meta"]) == ("revoked", "late", "1.00", {"m": 1})


def test_a_position_before_every_run_has_no_token() -> None:
    assert "clock" not in json.loads(portable.line(Precedent(entry_of(clock=0), None, None), token))


@pytest.mark.parametrize("word", [b"file", b"dir", b"names", b"glob", b"tree", b"object", b"entry", b"region"])
@pytest.mark.parametrize("kind", [b"", b"file:", b"tree:"])
def test_a_path_that_is_called_as_a_kind_is_a_path(word: bytes, kind: bytes) -> None:
    dep = parse(kind + word, ROOT)
    there, (rested,) = carried(entry_of(Kept(dep), scope=b"=name"))
    assert rested.kept.dep == dep
    there, (rested,) = carried(entry_of(Kept(dep)), MOVED)
    assert (there.scope, rested.kept.dep.kind, rested.kept.dep.name) == (MOVED[1], dep.kind, MOVED[1] + b"/" + word)


@pytest.mark.parametrize(
    "dep",
    [
        {"dep": "object:o", "path": "/a"},
        {"dep": "entry:e", "path": "/a"},
        {"dep": "bogus:e", "path": "/a"},
        {"dep": "a", "path": "relative"},
        {"dep": "a", "path": "/nul\0"},
    ],
)
def test_a_path_of_what_is_none_is_refused(dep: dict[str, str]) -> None:
    told = portable.decode(line(deps=[dep]))
    assert told.deps is not None
    with pytest.raises(errors.RequestError):
        portable.rested(told.deps[0], b"/r", None)


MOVED: Final = (ROOT, b"/new/place")


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        (b"src/a", b"/new/place/src/a", b"src/a"),
        (b"file:src/a", b"/new/place/src/a", b"file:src/a"),
        (b"tree:/work/tree/src", b"/new/place/src", b"tree:/new/place/src"),
        (b"/work/tree/a", b"/new/place/a", b"file:/new/place/a"),
        (b"tree:/work/tree", b"/new/place", b"tree:/new/place"),
        (b"glob:/work/tree/*.py", b"/new/place/*.py", b"glob:/new/place/*.py"),
        (b"glob:*.py", b"/new/place/*.py", b"glob:*.py"),
        (b"/work/treehouse/a", b"/work/treehouse/a", b"/work/treehouse/a"),
        (b"/usr/include", b"/usr/include", b"/usr/include"),
        (b"object:/work/tree", b"/work/tree", b"object:/work/tree"),
    ],
)
def test_what_lay_below_a_directory_lies_below_another(text: bytes, name: bytes, told: bytes) -> None:
    there, (rested,) = carried(entry_of(Kept(parse(text, ROOT))), MOVED)
    assert there.scope == b"/new/place"
    assert (rested.kept.dep.name, rested.kept.dep.text) == (name, told)


def test_other_scopes_stay_where_they_are() -> None:
    for scope in (b"=name", b"/work/treehouse", b"/"):
        there, _ = carried(entry_of(scope=scope), MOVED)
        assert there.scope == scope
    assert carried(entry_of(scope=b"/work/tree/inner"), MOVED)[0].scope == b"/new/place/inner"


def test_the_directory_of_all_may_move_too() -> None:
    there, (rested,) = carried(entry_of(Kept(parse(b"a", b"/")), scope=b"/"), (b"/", b"/chroot"))
    assert (there.scope, rested.kept.dep.name) == (b"/chroot", b"/chroot/a")


def test_what_is_special_in_patterns_is_not_in_the_new_directory() -> None:
    _, (rested,) = carried(entry_of(Kept(parse(b"glob:*.py", ROOT))), (ROOT, b"/new [1]*"))
    assert rested.kept.dep.name == b"/new [[]1][*]/*.py"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[1]",
        b"[" * 5000,
        b'{"a": NaN}',
        line(more=1),
        line(key="k")[:-1] + b',"deps":[]}',
        line(deps=[{"dep": "a"}]).replace(b'"dep"', b'"dep":"b","dep"'),
        line(root=None),
        line(scope="s"),
        line(deps=[{}]),
        line(deps=[{"dep": "a", "kept": "declared"}]),
        line(at="-1"),
        line(version=2**63),
    ],
)
def test_what_is_no_line_is_refused(raw: bytes) -> None:
    with pytest.raises(errors.InvalidParams) as caught:
        portable.decode(raw)
    assert caught.value.hint


@pytest.mark.parametrize("root", ["", "relative", "/a\0b"])
def test_a_root_that_is_no_absolute_path_is_refused(root: str) -> None:
    with pytest.raises(errors.InvalidParams):
        portable.root_of(portable.decode(line(root=root)))
