"""Runs of a target under atheris, each in a process of its own: what one said, and what of its inputs is kept.

Rule: an input that raises, takes longer than PATIENCE or needs more than MEMORY is a fault; so is a process that grew.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from fuzz.loop import CORPUS, GROWTH, PATIENCE, keep, kept_in
from fuzz.mutator import MOST, WORDS
from fuzz.reached import few
from fuzz.under_atheris import TOLD

if TYPE_CHECKING:
    from fuzz.targets import Target

CHILD: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "under_atheris.py")
MEMORY: Final = 512
"""MiB that the process may have in memory at any time: it begins with some 65."""
_LINE: Final = re.compile(r"^#([0-9]+)\s+(INITED|DONE)\s+cov: ([0-9]+) .*?corp: ([0-9]+)/", re.MULTILINE)


class Fault(Exception):
    """A run that ended with a fault: what was said of it, and the input where there is one."""

    def __init__(self, said: str, data: bytes | None) -> None:
        super().__init__(said)
        self.data = data


@dataclass(frozen=True)
class Guided:
    """What a run was.

    How many inputs, seconds, edges of code reached by the corpus and at the end, inputs that libFuzzer held at the end
    since they reach what others do not, the longest one in seconds of CPU, and the MiB in memory after 10,000 inputs
    and then.
    """

    inputs: int
    seconds: int
    edges: tuple[int, int]
    corpus: int
    longest: float
    held: tuple[float, float]

    def __str__(self) -> str:
        """As a line of the report."""
        (first, last), (before, after) = self.edges, self.held
        return (
            f"{self.inputs:>11,} inputs {self.seconds:>6} s, edges {first:>4} to {last:>4}, {self.corpus:>4} in the "
            f"corpus, longest {self.longest * 1000:7.1f} ms, {before:5.1f} to {after:5.1f} MiB"
        )


@dataclass(frozen=True)
class Plan:
    """What is run: inputs at most, seconds at most (0 for no end), the seed, how many new inputs of it are kept.

    `patience` is how many seconds an input may take.
    """

    inputs: int
    seconds: int
    seed: int
    keep: int = 0
    patience: int = PATIENCE


def guided(name: str, plan: Plan, *, module: str = "fuzz.targets", kept: str = "") -> Guided:
    """Runs a target of a module on what is made of the corpus in the directory `kept`; raises Fault."""
    kept = kept or os.path.join(CORPUS, name)
    with TemporaryDirectory(prefix="fuzz-") as place:
        found, told, words = (os.path.join(place, each) for each in ("found", "told", "words"))
        os.mkdir(found)
        with open(told, "wb") as file:
            file.write(bytes(TOLD.size))
        with open(words, "w", encoding="ascii") as text:
            text.writelines('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in WORDS)
        limits = [f"-runs={plan.inputs}", f"-max_total_time={plan.seconds}", f"-seed={plan.seed % (1 << 31) + 1}"]
        limits += [f"-max_len={MOST}", f"-timeout={plan.patience}", f"-rss_limit_mb={MEMORY}"]
        options = [*limits, f"-dict={words}", f"-artifact_prefix={place}/fault-", found, kept]
        said, status = _run([module, name, told, *options])
        if status or "DONE" not in said:
            raise Fault(_last(said), _fault(place))
        ran = _read(said, told)
        if ran.held[1] - ran.held[0] > GROWTH:
            raise Fault(f"the process grew: {ran}", None)
        if plan.keep:
            target: Target = importlib.import_module(module).TARGETS[name]
            for one in few(target, kept_in(kept), kept_in(found), plan.keep):
                keep(kept, one)
    return ran


def _run(arguments: list[str]) -> tuple[str, int]:
    """What the child wrote, and its status."""
    done = subprocess.run(
        [sys.executable, CHILD, *arguments],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.stdout.decode("utf-8", "replace"), done.returncode


def _fault(place: str) -> bytes | None:
    """The input that was not taken."""
    for each in sorted(os.listdir(place)):
        if each.startswith("fault-") and not each.startswith("fault-slow-unit"):
            with open(os.path.join(place, each), "rb") as file:
                return file.read()
    return None


def _last(said: str) -> str:
    """The end of what a child wrote, without the progress of the run."""
    return "\n".join([line for line in said.splitlines() if not line.startswith(("#", "INFO:"))][-40:])


def _read(said: str, told: str) -> Guided:
    """What a run was, by what it said and what was measured."""
    begun, done = ({each[2]: each for each in _LINE.finditer(said)}[name] for name in ("INITED", "DONE"))
    seconds = re.search(r"^Done [0-9]+ runs in ([0-9]+) second", said, re.MULTILINE)
    assert seconds is not None
    with open(told, "rb") as file:
        longest, *held = TOLD.unpack(file.read())
    edges = int(begun[3]), int(done[3])
    return Guided(int(done[1]), int(seconds[1]), edges, int(done[4]), longest, (held[0], held[1]))
