"""Any bytes, where bytes are read: no exception but the documented ones, and nothing is left behind."""

from __future__ import annotations

import gc
import os
import sys
from itertools import islice
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import loop
from fuzz.loop import CORPUS, Failed, corpus, made, run
from fuzz.mutator import MOST, WORDS, inputs
from fuzz.targets import TARGETS

SEED: Final = 6
COUNTS: Final = {"globs": 3000, "ignore": 2000, "frames": 6000, "config": 6000, "dependencies": 6000}
"""Inputs for targets that take longer than others; those get MANY."""
MANY: Final = 10_000


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes(name: str) -> None:
    ran = run(name, TARGETS[name], made(name, COUNTS.get(name, MANY), SEED))
    assert ran.inputs == COUNTS.get(name, MANY)


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_left_behind(name: str) -> None:
    some = list(made(name, 300, SEED))
    held = []
    for _ in range(4):  # at first caches are filled
        run(name, TARGETS[name], some)
        gc.collect()
        held.append(sys.getallocatedblocks())
    assert held[3] - held[1] < len(some) / 2, held


def test_every_target_has_a_corpus_and_no_other_is_kept() -> None:
    assert set(os.listdir(CORPUS)) == set(TARGETS)
    assert all(corpus(name) for name in TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_all_that_is_kept_comes_first(name: str) -> None:
    kept = corpus(name)
    assert list(islice(made(name, COUNTS.get(name, MANY), SEED), len(kept))) == kept


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.binary() | st.lists(st.sampled_from(WORDS) | st.binary(max_size=4)).map(b"".join))
def test_any_bytes_that_hypothesis_thinks_of(name: str, data: bytes) -> None:
    TARGETS[name](data)


def test_the_same_seed_gives_the_same_inputs() -> None:
    first, second, other = (list(islice(inputs([b"seed"], Random(seed)), 200)) for seed in (1, 1, 2))
    assert first == second != other
    assert max(map(len, first)) <= MOST


def test_an_input_that_is_not_taken_is_told() -> None:
    def picky(data: bytes) -> None:
        assert b"x" not in data

    with pytest.raises(Failed, match="picky: b'xx'") as failed:
        run("picky", picky, [b"", b"xx", b"y"])
    assert failed.value.data == b"xx"


def test_an_input_that_never_ends_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(data: bytes) -> None:
        while data:
            pass

    monkeypatch.setattr(loop, "PATIENCE", 0.05)
    with pytest.raises(Failed) as failed:
        run("endless", endless, [b"", b"x"])
    assert (failed.value.data, type(failed.value.__cause__)) == (b"x", TimeoutError)
