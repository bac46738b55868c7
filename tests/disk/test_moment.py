"""One moment: what flips and flips back while several things are read is never seen in halves."""

from __future__ import annotations

import itertools
import os
import time
from typing import TYPE_CHECKING

import pytest
from reading_help import exchange, fine, flip, here, reading, set_of, sha, write

from provd.core.reading import Trouble
from provd.disk import IgnoreRules, ReadingJob, files
from provd.disk.mounts import Mounts, mounted

__all__ = ["fine", "here"]

if TYPE_CHECKING:
    from collections.abc import Callable

    from provd.core.reading import Found, Reading


def job(mounts: Mounts, *wanted: Reading, most: int | None = None) -> list[Found]:
    """Reads all of it as one job."""
    work = ReadingJob(wanted, IgnoreRules(), most, mounts)
    work.run()
    assert work.finished
    return [work.found[one] for one in wanted]


class Flipping:
    """Has `to_other` and `to_first` called in turn around the reading of each file, so that the first state is back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, away: Callable[[], object], back: Callable[[], object]) -> None:
        self.rounds = 0
        self.most = 1
        self._away = away
        self._back = back
        self._inside = itertools.cycle([True, False])
        self._real = files.read_whole
        monkeypatch.setattr(files, "read_whole", self._read)
        monkeypatch.setattr(files, "is_young", lambda _signature, _at: True)  # each round reads all, however fast it is

    def _read(self, descriptor: int, size: int) -> bytes:
        content = self._real(descriptor, size)
        if self.rounds < 2 * self.most:  # between the readings: away after the first, back after the second
            self.rounds += 1
            (self._away if next(self._inside) else self._back)()
        return content


@pytest.mark.parametrize("most", [1, 2])
def test_a_deploy_that_flips_and_flips_back_is_never_seen_in_halves(
    here: bytes, fine: Mounts, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    for release in (b"1", b"2"):
        for name in (b"a", b"b"):
            write(here + b"/" + release + b"/" + name, release)
    os.symlink(b"1", here + b"/l")
    flipping = Flipping(monkeypatch, lambda: flip(here + b"/l", b"2"), lambda: flip(here + b"/l", b"1"))
    flipping.most = most
    found = job(fine, reading("file:", here + b"/l/a"), reading("file:", here + b"/l/b"))
    assert flipping.rounds == 2 * most
    assert [one.digest for one in found] == [sha(b"1")] * 2


def test_a_deploy_that_never_rests_is_moving(here: bytes, fine: Mounts, monkeypatch: pytest.MonkeyPatch) -> None:
    for release in (b"1", b"2"):
        for name in (b"a", b"b"):
            write(here + b"/" + release + b"/" + name, release)
    os.symlink(b"1", here + b"/l")
    Flipping(monkeypatch, lambda: flip(here + b"/l", b"2"), lambda: flip(here + b"/l", b"1")).most = 99
    found = job(fine, reading("file:", here + b"/l/a"), reading("file:", here + b"/l/b"))
    assert [one.trouble for one in found] == [Trouble.MOVING] * 2


def test_two_directories_that_are_exchanged_and_back_are_never_seen_in_halves(
    here: bytes, fine: Mounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    for release in (b"1", b"2"):
        for name in (b"a", b"b"):
            write(here + b"/" + release + b"/x/" + name, release)

    def both() -> None:
        exchange(here + b"/1", here + b"/2")

    flipping = Flipping(monkeypatch, both, both)
    found = job(fine, reading("file:", here + b"/1/x/a"), reading("file:", here + b"/1/x/b"))
    assert flipping.rounds == 2
    assert [one.digest for one in found] == [sha(b"1")] * 2


def test_a_file_that_hops_between_two_names_is_never_absent_under_both(
    here: bytes, fine: Mounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is at 1, then at 2, then at 1 again; 2 is read before it comes there, and 1 while it is away."""
    write(here + b"/d/1", b"x")
    write(here + b"/c", b"c")
    hops = iter([(b"/d/1", b"/e/2"), (b"/e/2", b"/d/1")])
    os.mkdir(here + b"/e")
    real = files.Attempt.look

    def look(attempt: files.Attempt, path: bytes, *, follow: bool) -> files.Look:
        if path in {here + b"/d/1", here + b"/c"}:
            for source, target in itertools.islice(hops, 1):
                os.rename(here + source, here + target)
        return real(attempt, path, follow=follow)

    monkeypatch.setattr(files.Attempt, "look", look)
    wanted = [reading("file:", here + name) for name in (b"/e/2", b"/d/1", b"/c")]
    found = [one.digest for one in job(fine, *wanted)]
    assert next(hops, None) is None
    assert found == ["absent", sha(b"x"), sha(b"c")]


