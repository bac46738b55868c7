"""When a clock was given out: the earliest moment, as long as nobody set the wall clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from provd import clocks
from provd.clocks import Clocks, Moment
from provd.core.records import ALL, Gap
from provd.store import Store, Writer

RUN = "0123456789abcdef"


class Wall:
    """A wall clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = Moment(1_000, 500_000_000)

    def later(self, nanoseconds: int, step: int = 0) -> None:
        self.now = Moment(self.now.at + nanoseconds + step, self.now.offset + step)

    def __call__(self) -> Moment:
        return self.now


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    made = Wall()
    monkeypatch.setattr(clocks, "moment", made)
    return made


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    made = Store(str(tmp_path / "store"), clock=lambda: wall.now.at)
    append(made)
    made.run(lambda writer: writer.append(Gap(writer.now, ALL, "start", RUN)))
    yield made
    made.stop()


def append(store: Store, count: int = 1) -> None:
    def command(writer: Writer) -> None:
        for _ in range(count):
            writer.append(Gap(writer.now, b"/r", "x"))

    store.run(command)


def test_the_earliest_token_of_a_position_counts(store: Store, wall: Wall) -> None:
    made = Clocks(store, RUN)
    wall.later(100)
    first = made.token(2)
    wall.later(100)
    assert made.token(2) == first
    assert made.given(2) == 1_100


def test_without_a_token_the_record_of_the_position_is_the_earliest(store: Store, wall: Wall) -> None:
    wall.later(50)
    append(store)
    made = Clocks(store, RUN)
    wall.later(100)
    assert made.given(3) == 1_050
    store.run(lambda writer: [writer.append(Gap(1, ALL, "x")), writer.trim(1, 0)])
    assert made.given(3) is None, "nor is there a record any more"


def test_a_position_of_another_run_was_given_out_nobody_knows_when(store: Store) -> None:
    made = Clocks(store, RUN)
    assert made.given(1) is None
    made.token(1)
    assert made.given(1) is None
    assert made.given(2) is not None


@pytest.mark.parametrize("step", [-10_000_000, 10_000_000])
def test_when_the_wall_clock_was_set_nobody_knows(store: Store, wall: Wall, step: int) -> None:
    made = Clocks(store, RUN)
    append(store)
    made.token(3)
    wall.later(100, step // 10)
    assert made.given(3) is not None, "two measures are never quite the same"
    wall.later(100, step)
    assert made.given(3) is None
    assert made.given(2) is None, "what only its record tells as well"
    append(store)
    made.token(4)
    assert made.given(4) is not None, "a new clock is of the new time"


def test_what_is_forgotten_is_taken_to_be_as_old_as_its_record(
    store: Store, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "REMEMBERED", 10)
    append(store, 30)
    made = Clocks(store, RUN)
    for position in (20, 5, *range(6, 15)):
        wall.later(100)
        made.token(position)
    assert len(made._given) <= 10
    wall.later(1_000)
    for position in range(3, 21):
        made.token(position)
        assert made.given(position) == 1_000 or position not in {20, *range(5, 15)}
    assert made.token(25)
    assert made.given(25) == wall.now.at


def test_tokens_are_made_in_two_threads(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "REMEMBERED", 50)
    append(store, 2_000)
    made = Clocks(store, RUN)
    errors: list[BaseException] = []

    def make(start: int) -> None:
        try:
            for position in range(start, 2_000, 2):
                made.token(position)
        except BaseException as error:  # noqa: BLE001 - told in the test's thread
            errors.append(error)

    threads = [threading.Thread(target=make, args=(start,)) for start in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_moment_is_of_now() -> None:
    one, other = clocks.moment(), clocks.moment()
    assert one.at <= other.at
    assert abs(one.offset - other.offset) < clocks._SLACK
