"""The digests of SPEC section 3, made with hashlib over os.walk. Nothing of the product is imported."""

from __future__ import annotations

import errno
import fnmatch
import hashlib
import itertools
import os
import re
import stat
from typing import TYPE_CHECKING

from wire_by_hand import Json, wire

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SIGN = re.compile(rb"\[([*?\[])\]")
"""A sign that stands for itself: it is no wildcard."""


def _raw(path: bytes, algorithm: str, *, follow: bool) -> tuple[str, bytes]:
    """The type letter of SPEC and the raw digest of one path; `absent`, `loop` where there is no member."""
    try:
        status = os.stat(path) if follow else os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ("l", b"") if follow and os.path.islink(path) else ("absent", b"")
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "loop", b""
        raise
    if stat.S_ISREG(status.st_mode):
        with open(path, "rb") as file:
            return "f", _hash(algorithm, file.read())
    if stat.S_ISDIR(status.st_mode):
        return "d", b""
    if stat.S_ISLNK(status.st_mode):
        return "l", _hash(algorithm, os.readlink(path))
    return "s", b""


def _hash(algorithm: str, data: bytes) -> bytes:
    if algorithm == "blake2b":
        return hashlib.blake2b(data, digest_size=16).digest()
    return hashlib.new(algorithm, data).digest()


def _walk(base: bytes, *, ignored: frozenset[bytes]) -> Iterator[bytes]:
    for directory, directories, files in os.walk(base):
        directories[:] = [name for name in directories if name not in ignored]
        for name in directories + files:
            yield os.path.join(directory, name)


def _glob(directory: bytes, parts: Sequence[bytes]) -> Iterator[bytes]:
    """Paths below `directory` that match `parts`, one pattern a component, `**` for any depth."""
    try:
        names = os.listdir(directory or b".")
    except (FileNotFoundError, NotADirectoryError):
        return
    first, rest = parts[0], parts[1:]
    if first == b"**":
        yield from _glob(directory, rest)
        for name in names:
            path = os.path.join(directory, name)
            if not name.startswith(b".") and name != b".git" and os.path.isdir(path) and not os.path.islink(path):
                yield from _glob(path, parts)
        return
    wanted = re.compile(fnmatch.translate(os.fsdecode(first)))
    for name in names:
        if name.startswith(b".") and not first.startswith(b"."):
            continue
        if wanted.match(os.fsdecode(name)):
            path = os.path.join(directory, name)
            if not rest:
                yield path
            elif os.path.isdir(path):
                yield from _glob(path, rest)


def _split_pattern(pattern: bytes) -> tuple[bytes, list[bytes]]:
    parts = pattern.split(b"/")
    plain = list(itertools.takewhile(lambda part: not re.search(rb"[*?\[]", _SIGN.sub(b"", part)), parts[:-1]))
    return _SIGN.sub(rb"\1", b"/".join(plain)) or b"/", parts[len(plain) :]


def digest(dependency: str | bytes, root: str, algorithm: str = "sha256") -> str:
    """The digest of a path dependency as it is now, by SPEC alone; relative paths are below `root`."""
    kind, _, name = os.fsencode(dependency).partition(b":")
    path = os.path.join(os.fsencode(root), name)
    if kind == b"file":
        letter, raw = _raw(path, algorithm, follow=True)
        words = {"d": "type:dir", "s": "type:special", "loop": "type:loop", "l": "absent", "absent": "absent"}
        return words.get(letter) or f"{algorithm}:{raw.hex()}"
    rows: set[tuple[bytes, str, bytes]] = set()
    match kind:
        case b"dir" | b"tree" if not os.path.isdir(path):
            return "absent"
        case b"dir":
            for name in os.listdir(path):
                rows.add((name, _raw(os.path.join(path, name), algorithm, follow=False)[0], b""))
        case b"tree":
            ignored = frozenset({b".git"}) - set(path.split(b"/"))
            for member in _walk(path, ignored=ignored):
                letter, raw = _raw(member, algorithm, follow=False)
                rows.add((os.path.relpath(member, path), letter, raw))
        case b"glob" | b"names":
            base, parts = _split_pattern(path)
            for member in _glob(base, parts):
                letter, raw = _raw(member, algorithm, follow=kind == b"glob")
                letter = "l" if letter == "loop" else letter  # of f d l s there is no other that it could be
                rows.add((os.path.relpath(member, base), letter, raw if kind == b"glob" else b""))
        case _:
            raise ValueError(f"{dependency!r} names no path")
    whole = b"".join(letter.encode() + b"\0" + name + b"\0" + raw + b"\0" for name, letter, raw in sorted(rows))
    return f"{algorithm}:{_hash(algorithm, whole).hex()}"


def read_dep(dependency: str | bytes, root: str, algorithm: str = "sha256") -> dict[str, Json]:
    """A path dependency with the digest of what stands there now: the client *read* it."""
    return {"dep": wire(dependency), "digest": digest(dependency, root, algorithm)}