def test_a_glob_whose_link_leads_elsewhere_for_a_while_is_never_seen_in_halves(
    here: bytes, fine: Mounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link itself is the same all the time: a directory that it leads through is another one for a while."""
    write(here + b"/1/f", b"1")
    write(here + b"/2/f", b"2")
    write(here + b"/g/0", b"first")
    os.symlink(b"../cur/f", here + b"/g/l")
    os.symlink(b"1", here + b"/cur")
    flipping = Flipping(monkeypatch, lambda: flip(here + b"/cur", b"2"), lambda: flip(here + b"/cur", b"1"))
    (found,) = job(fine, reading("glob:", here + b"/g/*"))
    assert flipping.rounds == 2
    assert found.digest == set_of({b"0": ("f", b"first"), b"l": ("f", b"1")})


def test_a_tree_below_a_flipped_link_is_never_mixed_with_what_lies_beside(
    here: bytes, fine: Mounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    for release in (b"1", b"2"):
        write(here + b"/" + release + b"/t/f", release)
        write(here + b"/" + release + b"/version", release)
    os.symlink(b"1", here + b"/l")
    flipping = Flipping(monkeypatch, lambda: flip(here + b"/l", b"2"), lambda: flip(here + b"/l", b"1"))
    version, tree = job(fine, reading("file:", here + b"/l/version"), reading("tree:", here + b"/l/t"))
    assert flipping.rounds == 2
    assert (version.digest, tree.digest) == (sha(b"1"), set_of({b"f": ("f", b"1")}))


def test_a_busy_directory_above_disturbs_nobody(here: bytes, fine: Mounts, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [reading("file:", write(here + b"/top/d/%d" % number, b"x")) for number in range(3)]
    wanted += [
        reading("tree:", here + b"/top/d"),
        reading("file:", here + b"/top/d/none"),
        reading("glob:", here + b"/top/d/*"),
    ]
    counted = itertools.count()
    real = os.lstat

    def busy(path: bytes) -> os.stat_result:
        write(here + b"/top/busy%d" % next(counted))
        return real(path)

    monkeypatch.setattr(os, "lstat", busy)
    found = job(fine, *wanted)
    assert [one.trouble for one in found] == [None] * 6


def test_a_name_asked_for_by_itself_is_not_followed(here: bytes) -> None:
    """What the link leads through cannot be seen, and need not be."""
    os.makedirs(here + b"/d")
    os.symlink(b"x" * 300 + b"/y", here + b"/d/l")  # no name can be so long
    assert job(mounted(), reading("names:", here + b"/*/l"))[0].digest == set_of({b"d/l": ("l", None)})


def test_just_made_files_in_just_made_directories_need_no_nap(
    here: bytes, fine: Mounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_seconds: float) -> None:
        raise AssertionError

    monkeypatch.setattr(time, "sleep", never)
    for number in range(100):
        paths = [write(here + b"/d%d/%s" % (number, name), name) for name in (b"f", b"g")]
        assert [found.digest for found in job(fine, *(reading("file:", path) for path in paths))] == [
            sha(b"f"),
            sha(b"g"),
        ]
