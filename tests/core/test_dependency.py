"""Dependencies: how they parse, what their digests are, and which write touches which."""

from __future__ import annotations

import hashlib
from typing import Final

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from provd.core import dependency, errors, glob
from provd.core.dependency import Dependency, Kind, Member, check_digest, parse, set_digest, touches

ROOT: Final = b"/r"
ONE: Final = "xxh3:" + "1" * 32


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        (b"file:/a", Kind.FILE, b"/a"),
        (b"file:a", Kind.FILE, b"/r/a"),
        (b"a", Kind.FILE, b"/r/a"),
        (b"/a", Kind.FILE, b"/a"),
        (b"a b\nc", Kind.FILE, b"/r/a b\nc"),
        (b"\xff", Kind.FILE, b"/r/\xff"),
        (b"file:\xff", Kind.FILE, b"/r/\xff"),
        (b"./a:b", Kind.FILE, b"/r/./a:b"),
        (b"/a:b", Kind.FILE, b"/a:b"),
        (b":a", Kind.FILE, b"/r/:a"),
        (b"1a:b", Kind.FILE, b"/r/1a:b"),
        (b"a b:c", Kind.FILE, b"/r/a b:c"),
        (b"\xff:c", Kind.FILE, b"/r/\xff:c"),
        (b"file:file:a", Kind.FILE, b"/r/file:a"),
        (b"file:a/link/../b", Kind.FILE, b"/r/a/link/../b"),
        (b"file:../b", Kind.FILE, b"/r/../b"),
        (b"file:a//b/", Kind.FILE, b"/r/a//b/"),
        (b"file://a", Kind.FILE, b"//a"),
        (b"file:.", Kind.FILE, b"/r/."),
        (b"file:~/a", Kind.FILE, b"/r/~/a"),
        (b"dir:/a", Kind.DIR, b"/a"),
        (b"tree:.git/refs", Kind.TREE, b"/r/.git/refs"),
        (b"names:*.py", Kind.NAMES, b"/r/*.py"),
        (b"glob:/a/**/*.py", Kind.GLOB, b"/a/**/*.py"),
        (b"object:svc:api/replicas", Kind.OBJECT, b"svc:api/replicas"),
        (b"object:/a", Kind.OBJECT, b"/a"),
        (b"entry:k", Kind.ENTRY, b"k"),
        ("entry:\u00e4".encode(), Kind.ENTRY, "\u00e4".encode()),
        (b"object: ", Kind.OBJECT, b" "),
    ],
)
def test_what_a_dependency_names(text: bytes, kind: Kind, name: bytes) -> None:
    assert parse(text, ROOT) == Dependency(kind, name, text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", "dep.malformed"),
        (b"file:", "dep.malformed"),
        (b"tree:", "dep.malformed"),
        (b"entry:", "dep.malformed"),
        (b"object:", "dep.malformed"),
        (b"a\0b", "dep.malformed"),
        (b"object:a\0b", "dep.malformed"),
        (b"fil:a", "dep.malformed"),
        (b"FILE:a", "dep.malformed"),
        (b"http://x", "dep.malformed"),
        (b"c:\\a", "dep.malformed"),
        (b"a.py:12", "dep.malformed"),
        (b"region:a#f", "dep.unsupported"),
        (b"region:", "dep.unsupported"),
        (b"object:\xff", "dep.malformed"),
        (b"entry:\xff", "dep.malformed"),
        (b"glob:a[", "dep.malformed"),
        (b"names:a/*/../b", "dep.malformed"),
        (b"object:" + b"x" * 1025, "limit"),
        (b"entry:" + b"x" * 1025, "limit"),
    ],
)
def test_what_is_no_dependency_is_refused_with_a_hint(text: bytes, code: str) -> None:
    with pytest.raises(errors.RequestError) as caught:
        parse(text, ROOT)
    assert caught.value.code == code
    assert caught.value.hint
    assert len(caught.value.message) < 400


def test_an_unknown_kind_says_how_to_name_a_file() -> None:
    with pytest.raises(errors.DependencyMalformed) as caught:
        parse(b"a.py:12", ROOT)
    assert "file:a.py:12" in caught.value.hint


