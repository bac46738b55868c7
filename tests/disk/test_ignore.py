"""Ignore rules: what they leave out of sets, and that they never hide what was named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from reading_help import place, read, types_of, write

from provd.disk import IgnoreRules
from provd.ignoring import DEFAULT_PATTERNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@pytest.fixture
def here() -> Iterator[bytes]:
    """A project with a repository in it."""
    with place() as path:
        for name in (
            b".git/refs/heads/main",
            b".git/HEAD",
            b"src/a.py",
            b"src/a.o",
            b"build/out.py",
            b"src/build/b.py",
        ):
            write(path + b"/" + name, name)
        yield path


def found_in(rules: IgnoreRules, kind: str, path: bytes) -> tuple[list[bytes], int]:
    """The members of a set that are no directories, and how many names were left out."""
    found = read(kind, path, rules=rules)
    return sorted(name for name, sort in types_of(found).items() if sort != "d"), found.ignored


def test_the_repository_is_left_out_by_default_and_counts_as_one(here: bytes) -> None:
    members, ignored = found_in(IgnoreRules(), "tree:", here)
    assert members == [b"build/out.py", b"src/a.o", b"src/a.py", b"src/build/b.py"]
    assert ignored == 1
    assert found_in(IgnoreRules([(here, DEFAULT_PATTERNS)]), "tree:", here) == (members, 1)


def test_a_repository_further_down_is_left_out_too(here: bytes) -> None:
    write(here + b"/src/module/.git/HEAD")
    assert found_in(IgnoreRules(), "tree:", here + b"/src")[1] == 1


def test_a_file_called_like_the_repository_stays(here: bytes) -> None:
    write(here + b"/src/.git", b"gitdir: elsewhere")
    assert found_in(IgnoreRules(), "tree:", here + b"/src") == ([b".git", b"a.o", b"a.py", b"build/b.py"], 0)


@pytest.mark.parametrize(
    ("name", "members"), [(b".git", [b"HEAD", b"refs/heads/main"]), (b".git/refs", [b"heads/main"])]
)
def test_what_is_named_in_an_ignored_place_is_read_whole(here: bytes, name: bytes, members: list[bytes]) -> None:
    for rules in (IgnoreRules(), IgnoreRules([(here, [".git/", "*"])])):
        assert found_in(rules, "tree:", here + b"/" + name) == (members, 0)
        assert found_in(rules, "glob:", here + b"/" + name + b"/**") == (members, 0)


def test_patterns_are_those_of_gitignore_relative_to_the_root(here: bytes) -> None:
    cases: list[tuple[Sequence[str], list[bytes], int]] = [
        ([".git/", "*.o"], [b"build/out.py", b"src/a.py", b"src/build/b.py"], 2),
        ([".git/", "/build/"], [b"src/a.o", b"src/a.py", b"src/build/b.py"], 2),
        ([".git/", "build"], [b"src/a.o", b"src/a.py"], 3),
        ([".git/", "src/*", "!src/a.py"], [b"build/out.py", b"src/a.py"], 3),
        (["# all but", "", "/*", "!/src"], [b"src/a.o", b"src/a.py", b"src/build/b.py"], 2),
        ([], [b".git/HEAD", b".git/refs/heads/main", b"build/out.py", b"src/a.o", b"src/a.py", b"src/build/b.py"], 0),
    ]
    for patterns, members, ignored in cases:
        assert found_in(IgnoreRules([(here, patterns)]), "tree:", here) == (members, ignored), patterns


def test_patterns_of_the_root_hold_for_sets_further_down(here: bytes) -> None:
    rules = IgnoreRules([(here, ["/src/build/", "/a.py"])])
    assert found_in(rules, "tree:", here + b"/src") == ([b"a.o", b"a.py"], 1)


def test_the_innermost_root_decides(here: bytes) -> None:
    rules = IgnoreRules([(here, ["*.py"]), (here + b"/src", ["*.o"])])
    assert found_in(rules, "tree:", here + b"/src")[0] == [b"a.py", b"build/b.py"]
    assert found_in(rules, "tree:", here + b"/build")[0] == []


def test_globs_and_names_count_only_what_they_would_have_held(here: bytes) -> None:
    rules = IgnoreRules([(here, [".git/", "*.o", "build/"])])
    assert found_in(rules, "glob:", here + b"/src/*.py") == ([b"a.py"], 0)
    assert found_in(rules, "names:", here + b"/src/*.o") == ([], 1)
    assert found_in(rules, "names:", here + b"/**/*.py") == ([b"src/a.py"], 2)
    assert found_in(rules, "names:", here + b"/*/HEAD") == ([], 1)  # build; .git has a leading dot
    assert found_in(rules, "names:", here + b"/.*/HEAD") == ([], 1)


def test_a_directory_listing_leaves_nothing_out(here: bytes) -> None:
    found = read("dir:", here, rules=IgnoreRules([(here, ["*"])]))
    assert sorted(types_of(found)) == [b".git", b"build", b"src"]
    assert found.ignored == 0


def test_the_daemons_own_places_are_left_out_under_every_root_and_outside(here: bytes) -> None:
    own = here + b"/src/build"
    for patterns in (DEFAULT_PATTERNS, [], ["*.o"]):
        rules = IgnoreRules([(here, patterns)], always=[own + b"/"])
        assert b"src/build/b.py" not in found_in(IgnoreRules(always=[own]), "tree:", here)[0]
        assert b"src/build/b.py" not in found_in(rules, "tree:", here)[0]
        assert found_in(rules, "tree:", own) == ([b"b.py"], 0)


def test_the_daemons_own_places_are_left_out_in_ignored_places_too(here: bytes) -> None:
    rules = IgnoreRules(always=[here + b"/.git/refs"])
    assert found_in(rules, "tree:", here + b"/.git") == ([b"HEAD"], 1)


def test_dots_and_slashes_in_a_base_do_not_hide_it_from_the_rules(here: bytes) -> None:
    rules = IgnoreRules([(here, ["/src/*.o"])])
    for path in (here + b"/./src", here + b"//src/", here + b"/build/../src"):
        assert found_in(rules, "tree:", path) == ([b"a.py", b"build/b.py"], 1)
    assert found_in(IgnoreRules(), "tree:", here + b"/src/../.git/./refs") == ([b"heads/main"], 0)


def test_names_that_are_no_text_can_be_ignored_and_kept(here: bytes) -> None:
    write(here + b"/odd/\xff.o")
    write(here + b"/odd/\xff.c")
    write(here + b"/odd/new\nline.c")
    assert found_in(IgnoreRules([(here, ["*.o"])]), "tree:", here + b"/odd") == ([b"new\nline.c", b"\xff.c"], 1)


def test_the_daemons_own_place_is_left_out_by_whatever_way_it_is_reached(tmp_path: Path) -> None:
    here = os.fsencode(os.path.realpath(tmp_path))
    os.makedirs(here + b"/real/w/state")
    os.makedirs(here + b"/real/w/other/state")
    os.symlink(b"real", here + b"/link")
    rules = IgnoreRules([], [here + b"/real/w/state"])

    for way in (b"/real/w", b"/link/w"):
        ignored = rules.for_set(here + way)
        assert ignored(here + way + b"/state", True)
        assert not ignored(here + way + b"/other/state", True)
