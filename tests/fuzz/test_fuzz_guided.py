"""Runs under atheris: what one said is read rightly, faults are found, and few inputs are kept of many."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

from fuzz.guided import Fault, Guided, Plan, _read, guided
from fuzz.loop import keep
from fuzz.reached import few, reached, refusals
from fuzz.targets import TARGETS
from fuzz.under_atheris import TOLD
from provd.core import errors

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = b"c:0000000000000000:1111111111111111:7"
SAID = """\
#24	INITED cov: 66 ft: 77 corp: 6/559b exec/s: 0 rss: 62Mb
#97	NEW    cov: 80 ft: 99 corp: 7/600b lim: 4 exec/s: 0 rss: 62Mb L: 4/4 MS: 1 CopyPart-
#20000	DONE   cov: 341 ft: 361 corp: 273/15891b lim: 341 exec/s: 4000 rss: 62Mb
Done 20000 runs in 5 second(s)
"""
with_atheris = pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="no atheris: pip install atheris")


def test_a_run_is_read_from_what_it_said(tmp_path: Path) -> None:
    told = tmp_path / "told"
    told.write_bytes(TOLD.pack(0.25, 60.0, 61.5))
    ran = _read(SAID, str(told))
    assert ran == Guided(20_000, 5, (66, 341), 273, 0.25, (60.0, 61.5))
    assert "20,000 inputs" in str(ran)
    assert "edges   66 to  341" in str(ran)
    assert "longest   250.0 ms,  60.0 to  61.5 MiB" in str(ran)


def test_refusals_are_heard_without_what_they_repeat_of_the_input() -> None:
    heard: list[str] = []
    with refusals(heard.append):
        for said in (
            "'a' is no clock",
            "'b' is no clock",
            "field `x`y` - at `$.deps[1]`",
            "field `z` - at `$.deps[2]`",
        ):
            errors.ClockMalformed(said, "a hint")
    errors.ClockMalformed("nobody listens", "any more")
    assert heard[0] == heard[1] == " is no clock"
    assert heard[2] == heard[3] == " - at `$.deps[]`"
    assert len(heard) == 4


def test_what_is_reached_are_steps_and_refusals() -> None:
    clocks = TARGETS["clocks"]
    assert reached(clocks, b"x") == reached(clocks, b"y")
    assert reached(clocks, TOKEN) - reached(clocks, b"x")
    assert " is no clock" in reached(clocks, b"x") - reached(clocks, TOKEN)


def test_of_many_inputs_the_few_that_come_further_are_kept() -> None:
    clocks = TARGETS["clocks"]
    found = [TOKEN + b"77", b"long and nothing", TOKEN, b"x", b"y"]
    assert few(clocks, [], found, 9) == [b"x", TOKEN]
    assert few(clocks, [b"other"], found, 9) == [TOKEN]
    assert few(clocks, [TOKEN, b"other"], found, 9) == []
    assert few(clocks, [], found, 1) == [b"x"]


@with_atheris
def test_a_run_without_a_fault_is_told_and_goes_further(tmp_path: Path) -> None:
    keep(str(tmp_path), TOKEN)
    ran = guided("clocks", Plan(1500, 0, 1, keep=5), kept=str(tmp_path))
    assert ran.inputs == 1500
    assert 0 < ran.edges[0] <= ran.edges[1]
    assert ran.held[0] > 0
    assert len(list(tmp_path.iterdir())) > 1  # what is no clock was not there


@with_atheris
@pytest.mark.parametrize(("name", "says"), [("raising", "AssertionError"), ("hanging", "timeout")])
def test_an_input_with_a_fault_is_found(tmp_path: Path, name: str, says: str) -> None:
    keep(str(tmp_path), b"bad")
    with pytest.raises(Fault, match=says) as fault:
        guided(name, Plan(1000, 0, 1, patience=5), module="fuzz.planted", kept=str(tmp_path))
    assert fault.value.data == b"bad"
    assert guided("well", Plan(1000, 0, 1), module="fuzz.planted", kept=str(tmp_path)).inputs == 1000


@with_atheris
def test_a_process_that_grows_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="grew"):
        guided("growing", Plan(25_000, 0, 1), module="fuzz.planted", kept=str(tmp_path))
