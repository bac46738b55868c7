"""Of the threads of one job those go that only keep the interpreter from others."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

from provd.core.dependency import Kind
from provd.core.reading import Reading
from provd.disk import company
from provd.disk.company import Company
from provd.disk.ignore import IgnoreRules
from provd.disk.job import ReadingJob
from provd.disk.looking import LookingJob
from provd.disk.mounts import mounted
from provd.disk.places import Places, Turn

if TYPE_CHECKING:
    from pathlib import Path

MANY = 400


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(company, "_TAKEN", -1.0)


def test_of_threads_that_all_get_on_one_stays() -> None:
    """Broken: two that look at files by turns keep who answers questions from the interpreter."""
    there = Company()
    members = [there.join() for _ in range(4)]
    steps = itertools.count(1)
    for _ in range(MANY):
        members = [one for one in members if not one.goes(next(steps))]
    assert (len(members), there.left) == (1, 3)


def test_who_hangs_is_no_company_not_for_one_who_comes_late_either() -> None:
    """Broken: with a dead mount in the set there is nobody to read the rest, again and again."""
    there = Company()
    hanging = there.join()
    steps = itertools.count(1)
    assert not any(hanging.goes(next(steps)) for _ in range(MANY))
    late = there.join()
    assert not any(late.goes(next(steps)) for _ in range(MANY))
    assert there.left == 0


def test_threads_that_wait_for_a_disk_stay_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(company, "_TAKEN", 1000.0)
    there = Company()
    members = [there.join() for _ in range(4)]
    steps = itertools.count(1)
    assert not any(one.goes(next(steps)) for _ in range(MANY) for one in members)


def test_the_last_one_stays_though_others_have_just_ended() -> None:
    there = Company()
    first, last = there.join(), there.join()
    steps = itertools.count(1)
    for _ in range(company._LOOK - 1):
        assert not first.goes(next(steps))
        assert not last.goes(next(steps))
    first.end()
    first.end()
    assert not last.goes(next(steps))


def test_a_job_is_ended_by_those_who_stay(tmp_path: Path) -> None:
    """Broken: a thread that goes takes a step with it."""
    for number in range(MANY):
        (tmp_path / str(number)).write_bytes(b"%d" % number)
    paths = [os.fsencode(tmp_path / str(number)) for number in range(MANY)]
    mounts = mounted()
    readings = [Reading(Kind.FILE, path, "xxh3") for path in paths]
    reading = ReadingJob(readings, IgnoreRules(), mounts=mounts)
    looking = LookingJob(os.path.getsize, paths, lambda _: b"/")
    for job in (reading, looking):
        there = Company()
        other, came = there.join(), 0
        while not job.finished:
            came += 1
            turn = Turn(Places(), "work", mounts, there.join())
            job.run(turn)
            turn.leave()
            if not job.finished:  # another one did as much meanwhile
                assert there.left == 1
                other.end()
        assert came <= 2
    assert len(reading.results()) == len(looking.results) == MANY


def test_who_finds_nothing_to_take_is_counted_on_no_more(tmp_path: Path) -> None:
    """Broken: two threads leave each other a job that is not done."""
    path = os.fsencode(tmp_path / "f")
    mounts = mounted()
    for job in (
        ReadingJob([Reading(Kind.FILE, path, "xxh3")], IgnoreRules(), mounts=mounts),
        LookingJob(os.path.exists, [path], lambda _: b"/"),
    ):
        there = Company()
        turns = [Turn(Places(), "work", mounts, there.join()) for _ in range(2)]
        assert job._take(turns[0]) is not None
        assert job._take(turns[1]) is None
        assert there.inside == 1
        turns[1].leave()
        assert there.inside == 1
