"""Seals of sets: every member's very content must be sealed, and what somebody may write is read twice.

Each test says what is broken where it fails: it was seen to fail with that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from reading_help import write
from sealing_help import MOST, Sealed, home, in_namespace, may_mount, mount, sealed, unmount, wall_clock_was_set

from provd.core.dependency import Kind, Member, set_digest
from provd.core.reading import Found, Reading
from provd.disk import IgnoreRules, job, read_single, signature
from provd.disk.files import Seen, Sort
from provd.disk.mounts import mounted

__all__ = ["home", "sealed"]


def test_a_member_that_was_sealed_with_another_content_seals_no_set(home: bytes, sealed: Sealed) -> None:
    """A store through a mapping moved no time, and another question sealed what came of it.

    Broken: the seal of a member is found by its signature alone.
    """
    path = write(home + b"/f", b"one")
    sealed.ask(path)
    row = sealed.seals.get(path)
    sealer = sealed.seals.sealer(mounted())
    assert row is not None
    assert sealer is not None
    reading, rules = Reading(Kind.TREE, home, "sha256"), IgnoreRules()

    for raw, is_kept in ((b"x" * 32, False), (row.raw["sha256"], True)):
        members = (Member("f", b"f", raw),)
        found = Found(set_digest("sha256", members), members=members)
        sealer.keep_set(reading, rules, found, [Seen(path, False, Sort.FILE, signature(os.stat(path)), raw)])
        assert (sealed.seals.get_set(reading) is not None) is is_kept


def test_what_somebody_may_write_is_not_read_once_only(home: bytes, sealed: Sealed) -> None:
    """Equal times prove nothing of it. Broken: a refused lease only leaves the file without a seal."""
    path = write(home + b"/f", b"one")
    with open(path, "r+b"):
        assert read_single(path, "sha256", MOST, sealed.seals.sealer(mounted())) is None
    assert read_single(path, "sha256", MOST, sealed.seals.sealer(mounted())) is not None


# the end of an epoch


def ask(sealed: Sealed, reading: Reading, at_second_look: Callable[[], object] = int) -> Found:
    """One question about a set, as workers answer it; something happens once all is read."""
    table = mounted()
    work = job.ReadingJob([reading], IgnoreRules(), None, table, sealed.seals.sealer(table))
    with pytest.MonkeyPatch.context() as patched:
        real = job._first_differing

        def looking(*arguments: Any) -> bytes | None:
            patched.undo()
            at_second_look()
            return real(*arguments)

        patched.setattr(job, "_first_differing", looking)
        work.run()
    return work.found[reading]


def is_kept(sealed: Sealed, reading: Reading) -> bool:
    """Whether a set has a seal of this moment."""
    return bool(sealed.seals.current()) and sealed.seals.get_set(reading) is not None


@pytest.mark.parametrize("somebody_asks", [False, True])
def test_the_seal_of_a_set_that_was_made_across_the_end_of_an_epoch_is_not_kept(
    home: bytes, sealed: Sealed, *, somebody_asks: bool
) -> None:
    """Broken: `current` keeps the sets of another epoch; `keep_set` does not ask of which it is (where somebody asked).

    The set has no files: the seals of those are gone in the same moment, and without them no set is sealed anyway.
    """
    os.makedirs(home + b"/d/e")
    reading = Reading(Kind.TREE, home + b"/d", "sha256")

    def end() -> None:
        wall_clock_was_set(sealed.clock)
        if somebody_asks:
            sealed.seals.current()

    before = ask(sealed, reading, end)
    assert not is_kept(sealed, reading)
    assert ask(sealed, reading) == before
    assert is_kept(sealed, reading), "it is sealed anew"


def a_mount_while_a_set_is_read(home: bytes) -> None:
    """Something lies over a directory and is gone again before the answer, and no time has moved.

    Broken: `current` keeps the sets of another epoch; `Epoch` without the mount table.
    """
    sealed = Sealed()
    reading = Reading(Kind.TREE, home + b"/d", "sha256")

    def over() -> None:
        mount("-t", "tmpfs", "none", home + b"/d/e")
        unmount(home + b"/d/e")

    before = ask(sealed, reading)
    assert is_kept(sealed, reading)
    assert ask(sealed, reading, over) == before
    assert not is_kept(sealed, reading)


@pytest.mark.skipif(not may_mount(), reason="nothing may be mounted here")
def test_a_mount_while_a_set_is_read_leaves_no_seal(home: bytes) -> None:
    os.makedirs(home + b"/d/e")
    write(home + b"/d/e/f", b"one")
    in_namespace(a_mount_while_a_set_is_read, home)
