"""The next step: a command that can be pasted as it stands, and behind a # why, or what to do besides.

Rule: whoever prints `next:` takes its lines from here. A hint has a line for each way on: COMMAND, or `COMMAND  # why`,
with placeholders in capitals. What is prose alone (the wire's hints speak of fields) stands behind a command that tells
more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS: Final = frozenset(
    (
        *("provd", "ulimit", "sudo"),
        *(
            "chmod",
            "df",
            "fuser",
            "bunzip2",
            "gunzip",
            "head",
            "kill",
            "ls",
            "mkdir",
            "mv",
            "printenv",
            "rm",
            "sha256sum",
            "sysctl",
            "tail",
            "timedatectl",
            "unxz",
            "unzstd",
        ),
        *("journalctl", "launchctl", "loginctl", "systemctl"),
    )
)
"""What a command of a hint begins with."""
MORE: Final = "provd doctor"
"""The command that tells more where nothing nearer does."""
_ASSIGNED: Final = re.compile(r"""[A-Za-z_]\w*=(?:\$\((?:'[^']*'|"[^"]*"|[^)'"])*\)|[^\s;]+)\s*""")
_EXPORTED: Final = re.compile(r"export \w+=")
_GLUE: Final = "  # "
_KNOWN: Final = "provd.known"
"""Where a context keeps what its placeholders stand for."""


def is_command(line: str) -> bool:
    """Whether a line of a hint is for a shell: it begins with a program, or puts something into a variable."""
    if (assigned := _ASSIGNED.match(line)) is not None:
        rest = line[assigned.end() :]
        return not rest or rest.startswith("#") or is_command(rest)
    return line.partition(" ")[0] in PROGRAMS or _EXPORTED.match(line) is not None


def because(command: str, why: str) -> str:
    """A command and why. Of a hint of several lines it is said of the first, behind what that says."""
    first, newline, others = command.partition("\n")
    return first + (", " if _GLUE in first else _GLUE) + why + newline + others


def know(meta: dict[str, Any], known: dict[str, str]) -> None:
    """Keep in a context's `meta` what placeholders stand for in the command that runs: words for a shell, by name."""
    meta[_KNOWN] = known


def filled(hint: str, context: click.Context | None = None) -> str:
    """The hint with what the command was given for its placeholders. `context`: that of the command, if it has ended.

    One counts where it is the first argument of a command of provd.
    """
    context = context or click.get_current_context(silent=True)
    for name, words in (context.meta.get(_KNOWN, {}) if context is not None else {}).items():
        first = re.compile(rf"(?<!\S)(provd \w+) {name}(?!\S)")
        hint = "".join(f"{part} {words}" if at % 2 else part for at, part in enumerate(first.split(hint)))
    return hint


def ways(*hints: str) -> str:
    """One hint of several ways on, the best first; those that are empty are left out."""
    return "\n".join(hint for hint in hints if hint)


def pasteable(hint: str, otherwise: str = MORE) -> str:
    """The same hint where its lines are commands; else `otherwise`, with the hint as its comment. Empty stays empty."""
    told = [line.strip() for line in hint.split("\n") if line.strip()]
    if not told or all(map(is_command, told)):
        return "\n".join(told)
    return because(otherwise, "; ".join(told))


def lines(hint: str, otherwise: str = MORE) -> Iterator[str]:
    """`next: COMMAND  # why`, and `or: COMMAND  # why` for each other way on; nothing for no hint."""
    told = filled(pasteable(hint, otherwise))
    for number, line in enumerate(told.split("\n") if told else ()):
        yield f"{'or' if number else 'next'}: {line}"


def told_in(text: list[str]) -> str:
    """The hint that `lines` printed, out of the lines behind an error's message; empty where there is none."""
    found: list[str] = []
    for line in text:
        label, colon, rest = line.strip().partition(": ")
        if colon and label == ("or" if found else "next"):
            found.append(rest)
        elif found:
            break
    return "\n".join(found)
