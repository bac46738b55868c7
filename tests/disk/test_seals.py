"""The seals that are known: what has one is not read, and none is believed after anything that it does not show.

Each test says what is broken where it fails: it was seen to fail with that.
"""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable

import pytest
from reading_help import flip, sha, stamped_finely, write
from sealing_help import LATER, Sealed, at_reading, chain, home, sealed, set_clock, stores_are_seen_on_tmpfs

from provd.disk import files
from provd.disk.files import coarse_clock
from provd.disk.lease import Pen
from provd.disk.mounts import UNKNOWN, mounted
from provd.filesystems import magic

__all__ = ["at_reading", "home", "sealed"]

Reader = Callable[[int, int], bytes]

TMPFS = 0x01021994


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on nothing may be read."""

    def forbid() -> None:
        monkeypatch.setattr(files, "read_whole", lambda *_: pytest.fail("it was read"))

    return forbid


def rewrite(path: bytes, content: bytes) -> None:
    """Writes until a time has moved: what is sealed outside of tests is older than any step of the clock."""
    was = os.stat(path)
    while True:
        write(path, content)
        now = os.stat(path)
        if (now.st_size, now.st_ctime_ns) != (was.st_size, was.st_ctime_ns):
            return


def mapping_of(path: bytes) -> mmap.mmap:
    """A writable mapping whose first page is dirty, so that further stores move no time; the descriptor is closed."""
    with open(path, "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
    mapping[0] = mapping[0]
    return mapping


# what has a seal


def test_what_has_a_seal_is_not_read(home: bytes, sealed: Sealed, unread: Callable[[], None]) -> None:
    for content in (b"", b"one", b"x" * 5000):
        path = write(home + b"/%d" % len(content), content)
        found = sealed.ask(path)
        assert (found.digest, found.sealed) == (sha(content), False)
    unread()
    for content in (b"", b"one", b"x" * 5000):
        found = sealed.ask(home + b"/%d" % len(content))
        assert (found.digest, found.sealed) == (sha(content), True)
        (found,) = sealed.ask_by_job(home + b"/%d" % len(content))
        assert (found.digest, found.sealed) == (sha(content), True)


def test_who_asks_for_content_gets_a_reading_that_makes_seals_all_the_same(home: bytes, sealed: Sealed) -> None:
    """Broken: `Attempt.by_seal` does not ask whether a seal is enough."""
    path = write(home + b"/f", b"one")
    for _ in range(2):
        assert not sealed.ask(path, by_seal=False).sealed
        assert not sealed.ask_by_job(path, by_seal=False)[0].sealed
    assert sealed.ask(path).sealed


def test_a_seal_is_of_one_algorithm_and_others_may_join_it(home: bytes, sealed: Sealed) -> None:
    """Broken: `keep` takes over the digests of another signature."""
    path = write(home + b"/f", b"one")
    sealed.ask(path)
    found = sealed.ask(path, "blake2b")
    assert not found.sealed
    assert (found.digest or "").startswith("blake2b:")
    assert [sealed.ask(path, algorithm).sealed for algorithm in ("sha256", "blake2b", "xxh3")] == [True, True, False]
    rewrite(path, b"two")
    assert sealed.ask(path).digest == sha(b"two")
    assert [sealed.ask(path, algorithm).sealed for algorithm in ("sha256", "blake2b")] == [True, False]


def test_the_seal_that_was_made_first_goes_first(
    home: bytes, lease_breaks_ignored: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken: `keep` without its limit; without taking out what is made anew."""
    del lease_breaks_ignored
    set_clock(monkeypatch, coarse_clock() + LATER)
    sealed = Sealed(limit=3)
    paths = [write(home + b"/%d" % number, b"one") for number in range(4)]
    for path in (*paths[:3], paths[0]):
        sealed.ask(path, by_seal=False)
    sealed.ask(paths[3])
    assert len(sealed.seals) == 3
    assert [sealed.has(path) for path in paths] == [True, False, True, True]
    sealed.close()


# changes after the seal

