"""`file:`: what reading a path gives, what is never opened, and files that change while they are read."""

from __future__ import annotations

import errno
import mmap
import os
import socket
import sys
from typing import TYPE_CHECKING

import pytest
from reading_help import place, read, reading, sha, without_privilege, write

from provd import filesystems
from provd.core.reading import Found, Signature, Trouble
from provd.disk import IgnoreRules, ReadingJob, files, job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from provd.disk.files import Attempt, Listing, Seen

linux = pytest.mark.skipif(sys.platform != "linux", reason="a file system of Linux")


@pytest.fixture
def here() -> Iterator[bytes]:
    """An empty directory."""
    with place() as path:
        yield path


@pytest.fixture
def nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every attempt to open a file a failure."""

    def refuse(path: bytes, *_rest: object, **_more: object) -> int:
        raise AssertionError(path)

    monkeypatch.setattr(os, "open", refuse)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, files.PIECE - 1, files.PIECE, files.PIECE + 1, 3 * files.PIECE + 7])
def test_the_digest_is_that_of_the_content_whatever_the_size(here: bytes, size: int) -> None:
    content = (b"provd" * (size // 5 + 1))[:size]
    path = write(here + b"/f", content)
    found = read("file:", path)
    assert found.digest == sha(content)
    assert found.signature == files.signature(os.stat(path))


def test_each_algorithm_gives_its_own_digest(here: bytes) -> None:
    path = write(here + b"/f", b"abc")
    assert read("file:", path, "xxh3").digest == "xxh3:06b05ab6733a618578af5f94892f3950"
    assert read("file:", path, "blake2b").digest == "blake2b:cf4ab791c62b8d2b2109c90275287816"
    assert read("file:", path, "sha256").digest == sha(b"abc")


def test_a_file_of_holes_is_read_to_its_end(here: bytes) -> None:
    path = write(here + b"/f")
    os.truncate(path, 5 * files.PIECE)
    assert read("file:", path).digest == sha(bytes(5 * files.PIECE))


@pytest.mark.parametrize("missing", [b"/none", b"/none/below", b"/f/below", b"/f/", b"/dangling", b"/to-below-a-file"])
def test_what_is_not_there_is_absent(here: bytes, missing: bytes) -> None:
    write(here + b"/f")
    os.symlink(b"none", here + b"/dangling")
    os.symlink(b"f/x", here + b"/to-below-a-file")
    assert read("file:", here + missing) == Found("absent")


def test_a_link_gives_what_it_leads_to(here: bytes) -> None:
    write(here + b"/d/f", b"content")
    os.symlink(b"d", here + b"/l")
    os.symlink(b"l/../d/f", here + b"/m")
    assert read("file:", here + b"/m").digest == sha(b"content")


def test_dots_after_a_link_mean_what_the_system_means(here: bytes) -> None:
    write(here + b"/other/f", b"there")
    write(here + b"/f", b"here")
    os.mkdir(here + b"/other/d")
    os.symlink(b"other/d", here + b"/l")
    assert read("file:", here + b"/l/../f").digest == sha(b"there")


@pytest.mark.usefixtures("nothing_is_opened")
def test_directories_and_loops_have_types_for_digests(here: bytes) -> None:
    os.symlink(b"l", here + b"/l")
    assert read("file:", here).digest == "type:dir"
    assert read("file:", here + b"/l").digest == "type:loop"
    assert read("file:", here + b"/l/below").digest == "type:loop"


@pytest.mark.usefixtures("nothing_is_opened")
def test_fifos_sockets_and_devices_are_special_and_never_opened(here: bytes) -> None:
    os.mkfifo(here + b"/fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(here + b"/socket")
    os.symlink(b"fifo", here + b"/link")
    for path in (here + b"/fifo", here + b"/socket", here + b"/link", b"/dev/null"):
        assert read("file:", path).digest == "type:special"


@linux
@pytest.mark.usefixtures("nothing_is_opened")
@pytest.mark.parametrize(
    "path", [b"/proc/self/status", b"/proc/self/ns/mnt", b"/proc/version", b"/sys/kernel/mm/ksm/run"]
)
def test_files_of_the_kernel_are_special_and_never_opened(path: bytes) -> None:
    if not os.path.exists(path):
        pytest.skip("not on this system")
    assert read("file:", path).digest == "type:special"


@linux
def test_disks_and_memory_are_no_kernel_file_systems(here: bytes) -> None:
    assert filesystems.magic(here) not in filesystems.KERNEL
    assert filesystems.magic(b"/proc") in filesystems.KERNEL
    assert not filesystems.is_network(b"/proc")
    with pytest.raises(FileNotFoundError):
        filesystems.magic(here + b"/none")


@pytest.mark.parametrize("name", [b"new\nline", b"\xff\xfe", b" ", b"-", b"x" * 255, "ü".encode() * 127])
def test_any_name_can_be_read(here: bytes, name: bytes) -> None:
    assert read("file:", write(here + b"/" + name, name)).digest == sha(name)


def test_paths_up_to_the_longest_are_read_and_longer_ones_are_unreadable(here: bytes) -> None:
    above = here
    while len(above) < 4095 - 250:
        above += b"/" + b"d" * 200
    longest = write(above + b"/" + b"f" * (4095 - len(above) - 1), b"far")
    assert len(longest) == 4095
    assert read("file:", longest).digest == sha(b"far")
    found = read("file:", longest + b"f")
    assert (found.digest, found.trouble) == (None, Trouble.UNREADABLE)
    assert "ENAMETOOLONG" in found.detail


def test_a_name_that_no_file_can_have_is_unreadable(here: bytes) -> None:
    assert read("file:", here + b"/" + b"x" * 256).trouble is Trouble.UNREADABLE


def test_what_may_not_be_read_is_unreadable_with_the_reason(here: bytes) -> None:
    path = write(here + b"/shut/f", b"x")
    own = write(here + b"/f", b"x")
    os.chmod(own, 0)
    os.chmod(here + b"/shut", 0)
    with without_privilege():
        for unreadable in (path, own):
            found = read("file:", unreadable)
            assert (found.digest, found.trouble) == (None, Trouble.UNREADABLE)
            assert found.detail.startswith("EACCES")
    os.chmod(here + b"/shut", 0o755)


def test_an_error_while_reading_is_unreadable(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int, _size: int) -> bytes:
        raise OSError(errno.EIO, "the disk")

    monkeypatch.setattr(files, "read_whole", fail)
    found = read("file:", write(here + b"/f", b"x"))
    assert found.trouble is Trouble.UNREADABLE
    assert found.detail.startswith("EIO")


def test_a_fault_of_the_reader_is_unreadable_and_says_so(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int, _size: int) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(files, "read_whole", fail)
    found = read("file:", write(here + b"/f", b"x"))
    assert found.trouble is Trouble.UNREADABLE
    assert "internal: ZeroDivisionError" in found.detail


def after_reads(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], object]) -> list[int]:
    """Has `act` called, with its number, after the content of each small file was read; returns the numbers."""
    real = files.read_whole
    reads: list[int] = []

    def hook(descriptor: int, size: int) -> bytes:
        content = real(descriptor, size)
        reads.append(len(reads) + 1)
        act(len(reads))
        return content

    monkeypatch.setattr(files, "read_whole", hook)
    return reads


def old(monkeypatch: pytest.MonkeyPatch, *, young: bool = False) -> None:
    """Makes every file old (or young), however fast this test is."""
    monkeypatch.setattr(files, "is_young", lambda _signature, _at: young)


def test_a_file_that_grows_while_it_is_read_is_read_again(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    old(monkeypatch)
    path = write(here + b"/f", b"before")
    reads = after_reads(monkeypatch, lambda count: write(path, b"afterwards") if count == 1 else None)
    assert read("file:", path).digest == sha(b"afterwards")
    assert len(reads) == 2


def test_a_big_file_that_grows_between_pieces_is_read_again(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(here + b"/f", bytes(2 * files.PIECE))
    real = files.read_piece
    grown: list[bytes] = []

    def hook(descriptor: int, buffer: memoryview) -> int:
        count = real(descriptor, buffer)
        if not grown:
            grown.append(write(path, b"x" * 3 * files.PIECE))
        return count

    monkeypatch.setattr(files, "read_piece", hook)
    assert read("file:", path).digest == sha(b"x" * 3 * files.PIECE)


def test_a_file_that_is_replaced_between_stat_and_open_is_read_again(
    here: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(here + b"/f", b"before")
    write(here + b"/new", b"after")
    real = os.open
    opened: list[bytes] = []

    def hook(name: bytes, flags: int) -> int:
        if not opened:
            os.rename(here + b"/new", path)
        opened.append(name)
        return real(name, flags)

    monkeypatch.setattr(os, "open", hook)
    assert read("file:", path).digest == sha(b"after")
    assert opened[:2] == [path, path]


def test_a_file_that_vanishes_between_stat_and_open_is_absent(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(here + b"/f", b"before")
    real = os.open

    def hook(name: bytes, flags: int) -> int:
        os.unlink(name)
        return real(name, flags)

    monkeypatch.setattr(os, "open", hook)
    assert read("file:", path) == Found("absent")


def test_a_file_that_changes_at_each_of_three_reads_is_moving(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(here + b"/f", b"")
    reads = after_reads(monkeypatch, lambda count: write(path, b"x" * count))
    found = read("file:", path)
    assert (found.digest, found.trouble) == (None, Trouble.MOVING)
    assert len(reads) == 3


def test_a_write_that_stat_does_not_show_is_found_while_the_file_is_young(
    here: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    old(monkeypatch, young=True)
    path = write(here + b"/f", b"before")
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:6] = b"BEFORE"  # from now on stores into this page move no time

        def store(count: int) -> None:
            if count == 1:
                mapped[:6] = b"behind"

        reads = after_reads(monkeypatch, store)
        assert read("file:", path).digest == sha(b"behind")
    assert len(reads) == 4  # read, found to differ, read, confirmed


def test_one_old_file_is_read_once(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    old(monkeypatch)
    path = write(here + b"/f", b"x")
    reads = after_reads(monkeypatch, lambda _count: None)
    read("file:", path)
    assert len(reads) == 1


@pytest.mark.parametrize(
    ("age", "ctime", "young"),
    [
        (0, 1_000_000_001, True),
        (-5, 1_000_000_001, True),
        (19_999_999, 1_000_000_001, True),
        (20_000_000, 1_000_000_001, False),
        (1_999_999_999, 1_000_000_000, True),
        (2_020_000_000, 1_000_000_000, False),
    ],
)
def test_a_file_is_young_within_a_step_of_its_stamp(age: int, ctime: int, young: bool) -> None:
    signature = Signature(1, 1, 0, 0, 0, ctime)
    assert files.is_young(signature, ctime + age) is young


def together(*paths: bytes) -> list[Found]:
    """Reads several files as one job."""
    wanted = [reading("file:", path) for path in paths]
    work = ReadingJob(wanted, IgnoreRules())
    work.run()
    assert work.finished
    return [work.found[one] for one in wanted]


def test_a_file_that_changes_while_another_is_read_is_read_again(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    old(monkeypatch)
    first, second = write(here + b"/1", b"1"), write(here + b"/2", b"2")
    reads = after_reads(monkeypatch, lambda count: write(first, b"one") if count == 2 else None)
    assert [found.digest for found in together(first, second)] == [sha(b"one"), sha(b"2")]
    assert len(reads) == 3


def test_a_file_that_appears_while_another_is_read_is_found(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    second = write(here + b"/2", b"2")
    after_reads(monkeypatch, lambda count: write(here + b"/1", b"new") if count == 1 else None)
    assert [found.digest for found in together(here + b"/1", second)] == [sha(b"new"), sha(b"2")]


def test_only_what_never_stands_still_is_moving(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    restless, still = write(here + b"/1", b""), write(here + b"/2", b"2")
    real = files.unchanged

    def hook(seen: Seen | Listing, attempt: Attempt) -> bool:
        if seen.path == restless:
            with open(restless, "ab") as file:
                file.write(b"x")
        return real(seen, attempt)

    monkeypatch.setattr(job, "unchanged", hook)
    first, second = together(restless, still)
    assert (first.digest, first.trouble, first.paths) == (None, Trouble.MOVING, ())
    assert second.digest == sha(b"2")


def test_readings_of_the_same_thing_are_one(here: bytes) -> None:
    path = write(here + b"/f", b"x")
    assert [found.digest for found in together(path, path)] == [sha(b"x")] * 2


def test_a_cancelled_job_ends_between_the_pieces_of_a_file(here: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(here + b"/f", bytes(5 * files.PIECE))
    work = ReadingJob([reading("file:", path)], IgnoreRules())
    real = files.read_piece
    pieces = []

    def hook(descriptor: int, buffer: memoryview) -> int:
        pieces.append(descriptor)
        work.cancel()
        return real(descriptor, buffer)

    monkeypatch.setattr(files, "read_piece", hook)
    work.run()
    assert len(pieces) == 1
    assert [found.trouble for found in work.results().values()] == [Trouble.TIMEOUT]