@pytest.mark.parametrize("kind", ["file", "dir", "tree", "names", "glob"])
def test_a_relative_path_without_a_root_is_ambiguous(kind: str) -> None:
    with pytest.raises(errors.RootAmbiguous):
        parse(f"{kind}:a".encode(), None)
    assert parse(f"{kind}:/a".encode(), None).name == b"/a"


def test_objects_and_entries_need_no_root() -> None:
    assert parse(b"object:a", None).name == b"a"
    assert parse(b"entry:a", None).name == b"a"


def test_the_root_directory_is_joined_with_one_slash() -> None:
    assert parse(b"a", b"/").name == b"/a"


@pytest.mark.parametrize("kind", ["glob", "names"])
def test_what_is_special_in_a_pattern_is_not_special_in_the_name_of_its_root(kind: str) -> None:
    named = parse(f"{kind}:src/*.py".encode(), b"/w[1]?/a*").name

    pattern = glob.compile_pattern(named)
    assert named == b"/w[[]1][?]/a[*]/src/*.py"
    assert pattern.base == b"/w[1]?/a*/src"
    assert pattern.matches(b"x.py")
    assert parse(b"file:src/x.py", b"/w[1]?").name == b"/w[1]?/src/x.py"


def test_names_as_long_as_the_limits_are_taken() -> None:
    assert len(parse(b"object:" + b"x" * 1024, ROOT).name) == 1024
    assert len(parse(b"file:/" + b"x" * 4095, ROOT).name) == 4096
    assert len(parse(b"tree:" + b"/x" * 2048, ROOT).name) == 4096


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_are_a_dependency_or_refused(text: bytes) -> None:
    try:
        parsed = parse(text, ROOT)
    except errors.RequestError:
        return
    assert parsed.text == text
    if parsed.kind in dependency.PATH_KINDS:
        assert parsed.name.startswith(b"/")
        assert parsed.name.endswith(text.removeprefix(parsed.kind.encode() + b":"))


# digests


@pytest.mark.parametrize(
    ("text", "digest", "ok"),
    [
        (b"a", "absent", True),
        (b"a", "type:dir", True),
        (b"a", "type:loop", True),
        (b"a", "type:special", True),
        (b"a", "type:file", False),
        (b"a", ONE, True),
        (b"a", "sha256:" + "a" * 64, True),
        (b"a", "blake2b:" + "f" * 32, True),
        (b"a", "xxh3:" + "1" * 16, False),
        (b"a", "xxh3:" + "1" * 33, False),
        (b"a", "xxh3:" + "A" * 32, False),
        (b"a", "sha256:" + "a" * 32, False),
        (b"a", "blake2b:" + "a" * 64, False),
        (b"a", "md5:" + "a" * 32, False),
        (b"a", "1" * 32, False),
        (b"a", ONE + "\n", False),
        (b"a", "", False),
        (b"a", "version:1", False),
        (b"tree:a", ONE, True),
        (b"entry:a", "version:1", True),
        (b"entry:a", "version:0", True),
        (b"entry:a", "version:", False),
        (b"entry:a", "version:-1", False),
        (b"entry:a", "version:1\n", False),
        (b"entry:a", "version:\u0661", False),
        (b"entry:a", ONE, False),
        (b"entry:a", "absent", False),
        (b"object:a", "absent", False),
        (b"object:a", ONE, False),
        (b"object:a", "version:1", False),
    ],
)
def test_which_digests_a_client_may_give(text: bytes, digest: str, ok: bool) -> None:
    one = parse(text, ROOT)
    if ok:
        assert check_digest(one, digest) == digest
    else:
        with pytest.raises(errors.DependencyMalformed):
            check_digest(one, digest)


@pytest.mark.parametrize(
    ("digest", "algorithm"),
    [
        (None, "xxh3"),
        ("absent", "xxh3"),
        ("type:dir", "xxh3"),
        (ONE, "xxh3"),
        ("sha256:" + "0" * 64, "sha256"),
        ("blake2b:" + "0" * 32, "blake2b"),
    ],
)
def test_a_digest_is_read_again_in_its_own_algorithm(digest: str | None, algorithm: str) -> None:
    assert dependency.algorithm_of(digest) == algorithm


