"""Whatever a name holds, a next step that carries it can be pasted and means that name.

The steps are found in the source: each text that begins as a command and has a `quoted` name or a placeholder in it.
bash itself reads them, with functions in place of the programs.
"""

from __future__ import annotations

import ast
import os
import random
import subprocess
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import pytest
from test_next_steps import trees

from provd.cli import output, steps
from provd.cli.app import app
from provd.cli.given.completing import NotText

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ODD: Final = (
    *("", "a b", "it's", '"', "\\", "-", "--", "-x", "-q", "--state", "--state=q", "--help", "-- a", "a -- b", "- '\n"),
    *("#", "a  # b", "  # ", "#a", "$(x)", "`x`", "$HOME", "~", "*", "!x", "{a,b}", "a;b", "a|b", "a>b", "(", "&& rm"),
    *("a\nb", "\n", "\t", "\x1b[1m", "\udcff", "-\udcff", "ä", "-ä b", "KEY", "a: provd ls", "provd get KEY"),
    *("a --root b", "provd ls --dirty # '", "'$(x)'\"", "a\\\nb", "=", "x=y"),
)
PIECES: Final = (
    "-",
    "--",
    "'",
    '"',
    " ",
    "  # ",
    "#",
    "\n",
    "\\",
    "$(x)",
    "a",
    "provd get KEY",
    "\udcff",
    ";",
    "state",
)
PROGRAMS: Final = sorted({*steps.PROGRAMS, "export", "setfacl"})


class Step(NamedTuple):
    """A step of the source: where it stands, and its text with NAME for each name in it."""

    where: str
    text: str


NAME: Final = "\x00"
WORDS_END, LINE_END = ":words:", ":line:"


def steps_with_names() -> Iterator[Step]:
    """Each line of a text that begins as a command and carries a name."""
    for file, tree in trees():
        if file.startswith("services/"):
            continue  # texts of units
        inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
        assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
        kept = {getattr(node.targets[0], "id", "") for node in assigned if _quotes(node.value)} - {"named", "told"}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and id(node) not in inside):
                for line in _text(node, kept).split("\n"):
                    if steps.is_command(line) and (NAME in line or " KEY" in line.partition("  # ")[0]):
                        yield Step(f"{file}:{node.lineno}", line)


def _quotes(node: ast.expr) -> bool:
    """Whether an expression is a quoted name, perhaps one of two."""
    if isinstance(node, ast.IfExp):
        return _quotes(node.body) or _quotes(node.orelse)
    called = node.func if isinstance(node, ast.Call) else None
    return getattr(called, "attr", getattr(called, "id", "")) == "quoted"


def _text(node: ast.JoinedStr | ast.Constant, kept: set[str]) -> str:
    """A text of the source; the variables `kept` hold quoted names."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    told = ""
    for part in node.values:
        if isinstance(part, ast.Constant):
            told += str(part.value)
        elif isinstance(part, ast.FormattedValue):
            told += NAME if _quotes(part.value) or getattr(part.value, "id", "") in kept else "7"
    return told


def names() -> list[str]:
    """Odd names, and what chance makes of odd pieces."""
    chance = random.Random(6)
    return [*ODD, *("".join(chance.choices(PIECES, k=chance.randint(2, 5))) for _ in range(60))]


def read_by_bash(lines: list[str], place: Path) -> list[list[list[str]]]:
    """Of each line the words of each program that bash runs for it."""
    told = place / "told"
    functions = "".join(f'{name}() {{ printf "%s\\0" {name} "$@" {WORDS_END} >&3; }}\n' for name in PROGRAMS)
    script = functions + "\n".join(f"{line}\nprintf '%s\\0' {LINE_END} >&3" for line in lines)
    with told.open("wb") as out:
        done = subprocess.run(
            ["bash", "-c", 'exec 3>&1 1>/dev/null; eval "$(cat)"'],
            input=os.fsencode(script),
            stdout=out,
            stderr=subprocess.PIPE,
            cwd=place,
            check=False,
        )
    assert done.stderr == b""
    found: list[list[list[str]]] = [[]]
    words: list[str] = []
    for word in map(os.fsdecode, told.read_bytes().split(b"\0")[:-1]):
        if word == LINE_END:
            found.append([])
        elif word == WORDS_END:
            found[-1].append(words)
            words = []
        else:
            words.append(word)
    return found[:-1]


def parsed(words: list[str]) -> dict[str, Any]:
    """What a command of provd takes its words for: each parameter, by name."""
    context: click.Context | None = None
    command: click.Command = app
    told: dict[str, Any] = {}
    name, rest = "provd", words
    while True:
        context = command.make_context(name, rest, context)
        told |= context.params
        if not isinstance(command, click.Group):
            return told
        kept = vars(context).get("_protected_args", vars(context).get("protected_args", []))  # before 8.2 so
        found, below, rest = command.resolve_command(context, [*kept, *context.args])
        assert below is not None
        name, command = str(found), below


def values(words: list[str]) -> list[str]:
    """All that a program was given as a name."""
    at = words.index("provd") if "provd" in words[:5] else None
    if at is None:
        return words
    told = words[:at]
    for value in parsed(words[at + 1 :]).values():
        told += [str(each) for each in value] if isinstance(value, tuple) else [value] if isinstance(value, str) else []
    return told


@pytest.fixture
def context() -> click.Context:
    return click.Context(app)


def test_a_step_means_the_name_that_it_carries(context: click.Context, tmp_path: Path) -> None:
    found = list(steps_with_names())
    assert len(found) > 30, "the steps are not where they are looked for"
    wanted: list[tuple[Step, str, str]] = []
    for step in found:
        for name in names():
            quoted = output.quoted(name)
            steps.know(context.meta, {"KEY": quoted}, {"state": quoted})
            line = steps.filled(step.text.replace(NAME, quoted), context)
            assert steps.filled(line, context) == line
            wanted.append((step, name, line))
    wrong: list[str] = []
    for (step, name, line), programs in zip(
        wanted, read_by_bash([line for _, _, line in wanted], tmp_path), strict=True
    ):
        try:
            told = [value for words in programs for value in values(words)]
        except (click.UsageError, click.exceptions.Exit) as error:
            number = isinstance(error, click.BadParameter) and "'7'" in error.message
            if not (number or isinstance(error, NotText)):
                wrong.append(f"{step.where}: {line!r}: {error!r}")
            continue
        many = step.text.count(NAME) if not programs or "exec" not in step.text else 0
        carried = sum(name in value for value in told)
        if carried < many or ("KEY" in step.text and name not in told):
            wrong.append(f"{step.where}: {line!r}: {told!r}")
    assert not wrong, "\n".join(wrong[:20])


def test_nothing_but_one_module_quotes() -> None:
    """`shlex` leaves line ends and bytes that are no text as they are, and a dash where an option could begin."""
    users = {path for path, tree in trees() for node in ast.walk(tree) if _quotes_by_hand(node)}
    assert users == {"quoting.py", "cli/commands/trying.py"}  # that one writes a script


def _quotes_by_hand(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "quote" and getattr(node.value, "id", "") == "shlex"
