"""What an entry's truth can rest on: kinds, parsing, digests, and which write touches what.

Rule: names are bytes and are never normalised (`a/link/../b` means what the system means by it). Sets are
digested over their members in byte order of name, so that the order of a directory never matters.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, Protocol

import msgspec
import xxhash

from provd.core import errors, glob


class Kind(StrEnum):
    """The kinds of dependency."""

    FILE = "file"
    DIR = "dir"
    NAMES = "names"
    GLOB = "glob"
    TREE = "tree"
    OBJECT = "object"
    ENTRY = "entry"


PATH_KINDS: Final = frozenset({Kind.FILE, Kind.DIR, Kind.NAMES, Kind.GLOB, Kind.TREE})
SET_KINDS: Final = PATH_KINDS - {Kind.FILE}
PATTERN_KINDS: Final = frozenset({Kind.NAMES, Kind.GLOB})
MAX_NAME: Final = 1024
"""Bytes of a key or an object id."""
MAX_PATH: Final = 16 * 1024
"""Bytes of a path as it is named: more than the system takes, so that what is too long for it is told as such."""
MAX_PATTERN: Final = 4096
"""Bytes of a pattern."""

ABSENT: Final = "absent"
TYPE_DIR: Final = "type:dir"
TYPE_LOOP: Final = "type:loop"
TYPE_SPECIAL: Final = "type:special"

_WORD = re.compile(rb"([A-Za-z][A-Za-z0-9_.+-]*):", re.DOTALL)
_DIGEST = re.compile(r"xxh3:[0-9a-f]{32}|sha256:[0-9a-f]{64}|blake2b:[0-9a-f]{32}")
_ALGORITHMS = ("xxh3:", "sha256:", "blake2b:")
_FIXED = frozenset({ABSENT, TYPE_DIR, TYPE_LOOP, TYPE_SPECIAL})


class Dependency(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One thing that a value rests on.

    `name` is an absolute path or pattern for the path kinds, else the object id or the key, in UTF-8.
    `text` is the string as it was put; evidence repeats it.
    """

    kind: Kind
    name: bytes
    text: bytes

    @property
    def explicit(self) -> bool:
        """Whether the text says the whole name by itself, in whatever root it is read."""
        return self.text in (self.name, self.kind.encode() + b":" + self.name)