def test_the_three_algorithms_are_what_their_names_say() -> None:
    data = b"some bytes"
    expected = {
        "xxh3": xxhash.xxh3_128(data).digest(),
        "sha256": hashlib.sha256(data).digest(),
        "blake2b": hashlib.blake2b(data, digest_size=16).digest(),
    }
    for name, raw in expected.items():
        hasher = dependency.hasher(name)
        hasher.update(data[:3])
        hasher.update(memoryview(data)[3:])
        assert hasher.digest() == raw
    with pytest.raises(errors.DependencyMalformed):
        dependency.hasher("md5")


def test_the_digest_of_a_set_is_over_type_name_and_digest_of_each_member() -> None:
    some = [Member("l", b"b", b"\x01\x02"), Member("f", b"a", b""), Member("d", b"\xff/x", b"")]
    whole = b"f\0a\0\0l\0b\0\x01\x02\0d\0\xff/x\0\0"
    assert set_digest("sha256", some) == "sha256:" + hashlib.sha256(whole).hexdigest()
    assert set_digest("blake2b", some) == "blake2b:" + hashlib.blake2b(whole, digest_size=16).hexdigest()
    assert set_digest("xxh3", some) == "xxh3:" + xxhash.xxh3_128(whole).hexdigest()
    assert set_digest("sha256", []) == "sha256:" + hashlib.sha256(b"").hexdigest()


member_names = st.binary(min_size=1, max_size=8).filter(lambda name: b"\0" not in name)
sets = st.dictionaries(member_names, st.tuples(st.sampled_from("fdls"), st.sampled_from([b"", b"1" * 16])), max_size=8)


@settings(deadline=None)
@given(sets, st.randoms(use_true_random=False), st.sampled_from(["xxh3", "sha256", "blake2b"]))
def test_the_digest_of_a_set_does_not_depend_on_the_order_of_its_members(
    some: dict[bytes, tuple[str, bytes]], random: object, algorithm: str
) -> None:
    members = [Member(kind, name, raw) for name, (kind, raw) in some.items()]
    before = set_digest(algorithm, members)
    random.shuffle(members)  # type: ignore[attr-defined]
    assert set_digest(algorithm, members) == before
    assert set_digest(algorithm, iter(members)) == before


@settings(deadline=None)
@given(sets, sets)
def test_different_sets_have_different_digests(
    one: dict[bytes, tuple[str, bytes]], other: dict[bytes, tuple[str, bytes]]
) -> None:
    digests = [set_digest("xxh3", [Member(k, n, r) for n, (k, r) in some.items()]) for some in (one, other)]
    assert (digests[0] == digests[1]) == (one == other)


# what touches what


@pytest.mark.parametrize(
    ("text", "base"),
    [
        (b"/a/b", b"/a/b"),
        (b"/a/b/", b"/a/b"),
        (b"dir:/", b"/"),
        (b"tree://", b"/"),
        (b"glob:/a/b/*.py", b"/a/b"),
        (b"glob:/a/b", b"/a"),
        (b"names:/*", b"/"),
        (b"names:/a/**/b", b"/a"),
    ],
)
def test_the_literal_path_of_a_dependency(text: bytes, base: bytes) -> None:
    assert dependency.base(parse(text, None)) == base


