"""How many verdicts there were, of which kind, and how long they took."""

from __future__ import annotations

import random

import pytest

from provd.statistics import BOUNDS_US, Durations, Verdicts


def test_nothing_was_counted() -> None:
    told = Verdicts().told()

    assert (told["count"], told["p50_us"], told["p99_us"]) == (0, None, None)
    assert (told["fresh"], told["dirty"], told["unknown"], told["sum_us"]) == (0, 0, 0, 0.0)
    assert [bucket["count"] for bucket in told["buckets"]] == [0] * len(BOUNDS_US)


def test_each_bucket_has_what_took_at_most_so_long() -> None:
    durations = Durations()
    for microseconds in (1, 100, 101, 250, 999_999, 20_000_000):
        durations.add(microseconds / 1e6)

    found = dict(durations.histogram())

    assert [found[bound] for bound in (100, 250, 500, 500_000, 1_000_000, 10_000_000)] == [2, 4, 4, 4, 5, 5]
    assert durations.count == 6, "what took longer than all bounds is in the total"
    assert durations.total == pytest.approx(21.000451)


def test_the_histogram_agrees_with_counting_by_hand() -> None:
    numbers = random.Random(7)
    taken = [10 ** numbers.uniform(-6, 1.5) for _ in range(2000)]
    durations = Durations()
    for seconds in taken:
        durations.add(seconds)

    assert durations.histogram() == [(bound, sum(s * 1e6 <= bound for s in taken)) for bound in BOUNDS_US]


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_percentiles_are_right_to_a_sixteenth(share: float) -> None:
    durations = Durations()
    for microseconds in range(1, 1001):
        durations.add(microseconds / 1e6)

    told = durations.percentile_us(share)

    assert told is not None
    assert 1000 * share * 0.99 <= told <= 1000 * share * (1 + 1 / 16) + 1


def test_no_duration_is_too_short() -> None:
    durations = Durations()
    durations.add(0.0)
    durations.add(-1e-9)

    assert durations.histogram()[0] == (BOUNDS_US[0], 2)
    assert durations.percentile_us(0.5) == pytest.approx(0.1, abs=0.01)


def test_a_question_is_counted_once_and_each_of_its_verdicts() -> None:
    verdicts = Verdicts()
    verdicts.add(0.001, ["fresh", "dirty", "fresh"])
    verdicts.add(0.003, ["unknown"])
    verdicts.add(0.002, [])

    told = verdicts.told()

    assert (told["count"], told["fresh"], told["dirty"], told["unknown"]) == (3, 2, 1, 1)
    assert told["sum_us"] == 6000
