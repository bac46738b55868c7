"""A part of the soak as a test: the command itself, with a fixed seed, in a process of its own."""

from __future__ import annotations

from support import run_module

QUESTIONS = 12_000
FAULTS = 20


def soaked(seed: int) -> None:
    """Runs; raises AssertionError with the table and what was false."""
    command = ["--questions", str(QUESTIONS), "--seed", str(seed), "--faults", str(FAULTS)]
    run_module("tests.oracle", *command)
