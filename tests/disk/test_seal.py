"""Seals: made in one order only, and never where anybody may still write unseen."""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import xxhash
from reading_help import place, write

from provd.disk import lease
from provd.disk import seal as sealing
from provd.disk.files import coarse_clock, read_piece, signature
from provd.disk.lease import ignore_lease_breaks
from provd.disk.mounts import UNKNOWN, mounted
from provd.disk.seal import FINE_STEP, STEP, Seal, at_rest, seal
from provd.disk.stamps import Stamps
from provd.filesystems import magic

LATER = 10_000_000_000
"""Nanoseconds by which these tests are ahead of the files that they write."""


@pytest.fixture(autouse=True)
def _lease_breaks_ignored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGIO)
    ignore_lease_breaks()
    yield
    signal.signal(signal.SIGIO, before)


@pytest.fixture
def home() -> Iterator[bytes]:
    """A directory on a file system on which files may be sealed."""
    with place() as path:
        if magic(path) not in sealing.SEALABLE:
            pytest.skip("nothing can be sealed here")
        yield path


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> int:
    """A moment at which everything that is written in a test has rested for long."""
    moment = coarse_clock() + LATER
    monkeypatch.setattr(sealing, "coarse_clock", lambda: moment)
    return moment


def sealed(path: bytes, before: int) -> Seal | None:
    return seal(path, "xxh3", before, Stamps(UNKNOWN))


def test_a_file_at_rest_is_sealed_with_its_digest(home: bytes, now: int) -> None:
    for content in (b"", b"one", b"x" * ((1 << 20) + 1), b"y" * (3 << 20)):
        path = write(home + b"/f", content)
        told = sealed(path, now)
        assert told is not None
        assert told.raw == xxhash.xxh3_128(content).digest()
        there = os.stat(path)
        assert (told.signature.ino, told.signature.ctime_ns) == (there.st_ino, there.st_ctime_ns)
        assert told.links == 1
    os.link(home + b"/f", home + b"/g")
    told = sealed(home + b"/f", now)
    assert told is not None
    assert told.links == 2


