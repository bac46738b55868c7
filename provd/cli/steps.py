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
            "dmesg",
            "findmnt",
            "fuser",
            "bunzip2",
            "gunzip",
            "head",
            "kill",
            "ls",
            "mkdir",
            "mount",
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
_ABOUT_KEYS: Final = frozenset(("key", "keys", "prefix"))
"""Parameters of commands that are about keys, which live somewhere."""
_OF_DAEMON: Final = ("socket", "state")
_BEGINNING: Final = frozenset(("start", "restart", "run"))
"""Commands that begin a daemon: there a socket alone does not say which."""
PLACE: Final = _OF_KEYS + _OF_DAEMON
"""The options that a next step has to have too, as parameters are named."""
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)|(?P<end>[;&|()<>]+)|(?P<word>(?:\$?'[^']*'|"[^"]*"|[^\s;&|()<>'"]|['"])+)"""
)
"""What a line of a hint consists of; what is quoted is in one word with what it stands in."""
_NAME: Final = re.compile(r"[a-z]+")
_DASHED: Final = re.compile(r"""(?:\$?'|")-""")
"""A quoted word that begins with a dash, as `output.quoted` writes it: it is a name, and no option."""


def is_command(line: str) -> bool:
    """Whether a line of a hint is for a shell: it begins with a program, or puts something into a variable."""
    if (assigned := _ASSIGNED.match(line)) is not None:
        rest = line[assigned.end() :]
        return not rest or rest.startswith("#") or is_command(rest)
    return line.partition(" ")[0] in PROGRAMS or _EXPORTED.match(line) is not None


def because(command: str, why: str) -> str:
    """A command and why. Of a hint of several lines it is said of the first, behind what that says."""
    first, newline, others = command.partition("\n")
    return first + (", " if _parted(first)[1] else _GLUE) + " ".join(why.split("\n")) + newline + others


def know(meta: dict[str, Any], known: dict[str, str], place: dict[str, str]) -> None:
    """Keep in a context's `meta` what placeholders stand for in the command that runs: words for a shell, by name.

    `place`: the same of its options that say which daemon and which keys are meant (of `PLACE`), without the dashes.
    """
    meta[_KNOWN] = known
    meta[_GIVEN] = place


def filled(hint: str, context: click.Context | None = None) -> str:
    """The hint with what the command was given for its placeholders. `context`: that of the command, if it has ended.

    A placeholder counts where it is the first argument of a command of provd. A name that looks like an option is made
    one that is none. Each such command asks the daemon, and
    means the keys, that this one was told to: otherwise a step that is pasted would lead to another daemon.
    """
    context = context or click.get_current_context(silent=True)
    if context is None:
        return hint
    known, place = context.meta.get(_KNOWN, {}), context.meta.get(_GIVEN, {})
    return "\n".join(_led(line, known, place, context.find_root()) for line in hint.split("\n"))


def _parted(line: str) -> tuple[str, str]:
    """The command of a line, and its comment with the space before it: it begins with the first word that has a #."""
    space: int | None = 0
    for token in _TOKEN.finditer(line):
        if space is not None and token[0].startswith("#"):
            return line[:space], line[space:]
        space = token.start() if token["space"] is not None else None
    return line, ""


def _led(line: str, known: dict[str, str], place: dict[str, str], root: click.Context) -> str:
    """A line whose commands of provd name what is `known`, and the place, so that they can be pasted."""
    command, why = _parted(line)
    tokens = [token[0] for token in _TOKEN.finditer(command)]
    told, at = "", 0
    while at < len(tokens):
        end = _end(tokens, at) if tokens[at] == "provd" and (at == 0 or tokens[at - 1][-1] in " \t(;&|") else at
        words = [token for token in tokens[at:end] if not token.isspace()]
        if not any(map(_NAME.fullmatch, words[1:2])):
            told, at = told + tokens[at], at + 1
            continue
        space = " " if tokens[end - 1].isspace() else ""
        told += " ".join(_named(words, known, place, root)) + space
        at = end
    return told + why


def _end(tokens: list[str], at: int) -> int:
    """Where the words end that the command at `at` reads as its own: at what ends it for a shell, and at `--`."""
    for end in range(at, len(tokens)):
        if tokens[end] == "--" or (match := _TOKEN.match(tokens[end])) is None or match["end"] is not None:
            return end
    return len(tokens)


def _named(words: list[str], known: dict[str, str], place: dict[str, str], root: click.Context) -> list[str]:
    """A command of provd with what it was told: its first argument, if that is a placeholder, and where it is to ask.

    What is a name and looks like an option stands at the end, behind `--`.
    """
    words = [*words[:2], *(known.get(word, word) for word in words[2:3]), *words[3:]]
    command = _command(words[1:3], root)
    if command is None or "--help" in words:
        return words
    there = {parameter.name for parameter in command.params}
    told = {word[2:].partition("=")[0] for word in words if word.startswith("--")}
    kinds = (_OF_KEYS if there & _ABOUT_KEYS else (), _OF_DAEMON)
    wanted = [name for kind in kinds if not {*kind} & told for name in kind if name in place and name in there]
    if "socket" in told and "state" in {*place} - told and words[1] in _BEGINNING:
        wanted.append("state")  # another socket, and the same memory
    options = [part for name in wanted for part in (f"--{name}", place[name])]
    taking = {
        word
        for option in command.params
        if isinstance(option, click.Option) and not (option.is_flag or option.count)
        for word in option.opts
    }
    names = [number for number, word in enumerate(words) if _DASHED.match(word) and words[number - 1] not in taking]
    dashed = ["--", *(words[number] for number in names)] if names else []
    return [*(word for number, word in enumerate(words) if number not in names), *options, *dashed]


def _command(words: list[str], root: click.Context) -> click.Command | None:
    """The command that some words begin with; None where it is none."""
    command: click.Command | None = root.command
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(root, word)
    return command


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
