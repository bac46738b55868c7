"""Sets that change while they are read."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import pytest
from reading_help import Link, build, place, read, reading, set_of, types_of, write

from provd.core.reading import Trouble
from provd.disk import IgnoreRules, ReadingJob, files, sets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from provd.disk.files import Attempt, Listing, Look


@pytest.fixture
def here() -> Iterator[bytes]:
    """An empty directory."""
    with place() as path:
        yield path


def when_content_is_read(monkeypatch: pytest.MonkeyPatch, act: Callable[[bytes, int], object]) -> list[bytes]:
    """Has `act` called, with the path and its number, before each member's content is read; returns the paths."""
    real = files.read_content
    reads: list[bytes] = []

    def hook(path: bytes, now: Look, attempt: Attempt, *, follow: bool) -> files.Seen:
        reads.append(path)
        act(path, len(reads))
        return real(path, now, attempt, follow=follow)

    monkeypatch.setattr(sets, "read_content", hook)
    return reads


def test_a_member_that_vanishes_before_it_is_read_has_the_set_read_again(
    here: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(here, {b"a": b"1", b"b": b"2"})
    when_content_is_read(monkeypatch, lambda path, count: os.unlink(path) if count == 1 else None)
    for kind, path in (("tree:", here), ("glob:", here + b"/*")):
        build(here, {b"a": b"1", b"b": b"2"})
        found = read(kind, path)
        assert found.members is not None
        assert found.digest == set_of(
            {name: (kind, b"2" if name == b"b" else b"1") for name, kind in types_of(found).items()}
        )


def test_a_member_that_becomes_a_link_before_it_is_read_is_not_followed(
    here: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(here, {b"a": b"1"})

    def replace(path: bytes, count: int) -> None:
        if count == 1:
            os.rename(path, here + b"/b")
            os.symlink(b"b", path)

    when_content_is_read(monkeypatch, replace)
    assert read("tree:", here).digest == set_of({b"a": ("l", b"b"), b"b": ("f", b"1")})


def test_a_set_whose_members_keep_vanishing_is_moving_and_names_one(
    here: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(here, {b"%d" % number: b"" for number in range(5)})
    when_content_is_read(monkeypatch, lambda path, _count: os.unlink(path))
    found = read("tree:", here)
    assert (found.digest, found.trouble) == (None, Trouble.MOVING)
    assert [os.path.dirname(path) for path in found.paths] == [here]


def test_a_directory_that_changes_while_it_is_listed_is_listed_again(
    here: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here + b"/a")
    real = os.scandir
    listings: list[bytes] = []

    def hook(path: bytes) -> contextlib.AbstractContextManager[Iterator[os.DirEntry[bytes]]]:
        with real(path) as entries:
            kept = list(entries)
        listings.append(path)
        if len(listings) == 1:
            os.mkdir(here + b"/b")  # moves the size or the times on every file system that is fine enough
            os.utime(here, ns=(1, 1))
        return contextlib.nullcontext(iter(kept))

    monkeypatch.setattr(os, "scandir", hook)
    assert types_of(read("dir:", here)) == {b"a": "f", b"b": "d"}
    assert len(listings) >= 2


def test_a_listing_that_stat_does_not_show_to_be_old_is_made_again(
    here: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here + b"/a")
    real = files.list_directory
    monkeypatch.setattr(files, "is_young", lambda _signature, _at: True)
    looked: list[bytes] = []

    def hook(path: bytes, now: Look, attempt: Attempt, *, follow: bool) -> Listing:
        looked.append(path)
        return real(path, now, attempt, follow=follow)

    monkeypatch.setattr(files, "list_directory", hook)
    monkeypatch.setattr(sets, "list_directory", hook)
    assert types_of(read("dir:", here)) == {b"a": "f"}
    assert looked == [here, here]


def test_what_changes_after_it_was_read_is_read_again_and_the_rest_is_not_hashed_again(
    here: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "is_young", lambda _signature, _at: False)
    build(here, {b"a": b"1", b"b": b"2", b"c": b"3"})
    when_content_is_read(monkeypatch, lambda _path, count: write(here + b"/a", b"one") if count == 3 else None)
    real = files.read_whole
    hashed: list[bytes] = []

    def hook(descriptor: int, size: int) -> bytes:
        hashed.append(real(descriptor, size))
        return hashed[-1]

    monkeypatch.setattr(files, "read_whole", hook)
    assert read("tree:", here).digest == set_of({b"a": ("f", b"one"), b"b": ("f", b"2"), b"c": ("f", b"3")})
    assert sorted(hashed) == [b"1", b"2", b"3", b"one"]


@pytest.mark.parametrize(
    ("kind", "name"), [("tree:", b"d"), ("glob:", b"d/**"), ("names:", b"d/*"), ("dir:", b"d"), ("glob:", b"*/to-f")]
)
def test_a_set_that_changes_while_another_thing_is_read_is_read_again(
    here: bytes, monkeypatch: pytest.MonkeyPatch, kind: str, name: bytes
) -> None:
    build(here, {b"d": {b"a": b"1", b"to-f": Link(b"../f")}, b"f": b"x", b"last": b"y"})
    after = [reading(kind, here + b"/" + name), reading("file:", here + b"/last")]
    real = files.read_whole
    done: list[bool] = []

    def hook(descriptor: int, size: int) -> bytes:
        content = real(descriptor, size)
        if content == b"y" and not done:
            done.append(True)
            os.rename(here + b"/f", here + b"/d/g")
        return content

    monkeypatch.setattr(files, "read_whole", hook)
    work = ReadingJob(after, IgnoreRules())
    work.run()
    assert done
    assert work.found[after[0]].digest == read(kind, here + b"/" + name).digest


def test_the_absence_of_a_directory_is_looked_at_again_too(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    write(here + b"/last", b"y")
    wanted = [reading("tree:", here + b"/d"), reading("glob:", here + b"/d/*"), reading("file:", here + b"/last")]
    real = files.read_whole

    def hook(descriptor: int, size: int) -> bytes:
        if not os.path.exists(here + b"/d"):
            write(here + b"/d/f")
        return real(descriptor, size)

    monkeypatch.setattr(files, "read_whole", hook)
    work = ReadingJob(wanted, IgnoreRules())
    work.run()
    assert [len(work.found[one].members or ()) for one in wanted] == [1, 1, 0]


def test_a_cancelled_walk_ends_between_members(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    build(here, {b"%d" % number: b"" for number in range(5)})
    work = ReadingJob([reading("tree:", here)], IgnoreRules())
    reads = when_content_is_read(monkeypatch, lambda _path, _count: work.cancel())
    work.run()
    assert len(reads) == 1
    assert not work.finished
