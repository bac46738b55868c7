"""A document of this project as the steps that a reader takes: fenced blocks, and what HTML comments ask for.

Rule: nothing is run here. A comment that is no mark of ours is a comment.

Marks, each an HTML comment at the start of a line:
    <!-- run: COMMANDS -->         commands that readers do not see: setup, waiting (may go over several lines)
    <!-- not run: REASON -->       the next block is not run; the reason is one of a known list
    <!-- file: PATH -->            the next block is the content of this file
    <!-- test-command -->, <!-- first-command -->   the next block is run by .ci, from a clean checkout
"""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Final

from support import REPOSITORY

_DOCS: Final = sorted(name for name in os.listdir(os.path.join(REPOSITORY, "docs")) if name.endswith(".md"))
DOCUMENTS: Final = ("README.md", *(f"docs/{name}" for name in _DOCS))
"""The documents, as paths in the checkout."""

_STEP: Final = re.compile(
    r"^```(?P<language>[\w-]*)\n(?P<text>.*?)^```$|^<!-- (?P<mark>run|not run|file): (?P<said>.*?) -->$"
    r"|^<!-- (?P<elsewhere>test-command|first-command) -->$",
    re.MULTILINE | re.DOTALL,
)


_OUTSIDE: Final = (
    ("it installs software", r"\b(pip|pipx|apt|apt-get|brew) install\b"),
    ("it installs a service", r"provd service (install|uninstall)\b"),
    ("it needs a container", r"\b(docker|podman)\b"),
    ("it needs macOS", r"\blaunchctl\b|LaunchAgents"),
    ("it needs systemd", r"\b(systemctl|journalctl|loginctl|systemd-\w+)\b"),
    ("it needs root", r"\b(sudo|sysctl)\b|/etc/"),
)
"""(reason, what a block has that is not run for it): no test may change the machine that it runs on."""
_SHELL: Final = {"console", "sh", "bash", "hidden"}
_HIDDEN_OR_FENCED: Final = re.compile(r"^```.*?^```$|^<!--.*?-->$", re.MULTILINE | re.DOTALL)
_INDENTED: Final = re.compile(r"(?<=\n\n)(?: {4}|\t)\S.*")


@dataclasses.dataclass(frozen=True)
class Step:
    """One fenced block, or hidden commands (`language` "hidden"). `line` is that of its first line of text.

    `not_run` is the reason why it is not run, `file` the path that it is the content of; both are empty else.
    """

    language: str
    text: str
    line: int
    not_run: str = ""
    file: str = ""


def read(document: str) -> str:
    """The text of a document."""
    with open(os.path.join(REPOSITORY, document), encoding="utf-8") as file:
        return file.read()


def steps(text: str) -> list[Step]:
    """What a reader of this text comes across, in its order."""
    found: list[Step] = []
    not_run = file = ""
    for match in _STEP.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["mark"] == "run":
            found.append(Step("hidden", match["said"], line))
        elif match["mark"] == "not run":
            not_run = match["said"]
        elif match["mark"] == "file":
            file = match["said"]
        elif match["elsewhere"]:
            not_run = "run by .ci"
        else:
            found.append(Step(match["language"], match["text"], line + 1, not_run, file))
            not_run = file = ""
    return found


def unmarked(step: Step) -> str:
    """Why a block that is to be run must not be; empty where it may be, or has its mark."""
    if step.not_run or step.language not in _SHELL:
        return ""
    return next((reason for reason, words in _OUTSIDE if re.search(words, step.text)), "")


def indented(text: str) -> list[str]:
    """Blocks that are told by their indentation alone, by their first lines: nothing runs these."""
    return _INDENTED.findall(_HIDDEN_OR_FENCED.sub("", text))
