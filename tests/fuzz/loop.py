"""Runs a target on many inputs: the corpus first, then what is made of it. Stops at the first that fails."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import sys
import time
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Final

from fuzz.mutator import inputs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuzz.targets import Target

CORPUS: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
PATIENCE: Final = 20
"""Seconds that an input may take."""
GROWTH: Final = 64
"""MiB by which a process may grow."""


class Failed(Exception):
    """A target raised: the input with which it did."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(f"{name}: {data[:400]!r}{'...' if len(data) > 400 else ''} ({len(data)} bytes)")
        self.data = data


@dataclass(frozen=True)
class Ran:
    """What a run was: inputs, seconds, the longest input in seconds of CPU, by how many MiB the process grew."""

    inputs: int
    seconds: float
    longest: float
    grew: float


def corpus(name: str) -> list[bytes]:
    """The inputs that are kept for a target, in the order of their names."""
    return kept_in(os.path.join(CORPUS, name))


def kept_in(place: str) -> list[bytes]:
    """The inputs in a directory, in the order of their names."""
    found = []
    for file in sorted(os.listdir(place)):
        with open(os.path.join(place, file), "rb") as kept:
            found.append(kept.read())
    return found


def keep(place: str, data: bytes) -> str:
    """Writes an input into a directory; gives where."""
    path = os.path.join(place, hashlib.sha256(data).hexdigest()[:12])
    os.makedirs(place, exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return path


def made(name: str, count: int, seed: int) -> Iterable[bytes]:
    """So many inputs for a target, the same for the same seed: what is kept comes first."""
    kept = corpus(name)
    yield from islice(kept, count)
    yield from islice(inputs(kept, Random(f"{name} {seed}")), max(0, count - len(kept)))


def run(name: str, target: Target, data: Iterable[bytes]) -> Ran:
    """Gives each input to the target; raises Failed with the first that it does not take."""
    count, longest, began, before = 0, 0.0, time.monotonic(), 0.0
    signal.signal(signal.SIGPROF, _too_long)
    for one in data:
        if count == 10_000:  # what is kept for good, caches among it, is there by now
            before = held()
        start = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        try:
            target(one)
        except Exception as error:
            raise Failed(name, one) from error
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        longest = max(longest, time.process_time() - start)
        count += 1
    return Ran(count, time.monotonic() - began, longest, held() - before if before else 0.0)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"it takes more than {PATIENCE} s")


def held() -> float:
    """MiB of this process that are in memory, the most of them so far where nothing tells of now."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / 2**20
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**10 if sys.platform == "linux" else 2**20)
