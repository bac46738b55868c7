"""No input takes more than linear work: what is counted are lines of Python, as the input is doubled and doubled again.

Rule: nothing is timed. Where the work is done within one call of C, the pattern or the set says how much it can be.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from provd import configuration
from provd.core import dependency, glob, members, misread, params, wire

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

Work = Callable[[], object]


def lines_of(work: Work) -> int:
    """How many lines of Python a work takes."""
    count = 0

    def counted(_frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += event == "line"
        return counted

    before = sys.gettrace()
    sys.settrace(counted)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def is_linear(make: Callable[[int], Work], size: int) -> bool:
    """Whether the work that is added by doubling is no more than twice what the doubling before it added."""
    one, two, four = (lines_of(make(size * factor)) for factor in (1, 2, 4))
    assert one > 0
    return four - two <= 2.2 * max(two - one, one)


def fed(framer: wire.Framer, data: bytes) -> None:
    framer.feed(data)
    while framer.unread:
        framer.take()


def feeding(pieces: int) -> Work:
    framer = wire.Framer()

    def work() -> None:
        for _ in range(pieces):
            fed(framer, b"x" * 10)

    return work


def pattern(text: bytes, *names: bytes) -> Work:
    def work() -> None:
        compiled = glob.compile_pattern.__wrapped__(text)
        for name in names:
            compiled.matches(name)
            compiled.may_hold(name)

    return work


def many(count: int) -> list[str]:
    return [f"file:a/b{number}" for number in range(count)]


def dependencies(count: int) -> Work:
    raw = msgspec.Raw(msgspec.json.encode({"deps": many(count)}))

    def work() -> None:
        given = params.decode("deps.check", raw)
        for each in given.deps:  # type: ignore[attr-defined]
            dependency.parse(params.wire_dependency(each)[0], b"/root")

    return work


def touching(text: bytes, written: bytes) -> Work:
    dep = dependency.parse(text, b"/root")
    return lambda: (dependency.touches(dep, None, written), dependency.with_above(written))


WORKS: Final[dict[str, tuple[Callable[[int], Work], int]]] = {
    "a line in many pieces": (feeding, 200),
    "many lines in a piece": (lambda n: lambda: fed(wire.Framer(), b"{}\n" * n), 100),
    "many members": (lambda n: lambda: members.twice(b"{%b}" % b",".join(b'"%d":1' % k for k in range(n))), 100),
    "many values one after the other": (lambda n: lambda: misread.of_line(b'{"writes":["object:a"]}' * n), 50),
    "many objects": (lambda n: lambda: misread.of_params(b"[%b]" % b",".join([b'"object:a"'] * n)), 100),
    "lists within lists": (lambda n: lambda: misread.of_params(b"[" * n + b"]" * n), 50),
    "many dependencies": (dependencies, 100),
    "a pattern of stars": (lambda n: pattern(b"/" + b"*a" * n, b"a" * n), 100),
    "a pattern of stars that does not match": (lambda n: pattern(b"/" + b"*a" * n + b"b", b"a" * n), 100),
    "brackets": (lambda n: pattern(b"/" + b"[a-c]" * n, b"a" * n), 100),
    "a bracket of ranges": (lambda n: pattern(b"/[" + b"a-b" * n + b"]", b"c"), 100),
    "many names below one pattern": (lambda n: pattern(b"/a/**/b*/**/c", *[b"x/y/z"] * n), 50),
    "a deep path below deep wildcards": (lambda n: pattern(b"/**/a/**/b/**/c", b"a/" * n + b"c"), 50),
    "as many deep wildcards": (lambda n: pattern(b"/" + b"**/a/" * n + b"c", b"x"), 50),
    "a deep path that is written": (lambda n: touching(b"tree:/r", b"/r" + b"/a" * n), 50),
    "a deep path that is named": (lambda n: touching(b"file:/r" + b"/a" * n, b"/r"), 50),
}


@pytest.mark.parametrize("name", WORKS)
def test_no_pattern_takes_more_than_linear_work(name: str) -> None:
    assert is_linear(*WORKS[name])


@pytest.mark.parametrize("line", ["key{n} = 1\n", "[section{n}]\n", "roots = [\n", "log.a{n} = 2\n"])
def test_a_configuration_takes_linear_work(tmp_path: Path, line: str) -> None:
    def reading(count: int) -> Work:
        path = tmp_path / f"{count}.toml"
        path.write_text("".join(line.replace("{n}", str(number)) for number in range(count)))
        return lambda: configuration.read(str(path))

    assert is_linear(reading, 20)


def test_what_is_quadratic_is_seen() -> None:
    assert is_linear(lambda n: lambda: [k + 1 for k in range(n)], 50)
    assert not is_linear(lambda n: lambda: [k + 1 for k in range(n) for _ in range(n)], 50)
