"""Files at provd's own paths: nothing there is waited for, and what is no file is named."""

from __future__ import annotations

import os
import socket
import tempfile
from typing import TYPE_CHECKING

import pytest

from provd.core import errors
from provd.holders import written
from provd.lockfile import StateDirectory
from provd.ownfile import NotAFile, open_file
from provd.services import ServiceError, owned
from provd.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def place() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="provd-", dir="/tmp") as path:
        yield path


def _socket(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path)


KINDS: list[tuple[str, Callable[[str], None]]] = [
    ("a pipe (FIFO)", os.mkfifo),
    ("a directory", os.mkdir),
    ("a socket", _socket),
    ("a symbolic link", lambda path: os.symlink("elsewhere", path)),
]
some = pytest.mark.parametrize(("kind", "make"), KINDS, ids=[kind for kind, _ in KINDS])


@some
@pytest.mark.parametrize("access", [os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_RDWR | os.O_CREAT])
def test_what_is_no_file_is_named_and_not_waited_for(
    place: str, kind: str, make: Callable[[str], None], access: int
) -> None:
    path = os.path.join(place, "a name")
    make(path)
    with pytest.raises(NotAFile) as caught:
        open_file(path, access | os.O_NOFOLLOW)
    assert caught.value.strerror == f"{path} is {kind}, where provd has a file"
    assert caught.value.hint.startswith(f"mv '{path}' '{path}'.other  # ")


def test_what_is_not_there_is_made_or_missed(place: str) -> None:
    path = os.path.join(place, "new")
    with pytest.raises(FileNotFoundError):
        open_file(path, os.O_RDONLY)
    os.close(open_file(path, os.O_WRONLY | os.O_CREAT))
    os.close(open_file(path, os.O_RDONLY))


@some
def test_a_lock_that_is_no_file_is_refused_with_what_to_do(place: str, kind: str, make: Callable[[str], None]) -> None:
    make(os.path.join(place, "lock"))
    with pytest.raises(errors.StoreUnusable) as caught:
        StateDirectory(place)
    assert f"{place}/lock is {kind}" in caught.value.message
    assert f"mv {place}/lock" in caught.value.hint
    assert written(place) is None


@pytest.mark.parametrize("name", ["data.mdb", "lock.mdb"])
def test_a_store_whose_file_is_a_pipe_is_refused_with_what_to_do(place: str, name: str) -> None:
    os.mkfifo(os.path.join(place, name))
    with pytest.raises(errors.StoreUnusable) as caught:
        Store(place)
    assert f"{place}/{name} is a pipe" in caught.value.message
    assert f"mv {place}/{name}" in caught.value.hint


def test_a_store_whose_file_is_a_link_is_refused_and_not_followed(place: str, tmp_path: Path) -> None:
    """Broken: values end in a file that others may read."""
    elsewhere = tmp_path / "elsewhere"
    for content in (b"", b"text", None):
        if content is None:
            elsewhere.unlink()
        else:
            elsewhere.write_bytes(content)
        os.symlink(elsewhere, os.path.join(place, "data.mdb"))
        with pytest.raises(errors.StoreUnusable, match=r"data\.mdb is a symbolic link"):
            Store(place)
        assert (elsewhere.read_bytes() if elsewhere.exists() else None) == content
        os.unlink(os.path.join(place, "data.mdb"))


def test_a_unit_that_is_a_pipe_is_refused(place: str) -> None:
    path = os.path.join(place, "provd.service")
    os.mkfifo(path)
    with pytest.raises(ServiceError, match="a pipe"):
        owned.read(path)
    os.unlink(path)
    os.symlink(os.devnull, path)  # masked
    assert owned.read(path) == ""
