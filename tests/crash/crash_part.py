"""A part of the soak as a test: the command itself, with a fixed seed, in a process of its own."""

from __future__ import annotations

from support import run_module


def crashed(count: int, *grounds: str, seed: int, least: int = 0) -> None:
    """Runs; raises AssertionError with the table, and with what was lost or false."""
    command = ["--crashes", str(count), "--on", *grounds, "--seed", str(seed), "--least", str(least)]
    run_module("tests.crash.crashes", *command)
