"""Numbers of records in the tutorial: one reader's terminal, so that a number that is new is the highest so far."""

from __future__ import annotations

import re
from typing import Final

from doc_blocks import read, steps
from doc_transcript import transcript

_NUMBERS: Final = re.compile(r"\b(?:version|record|action|refused) (\d+)\b|^ +(\d+)  ")


def test_numbers_of_records_go_up() -> None:
    seen: set[int] = set()
    for step in steps(read("docs/tutorial.md")):
        for shown in transcript(step.text) if step.language == "console" else []:
            if shown.command.startswith("provd status"):  # what the daemon is has other numbers
                continue
            told = {int(a or b) for line in shown.output for a, b in _NUMBERS.findall(line)}
            new = sorted(told - seen)
            assert not new or new[0] > max(seen, default=0), (step.line + shown.line, shown.command, new)
            seen |= told
    assert len(seen) > 10
