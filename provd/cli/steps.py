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
            "unset",
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
_GIVEN: Final = "provd.given"
"""Where it keeps the options that say which daemon was asked, and which keys are meant."""
_OF_KEYS: Final = ("root", "scope")
_OF_DAEMON: Final = ("socket", "state")
PLACE: Final = _OF_KEYS + _OF_DAEMON
"""The options that a next step has to have too, as parameters are named."""
_QUOTED: Final = r"""'[^']*'|"[^"]*"|"""
_OURS: Final = re.compile(_QUOTED + r"(?<![^\s(])provd (?P<words>[a-z]+(?: [a-z]+)?)(?=[\s;&|)]|$)")
"""A command of provd; what is quoted is passed over."""
_REST: Final = re.compile(rf"(?:{_QUOTED}[^;&|()<>'\"])*?(?= -- | --$|\s*(?:[;&|()<>]|$))")
"""What it is given, up to where further options have their place."""


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


def know(meta: dict[str, Any], known: dict[str, str], place: dict[str, str]) -> None:
    """Keep in a context's `meta` what placeholders stand for in the command that runs: words for a shell, by name.

    `place`: the same of its options that say which daemon and which keys are meant (of `PLACE`), without the dashes.
    """
    meta[_KNOWN] = known
    meta[_GIVEN] = place


def filled(hint: str, context: click.Context | None = None) -> str:
    """The hint with what the command was given for its placeholders. `context`: that of the command, if it has ended.

    A placeholder counts where it is the first argument of a command of provd. Each such command asks the daemon, and
    means the keys, that this one was told to: otherwise a step that is pasted would lead to another daemon.
    """
    context = context or click.get_current_context(silent=True)
    if context is None:
        return hint
    for name, words in context.meta.get(_KNOWN, {}).items():
        first = re.compile(rf"(?<!\S)(provd \w+) {name}(?!\S)")
        hint = "".join(f"{part} {words}" if at % 2 else part for at, part in enumerate(first.split(hint)))
    place = context.meta.get(_GIVEN)
    return "\n".join(_placed(line, place, context.find_root()) for line in hint.split("\n")) if place else hint


def _placed(line: str, place: dict[str, str], root: click.Context) -> str:
    """A line whose commands of provd name the place, each as far as it has such options and does not name another."""
    command, glue, why = line.partition(_GLUE)
    placed, at = "", 0
    for found in _OURS.finditer(command):
        if found["words"] is None or (there := _options(found["words"].split(), root)) is None:
            continue
        rest = _REST.match(command, found.end("words"))
        if rest is None:
            continue
        told = re.findall(r"(?<!\S)--(\w+)", found[0] + rest[0])
        if "help" in told:
            continue
        kinds = (_OF_KEYS if there & {"key", "keys"} else (), _OF_DAEMON)
        wanted = [name for kind in kinds if not {*kind} & {*told} for name in kind if name in place and name in there]
        placed += command[at : rest.end()] + "".join(f" --{name} {place[name]}" for name in wanted)
        at = rest.end()
    return placed + command[at:] + glue + why


def _options(words: list[str], root: click.Context) -> set[str | None] | None:
    """The parameters of the command that some words begin with; None where it is none."""
    command: click.Command | None = root.command
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(root, word)
    return None if command is None else {parameter.name for parameter in command.params}


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
