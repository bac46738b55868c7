"""Listing a directory for the log: its names in order, however many there are, and never much in one go."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from provd.core.mutation import DIRECTORY, State
from provd.disk import states
from provd.disk.mounts import Mounts
from provd.disk.states import MOUNTED, Listing, Unlisted, is_as, listing, listing_at_once, look

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("count", [0, 1, 6, 7, 8, 50])
def test_the_names_come_in_order_and_others_have_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(states, "PILE", 7)
    monkeypatch.setattr(states, "SLICE", 7)
    names = [b"%d" % n for n in range(count)]
    for name in random.sample(names, count):
        (tmp_path / os.fsdecode(name)).touch()
    *turns, found = listing(os.fsencode(tmp_path))
    assert isinstance(found, Listing)
    assert list(found.names) == sorted(names)
    assert found.names == {name: look(os.fsencode(tmp_path) + b"/" + name) for name in names}
    assert turns == [None] * len(turns)
    assert len(turns) >= 3 * (count // 7) - 1
    assert listing_at_once(os.fsencode(tmp_path)) == found


def test_what_is_no_directory_is_gone_and_what_may_not_be_read_is_not(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    for name in ("f", "none"):
        found = listing_at_once(os.fsencode(tmp_path / name))
        assert isinstance(found, Unlisted)
        assert found.gone


def test_what_is_mounted_and_may_hang_is_not_looked_at(tmp_path: Path) -> None:
    here = os.fsencode(os.path.realpath(tmp_path))
    for name in (b"far", b"near"):
        os.mkdir(here + b"/" + name)
    (tmp_path / "file").touch()
    points = {b"/": False, here + b"/far": True, here + b"/file": True, b"/elsewhere/near": True}
    mounts = Mounts(points=points, hanging=frozenset({b"far", b"file", b"near"}))
    found = listing_at_once(here, mounts)
    assert isinstance(found, Listing)
    assert found.names[b"far"] == MOUNTED
    assert found.names[b"near"] == look(here + b"/near")
    known = listing_at_once(here)
    assert isinstance(known, Listing)
    assert is_as(found.names[b"far"], known.names[b"far"])
    assert not is_as(found.names[b"far"], known.names[b"file"])
    assert not is_as(found.names[b"file"], known.names[b"far"])
    assert not is_as(known.names[b"near"], known.names[b"far"])
    top_of_a_tmpfs = State(DIRECTORY, 0, 0, 0, 1)
    assert not is_as(top_of_a_tmpfs, known.names[b"near"]), "its inode is 1, and it is as well known as any other"
