"""The story that `provd try` tells: what is said, what is typed, and what the verdicts must be then.

Rule: every line that is shown as a command is one that a person could type, and is carried out as it stands. The words
here are plain ASCII.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Scene:
    """What is said, the lines that are typed (one shell), its exit code, and the verdicts that must hold then.

    Of a verdict the word and the why are named; "" is any why.
    """

    said: str
    typed: tuple[str, ...]
    code: int = 0
    verdicts: dict[str, tuple[str, str]] = field(default_factory=dict)


CONFIG: Final = """\
import os

TIMEOUT = 30
RETRIES = 3
"""

_FRESH: Final = ("fresh", "")  # read and the same, or untouched by its seal: both are right

SCENES: Final = (
    Scene(
        "Turn 40: an agent reads config.py, and remembers with the digest of what it read.",
        (
            "{sum} config.py > ../sums",
            'provd put summary --value "calls time out after 30 s" --sums ../sums',
            "c=$(provd clock)",
            'provd put plan --value "retry: 3 x 30 s is enough" --dep entry:summary --fetched-at $c',
            "date +%s > ../remembered",
        ),
        verdicts={"summary": _FRESH, "plan": _FRESH},
    ),
    Scene("May it be used? Nothing has happened yet.", ("provd check summary",), 0, {"summary": _FRESH}),
    Scene(
        "Turns 41 to 380: edited in place, saved atomically, replaced as git does it.",
        (
            'i=41; while [ $i -le 378 ]; do echo "# turn $i" >> config.py; i=$((i+1)); done',
            "sed 's/^TIMEOUT = 30/TIMEOUT = 5/' config.py > .config.py.tmp && mv .config.py.tmp config.py",
            "cp config.py ../theirs && rm config.py && cp ../theirs config.py",
        ),
        verdicts={"summary": ("dirty", "changed"), "plan": ("dirty", "entry-dirty")},
    ),
    Scene(
        "Turn 381: a cache that goes by age, with an hour to live, says:",
        ("age=$(( $(date +%s) - $(cat ../remembered) ))", '[ $age -lt 3600 ] && echo "$age s old: use it"'),
    ),
    Scene(
        "provd says what is so: of the summary, and of what was made from it.",
        ("provd check summary plan",),
        1,
        {"summary": ("dirty", "changed"), "plan": ("dirty", "entry-dirty")},
    ),
    Scene("And it hands out no value that is not true any more (exit code 1).", ("provd get summary",), 1),
    Scene(
        "The edits are undone: the content is what was read, whatever its times say.",
        ("cp ../original config.py", "provd check summary plan"),
        0,
        {"summary": _FRESH, "plan": _FRESH},
    ),
    Scene(
        "Born stale: somebody writes after the reading and before the remembering.",
        (
            "{sum} config.py > ../sums",
            "echo 'RETRIES = 0' >> config.py",
            'provd put retries --value "3 retries" --sums ../sums',
        ),
        verdicts={"retries": ("dirty", "changed")},
    ),
    Scene("And why?", ("provd why retries",), 1, {"retries": ("dirty", "changed")}),
)

GONE: Final = "in a scratch directory that is gone now"
KEPT: Final = "which has ended; its scratch directory was kept"
ENDING: Final = """\
All of that was real: a daemon of its own, {where}. To have one:
  provd start --root DIR      watch a directory of yours, in the background
  provd help                  the commands, and where to read on"""
