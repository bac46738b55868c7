"""What is fuzzed: one function of bytes for each kind of input, which raises where the code does what it may not.

Rule: a target knows what its code promises (which errors, what comes back as it went in), and lets all else through. It
keeps nothing between two calls.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import warnings
from collections.abc import Callable
from typing import Any, Final

import msgspec

from fuzz.rows import READERS
from provd import configuration, fastwire, hello
from provd.core import clock, dependency, errors, glob, members, misread, packing, params, portable, records, wire
from provd.recorder import patterns
from provd.store import decoding
from provd.watch import events

Target = Callable[[bytes], None]
_METHODS: Final = tuple(params.METHODS)
_ROOT: Final = b"/home/me/work"


def _explains(refused: errors.RequestError) -> None:
    """A refusal says what to do next."""
    assert refused.message
    assert refused.hint


def frames(data: bytes) -> None:
    """A stream cut into any pieces gives what it gives whole; the first byte says how long a piece is."""
    size, stream = (data[0] + 1 if data else 1), data[1:]
    whole, cut, late = wire.Framer(), wire.Framer(), wire.Framer()
    at_once = _fed(whole, stream + b"\n")
    in_pieces = [one for at in range(0, len(stream), size) for one in _fed(cut, stream[at : at + size])]
    in_pieces += _fed(cut, b"\n")
    for at in range(0, len(stream), size):
        late.feed(stream[at : at + size])
    in_the_end = _fed(late, b"\n")
    assert [_told(one) for one in at_once] == [_told(one) for one in in_pieces] == [_told(one) for one in in_the_end]
    for one in at_once:
        if isinstance(one, wire.Bad):
            answer = json.loads(wire.failure(one.id, one.error))
            assert answer["error"]["data"]["hint"]
    for line in stream.split(b"\n"):
        if isinstance(wire.parse(line), wire.Request):
            names = _pairs(line)
            assert names is None or len(names) == len(set(names)), "a member came twice and was taken"


def _fed(framer: wire.Framer, data: bytes) -> list[wire.Request | wire.Bad]:
    framer.feed(data)
    taken = []
    while framer.unread:
        taken.append(framer.take())
    return [one for one in taken if one is not None]


def _told(one: wire.Request | wire.Bad) -> object:
    return one if isinstance(one, wire.Request) else (one.error.code, one.id, one.fatal, one.line.strip())


def _pairs(text: bytes) -> list[str] | None:
    """The names of the outermost object's members, by another reader; None where it is none to that."""
    found: list[list[str]] = []

    def told(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found.append([name for name, _ in pairs])
        return {}

    try:
        value = json.loads(text, object_pairs_hook=told)
    except (ValueError, RecursionError):
        return None
    return found[-1] if isinstance(value, dict) else None


def asked(data: bytes) -> None:
    """The parameters of a method, which the first byte chooses: they fit, or InvalidParams; names are bytes."""
    method, raw = _METHODS[(data[0] if data else 0) % len(_METHODS)], data[1:]
    try:
        given = params.decode(method, msgspec.Raw(raw))
    except errors.InvalidParams as refused:
        _explains(refused)
        return
    again = params.decode(method, msgspec.Raw(msgspec.json.encode(given)))
    assert again == given or b"e" in raw.lower() or b"." in raw  # a float may be written in another way
    for each in _named(given):
        with contextlib.suppress(errors.RequestError):
            params.name_bytes(each) if isinstance(each, params.B64) else params.wire_dependency(each)


def _named(given: params.Params) -> list[Any]:
    """The names and dependencies in parameters."""
    found: list[Any] = []
    for name in ("deps", "writes", "root", "path", "paths", "touching"):
        value = getattr(given, name, None)
        found += value if isinstance(value, list) else [value]
    return [each for each in found if isinstance(each, str | params.B64 | params.WireDependency)]


def declared(data: bytes) -> None:
    """Whatever a line is: no object is missed that it declares as it should."""
    found = misread.of_line(data)
    misread.of_params(data)
    misread.says_so(data)
    request = wire.parse(data)
    if isinstance(request, wire.Bad) or request.method not in wire.DECLARING or found is None:
        return
    try:
        given = params.decode(request.method, request.params)
    except errors.InvalidParams:
        return
    for each in given.writes:  # type: ignore[attr-defined]
        try:
            text = params.wire_dependency(each)[0]
            dep = dependency.parse(text, _ROOT)
        except errors.RequestError:
            continue
        assert dep.kind is not dependency.Kind.OBJECT or dep.name in found, "an object was missed"


def once(data: bytes) -> None:
    """Members that come twice are found, as another reader finds them."""
    try:
        if not isinstance(msgspec.json.decode(data), dict):
            return
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return
    names = _pairs(data)
    again = members.twice(data)
    if names is not None:
        assert (again is not None) == (len(set(names)) != len(names) or len(names) > 1000)
        assert again is not None or members.names(data) == frozenset(names)
    members.twice_in(data, ("deps", "writes"))


def depended(data: bytes) -> None:
    """A dependency is refused, or means the same where it is said in whole; a write that names it touches it."""
    for root in (_ROOT, b"/", None):
        try:
            dep = dependency.parse(data, root)
        except errors.RequestError as refused:
            _explains(refused)
            continue
        if dep.kind not in dependency.PATH_KINDS:
            continue
        assert dep.name.startswith(b"/")
        whole = dep.kind.encode() + b":" + dep.name
        assert dependency.parse(whole, None).name == dep.name
        base = dependency.base(dep)
        assert dependency.touches(dep, None, base)
        assert all(dependency.touches(dep, None, above) for above in dependency.with_above(base))
    text = data.decode("utf-8", "replace")
    try:
        dependency.check_digest(dependency.Dependency(dependency.Kind.FILE, b"/f", b"/f"), text)
    except errors.DependencyMalformed:
        return
    assert dependency.is_known(text)
    dependency.hasher(dependency.algorithm_of(text))


def globbed(data: bytes) -> None:
    """A pattern, and a path on the second line: it is refused, or what holds a match is told to hold it."""
    pattern, _, path = data.partition(b"\n")
    if not pattern.startswith(b"/"):
        pattern = b"/" + pattern
    try:
        compiled = glob.compile_pattern.__wrapped__(pattern)  # a cache would grow as it may
    except errors.DependencyMalformed as refused:
        _explains(refused)
        return
    names = [name for name in path.split(b"/") if name]
    if compiled.matches(b"/".join(names)):
        assert all(compiled.may_hold(b"/".join(names[:end])) for end in range(len(names) + 1))
    literal = compiled.literal(compiled.start())
    if literal is not None and names:
        matched, onward = compiled.step(compiled.start(), names[0])
        assert names[0] in literal or not (matched or onward)
    if names and not {b".", b".."} & set(names):
        exact = glob.compile_pattern.__wrapped__(b"/" + glob.escape(b"/".join(names)))
        above, _, last = b"/".join(names).rpartition(b"/")
        assert exact.base == b"/" + above
        assert exact.matches(last)


def clocked(data: bytes) -> None:
    """A token is malformed, or says itself again and can be placed."""
    try:
        told = clock.parse(data.decode("utf-8", "replace"))
    except errors.ClockMalformed as refused:
        _explains(refused)
        return
    assert clock.parse(str(told)) == told
    assert clock.position(clock.key(told.position)) == told.position
    runs = {"0" * 16: clock.Span(1, 5), "1" * 16: clock.Span(6, 9)}
    try:
        placed = clock.resolve(told, log="a" * 16, run="1" * 16, runs=runs)
    except errors.ClockMalformed:
        return
    assert placed.position <= 9


def recorded(data: bytes) -> None:
    """A row is a record or Damaged; a record comes back as it went in, and can be told."""
    try:
        record = decoding.record(data)
    except decoding.Damaged:
        return
    again = packing.decode(packing.encode(record))
    assert again == record or _has_nan(record)
    msgspec.json.encode(records.to_wire(7, record))


def _has_nan(value: Any) -> bool:
    return any(isinstance(one, float) and math.isnan(one) for one in msgspec.structs.astuple(value))


def rows(data: bytes) -> None:
    """A row of another table, which the first byte chooses, is what it keeps, or Damaged."""
    reader = READERS[(data[0] if data else 0) % len(READERS)]
    try:
        reader(data[1:])
    except decoding.Damaged:
        return


def configured(data: bytes) -> None:
    """Any file is settings and mistakes, each told by line."""
    descriptor = os.memfd_create("fuzz")
    try:
        os.write(descriptor, data)
        file = configuration.read(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    lines = data.count(b"\n") + 1
    for mistake in file.mistakes:
        assert mistake.told("config.toml")
        assert mistake.line is None or 1 <= mistake.line <= lines
    assert all(configuration.KEYS[name].kind.fits(value) for name, value in file.values.items())
    assert file.mistakes or all(name in configuration.KEYS for name in file.values)


def ignored(data: bytes) -> None:
    """Ignore rules, a line each, are refused or can be matched."""
    lines = data.decode("utf-8", "replace").split("\n")
    try:
        with warnings.catch_warnings(action="ignore"):  # a set within a set may mean another thing one day
            patterns.check_patterns(lines)
    except errors.InvalidParams as refused:
        _explains(refused)


def carried(data: bytes) -> None:
    """A line of an export is refused, or all of it can be had."""
    try:
        told = portable.decode(data)
        root = portable.root_of(told)
        portable.entry_id(told, root, (b"/home/me", b"/srv"))
        for each in told.deps or ():
            portable.rested(each, root, (b"/home/me", b"/srv"))
    except errors.RequestError as refused:
        _explains(refused)
        return
    portable.stored(told)


def answered(data: bytes) -> None:
    """What a client reads fast is what json reads; a greeting is one or none."""
    try:
        text = data.decode()
        value = fastwire.decoded(text)
    except (ValueError, StopIteration, fastwire.NotUnderstood, RecursionError):
        return
    assert json.dumps(value) == json.dumps(json.loads(text))
    hello.is_hello(value)


def notified(data: bytes) -> None:
    """What the kernel tells, as whole events of any content, is as many events."""
    told, at = b"", 0
    while at + 17 <= len(data):
        length = (data[at + 16] % 4) * 16
        name = data[at + 17 : at + 17 + length].ljust(length, b"\0")
        told += data[at : at + 12] + length.to_bytes(4, "little") + name
        at += 17 + length
    found = events.parse(told)
    assert all(len(name) <= 48 for *_, name in found)
    assert sum(16 + -(-len(name) // 16) * 16 for *_, name in found) <= len(told)


TARGETS: Final[dict[str, Target]] = {
    "frames": frames,
    "params": asked,
    "misread": declared,
    "members": once,
    "dependencies": depended,
    "globs": globbed,
    "clocks": clocked,
    "records": recorded,
    "rows": rows,
    "config": configured,
    "ignore": ignored,
    "export": carried,
    "answers": answered,
    "events": notified,
}
