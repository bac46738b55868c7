"""What a document shows of a terminal: commands with the output that a reader is to expect, and how the two compare.

Rule: what differs from run to run (times, clocks, digests, numbers of records, pids) is in the table below and
nowhere else. All other words are compared as they are, but for the width of the blanks between them.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import subprocess
from typing import Final

VARIABLE: Final = (
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?", "TIME"),
    (r"\b\d{4}-\d\d-\d\d\b", "DATE"),
    (r"\b\d\d:\d\d:\d\d(\.\d+)?\b", "TIME"),
    (r"c:[0-9a-f]+…?:[0-9a-f]+…?:\d+", "CLOCK"),
    (r"\b(sha256|xxh3|blake2b):[0-9a-f]+…?", r"\1:DIGEST"),
    (r"\b[0-9a-f]{32,64}(?=  |$)", "DIGEST"),
    (r"( [~+] (?:modified|created) \S+) xxh3:DIGEST( → xxh3:DIGEST)?", r"\1"),  # it may not be hashed yet
    (r"\b(version|record|action|begin|end|refused|pid)([ :]+)\d+", r"\1 N"),
    (r"^ +\d+(?=  )", "N"),
    (r"\b\d+(\.\d+)? ?(ms|us|µs|s|min|h|seconds|minutes)\b( ago)?", "DURATION"),
    (r"\bjust now\b", "DURATION"),
    (r"\(untouched\)", "(same)"),  # a file at rest is proven by its seal, another one is read
    (r"\bchecked stat\b", "checked content"),
    (r"\b\d[\d,]*(\.\d+)? ?(bytes|KiB|MiB|GiB|kB|MB)\b", "SIZE"),
)
"""(pattern, what stands for it): applied to what is shown and to what was printed."""

_NEEDED: Final = re.compile(r"#\s+exit (\d+(?: or \d+)*)")
_VERDICT: Final = re.compile(r"^(✗|\?) (dirty|unknown)\b", re.MULTILINE)
_HERE: Final = re.compile(r"<<-?\s*['\"]?(\w+)")


@dataclasses.dataclass(frozen=True)
class Shown:
    """One command of a transcript, and the lines shown below it. `line` counts from the block's first line, 0."""

    command: str
    output: tuple[str, ...]
    line: int

    def statuses(self) -> set[int]:
        """The exit statuses that the text allows: what `# exit N or M` says, else 0, or that of a verdict shown."""
        if said := _NEEDED.search(self.command):
            return set(map(int, said[1].split(" or ")))
        return {0} | ({1, 4} if _VERDICT.search("\n".join(self.output)) else set())


def transcript(text: str) -> list[Shown]:
    """The commands of a console block: `$ ` begins one, and `> ` goes on with one that is not whole yet."""
    lines = text.splitlines()
    found: list[Shown] = []
    at = 0
    while at < len(lines):
        assert lines[at].startswith("$ "), f"output without a command: {lines[at]!r}"
        start, command = at, lines[at][2:]
        at += 1
        while at < len(lines) and not _whole(command):
            command += "\n" + lines[at].removeprefix("> ")
            at += 1
        first = at
        while at < len(lines) and not lines[at].startswith("$ "):
            at += 1
        found.append(Shown(command, tuple(lines[first:at]), start))
    return found


@functools.cache
def _whole(command: str) -> bool:
    """Whether bash would run this now, or ask for more lines."""
    if command.endswith("\\"):
        return False
    if here := _HERE.search(command):
        return command.splitlines()[-1].strip() == here[1]
    return subprocess.run(["bash", "-n", "-c", command], stderr=subprocess.DEVNULL, check=False).returncode == 0


def normal(text: str) -> str:
    """One line without what differs from run to run."""
    for pattern, word in VARIABLE:
        text = re.sub(pattern, word, text)
    indent = len(text) - len(text.lstrip(" "))
    return text[:indent] + " ".join(text.split())


def like(shown: str) -> re.Pattern[str]:
    """What a shown line stands for; `...` and `…` in it are anything."""
    parts = re.split(r"\.\.\.|…", normal(shown))
    return re.compile(".*".join(map(re.escape, parts)))


def agree(shown: tuple[str, ...], printed: list[str]) -> bool:
    """Whether the lines printed are those shown; a line `...` or `…` stands for any lines, also none."""
    if not shown:
        return not printed
    if shown[0].strip() in {"...", "…"}:
        return any(agree(shown[1:], printed[skipped:]) for skipped in range(len(printed) + 1))
    return bool(printed) and like(shown[0]).fullmatch(normal(printed[0])) is not None and agree(shown[1:], printed[1:])


def said(program: str) -> tuple[str, ...]:
    """The lines that the `print(...)  # OUTPUT` of a Python block say that it prints."""
    prints = [line for line in program.splitlines() if line.lstrip().startswith("print(") and "  # " in line]
    return tuple(line.split("  # ", 1)[1] for line in prints)
