"""What voids seals, at once and before the answer, and who writes while they are made.

Each test says what is broken where it fails: it was seen to fail with that.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from reading_help import sha, write
from sealing_help import Sealed, at_reading, home, sealed, wall_clock_was_set

from provd.disk.epoch import Epoch
from provd.disk.mounts import UNKNOWN
from provd.disk.seals import Seals

__all__ = ["at_reading", "home", "sealed"]

# epochs


def test_a_clock_that_was_set_voids_all_seals(home: bytes, sealed: Sealed) -> None:
    """Broken: `current` keeps its rows over an epoch."""
    path = write(home + b"/f", b"one")
    sealed.ask(path)
    assert sealed.has(path)
    wall_clock_was_set(sealed.clock)
    assert not sealed.has(path)
    assert not sealed.ask(path).sealed
    assert sealed.ask(path).sealed, "it is sealed anew"


@pytest.mark.parametrize("somebody_asks", [False, True])
def test_a_seal_that_was_made_across_the_end_of_an_epoch_is_not_kept(
    home: bytes, sealed: Sealed, at_reading: Callable[[Callable[[], object]], None], *, somebody_asks: bool
) -> None:
    """Broken: `keep` does not ask of which epoch it is (where somebody asked), or takes the newest for its own."""
    path = write(home + b"/f", b"one")

    def end() -> None:
        wall_clock_was_set(sealed.clock)
        if somebody_asks:
            sealed.seals.current()

    at_reading(end)
    sealed.ask(path)
    assert not sealed.has(path)


def set_at_a_look(sealed: Sealed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the wall clock set right before the next `stat`."""
    real = os.stat

    def looking(path: bytes, **how: bool) -> os.stat_result:
        monkeypatch.setattr(os, "stat", real)
        wall_clock_was_set(sealed.clock)
        return real(path, **how)

    monkeypatch.setattr(os, "stat", looking)


@pytest.mark.parametrize("others", [0, 1])
def test_a_seal_that_is_void_before_the_answer_does_not_count(
    home: bytes, sealed: Sealed, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """Broken: `_has_moved` without `holds`; `_start_round` without what was sealed."""
    paths = [write(home + b"/%d" % number, b"one") for number in range(1 + others)]
    for path in paths:
        sealed.ask(path)
    assert all(found.sealed for found in sealed.ask_by_job(*paths))
    set_at_a_look(sealed, monkeypatch)
    assert not any(found.sealed for found in sealed.ask_by_job(*paths))


def test_a_seal_that_is_void_before_the_answer_leaves_a_single_file_to_a_job(
    home: bytes, sealed: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken: `read_single` without `holds`."""
    path = write(home + b"/f", b"one")
    sealed.ask(path)
    set_at_a_look(sealed, monkeypatch)
    assert not sealed.ask(path).sealed


def test_nobody_who_asked_earlier_brings_an_epoch_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread asks and is held up while another sees the next one. Broken: `current` asks before it has the lock."""
    epoch = Epoch()
    seals = Seals(epoch)
    first = seals.current()
    numbers = iter((first, first + 1))
    states: list[bool] = []

    def now() -> int:
        states.append(seals._lock.locked())
        return next(numbers)

    monkeypatch.setattr(epoch, "now", now)
    assert [seals.current(), seals.current()] == [first, first + 1]
    assert states == [True, True]
    epoch.close()


def test_where_no_epoch_is_known_there_are_no_seals(tmp_path: os.PathLike[str]) -> None:
    seals = Seals(Epoch(os.path.join(tmp_path, "no table")))
    assert seals.current() == 0
    assert seals.sealer(UNKNOWN) is None


# who writes meanwhile


def test_a_writer_that_opens_all_the_time_never_fails(home: bytes, sealed: Sealed) -> None:
    """Only who opens without waiting may be refused, and only while a lease is held, which is never over a reading."""
    path = write(home + b"/f", b"one")
    program = (
        "import errno, os, sys\n"
        "path, kinds = sys.argv[1], set()\n"
        "print(flush=True)\n"
        "for number in range(3000):\n"
        "    os.close(os.open(path, os.O_WRONLY))\n"
        "    try: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))\n"
        "    except OSError as error: kinds.add(error.errno)\n"
        "print(sorted(kinds))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        while child.poll() is None:
            assert sealed.ask(path, by_seal=False).digest == sha(b"one")
        assert child.stdout.read().strip() in {b"[]", b"[%d]" % errno.EWOULDBLOCK}
    assert child.returncode == 0
