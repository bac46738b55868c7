"""Seals of sets: every member's very content must be sealed, and what somebody may write is read twice.

Each test says what is broken where it fails: it was seen to fail with that.
"""

from __future__ import annotations

import os

from reading_help import write
from sealing_help import MOST, Sealed, home, sealed

from provd.core.dependency import Kind, Member, set_digest
from provd.core.reading import Found, Reading
from provd.disk import IgnoreRules, read_single, signature
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
