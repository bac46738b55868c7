"""`dir:`, `names:`, `glob:` and `tree:`: their members and their digests."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_help import Link, build, place, read, set_of, sha, types_of, without_privilege, write

from provd.core.glob import compile_pattern
from provd.core.reading import Found, Trouble
from provd.disk import IgnoreRules, sets

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_RULES = IgnoreRules([(b"/", [])])
EMPTY = set_of({})


@pytest.fixture
def here() -> Iterator[bytes]:
    """An empty directory."""
    with place() as path:
        yield path


names = st.one_of(
    st.sampled_from([b"a", b"b.py", b".hidden", b"a b", b"new\nline", b"\xff", b"\xc3\xa4", b"a.", b"A"]),
    st.binary(min_size=1, max_size=6).filter(lambda name: not {0, 47} & set(name) and name not in {b".", b".."}),
)
contents = st.binary(max_size=20)
links = st.sampled_from([b"a", b".", b"none", b"../a", b"a/b.py"]).map(Link)
trees = st.recursive(
    st.dictionaries(names, st.one_of(contents, links), max_size=4),
    lambda below: st.dictionaries(names, st.one_of(contents, links, below), max_size=4),
    max_leaves=12,
)


def walked(top: bytes) -> dict[bytes, tuple[str, bytes | None]]:
    """Everything below `top` with its type and what counts of it, found without the code under test."""
    members: dict[bytes, tuple[str, bytes | None]] = {}
    for directory, below, plain in os.walk(top):
        for name in below + plain:
            full = os.path.join(directory, name)
            relative = os.path.relpath(full, top)
            if os.path.islink(full):
                members[relative] = ("l", os.readlink(full))
            elif os.path.isdir(full):
                members[relative] = ("d", None)
            else:
                with open(full, "rb") as file:
                    members[relative] = ("f", file.read())
    return members


def without_contents(members: dict[bytes, tuple[str, bytes | None]]) -> dict[bytes, tuple[str, bytes | None]]:
    return {name: (kind, None) for name, (kind, _) in members.items()}


@settings(deadline=None)
@given(trees)
def test_a_tree_and_a_directory_have_the_digests_of_the_contract(tree: dict[bytes, Any]) -> None:
    with tempfile.TemporaryDirectory() as name:
        top = os.fsencode(name)
        build(top, tree)
        members = walked(top)
        assert read("tree:", top, rules=NO_RULES).digest == set_of(members)
        inside = {name: member for name, member in members.items() if b"/" not in name}
        assert read("dir:", top).digest == set_of(without_contents(inside))


@settings(deadline=None)
@given(trees, st.sampled_from([b"*", b"**", b"**/*.py", b"*/*", b".*", b"a/**", b"?", b"**/a", b"**/*/"]))
def test_patterns_have_the_digests_of_the_contract(tree: dict[bytes, Any], pattern: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        top = os.fsencode(name)
        build(top, tree)
        compiled = compile_pattern(top + b"/" + pattern)
        # Links into directories are in tests of their own: here no path leads through one.
        found = {
            path: member
            for path, member in walked(compiled.base).items()
            if compiled.matches(path) and (member[0] == "d" or not compiled.directories)
        }
        listed = read("names:", top + b"/" + pattern, rules=NO_RULES)
        assert listed.members is not None
        got = {
            member.name: (member.type, None)
            for member in listed.members
            if not (through_link(compiled.base, member.name) or (compiled.directories and member.type == "l"))
        }
        assert got == without_contents(found)
        contents = {path: member for path, member in found.items() if member[0] == "f"}
        read_too = read("glob:", top + b"/" + pattern, rules=NO_RULES)
        assert read_too.members is not None
        raw = {member.name: f"sha256:{member.raw.hex()}" for member in read_too.members if member.type == "f"}
        assert {path: raw[path] for path in contents} == {path: sha(kept[1] or b"") for path, kept in contents.items()}


def through_link(base: bytes, relative: bytes) -> bool:
    above = relative.split(b"/")[:-1]
    return any(os.path.islink(base + b"/" + b"/".join(above[: count + 1])) for count in range(len(above)))


def test_the_order_of_a_directory_does_not_matter(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    build(here, {b"%d" % number: {b"a": b"1", b"b": b"2"} for number in range(20)})
    kinds = ["tree:", "dir:"]
    before = [read(kind, here).digest for kind in kinds] + [read("glob:", here + b"/**").digest]
    real = os.scandir

    def backwards(path: bytes) -> contextlib.AbstractContextManager[Iterator[os.DirEntry[bytes]]]:
        with real(path) as entries:
            return contextlib.nullcontext(iter(sorted(entries, key=lambda entry: entry.name, reverse=True)))

    monkeypatch.setattr(os, "scandir", backwards)
    assert before == [read(kind, here).digest for kind in kinds] + [read("glob:", here + b"/**").digest]


def test_members_come_in_byte_order_of_their_whole_names(here: bytes) -> None:
    build(here, {b"a": {b"b": b""}, b"a.": b"", b"a-": b""})
    found = read("tree:", here)
    assert [member.name for member in found.members or ()] == [b"a", b"a-", b"a.", b"a/b"]


@pytest.mark.parametrize("kind", ["dir:", "tree:"])
def test_what_is_no_directory_is_absent(here: bytes, kind: str) -> None:
    build(here, {b"f": b"", b"dangling": Link(b"none"), b"loop": Link(b"loop")})
    for name in (b"none", b"none/below", b"f", b"f/below", b"dangling", b"loop"):
        assert read(kind, here + b"/" + name) == Found("absent")


@pytest.mark.parametrize("kind", ["names:", "glob:"])
@pytest.mark.parametrize("pattern", [b"none/*", b"none/x", b"f/*", b"f/x", b"loop/*", b"loop/x", b"dangling/**", b"x*"])
def test_a_pattern_without_matches_is_the_empty_set(here: bytes, kind: str, pattern: bytes) -> None:
    build(here, {b"f": b"", b"dangling": Link(b"none"), b"loop": Link(b"loop")})
    found = read(kind, here + b"/" + pattern)
    assert (found.digest, found.members) == (EMPTY, ())


def test_a_pattern_without_a_wildcard_is_the_set_of_one_name(here: bytes) -> None:
    build(here, {b"f": b"x", b"d": {}})
    assert read("glob:", here + b"/f").digest == set_of({b"f": ("f", b"x")})
    assert read("names:", here + b"/d").digest == set_of({b"d": ("d", None)})


def test_a_tree_follows_its_own_path_and_no_link_below(here: bytes) -> None:
    build(here, {b"real": {b"f": b"x", b"up": Link(b".."), b"dangling": Link(b"none")}, b"link": Link(b"real")})
    expected = {b"f": ("f", b"x"), b"up": ("l", b".."), b"dangling": ("l", b"none")}
    assert read("tree:", here + b"/link").digest == set_of(expected)
    assert read("tree:", here + b"/link/").digest == set_of(expected)


def test_a_link_that_leads_elsewhere_changes_a_tree(here: bytes) -> None:
    build(here, {b"l": Link(b"a")})
    before = read("tree:", here).digest
    os.unlink(here + b"/l")
    os.symlink(b"b", here + b"/l")
    assert read("tree:", here).digest != before


def test_names_take_the_type_of_a_link_and_globs_that_of_its_target(here: bytes) -> None:
    tree = {b"f": b"x", b"d": {}, b"to-f": Link(b"f"), b"to-d": Link(b"d"), b"loop": Link(b"loop"), b"to-0": Link(b"0")}
    build(here, tree)
    os.symlink(b"/dev/null", here + b"/to-null")
    named = {b"f": "f", b"d": "d", b"to-f": "l", b"to-d": "l", b"loop": "l", b"to-0": "l", b"to-null": "l"}
    assert types_of(read("names:", here + b"/*")) == named
    found = read("glob:", here + b"/*")
    assert types_of(found) == named | {b"to-f": "f", b"to-d": "d", b"to-null": "s"}
    assert {member.name for member in found.members or () if member.raw} == {b"f", b"to-f"}


def test_deep_wildcards_do_not_enter_linked_directories_but_others_do(here: bytes) -> None:
    build(here, {b"d": {b"e": {b"x": b""}}, b"l": Link(b"d"), b"round": Link(b".")})
    assert set(types_of(read("names:", here + b"/**/x"))) == {b"d/e/x"}
    assert set(types_of(read("names:", here + b"/*/e/x"))) == {b"d/e/x", b"l/e/x"}
    assert set(types_of(read("names:", here + b"/l/**"))) == {b"e", b"e/x"}
    assert set(types_of(read("names:", here + b"/*/**/x"))) == {b"d/e/x", b"l/e/x", b"round/d/e/x"}


def test_a_pattern_with_a_slash_at_its_end_finds_directories_and_links_to_them(here: bytes) -> None:
    build(here, {b"d": {}, b"f": b"", b"to-d": Link(b"d"), b"to-f": Link(b"f"), b"to-0": Link(b"0")})
    assert types_of(read("names:", here + b"/*/")) == {b"d": "d", b"to-d": "l"}
    assert types_of(read("glob:", here + b"/*/")) == {b"d": "d", b"to-d": "d"}


def test_special_files_are_members_without_content(here: bytes) -> None:
    os.mkfifo(here + b"/fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(here + b"/socket")
    expected = set_of({b"fifo": ("s", None), b"socket": ("s", None)})
    for kind, path in (("dir:", here), ("tree:", here), ("names:", here + b"/*"), ("glob:", here + b"/*")):
        assert read(kind, path).digest == expected, kind


@pytest.mark.skipif(not os.path.exists(b"/proc/self/status"), reason="no proc")
def test_files_of_the_kernel_are_special_members_and_never_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refuse(path: bytes | str, flags: int) -> int:
        # a directory has to be opened to be listed, and the mount table to be told of a mount
        assert flags & os.O_DIRECTORY or path == "/proc/self/mountinfo", path
        return real(path, flags)

    monkeypatch.setattr(os, "open", refuse)
    assert types_of(read("glob:/proc/self/stat*")) == {b"stat": "s", b"statm": "s", b"status": "s"}
    assert types_of(read("names:/proc/self/status")) == {b"status": "s"}
    assert types_of(read("dir:/proc/self"))[b"status"] == "s"


def test_the_root_directory_can_be_read() -> None:
    assert set(types_of(read("dir:/"))) == set(os.listdir(b"/"))
    assert b"dev" in types_of(read("names:/*"))


def test_names_of_every_sort_are_kept_as_bytes(here: bytes) -> None:
    wanted = [b"\xff\xfe", b"new\nline", b"x" * 255, b"*", b"[a]", b" "]
    build(here, dict.fromkeys(wanted, b"1"))
    assert sorted(types_of(read("tree:", here))) == sorted(wanted)
    assert set(types_of(read("names:", here + b"/[[]a]"))) == {b"[a]"}
    assert set(types_of(read("names:", here + b"/?\xfe"))) == {b"\xff\xfe"}


def test_a_tree_deeper_than_a_path_can_say_is_unreadable(here: bytes) -> None:
    descriptor = os.open(here, os.O_RDONLY)
    for _ in range(2100):
        os.mkdir(b"d", dir_fd=descriptor)
        below = os.open(b"d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)
    for found in (read("tree:", here), read("names:", here + b"/**")):
        assert (found.digest, found.trouble) == (None, Trouble.UNREADABLE)
        assert "ENAMETOOLONG" in found.detail
        assert [len(path) in {4096, 4097} for path in found.paths] == [True]


def test_a_tree_of_a_thousand_levels_is_read(here: bytes) -> None:
    for depth in range(1, 1001):
        os.mkdir(here + b"/d" * depth)
    write(here + b"/d" * 1000 + b"/f", b"x")
    assert len(read("tree:", here).members or ()) == 1001
    assert set(types_of(read("names:", here + b"/**/f"))) == {b"d/" * 1000 + b"f"}


@pytest.mark.parametrize("kind", ["tree:", "glob:"])
def test_unreadable_members_are_named(here: bytes, kind: str) -> None:
    build(here, {b"a": b"1", b"shut": {b"x": b""}, b"secret": b"2"})
    os.chmod(here + b"/secret", 0)
    os.chmod(here + b"/shut", 0)
    with without_privilege():
        found = read(kind, here if kind == "tree:" else here + b"/**")
        assert (found.digest, found.trouble, found.members) == (None, Trouble.UNREADABLE, None)
        assert found.paths == (here + b"/secret", here + b"/shut")
        assert types_of(read("names:", here + b"/*")) == {b"a": "f", b"shut": "d", b"secret": "f"}
        assert read("dir:", here + b"/shut").paths == (here + b"/shut",)
    os.chmod(here + b"/shut", 0o755)


def test_a_name_is_found_in_a_directory_that_cannot_be_listed(here: bytes) -> None:
    build(here, {b"d": {b"conf": b"1"}})
    os.chmod(here + b"/d", 0o311)
    with without_privilege():
        assert read("glob:", here + b"/*/conf").digest == set_of({b"d/conf": ("f", b"1")})
        assert read("glob:", here + b"/*/c*").trouble is Trouble.UNREADABLE


def test_at_most_sixteen_unreadable_members_are_named(here: bytes) -> None:
    build(here, {b"%02d" % number: b"" for number in range(30)})
    for number in range(30):
        os.chmod(here + b"/%02d" % number, 0)
    with without_privilege():
        assert len(read("tree:", here).paths) == sets.MAX_PATHS
