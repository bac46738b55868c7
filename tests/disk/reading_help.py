"""What the tests of the disk reader share: readings, digests made independently, and another user's eyes."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from provd.core.dependency import Kind
from provd.core.reading import Found, Reading
from provd.disk import IgnoreRules, read_now, stamps
from provd.disk.mounts import Mounts, mounted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NOBODY = 65534
RENAME_EXCHANGE = 2


def reading(text: str | bytes, path: bytes = b"", algorithm: str = "sha256") -> Reading:
    """A reading of `kind:` and a path, which may be given apart."""
    kind, _, rest = os.fsencode(text).partition(b":")
    return Reading(Kind(kind.decode()), rest + path, algorithm)


def read(text: str | bytes, path: bytes = b"", algorithm: str = "sha256", rules: IgnoreRules | None = None) -> Found:
    """One reading, made at once."""
    return read_now(reading(text, path, algorithm), rules)


def sha(content: bytes) -> str:
    """The digest of a file's content."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def set_of(members: Mapping[bytes, tuple[str, bytes | None]]) -> str:
    """The digest of a set by the contract: names to types and, where they count, contents."""
    whole = hashlib.sha256()
    for name in sorted(members):
        kind, content = members[name]
        raw = b"" if content is None else hashlib.sha256(content).digest()
        whole.update(kind.encode() + b"\0" + name + b"\0" + raw + b"\0")
    return f"sha256:{whole.hexdigest()}"


def types_of(found: Found) -> dict[bytes, str]:
    """The members of a set, by name."""
    assert found.members is not None, found
    return {member.name: member.type for member in found.members}


def write(path: bytes, content: bytes = b"") -> bytes:
    """Writes a file and the directories above it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
    return path


@contextlib.contextmanager
def place() -> Iterator[bytes]:
    """A directory that every user may enter; however deep it gets, it goes away."""
    path = os.fsencode(tempfile.mkdtemp(prefix="provd-test-"))
    os.chmod(path, 0o755)
    try:
        yield path
    finally:
        subprocess.run(["chmod", "-R", "u+rwX", path], check=True)
        subprocess.run(["rm", "-rf", path], check=True)


@contextlib.contextmanager
def without_privilege() -> Iterator[None]:
    """This thread reads as nobody; who is not root has no privilege to lose."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None)
    libc.setfsuid(NOBODY)  # of this thread alone; it takes the capabilities over files along
    if libc.setfsuid(NOBODY) != NOBODY:  # it says what was before, and never fails
        pytest.skip("this root cannot become another user")
    try:
        yield
    finally:
        libc.setfsuid(0)


def stamped_finely(path: bytes) -> Mounts:
    """The mounts, where the file system stamps finely and moves a file's times with its names."""
    mounts = mounted()
    kind = mounts.kinds.get(os.stat(path).st_dev)
    if not stamps.kernel_is_fine() or kind not in stamps.FINE & stamps.FOLLOWS_NAMES:
        pytest.skip(f"{kind} does not stamp finely here")
    return mounts


@pytest.fixture
def here() -> Iterator[bytes]:
    """An empty directory without links above it."""
    with place() as path:
        yield os.path.realpath(path)


@pytest.fixture
def fine(here: bytes) -> Mounts:
    """The mounts, on a file system that stamps finely and moves a file's times with its names."""
    return stamped_finely(here)


def exchange(one: bytes, other: bytes) -> None:
    """Has two names change places at once."""
    if sys.platform != "linux" or ctypes.CDLL(None).renameat2(-100, one, -100, other, RENAME_EXCHANGE) != 0:
        pytest.skip("names cannot be exchanged here")


def flip(link: bytes, target: bytes) -> None:
    """Has a link point elsewhere, as a deploy does it."""
    os.symlink(target, link + b".new")
    os.rename(link + b".new", link)


class Link(bytes):
    """The target of a symbolic link, in a tree that is to be made."""

    __slots__ = ()


def build(path: bytes, tree: Any) -> None:
    """Makes a tree of dictionaries (directories), bytes (files) and links."""
    if isinstance(tree, Link):
        os.symlink(tree, path)
    elif isinstance(tree, bytes):
        write(path, tree)
    else:
        os.makedirs(path, exist_ok=True)
        for name, below in tree.items():
            build(path + b"/" + name, below)
