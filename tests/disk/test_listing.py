"""Listing a directory: the one that was looked at, and what its names are now, whatever they were made as."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from reading_help import exchange, place, read, reading, set_of, types_of, write

from provd.core.reading import Found, Trouble
from provd.disk import IgnoreRules, MountTable, ReadingJob, files, read_now
from provd.disk.mounts import Mounts, mounted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from provd.core.reading import Reading

BEFORE = set_of({b"old": ("f", None)})


@pytest.fixture
def here() -> Iterator[bytes]:
    """An empty directory."""
    with place() as path:
        yield os.path.realpath(path)


@contextlib.contextmanager
def bound(source: bytes, target: bytes) -> Iterator[None]:
    """Has `source` mounted over `target`."""
    if os.geteuid() != 0 or subprocess.run(["mount", "--bind", source, target], check=False).returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", target], check=True)


def asked(kind: str, path: bytes, mounts: Mounts) -> dict[bytes, str]:
    return types_of(read_now(reading(kind, path), IgnoreRules(), mounts))


# ---- what is mounted over a name


@pytest.mark.parametrize("name", [b"f", b"with space", b"back\\slash", b"new\nline", b"tab\t", b"\xff\xfe"])
def test_a_name_has_the_type_of_what_is_mounted_over_it(here: bytes, name: bytes) -> None:
    target = write(here + b"/" + name, b"x")
    write(here + b"/other", b"y")
    os.mkdir(here + b"/d")
    table = MountTable()
    ways = (("dir:", here), ("names:", here + b"/*"), ("tree:", here), ("glob:", here + b"/*"))
    plain = {name: "f", b"other": "f", b"d": "d"}
    for kind, path in ways:
        assert asked(kind, path, table.now()) == plain
    with bound(b"/dev/null", target):
        for kind, path in ways:
            assert asked(kind, path, table.now()) == plain | {name: "s"}
            assert types_of(read(kind, path)) == plain | {name: "s"}
    for kind, path in ways:
        assert asked(kind, path, table.now()) == plain


def test_a_file_can_be_mounted_over_a_special_one_and_a_directory_over_a_directory(here: bytes) -> None:
    os.mkfifo(here + b"/fifo")
    os.mkdir(here + b"/d")
    source = write(here + b"/f", b"x")
    with bound(source, here + b"/fifo"), bound(b"/proc", here + b"/d"):
        assert types_of(read("dir:", here)) == {b"fifo": "f", b"d": "d", b"f": "f"}


def looked_at(monkeypatch: pytest.MonkeyPatch, special: bytes) -> list[bytes]:
    """Has `special` look like a device; returns the names that are looked at."""
    real = files.Attempt.look
    looked: list[bytes] = []

    def look(attempt: files.Attempt, path: bytes, *, follow: bool) -> files.Look:
        looked.append(os.path.basename(path))
        now = real(attempt, path, follow=follow)
        return files.Look(files.Sort.SPECIAL, now.signature, now.at) if path == special else now

    monkeypatch.setattr(files.Attempt, "look", look)
    return looked


def test_only_names_that_something_is_mounted_over_are_looked_at(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (b"a", b"b", b"c"):
        write(here + b"/" + name)
    os.mkdir(here + b"/d")
    os.symlink(b"a", here + b"/l")
    looked = looked_at(monkeypatch, here + b"/b")
    mounts = Mounts(points={b"/elsewhere/b": False}, names=frozenset({b"", b"b", b"d", b"l"}), kinds=mounted().kinds)
    assert asked("dir:", here, mounts) == {b"a": "f", b"b": "s", b"c": "f", b"d": "d", b"l": "l"}
    assert set(looked) - {os.path.basename(here)} == {b"b"}


def test_where_nobody_says_what_is_mounted_every_file_is_looked_at(
    here: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (b"a", b"b"):
        write(here + b"/" + name)
    looked = looked_at(monkeypatch, here + b"/b")
    assert asked("names:", here + b"/*", Mounts(kinds=mounted().kinds)) == {b"a": "f", b"b": "s"}
    assert {b"a", b"b"} <= set(looked)


def test_a_name_that_is_gone_when_it_is_looked_at_has_the_directory_listed_again(
    here: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here + b"/a")
    write(here + b"/b")
    real = files.Attempt.look

    def look(attempt: files.Attempt, path: bytes, *, follow: bool) -> files.Look:
        if path == here + b"/b":
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        return real(attempt, path, follow=follow)

    monkeypatch.setattr(files.Attempt, "look", look)
    assert asked("dir:", here, Mounts(kinds=mounted().kinds)) == {b"a": "f"}


# ---- the directory that was looked at


def at_open(monkeypatch: pytest.MonkeyPatch, before: Callable[[], object], after: Callable[[], object]) -> list[int]:
    """Has `before` and `after` called around the first opening of a directory; returns the openings."""
    real = os.open
    opened: list[int] = []

    def hook(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if not flags & os.O_DIRECTORY:
            return real(path, flags, *rest, **more)
        opened.append(flags)
        if len(opened) > 1:
            return real(path, flags, *rest, **more)
        before()
        descriptor = real(path, flags, *rest, **more)
        after()
        return descriptor

    monkeypatch.setattr(os, "open", hook)
    return opened


def test_a_directory_that_another_one_stands_in_for_while_it_is_opened_is_not_listed_as_that(
    here: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here + b"/d/old")
    write(here + b"/e/new")

    def swap() -> None:
        exchange(here + b"/d", here + b"/e")

    opened = at_open(monkeypatch, swap, swap)
    assert read("names:", here + b"/d/*").digest == BEFORE
    assert len(opened) > 1


def test_a_directory_that_is_exchanged_for_a_link_is_not_followed(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    write(here + b"/t/d/old")
    write(here + b"/e/new")
    os.symlink(here + b"/e", here + b"/l")
    opened = at_open(monkeypatch, lambda: None, lambda: exchange(here + b"/t/d", here + b"/l"))
    assert types_of(read("tree:", here + b"/t")) == {b"d": "l"}
    assert opened[0] & os.O_NOFOLLOW == 0  # the path itself is followed
    write(here + b"/u/d/old")
    opened.clear()
    read("tree:", here + b"/u")
    assert opened[1] & os.O_NOFOLLOW


def test_a_directory_that_is_gone_when_it_is_opened_is_absent(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkdir(here + b"/d")
    at_open(monkeypatch, lambda: os.rmdir(here + b"/d"), lambda: None)
    assert read("dir:", here + b"/d") == Found("absent")


def test_no_descriptor_is_left_open(here: bytes) -> None:
    write(here + b"/d/f")
    before = sorted(os.listdir("/dev/fd"))
    for kind, path in (("tree:", here), ("names:", here + b"/**"), ("dir:", here + b"/none"), ("dir:", here)):
        read(kind, path)
    assert sorted(os.listdir("/dev/fd")) == before


# ---- paths that no call takes


@pytest.mark.parametrize("kind", ["file:", "dir:", "tree:", "names:", "glob:"])
@pytest.mark.parametrize("path", [b"/x" * 2048, b"/" + b"x/../" * 2000 + b"f"])
def test_a_path_that_is_too_long_is_unreadable_without_a_step(
    kind: str, path: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_arguments: object, **_more: object) -> os.stat_result:
        raise AssertionError

    wanted: list[Reading] = [reading(kind, path + b"/f"), reading(kind, path + b"/g")]
    work = ReadingJob(wanted, IgnoreRules())
    with monkeypatch.context() as without:
        for name in ("stat", "lstat", "open", "scandir", "readlink"):
            without.setattr(os, name, never)
        work.run()
    for one in wanted:
        assert (work.found[one].trouble, work.found[one].digest) == (Trouble.UNREADABLE, None)
        assert "ENAMETOOLONG" in work.found[one].detail


def test_a_long_pattern_with_a_short_base_is_read(here: bytes) -> None:
    write(here + b"/a")
    assert types_of(read("names:", here + b"/[" + b"a" * 4090 + b"]")) == {b"a": "f"}