TOUCHES: Final = [
    # itself, and directories above it
    (b"/r/a", b"/r/a", True),
    (b"/r/a", b"/r", True),
    (b"/r/a", b"/", True),
    (b"/r/a/", b"/r/a", True),
    (b"/r/a", b"/r/a/b", False),
    (b"/r/a", b"/r/b", False),
    (b"/r/ab", b"/r/a", False),
    (b"/r/a", b"/r/ab", False),
    # a listing: one level
    (b"dir:/r/d", b"/r/d", True),
    (b"dir:/r/d", b"/r", True),
    (b"dir:/r/d", b"/r/d/a", True),
    (b"dir:/r/d", b"/r/d/a/b", False),
    (b"dir:/r/d", b"/r/da", False),
    (b"dir:/", b"/a", True),
    (b"dir:/", b"/a/b", False),
    # a tree: all levels
    (b"tree:/r/t", b"/r/t/a/b/c", True),
    (b"tree:/r/t", b"/r", True),
    (b"tree:/r/t", b"/r/t2/a", False),
    (b"tree:/", b"/a/b", True),
    # patterns: what matches, and what has matches below it
    (b"glob:/r/*.py", b"/r/a.py", True),
    (b"glob:/r/*.py", b"/r/a.txt", False),
    (b"glob:/r/*.py", b"/r", True),
    (b"glob:/r/*.py", b"/", True),
    (b"glob:/r/*.py", b"/r/a.py/b", False),
    (b"glob:/r/*/b", b"/r/a", True),
    (b"glob:/r/*/b", b"/r/a/c", False),
    (b"glob:/r/**/*.py", b"/r/a/b/c.py", True),
    (b"glob:/r/**/*.py", b"/r/a/b", True),
    (b"glob:/r/**/*.py", b"/s/c.py", False),
    (b"names:/r/a/*", b"/r/a/b", True),
    (b"names:/r/a/*", b"/r/ab", False),
    (b"names:/*", b"/a", True),
]


@pytest.mark.parametrize(("text", "written", "touched"), TOUCHES)
def test_which_write_may_change_which_dependency(text: bytes, written: bytes, touched: bool) -> None:
    assert touches(parse(text, None), None, written) is touched


@pytest.mark.parametrize(
    ("text", "written", "touched"),
    [
        (b"glob:/r/**/*.py", b"/r/a.py", True),
        (b"glob:/r/**/*.py", b"/r/a.txt", False),
        (b"names:/r/**/*.py", b"/r/a/b.txt", False),
        (b"glob:/r/**", b"/r/a/b.txt", True),
        (b"glob:/r/*/b", b"/r/a", False),
        (b"glob:/r/*/b", b"/r/a/b", True),
        (b"glob:/r/a/*", b"/r/a", True),
        (b"/r/a/b", b"/r/a", True),
        (b"tree:/r", b"/r/a", True),
        (b"dir:/r", b"/r/a", True),
    ],
)
def test_below_what_is_no_directory_nothing_matches(text: bytes, written: bytes, touched: bool) -> None:
    assert touches(parse(text, None), None, written, leaf=True) is touched


@pytest.mark.parametrize(
    ("text", "real", "written", "touched"),
    [
        (b"/r/link", b"/x/a", b"/x/a", True),
        (b"/r/link", b"/x/a", b"/x", True),
        (b"/r/link", b"/x/a", b"/r/link", True),
        (b"/r/link", b"/x/a", b"/x/b", False),
        (b"tree:/r/link", b"/x/a", b"/x/a/b/c", True),
        (b"dir:/r/link", b"/x/a", b"/x/a/b", True),
        (b"dir:/r/link", b"/x/a", b"/x/a/b/c", False),
        (b"glob:/r/link/*.py", b"/x/a", b"/x/a/b.py", True),
        (b"glob:/r/link/*.py", b"/x/a", b"/x/a/b.txt", False),
        (b"glob:/r/link/*.py", b"/x/a", b"/x", True),
        (b"names:/r/link/*", b"/", b"/a", True),
    ],
)
def test_a_write_by_the_real_path_counts(text: bytes, real: bytes, written: bytes, touched: bool) -> None:
    assert touches(parse(text, None), real, written) is touched


component = st.sampled_from([b"a", b"b", b"ab"])
some_paths = st.lists(component, max_size=4).map(lambda parts: b"/" + b"/".join(parts))


@settings(deadline=None)
@given(st.sampled_from(["file", "dir", "tree", "names", "glob"]), some_paths, some_paths)
def test_a_write_above_a_dependency_always_touches_it(kind: str, path: bytes, written: bytes) -> None:
    pattern = b"/*" if kind in {"names", "glob"} else b""
    one = parse(kind.encode() + b":" + (path.rstrip(b"/") + pattern or b"/"), None)
    above = dependency.is_under(path, written)
    inside = dependency.is_under(written, path) and written != path
    if above:
        assert touches(one, None, written)
    elif inside and kind != "file":
        deeper = written[len(path.rstrip(b"/")) + 1 :].count(b"/")
        assert touches(one, None, written) == (kind == "tree" or deeper == 0)
    else:
        assert not touches(one, None, written)
