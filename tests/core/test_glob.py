"""Patterns: what they match, what they refuse, and that no pattern makes matching slow."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from provd.core import errors
from provd.core.glob import compile_pattern


def naive_name(pattern: str, name: str) -> bool:
    """Matches one name by trying everything, character by character."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(naive_name(pattern[1:], name[skipped:]) for skipped in range(len(name) + 1))
    if not name:
        return False
    if pattern[0] == "?":
        return naive_name(pattern[1:], name[1:])
    if pattern[0] == "[":
        end = pattern.index("]", 3 if pattern[1] == "!" else 2)
        inside = pattern[1:end].removeprefix("!")
        held = False
        while inside:
            if len(inside) > 2 and inside[1] == "-":
                held |= inside[0] <= name[0] <= inside[2]
                inside = inside[3:]
            else:
                held |= inside[0] == name[0]
                inside = inside[1:]
        return held != (pattern[1] == "!") and naive_name(pattern[end + 1 :], name[1:])
    return pattern[0] == name[0] and naive_name(pattern[1:], name[1:])


def naive_component(pattern: str, name: str) -> bool:
    """A name against a component, with the rule for leading dots."""
    return (not name.startswith(".") or pattern.startswith(".")) and naive_name(pattern, name)


def naive_path(pattern: list[str], path: list[str]) -> bool:
    """A path against a pattern, both as components, trying everything."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        if not path:
            return False if len(pattern) == 1 else naive_path(pattern[1:], path)
        passed = not path[0].startswith(".") and (
            (pattern == ["**"] and len(path) == 1) or naive_path(pattern, path[1:])
        )
        return passed or (len(pattern) > 1 and naive_path(pattern[1:], path))
    return bool(path) and naive_component(pattern[0], path[0]) and naive_path(pattern[1:], path[1:])


def whole(pattern: str) -> bytes:
    return b"/r/" + pattern.encode("utf-8", "surrogateescape")


def matches(pattern: str, path: str) -> bool:
    """Matches below `/r`, whatever part of the pattern is its base."""
    compiled = compile_pattern(whole(pattern))
    absolute = whole(path)
    base = compiled.base + b"/"
    return absolute.startswith(base) and compiled.matches(absolute[len(base) :])


sets = st.builds(
    "[{}{}]".format, st.sampled_from(["", "!"]), st.text(alphabet="ab-]!^.", min_size=1, max_size=3)
).filter(lambda text: text.find("]", 3 if text[1] == "!" else 2) == len(text) - 1)
components = st.one_of(
    st.just("**"),
    st.lists(st.one_of(st.sampled_from(["*", "?", "a", "b", ".", "^"]), sets), min_size=1, max_size=5).map("".join),
).filter(lambda text: text not in {".", ".."})
names = st.text(alphabet="ab.^-]\udcff", min_size=1, max_size=5).filter(lambda text: text not in {".", ".."})


@settings(deadline=None)
@given(st.lists(components, min_size=1, max_size=4), st.lists(names, min_size=1, max_size=4))
@example(["**", "**"], ["a"])
@example(["**", "a", "**", "b"], ["a", "b", "a", "b"])
@example(["*a*b"], ["ab", "b"])
def test_matches_what_a_naive_matcher_matches(pattern: list[str], path: list[str]) -> None:
    assert matches("/".join(pattern), "/".join(path)) == naive_path(pattern, path)


@settings(deadline=None)
@given(st.lists(components, min_size=1, max_size=4), st.lists(names, min_size=1, max_size=5))
def test_every_directory_above_a_match_may_hold_it(pattern: list[str], path: list[str]) -> None:
    compiled = compile_pattern(b"/r/*/" + "/".join(pattern).encode("utf-8", "surrogateescape"))
    relative = "/".join(path).encode("utf-8", "surrogateescape")
    if compiled.matches(relative):
        above = relative.split(b"/")
        assert all(compiled.may_hold(b"/".join(above[:count])) for count in range(len(above) + 1))


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", "a.b.py"], ["a.pyc", ".py", ".a.py", "d/a.py"]),
        ("test_*", ["test_", "test_a"], ["test", "xtest_"]),
        ("a*b", ["ab", "axb", "abb"], ["a", "b", "aba"]),
        ("aa*aa", ["aaaa", "aaxaa"], ["aaa", "aa"]),
        ("?", ["a", "ä", "\udcff"], ["", ".", "ab"]),
        ("[a-c]x", ["ax", "bx", "cx"], ["dx", "-x"]),
        ("[!a-c]x", ["dx", "-x"], ["ax", "x"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[!]a]", ["b", "["], ["]", "a"]),
        ("[[]", ["["], ["a"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[-a]", ["a", "-"], ["b"]),
        ("[^a]", ["^", "a"], ["b"]),
        ("[c-a]", [], ["a", "b", "c", "-"]),
        ("[!c-a]", ["a", "b", "-"], ["ab"]),
        ("[&&a||~~]", ["&", "|", "~", "a"], ["b"]),
        ("[.]a", [], [".a"]),
        ("[!a]b", ["cb"], [".b"]),
        (".*", [".a", "..a"], ["a"]),
        ("x{a,b}?", ["x{a,b}c"], ["xac"]),
        ("\\*", ["\\", "\\a"], ["*"]),
        ("**", ["a", "a/b", "a/b/c"], [".a", "a/.b", ".a/b", ""]),
        ("**/", ["a", "a/b"], [""]),
        ("a**b", ["ab", "axb"], ["a/b", "a/x/b"]),
        ("*/**", ["a/b", "a/b/c"], ["a"]),
        ("**/x", ["x", "a/x", "a/b/x"], ["a/x/y", ".a/x"]),
        ("**/.x/*", [".x/a", "b/.x/a"], [".x", ".y/.x/a"]),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/y/z/c"], ["a/c", "a/b"]),
        ("*/plain", ["a/plain"], ["a/plainer", "plain"]),
        ("ä*", ["ä", "äh"], ["a"]),
        ("*\n*", ["a\nb", "\n"], ["ab"]),
    ],
)
def test_examples(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [path for path in yes if not matches(pattern, path)] == []
    assert [path for path in no if matches(pattern, path)] == []


@pytest.mark.parametrize(
    ("pattern", "base"),
    [
        (b"/*", b"/"),
        (b"/a/*", b"/a"),
        (b"/a/b/c", b"/a/b"),
        (b"/a", b"/"),
        (b"/a//b/./c/../d/x*/y", b"/a//b/./c/../d"),
        (b"/a/b//**", b"/a/b"),
        (b"/a/b/c/", b"/a/b"),
        (b"/\xff/[x]", b"/\xff"),
        (b"/a[[]1][*]/[?]/*.py", b"/a[1]*/?"),
        (b"/a/[[]b", b"/a"),
        (b"/a[[]b*/c", b"/"),
        (b"/a[[*]/c", b"/"),
        (b"/a[x[*]/c", b"/"),
        (b"/[][*]/c", b"/"),
        (b"/[!*]/c", b"/"),
    ],
)
def test_the_base_is_the_last_directory_without_a_wildcard_as_written(pattern: bytes, base: bytes) -> None:
    assert compile_pattern(pattern).base == base


@pytest.mark.parametrize("pattern", [b"/a/[", b"/a/[!]", b"/a/[]", b"/a/x[a/b]", b"/a/*[b"])
def test_a_bracket_that_is_not_closed_is_refused_with_the_way_to_write_one(pattern: bytes) -> None:
    with pytest.raises(errors.DependencyMalformed) as raised:
        compile_pattern(pattern)
    assert "[[]" in raised.value.hint


@pytest.mark.parametrize("pattern", [b"/a/*/../b", b"/a/*/.", b"/a/..", b"/", b"//"])
def test_dots_after_a_wildcard_and_patterns_for_nothing_are_refused(pattern: bytes) -> None:
    with pytest.raises(errors.DependencyMalformed):
        compile_pattern(pattern)


def test_a_slash_at_the_end_asks_for_directories() -> None:
    assert compile_pattern(b"/a/*/").directories
    assert not compile_pattern(b"/a/*").directories


def test_patterns_that_invite_backtracking_are_answered_at_once() -> None:
    long = "a" * 255
    assert not matches("*a" * 60 + "*b", long)
    assert matches("*a" * 60 + "*", long)
    assert not matches("*[ab]" * 60 + "*?b", long)
    assert not matches("*?" * 100 + "b", long)


def test_many_deep_wildcards_keep_one_set_of_states() -> None:
    compiled = compile_pattern(b"/r/" + b"**/a/" * 30 + b"b")
    assert not compiled.matches(b"/".join([b"a"] * 2000))
    states = compiled.start()
    for _ in range(100):
        matched, states = compiled.step(states, b"a")
        assert not matched
        assert len(states) <= len(compiled.parts)


def test_deep_wildcards_do_not_pass_through_links_but_names_and_stars_do() -> None:
    for pattern, enters in [(b"/r/**/x", False), (b"/r/*/x", True), (b"/r/**/l/x", True), (b"/r/**/*/x", True)]:
        compiled = compile_pattern(pattern)
        _, onward = compiled.step(compiled.start(), b"l", link=True)
        assert compiled.step(onward, b"x")[0] is enters, pattern


def test_the_only_names_that_can_match_are_known_where_there_is_no_wildcard() -> None:
    compiled = compile_pattern(b"/r/*/x/**/y")
    assert compiled.literal(compiled.start()) is None
    _, inside = compiled.step(compiled.start(), b"d")
    assert compiled.literal(inside) == (b"x",)
    _, inside = compiled.step(inside, b"x")
    assert compiled.literal(inside) is None


def test_a_name_whose_signs_are_all_escaped_is_a_name() -> None:
    compiled = compile_pattern(b"/r/*/[[]x][*]")
    _, inside = compiled.step(compiled.start(), b"d")
    assert compiled.literal(inside) == (b"[x]*",)
    assert compiled.step(inside, b"[x]*")[0]
    assert not compiled.step(inside, b"[[]x][*]")[0]


def test_what_may_hold_a_match_is_told_from_what_cannot() -> None:
    compiled = compile_pattern(b"/r/*/src/*.py")
    for relative in (b"", b"a", b"a/src", b"a/src/x.py", b"a//src/"):
        assert compiled.may_hold(relative), relative
    for relative in (b".a", b"a/lib", b"a/src/x.c", b"a/src/x.py/more"):
        assert not compiled.may_hold(relative), relative