def test_the_steps_have_one_order(home: bytes, now: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(home + b"/f", b"one")
    steps: list[str] = []
    real_fstat, real_fcntl = os.fstat, fcntl.fcntl

    def looked(fd: int) -> os.stat_result:
        steps.append("fstat")
        return real_fstat(fd)

    def read(fd: int, to: memoryview) -> int:
        steps.append("read")
        return read_piece(fd, to)

    def leased(fd: int, command: int, argument: int) -> Any:
        steps.append({fcntl.F_RDLCK: "lease", fcntl.F_UNLCK: "unlease"}[argument])
        assert command == fcntl.F_SETLEASE
        return real_fcntl(fd, command, argument)

    monkeypatch.setattr(os, "fstat", looked)
    monkeypatch.setattr(fcntl, "fcntl", leased)
    monkeypatch.setattr(sealing, "read_piece", read)

    assert sealed(path, now) is not None

    assert steps == ["fstat", "lease", "unlease", "read", "read", "fstat"]


def test_a_file_that_is_open_for_writing_is_not_sealed(home: bytes, now: int) -> None:
    path = write(home + b"/f", b"one")
    with open(path, "r+b"):
        assert sealed(path, now) is None
    assert sealed(path, now) is not None
    with open(path, "rb"):
        assert sealed(path, now) is not None


def test_a_file_that_is_mapped_writable_is_not_sealed(home: bytes, now: int) -> None:
    path = write(home + b"/f", b"one")
    with open(path, "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
    assert sealed(path, now) is None, "the descriptor is closed, the mapping lives"
    mapping.close()
    assert sealed(path, now) is not None
    with open(path, "rb") as readable, mmap.mmap(readable.fileno(), 0, access=mmap.ACCESS_READ):
        assert sealed(path, now) is not None


def test_a_store_through_a_mapping_after_the_seal_moves_ctime(home: bytes, now: int) -> None:
    path = write(home + b"/f", b"one" * 5000)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[0] = mapping[4096]  # the pages were read, one of them is dirty
    told = sealed(path, now)
    assert told is not None
    with open(path, "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
    assert mapping[:3]
    mapping[1] = 99
    assert os.stat(path).st_ctime_ns != told.signature.ctime_ns
    mapping.close()


def test_what_changes_while_it_is_read_is_not_sealed(home: bytes, now: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(home + b"/f", b"one")

    def changing(fd: int, to: memoryview) -> int:
        count = read_piece(fd, to)
        write(path, b"two")
        return count

    monkeypatch.setattr(sealing, "read_piece", changing)
    assert sealed(path, now) is None


@pytest.mark.parametrize("time", ["mtime", "ctime"])
def test_both_times_must_be_older_than_the_moment_by_the_step(
    home: bytes, now: int, time: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(home + b"/f", b"one")
    if time == "mtime":
        os.utime(path, ns=(0, now - LATER + STEP))  # ahead of its ctime
    there = os.stat(path)
    newest = max(there.st_mtime_ns, there.st_ctime_ns)
    assert sealed(path, newest + STEP) is not None
    assert sealed(path, newest + STEP - 1) is None
    assert sealed(path, newest) is None
    monkeypatch.setattr(sealing, "coarse_clock", lambda: newest + STEP - 1)
    assert sealed(path, now) is None, "nor may it be younger now: the clock may have been set back"


def test_where_stamps_are_fine_the_step_is_small(home: bytes, now: int) -> None:
    path = write(home + b"/f", b"one")
    there, stamps = os.stat(path), Stamps(mounted())
    if not stamps.fine(signature(there), path):
        pytest.skip("stamps are not fine here")
    assert seal(path, "xxh3", there.st_ctime_ns + FINE_STEP, stamps) is not None
    assert seal(path, "xxh3", there.st_ctime_ns + FINE_STEP - 1, stamps) is None


def test_in_memory_nothing_is_sealed(now: int) -> None:
    if magic(b"/dev/shm") in sealing.SEALABLE | {None} or not os.access("/dev/shm", os.W_OK):
        pytest.skip("/dev/shm is no tmpfs here")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        path = write(os.fsencode(directory) + b"/f", b"one")
        assert sealed(path, now) is None
        assert not at_rest(os.fsencode(directory), now, Stamps(UNKNOWN))


def test_what_is_no_file_is_never_opened(home: bytes, now: int, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(home + b"/fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(home + b"/socket")
        monkeypatch.setattr(os, "open", None)
        for path in (home + b"/fifo", home + b"/socket", home, b"/dev/null"):
            assert sealed(path, now) is None


def test_a_fifo_that_takes_the_place_of_a_file_blocks_nobody(
    home: bytes, now: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(home + b"/f", b"one")
    real = os.open

    def replacing(name: bytes, flags: int) -> int:
        os.unlink(path)
        os.mkfifo(path)
        return real(name, flags)

    monkeypatch.setattr(os, "open", replacing)
    assert sealed(path, now) is None


def test_without_a_lease_there_is_no_seal_whatever_the_age(
    home: bytes, now: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(home + b"/f", b"one")

    def refused(*_: Any) -> None:
        raise PermissionError

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "fcntl", refused)
        assert sealed(path, now) is None
    monkeypatch.setattr(lease, "_SET_LEASE", None)
    assert sealed(path, now) is None


def test_no_lease_is_taken_where_its_break_would_end_the_process(home: bytes, now: int) -> None:
    path = write(home + b"/f", b"one")
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    assert sealed(path, now) is None


def test_no_lease_is_left_behind(home: bytes, now: int) -> None:
    path = write(home + b"/f", b"one")
    assert sealed(path, now) is not None
    done = threading.Event()

    def writer() -> None:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))  # EWOULDBLOCK where there is a lease
        done.set()

    thread = threading.Thread(target=writer)
    thread.start()
    thread.join()
    assert done.is_set()


def test_a_directory_rests_by_its_times(home: bytes, now: int) -> None:
    write(home + b"/d/f", b"one")
    stamps = Stamps(UNKNOWN)
    assert at_rest(home + b"/d", now, stamps)
    changed = os.stat(home + b"/d").st_ctime_ns
    assert at_rest(home + b"/d", changed + STEP, stamps)
    assert not at_rest(home + b"/d", changed + STEP - 1, stamps)
    with pytest.raises(NotADirectoryError):
        at_rest(home + b"/d/f", now, stamps)