CHANGES: dict[str, Callable[[bytes], object]] = {
    "written": lambda path: rewrite(path, b"two"),
    "other size": lambda path: rewrite(path, b"longer"),
    "replaced": lambda path: os.rename(write(path + b".new", b"two"), path),
    "gone": os.unlink,
    "a directory": chain(os.unlink, os.mkdir),
    "a link": chain(lambda path: write(path + b".other", b"two"), lambda path: flip(path, path + b".other")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_since_is_seen(home: bytes, sealed: Sealed, change: str) -> None:
    """Broken: `find` without the comparison of signatures."""
    path = write(home + b"/f", b"one")
    sealed.ask(path)
    assert sealed.ask(path).sealed
    CHANGES[change](path)
    now = sealed.ask(path)
    assert now.digest != sha(b"one")
    assert not now.sealed


def test_a_written_file_with_its_old_mtime_is_seen(home: bytes, sealed: Sealed) -> None:
    path = write(home + b"/f", b"one")
    sealed.ask(path)
    was = os.stat(path)
    rewrite(path, b"two")
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert sealed.ask(path).digest == sha(b"two")


@pytest.mark.parametrize("dirty_before", [False, True])
def test_a_store_through_a_mapping_made_since_is_seen(home: bytes, sealed: Sealed, *, dirty_before: bool) -> None:
    path = write(home + b"/f", b"one" * 3000)
    if dirty_before:
        mapping_of(path).close()
    sealed.ask(path)
    assert sealed.ask(path).sealed
    with open(path, "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
    assert mapping[:3] == b"one"
    assert sealed.ask(path).sealed, "nothing was stored yet"
    mapping[:3] = b"two"
    assert sealed.ask(path).digest == sha(b"two" + b"one" * 2999)
    mapping.close()


def test_other_names_have_no_seal_of_their_own(home: bytes, sealed: Sealed) -> None:
    path = write(home + b"/d/f", b"one")
    other = write(home + b"/e/f", b"two")
    os.symlink(home + b"/d", home + b"/current")
    sealed.ask(path)
    through = home + b"/current/f"
    assert not sealed.ask(through).sealed
    assert sealed.ask(through).sealed
    flip(home + b"/current", home + b"/e")
    assert sealed.ask(through).digest == sha(b"two")
    os.unlink(path)
    os.link(other, path)
    assert sealed.ask(path).digest == sha(b"two")


# the order in which a seal is made


def test_a_lease_that_is_asked_for_last_would_prove_nothing(
    home: bytes, sealed: Sealed, at_reading: Callable[[Callable[[], object]], None]
) -> None:
    """A mapping stores while the file is read and ends. Broken: `pen` is asked after the reading."""
    path = write(home + b"/f", b"one")
    mapping = mapping_of(path)

    def store() -> None:
        mapping[:3] = b"two"
        mapping.close()

    at_reading(store)
    assert sealed.ask(path).digest == sha(b"two"), "it was read twice, since somebody could write it"
    assert sealed.ask(path).digest == sha(b"two")


def test_a_lease_that_is_asked_for_before_the_first_look_would_prove_nothing(
    home: bytes, sealed: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mapping stores once before the first `fstat`, so that its time has moved, and again after the last.

    Broken: the lease is taken before the first `fstat`.
    """
    path = write(home + b"/f", b"one")
    real, mappings = os.fstat, []

    def looking(descriptor: int) -> os.stat_result:
        monkeypatch.setattr(os, "fstat", real)
        mappings.append(mapping_of(path))
        return real(descriptor)

    monkeypatch.setattr(os, "fstat", looking)
    sealed.ask(path)
    mappings[0][:3] = b"two"
    assert sealed.ask(path).digest == sha(b"two")
    mappings[0].close()


def test_a_file_that_somebody_may_write_has_no_seal_however_old_it_is(home: bytes, sealed: Sealed) -> None:
    """Broken: `pen` without a lease."""
    path = write(home + b"/f", b"one")
    with open(path, "r+b"):
        sealed.ask(path)
        assert not sealed.has(path)
    mapping = mapping_of(path)
    sealed.ask(path)
    mapping[:3] = b"two"  # this moves no time
    assert sealed.ask(path).digest == sha(b"two")
    mapping.close()
    sealed.ask(path)
    assert sealed.ask(path).sealed, "now nobody may"


def test_a_mapping_in_another_process_is_one_too(home: bytes, sealed: Sealed) -> None:
    """Broken: `pen` without a lease."""
    path = write(home + b"/f", b"one")
    program = (
        "import mmap, sys\n"
        "with open(sys.argv[1], 'r+b') as file: m = mmap.mmap(file.fileno(), 0)\n"
        "m[0] = m[0]; print(flush=True); input(); m[:3] = b'two'; print(flush=True); input()"
    )
    command = [sys.executable, "-c", program, os.fsdecode(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        sealed.ask(path)
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()
        assert sealed.ask(path).digest == sha(b"two")


def test_no_lease_is_held_while_a_file_is_read(
    home: bytes, sealed: Sealed, at_reading: Callable[[Callable[[], object]], None]
) -> None:
    """An opening for writing that does not wait fails while anybody holds one. Broken: it is given back at the end."""
    path = write(home + b"/f", b"one")
    opened: list[int] = []
    at_reading(lambda: opened.append(os.open(path, os.O_WRONLY | os.O_NONBLOCK)))
    sealed.ask(path)
    assert sealed.ask(path).digest == sha(b"one")
    os.close(opened[0])


def test_what_changes_while_it_is_read_has_no_seal(
    home: bytes, sealed: Sealed, at_reading: Callable[[Callable[[], object]], None]
) -> None:
    """Broken: the seal is kept before the last `fstat`."""
    path = write(home + b"/f", b"one")
    at_reading(lambda: rewrite(path, b"two"))
    found = sealed.ask(path)
    assert (found.digest, found.sealed) == (sha(b"two"), False)
    assert sealed.ask(path).digest == sha(b"two")


# age


@pytest.mark.parametrize("fine", [False, True])
def test_what_is_not_at_rest_has_no_seal(
    home: bytes, lease_breaks_ignored: None, monkeypatch: pytest.MonkeyPatch, *, fine: bool
) -> None:
    """Broken: either step is less."""
    del lease_breaks_ignored
    path = write(home + b"/f", b"one")
    if fine:
        stamped_finely(path)
    sealed, changed, step = Sealed(), os.stat(path).st_ctime_ns, 20_000_000 if fine else 2_000_000_000
    mounts = mounted() if fine else UNKNOWN

    def may_seal() -> bool:
        sealer = sealed.seals.sealer(mounts)
        assert sealer is not None
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return sealer.pen(descriptor, path, files.signature(os.fstat(descriptor))) is Pen.NOBODYS
        finally:
            os.close(descriptor)

    for age, rests in ((-LATER, False), (0, False), (step - 1, False), (step, True)):
        set_clock(monkeypatch, changed + age)
        assert may_seal() is rests, age
    os.utime(path, ns=(0, changed + LATER))
    set_clock(monkeypatch, os.stat(path).st_ctime_ns + 2_000_000_000)
    assert not may_seal(), "its other time is ahead"
    sealed.close()


# where nothing is sealed


def test_where_a_broken_lease_would_end_the_process_there_are_no_seals(sealed: Sealed) -> None:
    """Broken: `sealer` without `can_lease`."""
    assert sealed.seals.sealer(UNKNOWN) is not None
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    assert sealed.seals.sealer(UNKNOWN) is None


def test_in_memory_there_are_no_seals(sealed: Sealed) -> None:
    """A mapping that reads before it stores moves no time there, and the lease is granted. Broken: any file system."""
    if magic(b"/dev/shm") != TMPFS or not os.access("/dev/shm", os.W_OK):
        pytest.skip("/dev/shm is no tmpfs here")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        stores_are_seen_on_tmpfs(sealed, os.fsencode(directory))