class Member(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One member of a set.

    `type` is one of `f d l s`, `name` is relative to the set's base, `raw` the raw digest or empty.
    """

    type: str
    name: bytes
    raw: bytes


class Hasher(Protocol):
    """What hashlib and xxhash have in common."""

    def update(self, data: bytes | bytearray | memoryview, /) -> None:
        """Take in more bytes."""

    def digest(self) -> bytes:
        """The raw digest of the bytes so far."""


def hasher(algorithm: str) -> Hasher:
    """A new hash object for one of the algorithms `xxh3` (XXH3-128), `sha256`, `blake2b` (16 bytes)."""
    if algorithm == "xxh3":
        return xxhash.xxh3_128()
    if algorithm == "sha256":
        return hashlib.sha256()
    if algorithm == "blake2b":
        return hashlib.blake2b(digest_size=16)
    raise errors.DependencyMalformed(f"unknown digest algorithm {algorithm!r}", "use xxh3, sha256 or blake2b")


def parse(text: bytes, root: bytes | None, name: bytes | None = None) -> Dependency:
    """The dependency that `text` names; relative paths are joined to `root`.

    An absolute `name` says what it names, where that is known; of a text that names a path only the kind counts then.
    Raises DependencyMalformed, DependencyUnsupported, and RootAmbiguous where a relative path has no root.
    """
    if b"\0" in text:
        raise errors.DependencyMalformed("a dependency holds a NUL byte", "no path can: remove it")
    word = _WORD.match(text)
    kind_name, rest = (word[1].decode(), text[word.end() :]) if word else ("file", text)
    shown = text[:120].decode("utf-8", "backslashreplace")
    if kind_name == "region":
        raise errors.DependencyUnsupported(
            f"{shown!r}: parts of a file are not supported yet", "depend on the whole file"
        )
    try:
        kind = Kind(kind_name)
    except ValueError:
        known = ", ".join(f"{k}:" for k in Kind)
        raise errors.DependencyMalformed(
            f"{shown!r}: no dependency kind is called {kind_name!r}",
            f"write file:{shown} if it is a path, or one of {known}",
        ) from None
    if not rest:
        raise errors.DependencyMalformed(f"{shown!r} names nothing", f"write what follows {kind_name}:")
    if kind not in PATH_KINDS:
        if name is not None:
            raise errors.DependencyMalformed(f"{shown!r} has a path", f"what follows {kind}: says it all")
        return _by_word(kind, rest, text, shown)
    if name is not None:
        rest = name
    elif not rest.startswith(b"/"):
        rest = _below(root, kind, shown) + b"/" + rest
    most = MAX_PATTERN if kind in PATTERN_KINDS else MAX_PATH
    if len(rest) > most:
        raise errors.LimitExceeded(f"{kind}: names {len(rest)} bytes", f"at most {most}")
    if kind in PATTERN_KINDS:
        glob.compile_pattern(rest)  # raises where it does not parse
    return Dependency(kind, rest, text)


def _by_word(kind: Kind, rest: bytes, text: bytes, shown: str) -> Dependency:
    """An object or an entry."""
    if len(rest) > MAX_NAME:
        raise errors.LimitExceeded(f"an object id or key is {len(rest)} bytes long", f"at most {MAX_NAME} bytes")
    try:
        rest.decode()
    except UnicodeDecodeError:
        raise errors.DependencyMalformed(f"{shown!r} is not UTF-8", "object ids and keys are text") from None
    return Dependency(kind, rest, text)


def _below(root: bytes | None, kind: Kind, shown: str) -> bytes:
    """What stands before the `/` of a relative path; raises RootAmbiguous."""
    if root is None:
        raise errors.RootAmbiguous(
            f"{shown!r} is relative and there is no root to join it to", "send root, or an absolute path"
        )
    above = b"" if root == b"/" else root
    # what is special in a pattern is not special in a root's name
    return glob.escape(above) if kind in PATTERN_KINDS else above


def check_digest(dep: Dependency, digest: str) -> str:
    """`digest` itself, if it is one that a client may give for `dep`; raises DependencyMalformed."""
    if dep.kind is Kind.ENTRY:
        ok = re.fullmatch(r"version:[0-9]{1,19}", digest) is not None
        form = "version:N"
    elif dep.kind is Kind.OBJECT:
        ok, form = False, "no digest: an object is known by what actions declare"
    else:
        ok = digest in _FIXED or _DIGEST.fullmatch(digest) is not None
        form = "xxh3:, sha256: or blake2b: with lower-case hex, absent, or type:dir|loop|special"
    if not ok:
        raise errors.DependencyMalformed(f"{digest[:80]!r} is no digest for {dep.kind}:", form)
    return digest


def is_known(digest: str) -> bool:
    """Whether a digest, of whatever digits, is one that can be read again to compare."""
    return digest.startswith(_ALGORITHMS) or digest in _FIXED


def algorithm_of(digest: str | None) -> str:
    """The algorithm in which to read again what `digest` was made with (xxh3 where any would do)."""
    if digest is None or digest in _FIXED:
        return "xxh3"
    return digest.partition(":")[0]


def set_digest(algorithm: str, members: Iterable[Member]) -> str:
    """The digest of a set: over `TYPE NUL NAME NUL [DIGEST] NUL` for each member in byte order of NAME."""
    h = hasher(algorithm)
    h.update(b"".join(map(member_bytes, sorted(members, key=lambda m: m.name))))
    return f"{algorithm}:{h.digest().hex()}"


def member_bytes(member: Member) -> bytes:
    """What a member adds to the digest of its set."""
    return b"%b\0%b\0%b\0" % (member.type.encode(), member.name, member.raw)


def base(dep: Dependency) -> bytes:
    """The literal path of a path dependency: the path itself, or a pattern's last directory without a wildcard."""
    if dep.kind in PATTERN_KINDS:
        return glob.compile_pattern(dep.name).base
    return dep.name.rstrip(b"/") or b"/"


def is_under(path: bytes, directory: bytes) -> bool:
    """Whether `path` is `directory` or below it, by name alone."""
    return path == directory or path.startswith(directory if directory.endswith(b"/") else directory + b"/")


def above(path: bytes) -> Iterator[bytes]:
    """The directories above an absolute path, nearest first."""
    while path != b"/":
        path = path.rpartition(b"/")[0] or b"/"
        yield path


def with_above(path: bytes) -> list[bytes]:
    """An absolute path and the directories above it, nearest first."""
    return [path, *above(path)]


def up_to(root: bytes, path: bytes) -> list[bytes]:
    """`path` and the directories above it that lie below `root`, nearest first."""
    return [place for place in with_above(path) if len(place) > len(root)]


def touches(
    dep: Dependency, real: bytes | None, written: bytes, *, structural: bool = True, leaf: bool = False
) -> bool:
    """Whether a write that names `written` may change `dep`: itself, its real path, a directory above, or a member.

    `real` is the real path of the dependency's base, where it is known. All paths are absolute. A write that is not
    `structural` leaves what there is and of what type, so that members of `dir:` and `names:` do not count. What is
    written is a `leaf` where it is no directory and becomes none, so that nothing below it can match.
    """
    literal = base(dep)
    for at in (literal, real):
        if at is None:
            continue
        if is_under(at, written):
            return True
        if not structural and dep.kind in {Kind.DIR, Kind.NAMES}:
            continue
        if dep.kind is Kind.TREE and is_under(written, at):
            return True
        if dep.kind is Kind.DIR and is_under(written, at) and b"/" not in written[len(at.rstrip(b"/")) + 1 :]:
            return True
        if dep.kind in PATTERN_KINDS and is_under(written, at):
            relative = written[len(at.rstrip(b"/")) + 1 :]
            pattern = glob.compile_pattern(dep.name)
            if pattern.matches(relative) if leaf else pattern.may_hold(relative):
                return True
    return False
