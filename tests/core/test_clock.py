"""Clocks: tokens, keys that sort like positions, and order over many runs."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provd.core import clock, errors
from provd.core.clock import MAX_POSITION, Clock, Since, Span

LOG: Final = "0123456789abcdef"
positions = st.integers(0, MAX_POSITION)
ids = st.integers(0, 2**64 - 1).map("{:016x}".format)
clocks = st.builds(Clock, ids, ids, positions)


@settings(deadline=None)
@given(clocks)
def test_a_token_says_its_clock_again(one: Clock) -> None:
    assert clock.parse(str(one)) == one


@settings(deadline=None)
@given(clocks, clocks)
def test_different_clocks_have_different_tokens(one: Clock, other: Clock) -> None:
    assert (str(one) == str(other)) == (one == other)


@settings(deadline=None)
@given(st.lists(positions))
def test_byte_keys_sort_like_positions(some: list[int]) -> None:
    assert [clock.position(k) for k in sorted(clock.key(p) for p in some)] == sorted(some)
    assert {len(clock.key(p)) for p in some} <= {8}


@pytest.mark.parametrize("position", [0, 1, 255, 256, 2**32 - 1, 2**32, MAX_POSITION])
def test_keys_of_notable_positions_come_back(position: int) -> None:
    assert clock.position(clock.key(position)) == position
    assert clock.parse(f"c:{LOG}:{LOG}:{position}").position == position


@pytest.mark.parametrize(
    "token",
    [
        "",
        "c",
        "c:::",
        "17",
        f"c:{LOG}:{LOG}",
        f"c:{LOG}:{LOG}:",
        f"c:{LOG}:{LOG}:-1",
        f"c:{LOG}:{LOG}:+1",
        f"c:{LOG}:{LOG}:01",
        f"c:{LOG}:{LOG}:1 ",
        f" c:{LOG}:{LOG}:1",
        f"c:{LOG}:{LOG}:1\n",
        f"c:{LOG}:{LOG}:1.0",
        f"c:{LOG}:{LOG}:1:1",
        f"c:{LOG}:{LOG}:1_0",
        f"c:{LOG}:{LOG}:\u0661",  # a digit, and not one of ours
        f"c:{LOG}:{LOG}:{MAX_POSITION + 1}",
        f"c:{LOG}:{LOG}:{10**19}",
        f"c:{LOG}:{LOG}:{'9' * 5000}",
        f"c:{LOG.upper()}:{LOG}:1",
        f"c:{LOG[1:]}:{LOG}:1",
        f"c:{LOG}0:{LOG}:1",
        f"c:{LOG}:{LOG[:-1]}g:1",
        f"d:{LOG}:{LOG}:1",
        "\ud800",
    ],
)
def test_a_malformed_token_is_refused_with_a_hint(token: str) -> None:
    with pytest.raises(errors.ClockMalformed) as caught:
        clock.parse(token)
    assert caught.value.hint
    assert len(caught.value.message) < 200


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_token_or_refused(text: str) -> None:
    try:
        parsed = clock.parse(text)
    except errors.ClockMalformed:
        return
    assert str(parsed) == text


# several runs


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[str], dict[str, Span]]:
    """The runs of one log in order of time, each with the positions that it told: no holes between them."""
    names = draw(st.lists(ids, min_size=1, max_size=6, unique=True))
    spans: dict[str, Span] = {}
    first = draw(st.integers(1, 1000))  # the oldest runs may be trimmed
    for name in names:
        last = first + draw(st.integers(0, 20))
        spans[name] = Span(first, last)
        first = last + 1
    return names, spans


def tokens(history: tuple[list[str], dict[str, Span]]) -> list[Clock]:
    """Every token that was ever told, in order of time."""
    names, spans = history
    return [Clock(LOG, name, at) for name in names for at in range(spans[name].first, spans[name].last + 1)]


def resolve(one: Clock, history: tuple[list[str], dict[str, Span]]) -> Since:
    names, spans = history
    return clock.resolve(one, log=LOG, run=names[-1], runs=spans)


@settings(deadline=None)
@given(histories())
def test_clocks_of_all_runs_order_as_time_does(history: tuple[list[str], dict[str, Span]]) -> None:
    told = tokens(history)
    worth = [resolve(clock.parse(str(one)), history) for one in told]
    assert all(since.exact for since in worth)
    assert [since.position for since in worth] == sorted({since.position for since in worth})
    assert [since.position for since in worth] == [one.position for one in told]


@settings(deadline=None)
@given(histories(), ids, ids, positions)
def test_an_unknown_run_or_log_lies_before_the_gap_of_this_run(
    history: tuple[list[str], dict[str, Span]], log: str, run: str, position: int
) -> None:
    names, spans = history
    gap = spans[names[-1]].first
    for one in (Clock(log, names[-1], position), Clock(log, run, position), Clock(LOG, run, position)):
        if one.log != LOG or one.run not in spans:
            assert resolve(one, history) == Since(gap - 1, exact=False)


@settings(deadline=None)
@given(histories(), st.data())
def test_a_position_that_was_told_and_lost_lies_before_the_gap_of_this_run(
    history: tuple[list[str], dict[str, Span]], data: st.DataObject
) -> None:
    names, spans = history
    if len(names) == 1:
        return
    name = data.draw(st.sampled_from(names[:-1]))
    lost = data.draw(st.integers(spans[name].last + 1, spans[name].last + 100))
    assert resolve(Clock(LOG, name, lost), history) == Since(spans[names[-1]].first - 1, exact=False)


@settings(deadline=None)
@given(histories(), st.data())
def test_a_position_that_its_run_cannot_have_told_is_refused(
    history: tuple[list[str], dict[str, Span]], data: st.DataObject
) -> None:
    names, spans = history
    name = data.draw(st.sampled_from(names))
    before = data.draw(st.integers(0, spans[name].first - 1))
    with pytest.raises(errors.ClockMalformed):
        resolve(Clock(LOG, name, before), history)
    after = data.draw(st.integers(spans[names[-1]].last + 1, MAX_POSITION))
    with pytest.raises(errors.ClockMalformed):
        resolve(Clock(LOG, names[-1], after), history)


@settings(deadline=None)
@given(histories())
def test_what_an_inexact_token_is_worth_has_this_runs_gap_after_it(history: tuple[list[str], dict[str, Span]]) -> None:
    """So that whatever rests on objects is unknown by it, and every record of this run counts."""
    names, spans = history
    since = resolve(Clock("f" * 16, names[0], 0), history)
    assert since.position < spans[names[-1]].first
    assert all(since.position >= span.last for name, span in spans.items() if name != names[-1])
